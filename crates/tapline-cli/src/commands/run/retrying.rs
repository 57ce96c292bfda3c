//! Decides whether a run is tried again, and how long to wait first: the runner's rule, with the flags of the command.

use std::time::Duration;

use tapline_runner::RetryRule;
use tapline_session::parse_rfc3339;

use super::attempt::Ended;
use crate::args::run::Ending;

/// Returns how long to wait before the next attempt. `None` if another attempt cannot help or is not wanted.
pub(super) fn wait(ending: &Ending, ended: &Ended, attempt: u64) -> Option<Duration> {
    if !ended.violations.is_empty() || !ended.started {
        return None;
    }
    let rule = RetryRule { times: ending.retry, delay: ending.retry_delay, on: ending.retry_on.clone() };
    rule.wait(&ended.report, attempt, unix_now())
}

/// This moment, in the seconds of [`parse_rfc3339`].
fn unix_now() -> i64 {
    tapline_runner::now().as_deref().and_then(parse_rfc3339).unwrap_or(0)
}
