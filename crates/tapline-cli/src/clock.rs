//! Which clock has stopped a run, in words: `run` says them at once, and every reader of its recording says them again.

use std::time::Duration;

use tapline_recording::Clock;
use tapline_session::{Category, Verdict};

use crate::args::run::span;

pub(crate) const TIMEOUT: &str = "timeout";
pub(crate) const IDLE: &str = "idle-timeout";
pub(crate) const LINGER: &str = "linger";

/// A clock that runs for so long.
pub(crate) fn clock(name: &str, limit: Duration) -> Clock {
    Clock { name: name.to_owned(), ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }
}

/// The report of a run that a clock has stopped says which, and how long it ran.
pub(crate) fn name(verdict: &mut Verdict, clock: &str) {
    if verdict.category == Some(Category::Timeout) {
        verdict.error = Some(clock.to_owned());
    }
}

/// `timeout: 20m passed (--timeout)`
pub(crate) fn told(clock: &Clock) -> String {
    let after = span(Duration::from_millis(clock.ms));
    match clock.name.as_str() {
        IDLE => format!("timeout: no output for {after} (--idle-timeout)"),
        LINGER => format!("the agent stayed for {after} after its last word (--linger)"),
        name => format!("timeout: {after} passed (--{name})"),
    }
}
