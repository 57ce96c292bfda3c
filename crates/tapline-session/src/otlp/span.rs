//! A span: something that took a while, with its place in the session. Its ids are hashes of what it is, so that the same span has the same
//! ids whenever it is exported.

use tapline_protocol::Moment;

/// What a span is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// A whole session.
    Session,
    /// A turn of the agent, or a sub-agent.
    InvokeAgent,
    /// A request to a model.
    Chat,
    /// A tool call.
    ExecuteTool,
}

impl Operation {
    /// Returns its name in the conventions. They have none for a session.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::InvokeAgent => "invoke_agent",
            Self::Chat => "chat",
            Self::ExecuteTool => "execute_tool",
        }
    }
}

/// Whether a span is of this side alone, or waits for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// It happens in the agent.
    Internal,
    /// It waits for an answer from elsewhere.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// A whole number.
    Whole(u64),
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

/// Something that took a while.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AgentSpan {
    /// The session's.
    pub trace_id: [u8; 16],
    /// Its own.
    pub span_id: [u8; 8],
    /// That of the span it is a part of.
    pub parent: Option<[u8; 8]>,
    /// What it is about.
    pub operation: Operation,
    /// Its name.
    pub name: String,
    /// Whether it waits for a server.
    pub kind: SpanKind,
    /// When it began.
    pub start: Moment,
    /// When it ended.
    pub end: Moment,
    /// What else is known.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// The class of its error, if it failed. It is also the attribute `error.type`.
    pub error: Option<String>,
    /// The error in words, if texts are exported.
    pub message: Option<String>,
}

impl AgentSpan {
    /// Returns how long it took, in seconds.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a duration that is not exact in a double would be longer than anybody waits"
    )]
    pub fn seconds(&self) -> f64 {
        self.end.millis_since(self.start).unwrap_or(0) as f64 / 1_000.0
    }

    /// Returns an attribute that is a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find_map(|(name, value)| match value {
            AttributeValue::Text(text) if *name == key => Some(text.as_str()),
            AttributeValue::Text(_)
            | AttributeValue::Texts(_)
            | AttributeValue::Whole(_)
            | AttributeValue::Number(_)
            | AttributeValue::Flag(_) => None,
        })
    }
}

/// Returns the id of a session's trace.
pub(super) fn trace_id(session: &str) -> [u8; 16] {
    mixed(&["trace", session]).to_be_bytes()
}

/// Returns the id of a span: what it is, and its own name in the session.
pub(super) fn span_id(session: &str, kind: &str, id: &str) -> [u8; 8] {
    let hash = mixed(&["span", session, kind, id]);
    #[expect(clippy::cast_possible_truncation, reason = "half of the hash is enough")]
    let half = ((hash >> 64) ^ hash) as u64;
    // An id of zeros means that there is none.
    half.max(1).to_be_bytes()
}

/// FNV-1a with 128 bits, and its bits mixed once more, because backends sample by a part of an id. It must never change: ids must stay the same
/// from one version to the next.
fn mixed(parts: &[&str]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let mut hash = OFFSET;
    for part in parts {
        // No text has this byte, so it keeps the parts apart.
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        }
    }
    hash = (hash ^ (hash >> 67)).wrapping_mul(ODD);
    (hash ^ (hash >> 61)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_the_same_from_version_to_version() {
        assert_eq!(trace_id("one"), 0x5dd2_ffb4_421e_2a42_0e63_e64c_bff4_5a06_u128.to_be_bytes());
        assert_eq!(span_id("one", "tool", "toolu_1"), 0x81cf_63fe_c37b_b916_u64.to_be_bytes());
        // The same letters, apart in another place.
        assert_eq!(span_id("one", "too", "ltoolu_1"), 0x394f_d812_8dc8_d812_u64.to_be_bytes());
    }
}
