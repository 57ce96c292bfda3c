//! Recognises the session files (rollouts) that Codex keeps for itself, so that tapline can say what they are.

use crate::json::{Kind, Value};
use crate::wire::Read as _;

/// Describes the file: what it is, and where it is kept.
pub(super) const ABOUT: &str = "Codex's own transcript (rollout) of a session (~/.codex/sessions), not a stream";

/// The types of its lines, including older ones.
const ROLLOUT: [&str; 7] =
    ["session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state", "token_usage_record"];

/// Returns whether a line is from such a file and not from a stream. Checked against 0.166.0.
pub(super) fn is_line(line: Value<'_>) -> bool {
    let text = |key: &str| line.get(key).and_then(String::read);
    let kind = text("type").unwrap_or_default();
    let has_payload = line.get("payload").is_some_and(|payload| payload.kind() == Kind::Object);
    text("timestamp").is_some() && has_payload && ROLLOUT.contains(&kind.as_str())
        || text("record_type").as_deref() == Some("state")
}
