//! One honest verdict from everything that is known: the stream, the exit status, the signal, and stderr.

mod category;
mod heuristics;
mod judge;
mod warned;

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tapline_protocol::StopReason;

use crate::exit;
use crate::time::plain_duration;

pub use category::Category;
pub(crate) use category::{CONNECTION, named_in, of_words};
pub(crate) use heuristics::{TextFacts, says_waiting};
pub(crate) use judge::{ERROR_LIMIT, Evidence, TasksEnd, judge};
pub use warned::{UnknownWarning, Warned, warning_code};

use crate::unwritten::Unwritten;
use crate::words::words;

/// Facts about a run that its stream does not contain.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// The exit code, if it is known.
    pub exit_code: Option<i32>,
    /// The name of the signal that ended the process (`SIGTERM`).
    pub signal: Option<String>,
    /// What the agent wrote to stderr.
    pub stderr: Option<String>,
    /// Why the run was stopped, if it was. A process that was stopped because it kept running after its final result is
    /// judged by that result.
    pub stopped: Option<StopReason>,
    /// The limit of the clock that stopped it, in milliseconds.
    pub limit_ms: Option<u64>,
    /// The rule that the run broke.
    pub violated: Option<String>,
    /// Why the agent could not be started, if it could not.
    pub not_started: Option<String>,
    /// Codex's `--output-last-message` file.
    pub last_message: Option<String>,
    /// Turns off the advisory categories.
    pub no_heuristics: bool,
    /// Whether the agent was told to run no background tasks.
    pub no_background_tasks: bool,
}

words! {
    /// How a run ended.
    pub enum Outcome {
        /// The agent reports success.
        Success = "success",
        /// The run failed.
        Failure = "failure",
        /// A person or program stopped the run.
        Interrupted = "interrupted",
        /// There is no result.
        Incomplete = "incomplete",
    } else Incomplete
}

/// Whether a retry can help.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RetryAdvice {
    /// The advice.
    pub advice: Advice,
    /// The earliest time (RFC 3339), if the stream has it.
    pub at: Option<String>,
}

words! {
    /// When a retry can help.
    pub enum Advice {
        /// A retry cannot help.
        No = "no",
        /// Immediately.
        Now = "now",
        /// After some time.
        Later = "later",
    } else No
}

/// The codes of [`Warning`]s that this version gives. Later versions may add more.
pub const WARNING_CODES: &[&str] = &[
    "malformed-line",
    "truncated-tail",
    "line-too-long",
    "unknown-type",
    "no-result",
    "result-gap",
    "duplicate-result",
    "earlier-turn-failed",
    "zero-turns",
    "max-tokens",
    "permission-denied",
    "orphan-result",
    "pending-call",
    "interactive-hang",
    "background-task",
    "stderr",
    "recording-incomplete",
    "dropped-events",
    "last-message-fallback",
    "deprecation",
    "reconnect",
    "stream-error",
    "unsupported-version",
    "plugin-error",
    "safety-stop",
    "implausible-figure",
];

/// The codes of the [`Warning`]s that make a success not [`clean`](Verdict::clean). A success without one of them is clean.
pub const UNCLEAN_CODES: &[&str] =
    &["earlier-turn-failed", "permission-denied", "interactive-hang", "background-task", "stream-error"];

/// Something that deserves attention, whatever the outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Warning {
    /// A stable code: `malformed-line`, `no-result`, …
    pub code: Cow<'static, str>,
    /// The message.
    pub message: String,
    /// The line that caused it, if one did.
    pub line: Option<u64>,
}

impl Warning {
    /// Creates a warning without a line.
    pub fn new(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), line: None }
    }
}

words! {
    /// What an exit status means, roughly.
    pub enum ExitClass {
        /// Exit code 0.
        Success = "success",
        /// Exit code 1.
        Error = "error",
        /// Exit code 2.
        InputError = "input-error",
        /// Exit code 130 or SIGINT.
        Interrupted = "interrupted",
        /// Another code or signal.
        Other = "other",
        /// Neither code nor signal is known.
        Unknown = "unknown",
    } else Unknown
}

/// How the process ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Exit {
    /// The exit code.
    pub code: Option<i32>,
    /// The name of the signal.
    pub signal: Option<String>,
    /// The exit code or signal as a class.
    pub class: ExitClass,
}

/// The outcome of a run.
///
/// ```
/// use tapline_session::{Category, Ending, Fold, Outcome};
///
/// // A stream without a result is never a success.
/// let verdict = Fold::default().finish(&Ending { exit_code: Some(0), ..Ending::default() }).verdict;
/// assert_eq!((verdict.outcome, verdict.category), (Outcome::Incomplete, Some(Category::NoResult)));
/// assert_eq!(verdict.exit_code(), 4);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Verdict {
    /// How the run ended.
    pub outcome: Outcome,
    /// The reason, if there is one.
    pub category: Option<Category>,
    /// The error message for people: at most 4096 characters, then ` ... (truncated)`.
    pub error: Option<String>,
    /// Whether the run succeeded with no category, no failed turn, no denied call, and no error on the way.
    pub clean: bool,
    /// The number of tool calls that were denied. Each has a warning.
    #[serde(skip_serializing_if = "is_zero")]
    pub denials: u64,
    /// Whether a retry can help.
    pub retry: RetryAdvice,
    /// Everything that deserves attention.
    pub warnings: Vec<Warning>,
    /// How the process ended.
    pub exit: Exit,
    /// The clock that ended the run, if it is a timeout and the limit is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// The same in words for people. `error` only says `timeout`.
    #[serde(skip)]
    pub clock_words: Unwritten<Option<String>>,
}

/// A clock that ended a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Clock {
    /// `timeout` for the whole run, or `idle-timeout` for silence.
    pub name: Cow<'static, str>,
    /// The limit in milliseconds.
    pub ms: u64,
}

impl Clock {
    /// Returns the clock that stopped a run for this reason, if a timeout did.
    pub fn of(reason: StopReason, limit_ms: Option<u64>) -> Option<Self> {
        let name = reason.clock().filter(|_| reason.is_timeout())?;
        Some(Self { name: name.into(), ms: limit_ms? })
    }

    /// Says which clock it was, and how long it ran: `timeout: no output for 5m (--idle-timeout)`.
    pub fn words(&self) -> String {
        let (name, limit) = (&self.name, plain_duration(Duration::from_millis(self.ms)));
        match &**name {
            "timeout" => format!("timeout: {limit} passed (--{name})"),
            _ => format!("timeout: no output for {limit} (--{name})"),
        }
    }
}

impl Verdict {
    /// Returns the error message for people. For a timeout it also names the clock, if it is known.
    pub fn error_for_people(&self) -> Option<&str> {
        let clock = self.clock_words.as_deref().filter(|_| self.category == Some(Category::Timeout));
        clock.or(self.error.as_deref())
    }

    /// Returns the warnings for people. If tapline or a person stopped the run, it is clear why there is no result.
    pub fn warnings_for_people(&self) -> Vec<&Warning> {
        let is_stopped = matches!(self.category, Some(Category::Timeout | Category::Interrupted | Category::Policy));
        self.warnings.iter().filter(|warning| !(is_stopped && warning.code == "no-result")).collect()
    }

    /// Returns the first warning that makes a success not [`clean`](Self::clean).
    pub fn doubt(&self) -> Option<&Warning> {
        let is_doubt = |warning: &&Warning| UNCLEAN_CODES.contains(&&*warning.code);
        self.warnings.iter().find(is_doubt).filter(|_| self.outcome == Outcome::Success)
    }

    /// Returns the class of its error in one word, if it is a failure.
    pub fn error_class(&self) -> Option<&'static str> {
        (self.outcome == Outcome::Failure).then(|| self.category.map_or("error", Category::word))
    }

    /// Returns the verdict as in the report.
    pub fn to_json(&self) -> Option<tapline_protocol::Json> {
        serde_json::to_string(self).ok().and_then(|text| tapline_protocol::Json::parse(&text).ok())
    }

    /// Turns the verdict into a failure, for a reason outside the stream.
    pub fn fail(&mut self, category: Category, error: String) {
        self.outcome = Outcome::Failure;
        self.category = Some(category);
        self.error = Some(error);
        self.clean = false;
        self.clock = None;
        self.retry = RetryAdvice { advice: Advice::No, at: None };
    }

    /// Returns tapline's exit code for this verdict.
    pub fn exit_code(&self) -> u8 {
        match (self.outcome, self.category) {
            (Outcome::Success, _) => exit::SUCCESS,
            (Outcome::Failure, Some(Category::Timeout)) => exit::TIMEOUT,
            (Outcome::Failure, Some(Category::Policy)) => exit::VIOLATED,
            (Outcome::Failure, _) => exit::FAILED,
            (Outcome::Incomplete, _) => exit::INCOMPLETE,
            (Outcome::Interrupted, _) if self.exit.code == Some(143) || self.exit.signal.as_deref() == Some("SIGTERM") => {
                exit::TERMINATED
            }
            (Outcome::Interrupted, _) => exit::INTERRUPTED,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Warnings, limited to what people can read: the first thousand with each code, and a count of the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings {
    list: Vec<Warning>,
    counts: std::collections::BTreeMap<&'static str, usize>,
}

impl Warnings {
    const PER_CODE: usize = 1_000;

    pub(crate) fn add(&mut self, code: &'static str, line: Option<u64>, message: impl Into<String>) {
        let count = self.counts.entry(code).or_default();
        *count += 1;
        if *count <= Self::PER_CODE {
            self.list.push(Warning { line, ..Warning::new(code, message) });
        }
    }

    /// Replaces all warnings with this code by one, in the place of the first.
    pub(crate) fn join(&mut self, code: &'static str, message: String) {
        let first = self.list.iter().position(|warning| warning.code == code);
        let Some(first) = first else { return };
        self.list[first].message = message;
        let mut at = 0;
        self.list.retain(|warning| {
            at += 1;
            warning.code != code || at - 1 == first
        });
        self.counts.insert(code, 1);
    }

    pub(crate) fn finish(mut self) -> Vec<Warning> {
        for (code, count) in self.counts {
            if count > Self::PER_CODE {
                let message = format!("and {} more of these", count - Self::PER_CODE);
                self.list.push(Warning::new(code, message));
            }
        }
        self.list
    }
}
