//! The clock that stopped a run, in words. `run` says them at once, and every reader of its recording repeats them.

use std::time::Duration;

use tapline_protocol::StopReason;
use tapline_session::{Category, Clock, Summary};

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

/// A run that a clock has stopped has no result that says how long it took: what is shown of it says how long it ran.
pub(crate) fn measure(summary: &mut Summary, ran_ms: Option<u64>) {
    if summary.verdict.category == Some(Category::Timeout) {
        #[expect(clippy::cast_precision_loss, reason = "nobody waits that long")]
        let ran_ms = ran_ms.map(|ms| ms as f64);
        summary.duration_ms = ran_ms.or(summary.duration_ms);
    }
}
