//! The result of a job: what its runs came to. Every job of a batch has exactly one.

use serde::{Deserialize, Serialize};
use tapline_protocol::{Json, Tokens, by_kind};
use tapline_session::render::{Style, glance};
use tapline_session::text::{one_line, visible};
use tapline_session::{Category, Outcome, Report, Verdict, Warned, Warning, cost_text, exit};

/// The result of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct JobResult {
    /// The job's name.
    pub job: String,
    /// The step that the job belongs to.
    pub step: String,
    /// The label of its runs.
    pub label: String,
    /// The agent's name.
    pub agent: String,
    /// How it ended.
    pub outcome: JobOutcome,
    /// Why it did not succeed, as in a report.
    pub category: Option<Category>,
    /// The same in words.
    pub error: Option<String>,
    /// The exit code that `tapline run` would have had.
    pub exit_code: u8,
    /// The agent's answer.
    pub answer: Option<String>,
    /// The structured answer, if one was asked for.
    pub structured: Option<Json>,
    /// The session's id.
    pub session: Option<String>,
    /// What all runs of the job cost, if the agent says it.
    pub cost_usd: Option<f64>,
    /// Whether they cost at least that, because the agent did not count all of their requests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// What all runs of the job used.
    #[serde(with = "by_kind")]
    pub tokens: Tokens,
    /// How many runs there were.
    pub attempts: u64,
    /// When the last one began.
    pub started_at: Option<String>,
    /// How long the last one took.
    pub duration_ms: Option<u64>,
    /// Where the last one is recorded.
    pub recording: Option<String>,
    /// The branch with what the agent changed.
    pub branch: Option<String>,
    /// The patch with what the agent changed.
    pub patch: Option<String>,
    /// What deserves attention, as in a report.
    pub warnings: Vec<String>,
    /// The number of denied calls.
    pub denials: u64,
    /// Why a success is not clean, if it is not: the first warning that makes it so.
    pub doubt: Option<String>,
    /// The name of the worker that it comes from, if the batch has an engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobOutcome {
    /// The agent reports success.
    Success,
    /// It failed.
    Failure,
    /// Somebody stopped its run.
    Interrupted,
    /// There is no result.
    #[default]
    Incomplete,
    /// It was not started: its condition did not hold, or a job that it needs did not succeed.
    Skipped,
}

impl JobOutcome {
    /// Returns the word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Interrupted => "interrupted",
            Self::Incomplete => "incomplete",
            Self::Skipped => "skipped",
        }
    }
}

impl From<Outcome> for JobOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success => Self::Success,
            Outcome::Failure => Self::Failure,
            Outcome::Interrupted => Self::Interrupted,
            Outcome::Incomplete => Self::Incomplete,
        }
    }
}

impl JobResult {
    /// The result at a glance, as `tapline run` shows it: `! JOB success · 1 call denied`.
    pub fn glance(&self, style: Style) -> String {
        self.words(&self.job, style)
    }

    /// The same with another name.
    pub(crate) fn words(&self, name: &str, style: Style) -> String {
        let name = visible(&one_line(name)).into_owned();
        let mut verdict = Verdict::default();
        verdict.outcome = match self.outcome {
            JobOutcome::Success => Outcome::Success,
            JobOutcome::Failure => Outcome::Failure,
            JobOutcome::Interrupted => Outcome::Interrupted,
            JobOutcome::Incomplete => Outcome::Incomplete,
            JobOutcome::Skipped => {
                let gap = if name.is_empty() { "" } else { " " };
                return format!("{}–{} {name}{gap}{}", style.dim, style.reset, self.outcome.word());
            }
        };
        (verdict.category, verdict.denials, verdict.clean) = (self.category, self.denials, self.doubt.is_none());
        glance(&verdict, &name, style)
    }

    /// What all runs of the job cost, as people read it.
    pub fn cost(&self) -> Option<String> {
        cost_text(self.cost_usd, self.at_least)
    }

    /// Why it did not succeed, or why its success is not clean.
    pub fn why(&self) -> Option<&str> {
        let error = self.error.as_ref().filter(|_| self.outcome != JobOutcome::Success);
        error.or(self.doubt.as_ref()).map(String::as_str)
    }

    /// Whether it failed: neither a success nor skipped.
    pub fn is_failure(&self) -> bool {
        !matches!(self.outcome, JobOutcome::Success | JobOutcome::Skipped)
    }

    /// The result of a job that was not started.
    pub(crate) fn skipped(job: &str, step: &str, why: String) -> Self {
        Self { job: job.to_owned(), step: step.to_owned(), outcome: JobOutcome::Skipped, error: Some(why), ..Self::default() }
    }

    /// The result of a job that could not be started.
    pub(crate) fn not_started(job: &str, step: &str, why: String, exit_code: u8) -> Self {
        let outcome = JobOutcome::Failure;
        let category = Some(Category::Startup);
        Self { job: job.to_owned(), step: step.to_owned(), outcome, category, error: Some(why), exit_code, ..Self::default() }
    }

    /// Takes over what a report says.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast from float to integer saturates")]
    pub(crate) fn told(self, report: &Report) -> Self {
        let verdict = &report.verdict;
        let structured =
            report.structured.clone().or_else(|| report.turns.last().and_then(|turn| turn.structured_output.clone()));
        let words = |warning: &Warning| format!("{}: {}", warning.code, warning.message);
        let warnings = verdict.warnings.iter().map(words).collect();
        Self {
            outcome: verdict.outcome.into(),
            category: verdict.category,
            error: verdict.error_for_people().map(str::to_owned).filter(|_| verdict.outcome != Outcome::Success),
            exit_code: verdict.exit_code(),
            answer: report.answer.clone(),
            structured,
            session: report.session.id.clone(),
            cost_usd: report.ledger.cost_usd,
            at_least: report.ledger.at_least,
            tokens: report.ledger.tokens,
            attempts: report.run.attempts,
            started_at: report.run.started_at.clone(),
            duration_ms: report.took_ms().map(|ms| ms.round() as u64),
            recording: report.run.recording.clone(),
            warnings,
            denials: verdict.denials,
            doubt: verdict.doubt().map(words),
            ..self
        }
    }

    /// Counts a success with such warnings as a failure.
    pub(crate) fn failed_for(self, warned: Option<Warned<'_>>) -> Self {
        match warned.filter(|_| self.outcome == JobOutcome::Success) {
            Some(warned) => Self {
                outcome: JobOutcome::Failure,
                error: Some(warned.to_string()),
                exit_code: exit::FAILED,
                doubt: None,
                ..self
            },
            None => self,
        }
    }
}

/// Returns the exit code of a batch: that of the worst result. Success is best, a job that was interrupted is worst.
pub fn worst_exit_code<'r>(results: impl IntoIterator<Item = &'r JobResult>) -> u8 {
    const ORDER: &[u8] = &[
        exit::SUCCESS,
        exit::INCOMPLETE,
        exit::FAILED,
        exit::TIMEOUT,
        exit::VIOLATED,
        exit::USAGE,
        exit::NOT_EXECUTABLE,
        exit::NOT_FOUND,
        exit::TERMINATED,
        exit::INTERRUPTED,
    ];
    let place = |code: u8| ORDER.iter().position(|known| *known == code).unwrap_or(1);
    results.into_iter().map(|result| result.exit_code).max_by_key(|code| place(*code)).unwrap_or(exit::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_result_decides_about_the_exit_code() {
        let results = |codes: &[u8]| -> Vec<JobResult> {
            codes.iter().map(|code| JobResult { exit_code: *code, ..JobResult::default() }).collect()
        };
        for (codes, worst) in
            [(&[][..], 0), (&[0, 0], 0), (&[0, 4], 4), (&[4, 1, 0], 1), (&[1, 124], 124), (&[3, 124], 3), (&[127, 3], 127)]
        {
            assert_eq!(worst_exit_code(&results(codes)), worst, "{codes:?}");
        }
    }

    #[test]
    fn a_result_is_read_back_as_it_was_written() {
        let result = JobResult {
            outcome: JobOutcome::Failure,
            category: Some(Category::RateLimit),
            structured: Json::parse("{\"a\": [1.10, 12345678901234567890123]}").ok(),
            ..JobResult::default()
        };
        let text = serde_json::to_string(&result).unwrap_or_default();
        assert_eq!(serde_json::from_str::<JobResult>(&text).ok(), Some(result));
    }
}
