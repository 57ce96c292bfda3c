//! The session files that agents keep for themselves look much like streams but are not: they have no end and no
//! totals. They are recognised by their lines, so that tapline can say what they are.

use crate::json::{Kind, Value};
use crate::record::Record;
use crate::wire::Read as _;

/// A session file that an agent keeps for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transcript {
    /// Claude Code's transcript, under `~/.claude/projects`.
    Claude,
    /// Codex's rollout, under `~/.codex/sessions`.
    Codex,
}

/// The types of a rollout's lines; older ones among them.
const ROLLOUT: [&str; 7] =
    ["session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state", "token_usage_record"];

/// Types of lines that a transcript of Claude Code has between the messages, and often first.
const BETWEEN: [&str; 8] =
    ["queue-operation", "last-prompt", "mode", "permission-mode", "custom-title", "ai-title", "agent-name", "atis-latch"];

impl Transcript {
    /// The kind of transcript that a line belongs to; `None` for a line of a stream. Seen with claude 1.0.128 and 2.1.325, codex 0.166.0.
    ///
    /// ```
    /// use tapline_protocol::{Decoder, Transcript};
    ///
    /// let line = br#"{"parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":"hi"}}"#;
    /// let record = Decoder::default().decode_line(1, line.to_vec());
    /// assert_eq!(Transcript::of(&record), Some(Transcript::Claude));
    /// ```
    pub fn of(record: &Record) -> Option<Self> {
        record.with(|line| {
            let text = |key: &str| line.get(key).and_then(String::read);
            let kind = text("type").unwrap_or_default();
            let is_claudes = line.get("session_id").is_none()
                && (text("sessionId").is_some() && (line.get("parentUuid").is_some() || BETWEEN.contains(&kind.as_str()))
                    || text("messageId").is_some() && kind == "file-history-snapshot"
                    || text("summary").is_some() && text("leafUuid").is_some());
            let is_object = |value: Value<'_>| value.kind() == Kind::Object;
            let is_codexs =
                text("timestamp").is_some() && line.get("payload").is_some_and(is_object) && ROLLOUT.contains(&kind.as_str())
                    || text("record_type").as_deref() == Some("state");
            match (is_claudes, is_codexs) {
                (true, _) => Some(Self::Claude),
                (false, true) => Some(Self::Codex),
                (false, false) => None,
            }
        })?
    }

    /// What it is, where it is kept, what reads it, and what to use instead.
    pub fn about(self) -> &'static str {
        match self {
            Self::Claude => {
                "a transcript that Claude Code keeps of a session (~/.claude/projects), not a stream: `claude --resume ID` reads it, \
                 tapline does not yet, and it has no result. A stream comes from `tapline run`, or from `claude -p --output-format stream-json --verbose`"
            }
            Self::Codex => {
                "a rollout that Codex keeps of a session (~/.codex/sessions), not a stream: `codex resume ID` reads it, tapline does \
                 not yet, and it has no result. A stream comes from `tapline run --agent codex`, or from `codex exec --json`"
            }
        }
    }
}
