//! Each agent's side of the fold, one row per agent: events go to the agent's file, which also answers the questions in
//! [`Side`].

use tapline_protocol::{Agent, Event};

use super::side::Side;
use super::{Fold, Steps, claude, codex};
use crate::step::Step;

/// The side of a stream without a known agent, which has no state.
#[derive(Debug, Default)]
struct Nobody;

impl Side for Nobody {}

/// The sides of all agents.
#[derive(Debug, Default)]
pub(super) struct Sides {
    pub(super) claude: claude::State,
    pub(super) codex: codex::State,
    nobody: Nobody,
}

impl Sides {
    /// Returns the side of the stream's agent.
    pub(super) fn of(&mut self, agent: Option<Agent>) -> &mut dyn Side {
        match agent {
            Some(Agent::Claude) => &mut self.claude,
            Some(Agent::Codex) => &mut self.codex,
            None => &mut self.nobody,
        }
    }

    /// Passes stderr to all sides, because the agent may become known only later.
    pub(super) fn hear_stderr(&mut self, lines: &str) {
        for agent in Agent::ALL {
            self.of(Some(*agent)).hear_stderr(lines);
        }
    }
}

impl Fold {
    pub(super) fn event(&mut self, event: &Event, out: &mut Steps<'_>) {
        match event {
            Event::Blank | Event::Rest => {}
            Event::Malformed(why) => self.malformed(why, out),
            Event::NotObject => out.odd("non-object", "JSON, but not an object"),
            Event::Untyped => self.untyped(out),
            Event::Unknown { kind } => self.unknown(kind, out),
            Event::Invalid { event, error } => self.changed_shape(event, error, out),
            Event::Claude(event) => self.claude(event, out),
            Event::Codex(event) => self.codex(event, out),
        }
    }
}

/// Collects what only one agent has in a report, with a field for each such agent.
#[derive(Debug, Default)]
pub(crate) struct Extensions {
    codex: codex::Collected,
}

impl Extensions {
    /// Takes the next step, for the keys of the report that are wanted.
    pub(crate) fn accept(&mut self, step: &Step, wants: impl Fn(&str) -> bool) {
        if wants("codex") {
            self.codex.accept(step);
        }
    }

    /// Returns what this agent adds to the report.
    pub(crate) fn finish(self, agent: Option<Agent>) -> Option<codex::CodexPart> {
        (agent == Some(Agent::Codex)).then(|| self.codex.finish())
    }
}
