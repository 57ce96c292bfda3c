//! Whose stream it is: decided here and nowhere else. The first line that only one agent writes decides. Agents borrow names from
//! each other (`result`, `tool_use`, `error`): a line counts for an agent only where its shape is that agent's, too.

use crate::agent::Agent;
use crate::event::Event;
use crate::json::Value;
use crate::tags::{Fit, Reading};
use crate::{claude, codex};

/// So many lines may say nothing; then the stream is of no agent that is known, for good.
const UNDECIDED: u8 = 64;

/// What is known about the agent that writes the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    decided: Decided,
    /// Whose it may be, unless there are lines of somebody else.
    likely: Option<Agent>,
    /// There were lines that none of the known agents writes.
    foreign: bool,
    /// Lines that did not decide it.
    undecided: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Decided {
    #[default]
    NotYet,
    Agent(Agent),
    /// No known agent, for good.
    Unknown,
}

impl Dialect {
    /// The stream of a given agent: no line changes that.
    pub fn of(agent: Option<Agent>) -> Self {
        Self { decided: agent.map_or(Decided::NotYet, Decided::Agent), ..Self::default() }
    }

    /// The stream's agent, if it is known: decided by a line, or likely from the lines so far.
    pub fn agent(self) -> Option<Agent> {
        match self.decided {
            Decided::Agent(agent) => Some(agent),
            Decided::Unknown => None,
            Decided::NotYet => self.likely.filter(|_| !self.foreign),
        }
    }

    /// Whether lines may still decide whose stream it is.
    pub fn is_open(self) -> bool {
        self.decided == Decided::NotYet
    }

    /// Whether there were lines that no agent writes which is known here.
    pub fn is_foreign(self) -> bool {
        self.foreign || self.decided == Decided::Unknown
    }

    /// Reads an object with a type.
    pub(crate) fn read(&mut self, kind: &str, subtype: Option<&str>, value: Value<'_>) -> Event {
        let event = match self.decided {
            Decided::Agent(agent) => read_as(agent, kind, subtype, value).map(|(event, _)| event),
            Decided::Unknown => None,
            Decided::NotYet => self.try_all(kind, subtype, value),
        };
        event.unwrap_or_else(|| match (kind, subtype) {
            ("system", Some(subtype)) => Event::Unknown { kind: format!("system/{subtype}") },
            _ => Event::Unknown { kind: kind.to_owned() },
        })
    }

    fn try_all(&mut self, kind: &str, subtype: Option<&str>, value: Value<'_>) -> Option<Event> {
        let mut open = None;
        for agent in Agent::ALL {
            let Some((event, fit)) = read_as(*agent, kind, subtype, value) else { continue };
            match fit {
                Fit::Sure => {
                    self.decided = Decided::Agent(*agent);
                    return Some(event);
                }
                // Among lines of somebody else, one that only may be this agent's is not read as such.
                Fit::Likely if !self.foreign => {
                    self.likely = self.likely.or(Some(*agent));
                    open = Some(event);
                }
                Fit::Open if !self.foreign => open = open.or(Some(event)),
                Fit::Likely | Fit::Open | Fit::Not => {}
            }
        }
        // A new `system` event is as likely Claude's as not.
        self.foreign |= open.is_none() && kind != "system";
        self.pass();
        open
    }

    /// A line that decides nothing.
    pub(crate) fn pass(&mut self) {
        if self.decided == Decided::NotYet {
            self.undecided += 1;
            if self.undecided == UNDECIDED {
                self.decided = self.agent().map_or(Decided::Unknown, Decided::Agent);
            }
        }
    }

    /// An object that none of the known agents writes.
    pub(crate) fn pass_foreign(&mut self) {
        self.foreign = true;
        self.pass();
    }

    /// A whole document of the older, untyped shape, which one agent alone writes.
    pub(crate) fn decide(&mut self, agent: Agent) {
        if self.decided == Decided::NotYet {
            self.decided = Decided::Agent(agent);
        }
    }
}

/// Reads an object as one of this agent's.
fn read_as(agent: Agent, kind: &str, subtype: Option<&str>, value: Value<'_>) -> Option<(Event, Fit)> {
    fn event<E>(reading: Reading<E>, fit: Fit, event: fn(E) -> Event) -> (Event, Fit) {
        let event = event(reading.event);
        match reading.error {
            Some(error) => (Event::Invalid { event: Box::new(event), error }, fit),
            None => (event, fit),
        }
    }
    match agent {
        Agent::Claude => claude::read(kind, subtype, value).map(|reading| {
            let fit = claude::fit(&reading);
            event(reading, fit, Event::Claude)
        }),
        Agent::Codex => codex::read(kind, value).map(|reading| {
            let fit = codex::fit(&reading);
            event(reading, fit, Event::Codex)
        }),
    }
}

/// The one copy of a known `type`.
pub(crate) fn known_kind(kind: &str) -> Option<&'static str> {
    if kind == "system" { Some("system") } else { claude::Event::known_tag(kind).or_else(|| codex::Event::known_tag(kind)) }
}

/// The keys that an agent's events of this tag are known to have.
pub(crate) fn known_keys(agent: Agent, tag: &str) -> Option<Vec<&'static str>> {
    match agent {
        Agent::Claude => claude::Event::known_keys(tag).map(Iterator::collect),
        Agent::Codex => codex::Event::known_keys(tag).map(Iterator::collect),
    }
}

/// Whether a version of a known agent wrote this line that is too old to be read.
pub(crate) fn is_too_old(value: Value<'_>) -> bool {
    codex::is_before_0_44(value)
}
