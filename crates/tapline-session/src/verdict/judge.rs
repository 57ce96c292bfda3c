//! The order in which the evidence counts.

use tapline_protocol::StopReason;

use super::{Advice, Category, Clock, Ending, Exit, ExitClass, Outcome, RetryAdvice, TextFacts, Verdict, Warnings};
use crate::signals::signal_name;
use crate::text::head;

/// What the stream says.
#[derive(Debug, Default)]
pub(crate) struct Evidence<'f> {
    /// Whether a known agent wrote the stream.
    pub(crate) known: bool,
    /// There was not a single line.
    pub(crate) empty: bool,
    /// Whether any object was read.
    pub(crate) objects: bool,
    /// Whether there was any result (for Codex, any ended turn).
    pub(crate) result: bool,
    /// Why the last turn failed, if it did, and the error text.
    pub(crate) failure: Option<(Category, String)>,
    /// Whether the last turn failed because it was aborted.
    pub(crate) aborted: bool,
    /// Whether something else went wrong: an earlier turn failed, a call was denied, or an error came before the turn
    /// was completed.
    pub(crate) blemished: bool,
    /// The number of denied calls.
    pub(crate) denials: u64,
    pub(crate) texts: TextFacts,
    pub(crate) num_turns: Option<u64>,
    pub(crate) stop_reason: Option<&'f str>,
    /// What the stream says of background tasks.
    pub(crate) tasks: TasksEnd,
    /// When a limit that was hit resets.
    pub(crate) resets_at: Option<String>,
    /// Why the stream cannot be read, if it cannot. A retry does not help.
    pub(crate) unsupported: Option<&'f str>,
}

/// What the events of background tasks say at the end of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum TasksEnd {
    /// There is no event for some call that started a task.
    #[default]
    Unknown,
    /// All have ended.
    Ended,
    /// These have not: each was killed, or its end is not in the stream.
    Left(Vec<String>),
}

impl Evidence<'_> {
    /// Returns why work in the background may not be done, if it may not.
    fn unfinished_work(&self, ending: &Ending) -> Option<String> {
        match &self.tasks {
            TasksEnd::Left(names) => Some(format!("work in the background did not end, or was killed: {}", names.join(", "))),
            TasksEnd::Unknown if self.texts.background(self.num_turns) && !ending.no_background_tasks => {
                Some("background tasks may not have finished".to_owned())
            }
            TasksEnd::Unknown | TasksEnd::Ended => None,
        }
    }
}

/// The longest error text, in characters.
pub(crate) const ERROR_LIMIT: usize = 4096;

/// Shortens the text for people.
pub(crate) fn cut(text: &str) -> String {
    match head(text, ERROR_LIMIT) {
        (head, true) => format!("{head} ... (truncated)"),
        (text, false) => text.to_owned(),
    }
}

/// Judges a run.
pub(crate) fn judge(evidence: &Evidence<'_>, ending: &Ending, mut warnings: Warnings) -> Verdict {
    let stderr = ending.stderr.as_deref().map(str::trim).filter(|text| !text.is_empty());
    if let Some(text) = stderr {
        warnings.add("stderr", None, cut(text));
    }
    if !evidence.result {
        let why = if evidence.empty {
            "there is no result: the stream is empty"
        } else if evidence.known {
            "there is no result: the run did not end, or its last lines are missing"
        } else {
            "there is no result that tapline can read: no known agent wrote this stream"
        };
        warnings.add("no-result", None, why);
    }
    let (outcome, mut category, error) = weigh(evidence, ending, stderr);
    if outcome == Outcome::Success && !ending.no_heuristics {
        if evidence.texts.interactive(evidence.num_turns, evidence.stop_reason) {
            category = Some(Category::Interactive);
            warnings.add("interactive-hang", None, "the agent asked a question, and there was nobody to answer it");
        } else if let Some(why) = evidence.unfinished_work(ending) {
            category = Some(Category::BackgroundTask);
            warnings.add("background-task", None, why);
        }
    }
    let stopped = ending.stopped.filter(|_| category == Some(Category::Timeout));
    let clock = stopped.and_then(|reason| Clock::of(reason, ending.limit_ms));
    Verdict {
        outcome,
        category,
        error: error.map(|text| cut(&text)),
        clean: outcome == Outcome::Success && category.is_none() && !evidence.blemished,
        denials: evidence.denials,
        retry: match evidence.unsupported {
            Some(_) => RetryAdvice { advice: Advice::No, at: None },
            None => advise(outcome, category, evidence.resets_at.clone()),
        },
        warnings: warnings.finish(),
        exit: Exit { code: ending.exit_code, signal: ending.signal.clone(), class: class(ending) },
        clock_words: clock.as_ref().map(Clock::words).into(),
        clock,
    }
}

fn weigh(evidence: &Evidence<'_>, ending: &Ending, stderr: Option<&str>) -> (Outcome, Option<Category>, Option<String>) {
    let failed = |category, text: Option<String>| (Outcome::Failure, Some(category), text);
    let exit = ending.exit_code.filter(|code| *code != 0);
    let lingered = ending.stopped == Some(StopReason::Linger);
    let signal = signal(ending).filter(|_| !lingered);
    let exit_text = |code: i32| stderr.map_or_else(|| format!("exited with code {code}"), str::to_owned);

    if let Some(why) = &ending.not_started {
        return failed(Category::Startup, Some(why.clone()));
    }
    if let Some(rule) = &ending.violated {
        return failed(Category::Policy, Some(format!("policy violated: {rule}")));
    }
    if !evidence.objects
        && ending.stopped.is_none_or(|reason| reason == StopReason::Linger)
        && signal.is_none()
        && let (Some(_), Some(text)) = (exit, stderr)
    {
        return failed(Category::Startup, Some(text.to_owned()));
    }
    if ending.stopped.is_some_and(StopReason::is_timeout) {
        return failed(Category::Timeout, Some("timeout".to_owned()));
    }
    let interrupted = (Outcome::Interrupted, Some(Category::Interrupted), Some("interrupted".to_owned()));
    if ending.stopped.is_some_and(StopReason::is_interrupt) || evidence.aborted {
        return interrupted;
    }
    if let Some((category, text)) = &evidence.failure {
        return failed(*category, Some(text.clone()));
    }
    match signal {
        Some(name) if name == "SIGINT" => return interrupted,
        Some(name) => return failed(Category::Killed, Some(format!("killed by {name}"))),
        None => {}
    }
    match (exit.filter(|_| !lingered), evidence.result) {
        (Some(code), _) => failed(Category::Exit, Some(evidence.unsupported.map_or_else(|| exit_text(code), str::to_owned))),
        (None, false) => (Outcome::Incomplete, Some(Category::NoResult), evidence.unsupported.map(str::to_owned)),
        (None, true) => (Outcome::Success, None, None),
    }
}

/// The signals that an exit code of 128 + n stands for. Other codes above 128 are an agent's own (145 of one ends a turn limit).
const BY_EXIT_CODE: &[i32] = &[1, 2, 3, 6, 9, 11, 13, 15];

/// Returns the signal that ended the process: as reported, or from an exit code of 128 + n.
fn signal(ending: &Ending) -> Option<String> {
    if let Some(name) = &ending.signal {
        return Some(name.clone());
    }
    ending.exit_code?.checked_sub(128).filter(|number| BY_EXIT_CODE.contains(number)).map(signal_name)
}

fn class(ending: &Ending) -> ExitClass {
    match (ending.exit_code, ending.signal.as_deref()) {
        (Some(0), _) => ExitClass::Success,
        (Some(1), _) => ExitClass::Error,
        (Some(2), _) => ExitClass::InputError,
        (Some(130), _) | (None, Some("SIGINT")) => ExitClass::Interrupted,
        (Some(_), _) | (None, Some(_)) => ExitClass::Other,
        (None, None) => ExitClass::Unknown,
    }
}

fn advise(outcome: Outcome, category: Option<Category>, resets_at: Option<String>) -> RetryAdvice {
    let advice = match (outcome, category) {
        (Outcome::Failure, Some(Category::RateLimit | Category::Overloaded)) => Advice::Later,
        (Outcome::Failure, Some(Category::Server | Category::Network)) | (Outcome::Incomplete, _) => Advice::Now,
        (Outcome::Success | Outcome::Failure | Outcome::Interrupted, _) => Advice::No,
    };
    RetryAdvice { advice, at: resets_at.filter(|_| advice == Advice::Later) }
}
