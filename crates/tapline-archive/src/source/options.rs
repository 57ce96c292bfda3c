//! What the caller knows better than a source.

use tapline_protocol::{Agent, InputFormat};
use tapline_session::Ending;

/// What the caller knows better than the source.
///
/// ```
/// use tapline_archive::{SourceOptions, Source};
/// use tapline_session::{Ending, Outcome};
///
/// let failed = SourceOptions::default().with_ending(Ending { exit_code: Some(1), ..Ending::default() });
/// let stream = br#"{"type":"result","subtype":"success","is_error":false,"result":"4"}"#;
/// let report = Source::of("the stream", stream.as_slice(), failed)?.report()?;
/// assert_eq!(report.verdict.outcome, Outcome::Failure);
/// # Ok::<(), tapline_archive::SourceError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SourceOptions {
    /// The agent that wrote the stream. With `None`, the recording or the lines decide.
    pub agent: Option<Agent>,
    /// The format of the input. With `Auto`, the recording or the lines decide.
    pub format: InputFormat,
    /// Longer lines count as malformed.
    pub line_limit: Option<usize>,
    /// How the run ended.
    pub ending: Ending,
}

impl SourceOptions {
    /// Reads the stream as this agent's.
    #[must_use]
    pub fn with_agent(self, agent: Agent) -> Self {
        Self { agent: Some(agent), ..self }
    }

    /// Reads the input in this format.
    #[must_use]
    pub fn with_format(self, format: InputFormat) -> Self {
        Self { format, ..self }
    }

    /// Counts longer lines as malformed.
    #[must_use]
    pub fn with_line_limit(self, bytes: usize) -> Self {
        Self { line_limit: Some(bytes), ..self }
    }

    /// Says how the run ended.
    #[must_use]
    pub fn with_ending(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }
}
