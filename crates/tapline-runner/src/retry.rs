//! Whether a run that failed is tried again, how long to wait first, and how its session goes on. `run --retry` and a
//! fleet share these rules.

use std::time::Duration;

use tapline_session::{Advice, Category, Outcome, Report, parse_rfc3339};

use crate::agent::Agent;
use crate::harness;
use crate::spec::{AgentInput, Options};

/// When a run that failed is tried again.
///
/// ```
/// use std::time::Duration;
/// use tapline_runner::RetryRule;
/// use tapline_session::Report;
///
/// let rule = RetryRule { times: 2, ..RetryRule::default() };
/// // A report without a result: another attempt can help, at once.
/// let mut report = Report::default();
/// report.verdict.retry.advice = tapline_session::Advice::Now;
/// assert_eq!(rule.wait(&report, 1, 1_000_000_000), Some(Duration::from_secs(1)));
/// assert_eq!(rule.wait(&report, 3, 1_000_000_000), None, "two were enough");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryRule {
    /// How many times at most.
    pub times: u32,
    /// The wait before the first retry. It doubles with each further one. With `None`: one second, or thirty if the model is
    /// overloaded or a limit is reached.
    pub delay: Option<Duration>,
    /// Only after these failures. If empty: after those where the verdict advises it.
    pub on: Vec<Category>,
}

impl RetryRule {
    /// Returns how long to wait before the next attempt, after this one (1 is the first), at this moment (in seconds since
    /// 1970). `None` if another attempt cannot help or is not wanted.
    pub fn wait(&self, report: &Report, attempt: u64, now: i64) -> Option<Duration> {
        if attempt > u64::from(self.times) {
            return None;
        }
        let step = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(5);
        let growing = |default: u64| self.delay.unwrap_or(Duration::from_secs(default)).saturating_mul(1 << step);
        match self.advice(report) {
            Advice::No => None,
            Advice::Now => Some(growing(1)),
            Advice::Later => {
                let wait = match report.verdict.retry.at.as_deref().and_then(parse_rfc3339) {
                    // A second more, because clocks differ.
                    Some(at) => {
                        let wait = Duration::from_secs(u64::try_from(at - now + 1).unwrap_or(0)).max(Duration::from_secs(1));
                        wait.max(self.delay.map_or(Duration::ZERO, |_| growing(0)))
                    }
                    // The agent's own waits were not enough.
                    None => asked_for(report).unwrap_or_default().max(growing(30)),
                };
                Some(wait)
            }
        }
    }

    /// Whether to try again: as the verdict says, or after the categories that the user named.
    fn advice(&self, report: &Report) -> Advice {
        let verdict = &report.verdict;
        let named = |category| self.on.contains(&category);
        match verdict.retry.advice {
            advice if self.on.is_empty() => advice,
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
}

/// How long the agent itself was last told to wait.
fn asked_for(report: &Report) -> Option<Duration> {
    report.retries.last()?.delay_ms.as_ref()?.as_u64().map(Duration::from_millis)
}

const GO_ON: &str =
    "Go on where you left off: the last turn was cut short. If nothing is left to do, say so. The task was:\n\n";

impl Agent {
    /// Continues a session of this task that was cut short. The agent is told what the task was.
    pub fn go_on(mut self, session: impl Into<String>) -> Self {
        let told = |prompt: Vec<u8>| [GO_ON.as_bytes(), &prompt].concat();
        self.input = match self.input {
            AgentInput::Prompt(prompt) => AgentInput::Prompt(told(prompt)),
            AgentInput::Messages { prompt, lines } => AgentInput::Messages { prompt: prompt.map(told), lines },
            AgentInput::Nothing => AgentInput::Nothing,
        };
        let extra = (harness::of(self.kind).without_session)(&self.options.extra);
        self.options = Options {
            resume: Some(session.into()),
            continue_last: false,
            fork: false,
            extra,
            ..std::mem::take(&mut self.options)
        };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(rule: RetryRule, advice: Advice, at: Option<&str>, category: Category) -> Vec<Option<u64>> {
        let rule = RetryRule { times: 3, ..rule };
        let mut report = Report::default();
        report.verdict.outcome = Outcome::Failure;
        report.verdict.category = Some(category);
        report.verdict.retry.advice = advice;
        report.verdict.retry.at = at.map(str::to_owned);
        (1..=3).map(|attempt| rule.wait(&report, attempt, 1_000_000_000).map(|wait| wait.as_secs())).collect()
    }

    fn after(seconds: u64) -> RetryRule {
        RetryRule { delay: Some(Duration::from_secs(seconds)), ..RetryRule::default() }
    }

    #[test]
    fn the_waits_double_and_start_where_the_user_says() {
        let default = RetryRule::default;
        assert_eq!(waits(default(), Advice::Now, None, Category::Server), [Some(1), Some(2), Some(4)]);
        assert_eq!(waits(default(), Advice::Later, None, Category::Overloaded), [Some(30), Some(60), Some(120)]);
        assert_eq!(waits(after(5), Advice::Now, None, Category::Server), [Some(5), Some(10), Some(20)]);
        assert_eq!(waits(after(5), Advice::Later, None, Category::Overloaded), [Some(5), Some(10), Some(20)]);
        assert_eq!(waits(after(0), Advice::Now, None, Category::Server), [Some(0); 3]);
    }

    #[test]
    fn a_limit_that_resets_later_is_waited_for() {
        // 60 seconds after 1,000,000,000.
        let at = Some("2001-09-09T01:47:40Z");
        assert_eq!(waits(RetryRule::default(), Advice::Later, at, Category::RateLimit), [Some(61); 3]);
        assert_eq!(waits(after(5), Advice::Later, at, Category::RateLimit), [Some(61); 3]);
        assert_eq!(waits(after(40), Advice::Later, at, Category::RateLimit), [Some(61), Some(80), Some(160)]);
    }

    #[test]
    fn only_the_named_categories_are_tried_again() {
        let named = || RetryRule { on: vec![Category::Auth, Category::Server], ..RetryRule::default() };
        assert_eq!(waits(named(), Advice::No, None, Category::Auth), [Some(1), Some(2), Some(4)]);
        assert_eq!(waits(named(), Advice::Now, None, Category::Server), [Some(1), Some(2), Some(4)]);
        assert_eq!(waits(named(), Advice::Now, None, Category::Network), [None; 3]);
        assert_eq!(waits(RetryRule::default(), Advice::No, None, Category::Auth), [None; 3]);
    }
}
