//! `--get PATH`: values of a report, for scripts. Paths are checked before anything starts.

use anyhow::{Result, bail};
use tapline_protocol::Json;
use tapline_session::{GetError, Report, check_path, get};

use crate::ci::Kind;

/// What to print, and what could not be found.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) lines: Vec<String>,
    pub(crate) missing: Vec<String>,
}

/// Rejects a path that no report has.
pub(crate) fn check(paths: &[String]) -> Result<()> {
    for path in paths {
        if let Err(error) = check_path(path) {
            bail!("--get: no value at `{path}`: {error}");
        }
    }
    Ok(())
}

/// Returns the values in the order of their paths. A missing value, or an empty list, prints nothing; among several it
/// is an empty line, so that none takes another's place. Among several, null and an empty text are ordinary values: a
/// script that asks for the error and the answer expects one of them to be empty.
pub(crate) fn of(report: &Report, paths: &[String]) -> Values {
    let (report, mut values) = (report.to_json(), Values::default());
    for path in paths {
        let value = get(&report, path).unwrap_or_else(|error| {
            if error != GetError::Empty || paths.len() == 1 {
                values.missing.push(format!("no value at `{path}`: {}", why(&error)));
            }
            String::new()
        });
        if !value.is_empty() || paths.len() > 1 {
            values.lines.push(value);
        }
    }
    values
}

/// Why there is no value. A path that no report can have was refused before.
fn why(error: &GetError) -> String {
    match error {
        GetError::NoKey { key, .. } if key == "duration_ms" || key == "elapsed_ms" => {
            "the stream has no times; recordings (`tapline run`) and transcripts have them".to_owned()
        }
        error => error.to_string(),
    }
}

/// Returns how to keep a value from being a command in a CI log. JSON stays the same JSON.
pub(crate) fn kind_of(value: &str) -> Kind {
    if Json::parse(value).is_ok() { Kind::Json } else { Kind::Text }
}
