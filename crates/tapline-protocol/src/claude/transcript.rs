//! Recognises the session files that Claude Code keeps for itself, so that tapline can say what they are.

use crate::json::Value;
use crate::wire::Read as _;

/// Describes the file: what it is, and where it is kept.
pub(super) const ABOUT: &str =
    "Claude Code's own transcript of a session (~/.claude/projects), not a stream: it has no line that says how a turn ended";

/// Types of the lines between the messages. Often the first line has one of them.
const BETWEEN: [&str; 8] =
    ["queue-operation", "last-prompt", "mode", "permission-mode", "custom-title", "ai-title", "agent-name", "atis-latch"];

/// Returns whether a line is from such a file and not from a stream. Checked against 1.0.128 and 2.1.325.
pub(super) fn is_line(line: Value<'_>) -> bool {
    let text = |key: &str| line.get(key).and_then(String::read);
    let kind = text("type").unwrap_or_default();
    line.get("session_id").is_none()
        && (text("sessionId").is_some() && (line.get("parentUuid").is_some() || BETWEEN.contains(&kind.as_str()))
            || text("messageId").is_some() && kind == "file-history-snapshot"
            || text("summary").is_some() && text("leafUuid").is_some())
}
