//! Decides whether a run is tried again, and how long to wait first.

use std::time::Duration;

use tapline_session::{Advice, Outcome, Report, parse_rfc3339};

use super::attempt::Ended;
use crate::args::run::Ending;

/// Returns how long to wait before the next attempt. `None` if another attempt cannot help or is not wanted.
pub(super) fn wait(ending: &Ending, ended: &Ended, attempt: u64) -> Option<Duration> {
    if attempt > u64::from(ending.retry) || !ended.violations.is_empty() || !ended.started {
        return None;
    }
    wait_after(ending, &ended.report, attempt, unix_now())
}

fn wait_after(ending: &Ending, report: &Report, attempt: u64, now: i64) -> Option<Duration> {
    let step = u32::try_from(attempt - 1).unwrap_or(u32::MAX).min(5);
    let growing = |default: u64| ending.retry_delay.unwrap_or(Duration::from_secs(default)).saturating_mul(1 << step);
    let retry = &report.verdict.retry;
    match advice(ending, report) {
        Advice::No => None,
        Advice::Now => Some(growing(1)),
        Advice::Later => {
            let wait = match retry.at.as_deref().and_then(parse_rfc3339) {
                // A second more, because clocks differ.
                Some(at) => {
                    let wait = Duration::from_secs(u64::try_from(at - now + 1).unwrap_or(0)).max(Duration::from_secs(1));
                    wait.max(ending.retry_delay.map_or(Duration::ZERO, |_| growing(0)))
                }
                // The agent's own waits were not enough.
                None => asked_for(report).unwrap_or_default().max(growing(30)),
            };
            Some(wait)
        }
    }
}

/// Whether to try again: as the verdict says, or after the categories that the user named.
fn advice(ending: &Ending, report: &Report) -> Advice {
    let verdict = &report.verdict;
    let named = |category| ending.retry_on.contains(&category);
    match verdict.retry.advice {
        advice if ending.retry_on.is_empty() => advice,
        _ if !matches!(verdict.outcome, Outcome::Failure | Outcome::Incomplete) => Advice::No,
        advice if verdict.category.is_some_and(named) => {
            if advice == Advice::No {
                Advice::Now
            } else {
                advice
            }
        }
        _ => Advice::No,
    }
}

/// How long the agent itself was last told to wait.
fn asked_for(report: &Report) -> Option<Duration> {
    report.retries.last()?.delay_ms.as_ref()?.as_u64().map(Duration::from_millis)
}

/// This moment, in the seconds of [`parse_rfc3339`].
fn unix_now() -> i64 {
    tapline_runner::now().as_deref().and_then(parse_rfc3339).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tapline_session::Category;

    use super::*;

    #[derive(clap::Parser)]
    struct Words {
        #[command(flatten)]
        ending: Ending,
    }

    fn waits(words: &[&str], advice: Advice, at: Option<&str>, category: Category) -> Vec<Option<u64>> {
        let ending = Words::parse_from(["run", "--retry", "3"].iter().chain(words)).ending;
        let mut report = Report::default();
        report.verdict.outcome = Outcome::Failure;
        report.verdict.category = Some(category);
        report.verdict.retry.advice = advice;
        report.verdict.retry.at = at.map(str::to_owned);
        (1..=3).map(|attempt| wait_after(&ending, &report, attempt, 1_000_000_000).map(|wait| wait.as_secs())).collect()
    }

    #[test]
    fn the_waits_double_and_start_where_the_user_says() {
        assert_eq!(waits(&[], Advice::Now, None, Category::Server), [Some(1), Some(2), Some(4)]);
        assert_eq!(waits(&[], Advice::Later, None, Category::Overloaded), [Some(30), Some(60), Some(120)]);
        assert_eq!(waits(&["--retry-delay", "5s"], Advice::Now, None, Category::Server), [Some(5), Some(10), Some(20)]);
        assert_eq!(waits(&["--retry-delay", "5s"], Advice::Later, None, Category::Overloaded), [Some(5), Some(10), Some(20)]);
        assert_eq!(waits(&["--retry-delay", "0"], Advice::Now, None, Category::Server), [Some(0); 3]);
    }

    #[test]
    fn a_limit_that_resets_later_is_waited_for() {
        // 60 seconds after 1,000,000,000.
        let at = Some("2001-09-09T01:47:40Z");
        assert_eq!(waits(&[], Advice::Later, at, Category::RateLimit), [Some(61); 3]);
        assert_eq!(waits(&["--retry-delay", "5s"], Advice::Later, at, Category::RateLimit), [Some(61); 3]);
        assert_eq!(waits(&["--retry-delay", "40s"], Advice::Later, at, Category::RateLimit), [Some(61), Some(80), Some(160)]);
    }

    #[test]
    fn only_the_named_categories_are_tried_again() {
        let named = ["--retry-on", "auth,server"];
        assert_eq!(waits(&named, Advice::No, None, Category::Auth), [Some(1), Some(2), Some(4)]);
        assert_eq!(waits(&named, Advice::Now, None, Category::Server), [Some(1), Some(2), Some(4)]);
        assert_eq!(waits(&named, Advice::Now, None, Category::Network), [None; 3]);
        assert_eq!(waits(&[], Advice::No, None, Category::Auth), [None; 3]);
    }
}
