//! How a session stands: one rule for the archive, the live page and all that shows their lists.

use serde::{Deserialize, Serialize};

use crate::verdict::Outcome;

/// What the lines of a session said last. The passage of time does not change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionPhase {
    /// They do not say it.
    #[default]
    Unknown,
    /// The turn is over.
    Finished,
    /// The turn failed.
    Failed,
    /// A tool call has no result yet.
    InCall,
    /// The agent asks a person something.
    Asking,
    /// The agent is working on a prompt or a result.
    Working,
    /// A person interrupted the turn.
    Interrupted,
    /// The account's limit is used up, and the agent waits for it.
    Limited,
}

impl From<Outcome> for SessionPhase {
    /// Returns the phase of a run whose verdict is in. It is over, whatever its lines said last.
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success => Self::Finished,
            Outcome::Interrupted => Self::Interrupted,
            Outcome::Failure | Outcome::Incomplete => Self::Failed,
        }
    }
}

/// How long a silent session counts as live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// After so many milliseconds without a line, nobody is at work any more.
    pub silent_ms: u64,
}

impl Default for Patience {
    /// A quarter of an hour. Agents give up a request to the model, and a command, after ten minutes.
    fn default() -> Self {
        Self { silent_ms: 15 * 60 * 1_000 }
    }
}

/// How a session stands, in one word. What needs a person comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SessionState {
    /// It asks a person something.
    Waiting,
    /// It waits until the account's limit is reset.
    Limited,
    /// The agent is working.
    Running,
    /// It is in the middle of a turn, and has written nothing for long.
    Silent,
    /// The last turn failed.
    Failed,
    /// A person interrupted the last turn.
    Interrupted,
    /// The last turn is over.
    Finished,
    /// Nothing says it.
    #[default]
    Unknown,
}

impl SessionState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Waiting,
        Self::Limited,
        Self::Running,
        Self::Silent,
        Self::Failed,
        Self::Interrupted,
        Self::Finished,
        Self::Unknown,
    ];

    /// Returns how a session stands at the time `now`, if it wrote its last line at `last`, and its limit lasts until `limit_until`.
    /// Times are milliseconds since 1970.
    pub fn of(phase: SessionPhase, last: Option<u64>, limit_until: Option<u64>, now: u64, patience: Patience) -> Self {
        let is_silent = last.is_none_or(|last| now.saturating_sub(last) > patience.silent_ms);
        match phase {
            SessionPhase::Unknown => Self::Unknown,
            SessionPhase::Finished => Self::Finished,
            SessionPhase::Failed => Self::Failed,
            SessionPhase::Interrupted => Self::Interrupted,
            SessionPhase::Asking => Self::Waiting,
            SessionPhase::Limited if limit_until.is_some_and(|until| now < until) || !is_silent => Self::Limited,
            SessionPhase::InCall | SessionPhase::Working if !is_silent => Self::Running,
            SessionPhase::Limited | SessionPhase::InCall | SessionPhase::Working => Self::Silent,
        }
    }

    /// Returns its name, as JSON has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Limited => "limited",
            Self::Running => "running",
            Self::Silent => "silent",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Finished => "finished",
            Self::Unknown => "unknown",
        }
    }

    /// Returns whether the session is not over.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Waiting | Self::Limited | Self::Running)
    }
}

#[cfg(test)]
mod tests {
    use super::{Patience, SessionPhase, SessionState};
    use crate::verdict::Outcome;

    const NOW: u64 = 1_000_000_000;

    fn state(phase: SessionPhase, silent_ms: u64, limit_until: Option<u64>) -> SessionState {
        SessionState::of(phase, Some(NOW - silent_ms), limit_until, NOW, Patience { silent_ms: 1_000 })
    }

    #[test]
    fn a_question_waits_however_long_it_takes() {
        assert_eq!(state(SessionPhase::Asking, 0, None), SessionState::Waiting);
        assert_eq!(state(SessionPhase::Asking, NOW, None), SessionState::Waiting);
    }

    #[test]
    fn an_open_call_is_at_work_until_it_is_silent_for_long() {
        for phase in [SessionPhase::InCall, SessionPhase::Working] {
            assert_eq!(state(phase, 1_000, None), SessionState::Running);
            assert_eq!(state(phase, 1_001, None), SessionState::Silent);
            assert_eq!(SessionState::of(phase, None, None, NOW, Patience::default()), SessionState::Silent);
            // A clock that was set back.
            assert_eq!(SessionState::of(phase, Some(NOW + 5), None, NOW, Patience::default()), SessionState::Running);
        }
    }

    #[test]
    fn a_limit_lasts_until_it_is_reset() {
        assert_eq!(state(SessionPhase::Limited, 0, None), SessionState::Limited);
        assert_eq!(state(SessionPhase::Limited, 1_001, Some(NOW + 1)), SessionState::Limited);
        assert_eq!(state(SessionPhase::Limited, 1_001, Some(NOW)), SessionState::Silent);
        assert_eq!(state(SessionPhase::Limited, 1_001, None), SessionState::Silent);
        assert_eq!(state(SessionPhase::Working, 0, Some(NOW + 1)), SessionState::Running, "it goes on");
    }

    #[test]
    fn a_run_whose_verdict_is_in_is_over() {
        let outcomes = [Outcome::Success, Outcome::Failure, Outcome::Incomplete, Outcome::Interrupted];
        let states = outcomes.map(|outcome| state(outcome.into(), 0, Some(NOW + 1)).name());
        assert_eq!(states, ["finished", "failed", "failed", "interrupted"]);
        assert!(outcomes.iter().all(|outcome| !state((*outcome).into(), 0, Some(NOW + 1)).is_live()));
    }
}
