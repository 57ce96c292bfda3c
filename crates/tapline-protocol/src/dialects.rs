//! How each agent's lines are read: one row per agent. Everything else about an agent's format is in its folder.

use crate::agent::Agent;
use crate::event::Event;
use crate::json::Value;
use crate::tags::{Fit, Wire};
use crate::{claude, codex};

/// Runs the same code for each agent: `$wire` is the agent's event type, and `$event` wraps it in [`Event`].
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

/// Reads an object as an event of this agent.
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

/// Reads a whole document without a `type`, and returns its agent.
pub(crate) fn read_untyped_document(value: Value<'_>) -> Option<(Agent, Event)> {
    Agent::ALL.iter().find_map(|agent| {
        let event = of!(*agent, |Line, event| Line::read_untyped_document(value).map(event));
        Some((*agent, event?))
    })
}

/// Returns a static copy of a known `type`, which needs no allocation.
pub(crate) fn known_kind(kind: &str) -> Option<&'static str> {
    if kind == "system" {
        return Some("system");
    }
    Agent::ALL.iter().find_map(|agent| of!(*agent, |Line| Line::known_tag(kind)))
}

/// Returns the known keys of an agent's events with this tag.
pub(crate) fn known_keys(agent: Agent, tag: &str) -> Option<Vec<&'static str>> {
    of!(agent, |Line| Line::known_keys(tag).map(Iterator::collect))
}

/// If the line is from a version that is too old to read: returns its agent and what to tell the user.
pub(crate) fn too_old(value: Value<'_>) -> Option<(Agent, &'static str)> {
    Agent::ALL.iter().find_map(|agent| Some((*agent, of!(*agent, |Line| Line::too_old(value))?)))
}

/// If the line is from a session file that an agent keeps for itself: returns what to tell the user.
pub(crate) fn in_transcript(value: Value<'_>) -> Option<&'static str> {
    Agent::ALL.iter().find_map(|agent| of!(*agent, |Line| Line::in_transcript(value)))
}
