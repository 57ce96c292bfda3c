//! The user's configuration: `$XDG_CONFIG_HOME/tapline/config.toml`, or else `~/.config/tapline/config.toml`. An error
//! names its line. Without the file, everything has its default.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use tapline_recording::{Redactor, SHORTEST_VALUE};
use tapline_server::Budget;
use tapline_session::rulefile::{self, File, Holds, Key, RuleFile, any};

use crate::money::budget;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    redact: Redact,
    serve: Serve,
}

/// What the file may contain.
const FILE: File = File {
    kind: RuleFile::Config,
    keys: &[
        Key("redact", Holds::Table(REDACT), "[redact] with env = [\"MY_TOKEN\"] below it"),
        Key("serve", Holds::Table(SERVE), "[serve] with budgets = [\"200\", \"shop=50\"] below it"),
    ],
    example: "env = [\"MY_TOKEN\"], below a line with [redact]",
    other: (&[], RuleFile::Policy),
};

const REDACT: &[Key] =
    &[Key("patterns", Holds::List(any), "patterns = ['corp-[0-9]{6}']"), Key("env", Holds::List(any), "env = [\"MY_TOKEN\"]")];

const SERVE: &[Key] = &[Key("budgets", Holds::List(|text| budget(text).err()), "budgets = [\"200\", \"shop=50\"]")];

/// What `tapline serve` need not be told each time.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Serve {
    /// What a month may cost, as `--budget` has it.
    budgets: Vec<String>,
}

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
    let Some((path, text)) = file()? else { return Ok((Redactor::default(), Vec::new())) };
    redactor_of(&path, &text, read(&path, &text)?.redact)
}

/// Returns the budgets of the file, for `tapline serve`.
pub(crate) fn budgets() -> Result<Vec<Budget>> {
    let Some((path, text)) = file()? else { return Ok(Vec::new()) };
    let budgets = read(&path, &text)?.serve.budgets;
    budgets.iter().map(|text| budget(text).map_err(anyhow::Error::msg)).collect()
}

/// Returns the file and its text. `None` if there is none.
fn file() -> Result<Option<(PathBuf, String)>> {
    let Some(path) = path() else { return Ok(None) };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn read(path: &Path, text: &str) -> Result<Config> {
    let wrong = || format!("{} is wrong (`tapline help redact` and `tapline help serving` describe it)", path.display());
    rulefile::read(text, &FILE).with_context(wrong)
}

fn redactor_of(path: &Path, text: &str, Redact { patterns, env }: Redact) -> Result<(Redactor, Vec<String>)> {
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
