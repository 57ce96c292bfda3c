//! The output formats of agents.

use crate::words::words;

words! {
    /// The format of a stream.
    pub enum StreamFormat {
        /// `claude --output-format stream-json`
        StreamJson = "stream-json",
        /// `claude --output-format json`
        Json = "json",
        /// `claude --output-format json --verbose`
        JsonVerbose = "json-verbose",
        /// `codex exec --json`
        ExecJson = "exec-json",
        /// Not a known format.
        Unknown = "unknown",
    } else Unknown
}
