//! Runs a job once, recorded like any run: `tapline run` with the same options gives the same recording.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tapline_archive::{Source, SourceOptions, fold_resumes, list_price, used_before};
use tapline_protocol::{Agent as Kind, Json, Reader};
use tapline_recording::{Beneath, Recording, Redactor, Store, Stream, Sync, attempt_folder};
use tapline_runner::{Agent, GuardProgram, RecordTo, Running, Update, report};
use tapline_session::policy::{PolicyChecker, Violation};
use tapline_session::text::{one_line, with_causes};
use tapline_session::{Category, Fold, Ledger, Outcome, Report, Step, Warned, Warning, What, exit, parse_rfc3339};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::job::Job;
use crate::note::{AccountLimit, RunAgain};
use crate::result::JobResult;
use crate::state::Begun;
use crate::worktree::{ELSEWHERE, Worktree};

/// What whoever runs jobs adds to them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Workplace {
    /// Where runs are recorded.
    pub store: Store,
    /// Stops what is left of a run if this program is killed.
    pub guard: Option<GuardProgram>,
    /// Finds secrets.
    pub redactor: Redactor,
    /// Whether secrets are replaced in recordings and results.
    pub redact: bool,
    /// Environment variables for every agent.
    pub environment: Vec<(OsString, Option<OsString>)>,
}

impl Workplace {
    /// A place with this store.
    pub fn new(store: Store) -> Self {
        Self { store, guard: None, redactor: Redactor::default(), redact: false, environment: Vec::new() }
    }
}

/// A run of a job, to be made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The job.
    pub job: Job,
    /// 1 is the first run of the job.
    pub number: u64,
    /// Where the first run of the job is recorded.
    pub recording: PathBuf,
    /// What is known of earlier runs.
    pub(crate) before: Begun,
}

/// What happens while a job runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum JobNews {
    /// The agent does something: a line for people.
    Doing {
        /// The job's name.
        job: String,
        /// What.
        what: String,
    },
    /// The limit of its account is reached.
    Limit(AccountLimit),
    /// News of the engine that makes the runs.
    Engine(EngineNews),
}

/// What an engine tells besides the runs. The list is exhaustive on purpose: whoever shows a batch decides about each kind.
#[derive(Clone, Debug)]
pub enum EngineNews {
    /// There are so many workers now, and they have so many places for runs.
    Workers {
        /// How many workers there are.
        workers: usize,
        /// How many runs they make at once.
        places: usize,
    },
    /// Jobs wait, because no worker that is there takes them. With 0 jobs: one has come.
    NoWorker {
        /// What no worker does: `has gpu=yes`.
        missing: String,
        /// How many jobs wait for it.
        jobs: usize,
    },
    /// A worker died, or nobody heard of it for long, and the run that it made is made again.
    Gone {
        /// The name of the worker.
        worker: String,
        /// The job's name.
        job: String,
        /// The name of the worker that makes the next run.
        by: String,
        /// Whether that is the same one, started again.
        is_same: bool,
        /// The number of the next run.
        attempt: u64,
    },
    /// Something keeps the engine from going on for now. It tries again.
    Trouble(String),
}

/// How a run can be watched and stopped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Watch {
    /// Takes news.
    pub news: mpsc::UnboundedSender<JobNews>,
    /// Whether somebody wants to know what the agent does.
    pub doing: bool,
    /// How often somebody asked to stop: once to end the run properly, twice to kill it.
    pub stop: watch::Receiver<u32>,
}

/// How a run ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AttemptEnd {
    /// The job has a result.
    Over(Box<JobResult>),
    /// The job is tried again.
    Again(RunAgain),
    /// Somebody stopped the run. The job goes on later.
    CutOff,
}

/// How a cut-off run can go on.
#[derive(Debug)]
pub(crate) enum Remains {
    /// The run had ended, only its result was not noted.
    Ended(Box<Report>),
    /// Its session can go on.
    Session(String),
    /// It must begin again.
    Nothing,
}

/// Looks at what is left of a run that was cut off.
pub(crate) fn remains(job: &Job, folder: &Path) -> Remains {
    let Ok(recording) = Recording::open(folder) else { return Remains::Nothing };
    let open = || Source::open(folder, SourceOptions::default().with_agent(job.agent)).ok();
    let report = || open()?.report().ok().map(|report| Box::new(judged(job, folder, report)));
    let stopped = recording.end.as_ref().is_none_or(|end| end.stop.is_some_and(|stop| stop.reason.is_interrupt()));
    if !stopped {
        return report().map_or(Remains::Nothing, Remains::Ended);
    }
    let Some(mut source) = open() else { return Remains::Nothing };
    let (mut session, mut worked, mut over) = (None, false, false);
    while let Ok(Some((_, steps))) = source.advance() {
        for step in steps {
            // Before its first words the agent may not have kept the session.
            worked |= matches!(step.what, What::Text(_) | What::Call(_) | What::Turn(_));
            over = match step.what {
                What::Turn(_) => true,
                What::Quiet { .. } | What::Notice(_) | What::RateLimit(_) | What::Hook(_) => over,
                _ => false,
            };
            session = step.session_id.or(session);
        }
    }
    // It had written its result, and only its process had not ended.
    if over
        && recording.end.is_none()
        && let Some(report) = report()
        && matches!(report.verdict.outcome, Outcome::Success | Outcome::Failure)
    {
        return Remains::Ended(report);
    }
    session.filter(|_| worked).map_or(Remains::Nothing, Remains::Session)
}

/// Checks a recorded run against the policy of its job.
fn judged(job: &Job, folder: &Path, mut report: Report) -> Report {
    let Some(mut policy) = job.policy.as_ref().map(|policy| PolicyChecker::new(policy.rules.clone())) else { return report };
    let Ok(mut source) = Source::open(folder, SourceOptions::default().with_agent(job.agent)) else { return report };
    let mut broken = Vec::new();
    while let Ok(Some((_, steps))) = source.advance() {
        broken.extend(steps.iter().flat_map(|step| policy.accept(step)));
    }
    broken.extend(policy.rejected(&source.finish().summary.rejected));
    let took = report.run.duration_ms.map(Duration::from_millis);
    broken.extend(policy.conclude(!broken.is_empty(), report.verdict.exit_code() == 0, took));
    if let Some(first) = broken.first().filter(|_| report.verdict.category != Some(Category::Policy)) {
        report.verdict.fail(Category::Policy, format!("policy violated: {}", told(first)));
    }
    report
}

/// Runs one attempt of a job, in this worktree if it has one.
pub(crate) async fn run(place: &Workplace, attempt: &Attempt, worktree: Option<&Worktree>, watch: Watch) -> AttemptEnd {
    let Attempt { job, number, recording, before } = attempt;
    let folder = attempt_folder(recording.clone(), *number);
    let agent = agent(place, attempt, worktree, &folder);
    let running = match agent.start().await {
        Ok(running) => running.collect_for(["answer", "structured", "turns", "retries", "session.id"]),
        Err(error) => {
            let result = JobResult::not_started(&job.name, &job.step, with_causes(&error), error.exit_code());
            return AttemptEnd::Over(Box::new(JobResult { attempts: *number, ..of(job, result) }));
        }
    };
    let stop = watch.stop.clone();
    let mut report = follow(job, running, watch).await;
    report.run.attempts = *number;
    let (amended, first, number) = (report.clone(), recording.clone(), *number);
    let told = tokio::task::spawn_blocking(move || settle(&folder, amended, &first, number)).await;
    let report = told.unwrap_or(report);
    let was_stopped = *stop.borrow() > 0;
    if was_stopped && report.verdict.outcome == Outcome::Interrupted {
        return AttemptEnd::CutOff;
    }
    decide(place, job, before.retries, &report)
}

/// Decides what becomes of a job whose run ended like this.
pub(crate) fn decide(place: &Workplace, job: &Job, retries: u64, report: &Report) -> AttemptEnd {
    let now = unix_now();
    let clean = |text: String| if place.redact { place.redactor.text(&text).into_owned() } else { text };
    let policy = report.verdict.category == Some(Category::Policy);
    if let Some(wait) = job.retry.wait(report, retries + 1, now).filter(|_| !policy) {
        return AttemptEnd::Again(RunAgain {
            job: job.name.clone(),
            at: now.saturating_add(i64::try_from(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).unwrap_or(i64::MAX)),
            session: report.session.id.clone(),
            cost_usd: report.ledger.cost_usd,
            error: report.verdict.error_for_people().map(one_line).map(clean),
        });
    }
    let warned = Warned::of(&report.verdict, &job.fail_on, job.require_clean);
    let mut result = of(job, JobResult::default()).told(report).failed_for(warned);
    if place.redact {
        result.answer = result.answer.map(clean);
        result.error = result.error.map(clean);
        result.warnings = result.warnings.into_iter().map(clean).collect();
        result.doubt = result.doubt.map(clean);
        result.structured = result.structured.and_then(|json| Json::parse(&place.redactor.text(json.as_str())).ok());
    }
    AttemptEnd::Over(Box::new(result))
}

/// Says whose result it is.
fn of(job: &Job, result: JobResult) -> JobResult {
    JobResult {
        job: job.name.clone(),
        step: job.step.clone(),
        label: job.label.clone(),
        agent: job.agent.name().to_owned(),
        ..result
    }
}

/// The result of a job whose run was cut off and does not go on.
pub(crate) fn given_up(attempt: &Attempt) -> JobResult {
    let error = "its run was cut off, and `cut_off` says that this is a failure".to_owned();
    let result = JobResult::not_started(&attempt.job.name, &attempt.job.step, error, exit::INCOMPLETE);
    let recording = Some(attempt_folder(attempt.recording.clone(), attempt.before.attempts).display().to_string());
    JobResult { category: Some(Category::Killed), attempts: attempt.before.attempts, recording, ..of(&attempt.job, result) }
}

fn agent(place: &Workplace, attempt: &Attempt, worktree: Option<&Worktree>, folder: &Path) -> Agent {
    let mut agent = attempt.job.agent();
    if let Some(worktree) = worktree {
        agent.cwd = Some(worktree.cwd());
        // With these, the agent's git would work on the user's own checkout.
        agent.environment.remove.extend(ELSEWHERE.iter().map(Into::into));
    }
    agent.environment.set.extend(place.environment.iter().cloned());
    agent.record = Some(RecordTo { folder: folder.to_owned(), sync: Sync::default(), redact: place.redact });
    agent.redactor = place.redactor.clone();
    agent.guard.clone_from(&place.guard);
    if let Some(session) = &attempt.before.session {
        agent = agent.go_on(session);
    }
    agent.pricing = Some(list_price);
    let variable = |name: &str| agent.variable(name).map(PathBuf::from);
    agent.options.session_before = agent.options.resume.as_deref().and_then(|id| used_before(agent.kind, id, &variable));
    agent
}

/// Follows a run to its end, and reports on it.
async fn follow(job: &Job, mut running: Running, watch: Watch) -> Report {
    let Watch { news, doing, mut stop } = watch;
    let mut policy = job.policy.as_ref().map(|policy| PolicyChecker::new(policy.rules.clone()));
    let (mut broken, mut lost) = (Vec::<Violation>::new(), Vec::new());
    let limit = policy.as_ref().and_then(PolicyChecker::seconds).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let late = limit.and_then(|limit| Instant::now().checked_add(limit));
    let (mut told_stops, mut listens) = (0, true);
    loop {
        let asked = *stop.borrow_and_update();
        while told_stops < asked {
            running.stopper().interrupt();
            told_stops += 1;
        }
        let update = tokio::select! {
            update = running.next_update() => update,
            changed = stop.changed(), if listens => {
                listens = changed.is_ok();
                continue;
            }
            () = sleep_until(late), if broken.is_empty() && late.is_some() => {
                if let Some(violation) = policy.as_ref().and_then(PolicyChecker::too_long) {
                    running.stopper().violated(told(&violation));
                    broken.push(violation);
                }
                continue;
            }
        };
        let Some(update) = update else { break };
        if let Some(policy) = &mut policy {
            let found: Vec<Violation> = update.steps().iter().flat_map(|step| policy.accept(step)).collect();
            if let Some(first) = found.first() {
                running.stopper().violated(told(first));
            }
            broken.extend(found);
        }
        update.steps().iter().for_each(|step| tell(job, step, &news, doing));
        match update {
            Update::Lost(what) => lost.push(what),
            Update::Record(_)
            | Update::Sent(_)
            | Update::Stderr(_)
            | Update::Stopping(_)
            | Update::Left(_)
            | Update::Over(_)
            | Update::Settled(_)
            | Update::Trouble(_) => {}
        }
    }
    let (conclusion, collector, run) = running.conclude().await;
    let good = conclusion.summary.verdict.exit_code() == 0;
    if let Some(policy) = &mut policy {
        broken.extend(policy.rejected(&conclusion.summary.rejected));
        broken.extend(policy.conclude(!broken.is_empty(), good, run.duration_ms.map(Duration::from_millis)));
    }
    let mut report = report(collector, &conclusion, run);
    if let Some(first) = broken.first() {
        report.verdict.fail(Category::Policy, format!("policy violated: {}", told(first)));
    }
    report.verdict.warnings.extend(lost.iter().map(|message| Warning::new("recording-incomplete", message)));
    if let Some(limit) = limit_of(job, &report) {
        let _ = news.send(JobNews::Limit(limit));
    }
    report
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Describes a broken rule.
fn told(violation: &Violation) -> String {
    let line = violation.line.map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("{line}{}: {}", violation.rule, violation.message)
}

/// Tells others what they should know of a step.
fn tell(job: &Job, step: &Step, news: &mpsc::UnboundedSender<JobNews>, doing: bool) {
    let what = match &step.what {
        What::Call(call) if doing => one_line(beginning(&call.title)),
        What::Text(said) if doing => one_line(beginning(&said.text)),
        What::RateLimit(limit) if limit.status.as_deref() == Some("rejected") => {
            if let Some(until) = limit.resets_at.as_deref().and_then(parse_rfc3339) {
                let _ = news.send(JobNews::Limit(AccountLimit { account: job.account.clone(), until }));
            }
            return;
        }
        _ => return,
    };
    let _ = news.send(JobNews::Doing { job: job.name.clone(), what });
}

/// As much of a text as a line has room for.
fn beginning(text: &str) -> &str {
    let text = text.trim_start();
    text.char_indices().nth(200).map_or(text, |(end, _)| &text[..end])
}

/// The limit that ended a run, if it says until when.
fn limit_of(job: &Job, report: &Report) -> Option<AccountLimit> {
    let reached = report.verdict.category == Some(Category::RateLimit);
    let until = report.verdict.retry.at.as_deref().and_then(parse_rfc3339).filter(|_| reached)?;
    Some(AccountLimit { account: job.account.clone(), until })
}

/// Adds to the recording what was found after it was closed, so that it is read as the run was reported. Counts what earlier runs of the
/// job cost: the first is recorded there, and this one has this number.
pub(crate) fn settle(folder: &Path, mut report: Report, first: &Path, number: u64) -> Report {
    report.run.attempts = number;
    let several = number > 1;
    if several {
        report.ledger = of_all(report.agent, first, number);
    }
    let Ok(mut recording) = Recording::open(folder) else { return report };
    let Some(mut end) = recording.end.clone() else { return report };
    if several {
        end.attempts = Some(report.run.attempts);
        end.ledger = serde_json::to_string(&report.ledger).ok().and_then(|text| Json::parse(&text).ok());
    }
    if report.verdict.category == Some(Category::Policy) {
        end.violated =
            report.verdict.error.as_deref().and_then(|error| error.strip_prefix("policy violated: ")).map(str::to_owned);
    }
    if recording.end.as_ref() != Some(&end) {
        end.verdict = report.verdict.to_json();
        if let Err(error) = recording.amend(end) {
            let warning = Warning::new("recording-incomplete", with_causes(&error));
            report.verdict.warnings.push(warning);
        }
    }
    report
}

/// What the runs of a job used, up to the one with this number. A resumed session continues its count, so a plain sum would be wrong.
fn of_all(agent: Option<Kind>, first: &Path, number: u64) -> Ledger {
    let mut whole = Fold::for_agent(agent).priced_by(list_price);
    if let Ok(recording) = Recording::open(first) {
        fold_resumes(&mut whole, &recording);
    }
    for folder in (1..=number).map(|number| attempt_folder(first.to_owned(), number)) {
        // A copy is the run of another worker, which has noted what it cost.
        if folder.join(COLLECTED).exists() {
            continue;
        }
        let records = Beneath::file_in(&folder, Stream::Stdout.file_name())
            .into_iter()
            .flat_map(|file| Reader::new(BufReader::new(file)));
        records.flatten().for_each(|record| drop(whole.apply(&record)));
    }
    whole.ledger()
}

/// The file that says that a recording is a copy.
pub(crate) const COLLECTED: &str = "collected.json";

/// What the runs of a job cost, up to the one with this number.
#[cfg(feature = "nats")]
pub(crate) fn cost_of_all(agent: Kind, first: &Path, number: u64) -> Option<f64> {
    of_all(Some(agent), first, number).cost_usd
}

/// This moment, in seconds since 1970.
pub(crate) fn unix_now() -> i64 {
    i64::try_from(tapline_runner::moment().as_millis() / 1_000).unwrap_or(i64::MAX)
}
