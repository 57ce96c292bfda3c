//! What the fold asks an agent's file for, beside its events: what is not the same with every agent.

use super::Turns;
use super::rejected::Rejected;
use crate::verdict::{Category, Ending, Warnings};

/// What an agent's file remembers beside what the fold remembers of every agent.
pub(super) trait Side {
    /// Takes whole lines of stderr.
    fn hear_stderr(&mut self, _lines: &str) {}

    /// The ids of its sessions, where they are not the lines' `session_id`.
    fn session_ids(&self) -> Option<Vec<String>> {
        None
    }

    /// Why a turn failed that has not ended.
    fn failure(&self) -> Option<(Category, String)> {
        None
    }

    /// Calls that it rejected and told of on stderr alone, and how many of them steps have told of.
    fn rejected(&mut self, _stderr: Option<&str>) -> (Vec<Rejected>, usize) {
        (Vec::new(), 0)
    }

    /// The answer, and the last text.
    fn answer(&self, turns: &Turns, last: &str, _ending: &Ending, _warnings: &mut Warnings) -> (Option<String>, String) {
        let words = || (turns.count == 0).then(|| last.to_owned());
        (Some(turns.answer.clone().or_else(words).unwrap_or_default()), last.to_owned())
    }
}
