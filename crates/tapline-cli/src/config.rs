//! The user's configuration: `$XDG_CONFIG_HOME/tapline/config.toml`, or else `~/.config/tapline/config.toml`. An error
//! names its line. Without the file, everything has its default.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use tapline_recording::{Redactor, SHORTEST_VALUE};
use tapline_session::rulefile::{self, File, Holds, Key, RuleFile, any};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    redact: Redact,
}

/// What the file may contain.
const FILE: File = File {
    kind: RuleFile::Config,
    keys: &[Key("redact", Holds::Table(REDACT), "[redact] with env = [\"MY_TOKEN\"] below it")],
    example: "env = [\"MY_TOKEN\"], below a line with [redact]",
    other: (&[], RuleFile::Policy),
};

const REDACT: &[Key] =
    &[Key("patterns", Holds::List(any), "patterns = ['corp-[0-9]{6}']"), Key("env", Holds::List(any), "env = [\"MY_TOKEN\"]")];

/// What is hidden in addition to the table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Redact {
    /// Regular expressions.
    patterns: Vec<toml::Spanned<String>>,
    /// Variables whose values are hidden.
    env: Vec<String>,
}

/// Returns the path of the file. `None` if there is no home.
pub(crate) fn path() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The standard says to ignore a relative path.
    let folder = given("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    folder.or_else(|| Some(given("HOME")?.join(".config"))).map(|folder| folder.join("tapline/config.toml"))
}

/// Returns the redactor with the table and the user's additions, and notes about additions that hide nothing.
pub(crate) fn redactor() -> Result<(Redactor, Vec<String>)> {
    let nothing = || Ok((Redactor::default(), Vec::new()));
    let Some(path) = path() else { return nothing() };
    match std::fs::read_to_string(&path) {
        Ok(text) => read(&path, &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => nothing(),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn read(path: &Path, text: &str) -> Result<(Redactor, Vec<String>)> {
    let wrong = || format!("{} is wrong (`tapline help redact` describes it)", path.display());
    let Config { redact: Redact { patterns, env } } = rulefile::read(text, &FILE).with_context(wrong)?;
    if patterns.is_empty() && env.is_empty() {
        return Ok((Redactor::default(), Vec::new()));
    }
    let (mut values, mut idle) = (Vec::new(), Vec::new());
    for name in &env {
        let why = match std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()) {
            None => "it is not set".to_owned(),
            Some(value) if value.lines().any(|line| line.trim().len() >= SHORTEST_VALUE) => {
                values.push(value);
                continue;
            }
            Some(_) => format!("its value has fewer than {SHORTEST_VALUE} characters"),
        };
        idle.push(format!("{}: [redact] env: {name} hides nothing, {why}", path.display()));
    }
    let texts: Vec<String> = patterns.iter().map(|pattern| pattern.get_ref().clone()).collect();
    match Redactor::with(&texts, values) {
        Ok(redactor) => Ok((redactor, idle)),
        Err(error) => {
            let at = patterns[error.index].span().start;
            let line = text[..at].matches('\n').count() + 1;
            bail!("{}, line {line}: {error}", path.display())
        }
    }
}
