//! How each agent's lines are read: one row an agent. Everything else about a wire is in the agent's folder.

use crate::agent::Agent;
use crate::event::Event;
use crate::json::Value;
use crate::tags::{Fit, Wire};
use crate::{claude, codex};

/// The same for each agent: `$wire` is the type of its events, `$event` makes them events of a stream.
macro_rules! of {
    ($agent:expr, |$wire:ident| $result:expr) => {
        of!($agent, |$wire, _event| $result)
    };
    ($agent:expr, |$wire:ident, $event:ident| $result:expr) => {
        match $agent {
            Agent::Claude => of!(claude::Event, Event::Claude, |$wire, $event| $result),
            Agent::Codex => of!(codex::Event, Event::Codex, |$wire, $event| $result),
        }
    };
    ($type:ty, $variant:expr, |$wire:ident, $event:ident| $result:expr) => {{
        type $wire = $type;
        let $event = $variant;
        $result
    }};
}

/// Reads an object as one of this agent's.
pub(crate) fn read(agent: Agent, kind: &str, subtype: Option<&str>, value: Value<'_>) -> Option<(Event, Fit)> {
    of!(agent, |Line, event| {
        let reading = Line::read_line(kind, subtype, value)?;
        let fit = Line::fit(&reading);
        let event = event(reading.event);
        Some(match reading.error {
            Some(error) => (Event::Invalid { event: Box::new(event), error }, fit),
            None => (event, fit),
        })
    })
}

/// Reads a whole document without a type, and tells whose it is.
pub(crate) fn read_untyped_document(value: Value<'_>) -> Option<(Agent, Event)> {
    Agent::ALL.iter().find_map(|agent| {
        let event = of!(*agent, |Line, event| Line::read_untyped_document(value).map(event));
        Some((*agent, event?))
    })
}

/// The one copy of a known `type`.
pub(crate) fn known_kind(kind: &str) -> Option<&'static str> {
    if kind == "system" {
        return Some("system");
    }
    Agent::ALL.iter().find_map(|agent| of!(*agent, |Line| Line::known_tag(kind)))
}

/// The keys that an agent's events of this tag are known to have.
pub(crate) fn known_keys(agent: Agent, tag: &str) -> Option<Vec<&'static str>> {
    of!(agent, |Line| Line::known_keys(tag).map(Iterator::collect))
}

/// Whose line this is, and what to say of it, if a version wrote it that is too old to be read.
pub(crate) fn too_old(value: Value<'_>) -> Option<(Agent, &'static str)> {
    Agent::ALL.iter().find_map(|agent| Some((*agent, of!(*agent, |Line| Line::too_old(value))?)))
}

/// What to say of a line of a session file that an agent keeps for itself.
pub(crate) fn in_transcript(value: Value<'_>) -> Option<&'static str> {
    Agent::ALL.iter().find_map(|agent| of!(*agent, |Line| Line::in_transcript(value)))
}
