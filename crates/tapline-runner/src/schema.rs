//! The JSON schema for an answer: checked before an agent starts, and written to a file for agents that need one.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use tapline_protocol::{Json, Kind};

use crate::error::StartError;
use crate::marker;
use crate::refusal::{Refusal, RunOption};

/// The types that a schema may name.
const TYPES: &[&str] = &["null", "boolean", "object", "array", "number", "string", "integer"];

/// Returns the schema, if it is one: a JSON object that names only types that exist.
pub(crate) fn checked(text: &str) -> Result<&str, Refusal> {
    let wrong = |why: String| Refusal::new(RunOption::JsonSchema, why);
    let json = Json::parse(text).map_err(|error| wrong(format!("this is not JSON: {error}")))?;
    let fault = json.with(|value| {
        if value.kind() != Kind::Object {
            return Some("a schema must be an object".to_owned());
        }
        let kind = value.get("type")?.as_str()?;
        (!TYPES.contains(&&*kind)).then(|| format!("`{kind}` is not a type: use one of {}", TYPES.join(", ")))
    });
    fault.flatten().map_or(Ok(text), |fault| Err(wrong(fault)))
}

/// A schema in a private file, which is removed with the run.
#[derive(Debug)]
pub(crate) struct SchemaFile(PathBuf);

impl SchemaFile {
    pub(crate) fn write(agent: &'static str, text: &str) -> Result<Self, StartError> {
        let path = std::env::temp_dir().join(format!("tapline-schema-{}.json", marker::random()));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let write = || options.open(&path)?.write_all(text.as_bytes());
        write().map_err(|error| StartError::System { agent, error })?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SchemaFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
