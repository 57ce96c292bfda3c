//! The formats in which agents write.

use serde::Serialize;

/// Which shape of output a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `claude --output-format stream-json`
    StreamJson,
    /// `claude --output-format json`
    Json,
    /// `claude --output-format json --verbose`
    JsonVerbose,
    /// `codex exec --json`
    ExecJson,
    /// None that we know.
    Unknown,
}
