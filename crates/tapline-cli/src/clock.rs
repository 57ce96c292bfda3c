//! The clock that stopped a run, in words. `run` says them at once, and every reader of its recording repeats them.

use std::time::Duration;

use tapline_protocol::StopReason;
use tapline_session::Clock;

use crate::args::run::span;

/// Formats it: `timeout: 20m passed (--timeout)`.
pub(crate) fn told(reason: StopReason, limit: Duration) -> Option<String> {
    let after = span(limit);
    match reason {
        StopReason::Timeout | StopReason::Idle => {
            Clock::of(reason, u64::try_from(limit.as_millis()).ok()).map(|clock| clock.words())
        }
        StopReason::Linger => Some(format!("the agent was still running {after} after its final result (--linger)")),
        StopReason::Interrupted | StopReason::Terminated | StopReason::Stopped => None,
    }
}
