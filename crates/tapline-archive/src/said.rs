//! What a line of a session says in words: the values that each agent's reader makes and the text index takes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tapline_protocol::{Kind, Value};

/// What kind of text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// What a person, or an agent that started a sub-agent, asked for.
    Prompt,
    /// What the model answered, or what the agent said itself.
    Answer,
    /// What a tool was called with: commands, paths, patterns, texts.
    Call,
    /// What a tool returned.
    Output,
    /// What the model thought before it answered.
    Thinking,
}

impl EntryKind {
    /// All kinds, in the order of their numbers in the index.
    pub const ALL: [Self; 5] = [Self::Prompt, Self::Answer, Self::Call, Self::Output, Self::Thinking];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Answer => "answer",
            Self::Call => "call",
            Self::Output => "output",
            Self::Thinking => "thinking",
        }
    }

    pub(crate) fn number(self) -> i64 {
        self as i64
    }
}

/// One text that a line says.
#[derive(Clone, Debug)]
pub(crate) struct Said<'t> {
    pub(crate) kind: EntryKind,
    /// A hash of what makes it the same text in copies: forks, resumed sessions, the stream of the same session.
    pub(crate) key: u64,
    /// A hash that a call and its output have in common. 0 if there is none.
    pub(crate) call: u64,
    /// The tool that is called. Most outputs do not name it.
    pub(crate) tool: Cow<'t, str>,
    pub(crate) error: bool,
    pub(crate) text: Cow<'t, str>,
}

/// What the lines so far say about the following ones. The index keeps it, to go on where a file ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Context {
    pub(crate) session: String,
    pub(crate) folder: String,
    pub(crate) branch: String,
    /// Whether a sub-agent says it.
    pub(crate) subagent: bool,
    /// When the line was written, or the last one before it that says when, in milliseconds since 1970.
    pub(crate) time: u64,
    /// The title of the session, and whether somebody gave it.
    pub(crate) title: String,
    pub(crate) titled: bool,
    /// Whether it is of a stream, not of a transcript.
    pub(crate) streamed: bool,
    /// A hash of the session that texts without an id are of: the own one, or the one it was forked from.
    pub(crate) root: u64,
    /// Calls without an output so far, and their tools.
    pub(crate) calls: Vec<(u64, String)>,
    /// For a recording: up to where what was sent to the agent was read.
    pub(crate) sent: u64,
}

/// More calls than this do not wait for their output at once.
const WAITING: usize = 64;

impl Context {
    /// Notes the tool of a call, or returns the tool that an output is of.
    pub(crate) fn tool_of(calls: &mut Vec<(u64, String)>, said: &Said<'_>) -> String {
        if said.call != 0 && said.kind == EntryKind::Call {
            if calls.len() == WAITING {
                calls.remove(0);
            }
            calls.push((said.call, said.tool.clone().into_owned()));
        }
        let call = calls.iter().rposition(|(call, _)| *call == said.call);
        match call.filter(|_| said.kind == EntryKind::Output && said.tool.is_empty()) {
            Some(at) => calls.remove(at).1,
            None => said.tool.clone().into_owned(),
        }
    }

    /// Sets a name if the line has one.
    pub(crate) fn set(place: &mut String, name: &str) {
        if !name.is_empty() && place != name {
            name.clone_into(place);
        }
    }
}

/// Takes what a line says.
pub(crate) type Each<'e> = &'e mut dyn FnMut(&Context, Said<'_>);

/// Returns all strings inside a value, one per line.
pub(crate) fn strings(value: Value<'_>) -> Cow<'_, str> {
    if value.kind() == Kind::String {
        return value.as_str().unwrap_or_default();
    }
    let mut all = String::new();
    // Without recursion: a hostile value can be deeper than the stack.
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value.kind() {
            Kind::String => {
                if !all.is_empty() {
                    all.push('\n');
                }
                all.push_str(&value.as_str().unwrap_or_default());
            }
            Kind::Object | Kind::Array => {
                let from = open.len();
                open.extend(value.entries().into_iter().flatten().map(|(_, value)| value));
                open.extend(value.items().into_iter().flatten());
                open[from..].reverse();
            }
            _ => {}
        }
    }
    Cow::Owned(all)
}

/// Hashes what makes a text the same in copies. The same in every process, because the index keeps it.
pub(crate) fn key(parts: &[&str]) -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    let mut hasher = foldhash::quality::FixedState::with_seed(0x7365_6172_6368).build_hasher();
    for part in parts {
        hasher.write_usize(part.len());
        hasher.write(part.as_bytes());
    }
    hasher.finish()
}
