//! What the fold asks an agent's file, apart from its events: everything that differs between agents.

use super::Turns;
use super::rejected::Rejected;
use crate::verdict::{Category, Ending, Warnings};

/// The state of an agent's file, in addition to what the fold remembers for every agent.
pub(super) trait Side {
    /// Takes whole lines of stderr.
    fn hear_stderr(&mut self, _lines: &str) {}

    /// Returns the ids of its sessions, if they are not the `session_id` of the lines.
    fn session_ids(&self) -> Option<&[String]> {
        None
    }

    /// Returns why a turn failed that has not ended.
    fn failure(&self) -> Option<(Category, String)> {
        None
    }

    /// Returns the calls that the agent rejected and reported only on stderr, and how many of them steps have reported.
    fn rejected(&mut self, _stderr: Option<&str>) -> (Vec<Rejected>, usize) {
        (Vec::new(), 0)
    }

    /// Returns the answer and the last text.
    fn answer(&self, turns: &Turns, last: &str, _ending: &Ending, _warnings: &mut Warnings) -> (Option<String>, String) {
        let words = || (turns.count == 0).then(|| last.to_owned());
        (Some(turns.answer.clone().or_else(words).unwrap_or_default()), last.to_owned())
    }
}
