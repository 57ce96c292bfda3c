//! Decides which agent wrote a stream, in this one place. The first line that only one agent writes decides. Agents
//! share names (`result`, `tool_use`, `error`), so a line counts for an agent only if its shape fits, too.

use crate::agent::Agent;
use crate::dialects::{read, read_untyped_document};
use crate::event::Event;
use crate::json::Value;
use crate::tags::Fit;

/// After this many lines that decide nothing, the stream is not a known agent's, whatever follows.
const UNDECIDED: u8 = 64;

/// What is known so far about which agent writes a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    decided: Decided,
    /// The likely agent, as long as no line is foreign.
    likely: Option<(Agent, Fit)>,
    /// Whether there were lines that no known agent writes.
    foreign: bool,
    /// How many lines decided nothing.
    undecided: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Decided {
    #[default]
    NotYet,
    Agent(Agent),
    /// Not a known agent. No later line changes that.
    Unknown,
}

impl Dialect {
    /// Returns the dialect of this agent, which no line changes. With `None`, the lines decide.
    pub fn of(agent: Option<Agent>) -> Self {
        Self { decided: agent.map_or(Decided::NotYet, Decided::Agent), ..Self::default() }
    }

    /// Returns the stream's agent, if a line decided it or the lines so far make it likely.
    pub fn agent(self) -> Option<Agent> {
        match self.decided {
            Decided::Agent(agent) => Some(agent),
            Decided::Unknown => None,
            Decided::NotYet => self.likely.filter(|_| !self.foreign).map(|(agent, _)| agent),
        }
    }

    /// Returns whether a later line can still decide the agent.
    pub fn is_open(self) -> bool {
        self.decided == Decided::NotYet
    }

    /// Returns whether there were lines that no known agent writes.
    pub fn is_foreign(self) -> bool {
        self.foreign || self.decided == Decided::Unknown
    }

    /// Reads an object that has a `type`.
    pub(crate) fn read(&mut self, kind: &str, subtype: Option<&str>, value: Value<'_>) -> Event {
        let event = match self.decided {
            Decided::Agent(agent) => read(agent, kind, subtype, value).map(|(event, _)| event),
            Decided::Unknown => None,
            Decided::NotYet => self.try_all(kind, subtype, value),
        };
        event.unwrap_or_else(|| match (kind, subtype) {
            ("system", Some(subtype)) => Event::Unknown { kind: format!("system/{subtype}") },
            _ => Event::Unknown { kind: kind.to_owned() },
        })
    }

    fn try_all(&mut self, kind: &str, subtype: Option<&str>, value: Value<'_>) -> Option<Event> {
        let (mut best, mut contradicted) = (None::<(Agent, Fit, Event)>, false);
        for agent in Agent::ALL {
            let Some((event, fit)) = read(*agent, kind, subtype, value) else { continue };
            if fit == Fit::Sure {
                self.decided = Decided::Agent(*agent);
                return Some(event);
            }
            if !self.may_be(*agent, fit) {
                contradicted |= fit > Fit::Open;
            } else if best.as_ref().is_none_or(|(_, other, _)| fit > *other) {
                best = Some((*agent, fit, event));
            }
        }
        if let Some((agent, fit, _)) = best
            && fit > Fit::Open
        {
            self.likely = Some((agent, self.likely.map_or(fit, |(_, known)| known.max(fit))));
        }
        // A new `system` event is as likely a known agent's as not.
        self.foreign |= best.is_none() && (contradicted || kind != "system");
        self.pass();
        best.map(|(_, _, event)| event)
    }

    /// Whether a line that does not decide is read as this agent's. Among lines of somebody else none is; where an agent is likely
    /// already, another's must say more.
    fn may_be(self, agent: Agent, fit: Fit) -> bool {
        !self.foreign && fit > Fit::Not && self.likely.is_none_or(|(likely, known)| agent == likely || fit > known)
    }

    /// Counts a line that decides nothing.
    pub(crate) fn pass(&mut self) {
        if self.decided == Decided::NotYet {
            self.undecided += 1;
            if self.undecided == UNDECIDED {
                self.decided = Decided::Unknown;
            }
        }
    }

    /// Counts an object that no known agent writes.
    pub(crate) fn pass_foreign(&mut self) {
        self.foreign = true;
        self.pass();
    }

    /// Reads a whole document without a `type`.
    pub(crate) fn read_untyped_document(&mut self, value: Value<'_>) -> Option<Event> {
        let (agent, event) = read_untyped_document(value)?;
        if self.decided == Decided::NotYet {
            self.decided = Decided::Agent(agent);
        }
        Some(event)
    }
}
