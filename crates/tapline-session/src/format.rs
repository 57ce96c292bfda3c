//! The formats in which agents write.

use crate::words::words;

words! {
    /// Which shape of output a stream is.
    pub enum StreamFormat {
        /// `claude --output-format stream-json`
        StreamJson = "stream-json",
        /// `claude --output-format json`
        Json = "json",
        /// `claude --output-format json --verbose`
        JsonVerbose = "json-verbose",
        /// `codex exec --json`
        ExecJson = "exec-json",
        /// None that we know.
        Unknown = "unknown",
    } else Unknown
}
