//! The end of a run: what is printed of it, where it is summed up, and the exit code.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tapline_protocol::{Json, StopReason};
use tapline_recording::{Recording, Stop, attempt_folder};
use tapline_session::render::digest;
use tapline_session::text::{one_line, visible};
use tapline_session::{Advice, Category, Ledger, Outcome, Report, Run as RunFacts, Verdict};
use tokio::task::spawn_blocking;

use super::NOT_TAKEN;
use super::attempt::Ended;
use super::prepare::Plan;
use super::show::Show;
use super::signals::Signals;
use crate::agents::habits;
use crate::args::run::{Format, Run};
use crate::ci::Kind;
use crate::commands::denials::Started;
use crate::output::OutputFile;
use crate::{exit, output, store, values};

/// What would be found wrong only when the run is paid for.
///
/// Returns the summary's file where it is none that can be opened again: whoever reads a FIFO finds its end when it is closed.
pub(super) async fn check(args: &Run) -> Result<Option<OutputFile>> {
    values::check(&args.shown.get)?;
    let opened = args.shown.summary.clone().map(|path| spawn_blocking(move || OutputFile::open(&path)));
    let summary = match opened {
        Some(opened) => Some(opened.await.map_err(anyhow::Error::from).and_then(|opened| opened).context("--summary")?),
        None => None,
    };
    for attempt in 2..=u64::from(args.ending.retry).min(100) + 1 {
        let further = args.kept.record.clone().map(|folder| attempt_folder(folder, attempt));
        if let Some(taken) = further.filter(|folder| folder.exists()) {
            bail!("{} already exists, and a retry would be recorded there; use another --record", taken.display());
        }
    }
    Ok(summary.filter(|file| !file.is_regular()))
}

/// In a CI log the agent's work is a group that can be folded.
pub(super) fn open_group(args: &Run, plan: &Plan, show: &mut Show) {
    if is_grouped(args, plan) {
        let name = args.shown.label.as_deref().unwrap_or("tapline run");
        show.group(name);
    }
}

fn is_grouped(args: &Run, plan: &Plan) -> bool {
    args.shown.get.is_empty() && matches!(plan.format, Format::Live | Format::Lines)
}

/// Prints what is to be printed at the end, and returns the exit code.
pub(super) async fn conclude(
    args: &Run,
    plan: &Plan,
    mut ended: Ended,
    show: &mut Show,
    ledger: &Ledger,
    summary: Option<OutputFile>,
    signals: &Signals,
) -> u8 {
    let grace = args.ending.grace.max(NOT_TAKEN);
    if ended.report.run.attempts > 1 {
        if let Some(summary) = &mut ended.summary {
            summary.ledger = ledger.clone();
        }
        for report in std::iter::once(&mut ended.report).chain(&mut ended.told) {
            report.ledger = ledger.clone();
        }
    }
    if let Some(amendment) = Amendment::of(&ended, args)
        && let Err(error) = on_disk(grace, move || amendment.write()).await
    {
        show.note(&format!("WARNING: the recording does not say how the run ended: {error:#}"));
    }
    show.end_group();
    if let Some(summary) = &ended.summary {
        show.finish(summary);
    }
    let Ended { report, told, advice, mut code, recorded, started, .. } = ended;
    let told = told.as_ref().unwrap_or(&report);
    let mut failure = exit::failure(&told.verdict);
    let human = matches!(plan.format, Format::Live | Format::Lines) && args.shown.get.is_empty();
    match (args.shown.get.as_slice(), plan.format) {
        ([], Format::Text) if failure.is_none() => print_text(&report, show),
        ([], Format::Json) => print_json(&report, show),
        ([], Format::Report) => show.line(&output::raw(&report.to_json()), Kind::Json),
        ([], Format::Text | Format::Live | Format::Lines | Format::StreamJson | Format::Quiet) => {}
        (paths, _) => code = print_values(&report, paths, code, show),
    }
    let asked_for = Started { whose: &args.whose, told: &args.told, extra: &args.extra };
    let redactor = show.redactor.clone();
    let denied = show.denials.told(&asked_for, redactor.as_ref());
    denied.calls.iter().for_each(|call| show.note(call));
    denied.advice.iter().for_each(|advice| show.block(advice));
    let warned = exit::warning(&report.verdict, &args.ending.fail_on).filter(|_| code == 0);
    code = if warned.is_some() { exit::FAILED } else { code };
    if let Some(failure) = failure.as_ref().filter(|_| plan.format != Format::Quiet) {
        match plan.format {
            Format::Text => {
                show.error_line(&format!("Error: {}", visible(failure)));
            }
            // The view has told it.
            _ if human && started => {}
            _ => show.note(failure),
        }
        if let Some(advice) = advice.or_else(|| advise(told, args)) {
            show.note(&advice);
        }
    }
    let warned_of = warned.as_ref().map(exit::warned);
    if let Some(warning) = warned {
        show.note(&exit::warned_after(&warning, !denied.calls.is_empty()));
        failure.clone_from(&warned_of);
    }
    if let Some(failure) = failure.as_ref().filter(|_| plan.format != Format::Quiet) {
        show.annotate(title(told), failure);
    }
    if let Some(folder) = recorded.filter(|_| human || failure.is_some()) {
        show.note(&store::recorded_in(&folder));
    }
    let [calls, advice] =
        [&denied.calls, &denied.advice].map(|lines| lines.iter().map(|line| show.clean(line)).collect::<Vec<_>>());
    let text = digest(told, warned_of.map(|why| show.clean(&why)).as_deref(), &calls, &advice);
    if let Err(error) = job_summary(text.clone(), grace).await {
        show.note(&format!("{error:#}"));
    }
    if let Some(path) = &args.shown.summary
        && let Err(error) = write_summary(path.clone(), summary, text, grace, signals).await
    {
        show.note(&format!("--summary: {error:#}"));
        code = if code == 0 { exit::USAGE } else { code };
    }
    if let Some(error) = show.failure() {
        show.error_line(&format!("tapline: cannot write the output: {error}"));
        code = if code == 0 { exit::USAGE } else { code };
    }
    code
}

/// Does what waits for the disk, on another thread. A disk that does not answer in time is not waited for.
async fn on_disk(patience: Duration, work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    match tokio::time::timeout(patience, spawn_blocking(work)).await {
        Ok(done) => done?,
        Err(_) => bail!("the disk did not respond"),
    }
}

async fn write_summary(
    path: PathBuf,
    opened: Option<OutputFile>,
    text: String,
    grace: Duration,
    signals: &Signals,
) -> Result<()> {
    let is_file = opened.is_none();
    let name = path.display().to_string();
    let write = move || {
        let mut file = opened.map_or_else(|| OutputFile::open(&path), Ok)?;
        file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        file.keep()
    };
    if is_file {
        return on_disk(grace, write).await.with_context(|| format!("cannot write {name}"));
    }
    // Whoever reads a pipe slowly may, until somebody is tired of it.
    let tired = async {
        signals.came().await;
        tokio::time::sleep(NOT_TAKEN).await;
    };
    tokio::select! {
        written = spawn_blocking(write) => written?,
        () = tired => bail!("{name} has no reader"),
    }
}

/// What was found out after the recording was closed: told to it, so that it is read as the run was told.
struct Amendment {
    folder: PathBuf,
    run: RunFacts,
    verdict: Verdict,
    ledger: Ledger,
    /// The limit of all attempts: the last had what was left of it.
    timeout: Option<Duration>,
    /// Somebody interrupted the wait for the next attempt.
    interrupted: bool,
}

impl Amendment {
    fn of(ended: &Ended, args: &Run) -> Option<Self> {
        let folder = ended.recorded.clone().filter(|_| ended.started)?;
        let Report { run, verdict, ledger, .. } = &ended.report;
        let interrupted = verdict.outcome == Outcome::Interrupted && ended.summary.is_none();
        let timeout = args.ending.timeout;
        Some(Self { folder, run: run.clone(), verdict: verdict.clone(), ledger: ledger.clone(), timeout, interrupted })
    }

    fn write(self) -> Result<()> {
        let Self { folder, run, verdict, ledger, timeout, interrupted } = self;
        let mut recording = Recording::open(&folder)?;
        let Some(mut end) = recording.end.clone() else { return Ok(()) };
        if run.attempts > 1 {
            end.attempts = Some(run.attempts);
            end.started_at.clone_from(&run.started_at);
            end.duration_ms = run.duration_ms;
            end.ledger = Json::parse(&serde_json::to_string(&ledger)?).ok();
        }
        let stop = end.stop.as_mut().filter(|stop| stop.reason == StopReason::Timeout && stop.limit_ms.is_some());
        if let (Some(stop), Some(timeout)) = (stop, timeout) {
            stop.limit_ms = u64::try_from(timeout.as_millis()).ok();
        }
        if let Some(rule) = verdict.error.as_deref().and_then(|error| error.strip_prefix("policy violated: "))
            && verdict.category == Some(Category::Policy)
        {
            end.violated = Some(rule.to_owned());
        }
        if interrupted {
            end.stop = Some(Stop { reason: StopReason::Interrupted, limit_ms: None });
        }
        if recording.end.as_ref() != Some(&end) {
            end.verdict = verdict.to_json();
            recording.amend(end)?;
        }
        Ok(())
    }
}

/// What to do about a failure, where we know.
fn advise(report: &Report, args: &Run) -> Option<String> {
    let agent = report.agent.map_or("the agent", |agent| agent.name());
    if let Some(advice) = report.verdict.error.as_deref().and_then(habits(args.whose.agent).after) {
        return Some(advice.to_owned());
    }
    match report.verdict.category? {
        Category::Auth => {
            Some(format!("log in by starting `{agent}` once, or set its API key (--env NAME=VALUE){}", key(report)))
        }
        Category::Billing => {
            Some(format!("check the billing of the account{}", key(report))).filter(|_| !key(report).is_empty())
        }
        _ if report.verdict.retry.advice != Advice::No && args.ending.retry == 0 => {
            Some("trying again can help: --retry N waits and tries again".to_owned())
        }
        _ => None,
    }
}

/// Which key the agent used, as it says: a label.
fn key(report: &Report) -> String {
    let source = report.session.setup.api_key_source.as_deref().filter(|source| *source != "none");
    source.map(|source| format!("; it used the key from: {}", one_line(source))).unwrap_or_default()
}

fn print_values(report: &Report, paths: &[String], code: u8, show: &mut Show) -> u8 {
    let found = values::of(report, paths);
    for value in &found.lines {
        show.line(&output::raw(value), values::kind_of(value));
    }
    for why in &found.missing {
        show.note(why);
        show.annotate(title(report), why);
    }
    if code == 0 && !found.missing.is_empty() { exit::FAILED } else { code }
}

fn print_text(report: &Report, show: &mut Show) {
    let answer = report.answer.as_deref().unwrap_or_default();
    show.line(&output::raw(answer.strip_suffix('\n').unwrap_or(answer)), Kind::Text);
}

fn print_json(report: &Report, show: &mut Show) {
    // Without a result there is nothing to print, and the failure is told.
    if let Ok(json) = show.outputs.json(report.agent) {
        show.line(&output::raw(json.trim_end()), Kind::Json);
    }
}

/// What an annotation is about.
fn title(report: &Report) -> &str {
    report.run.label.as_deref().unwrap_or("tapline run")
}

/// Sums the run up for the job, where the CI system wants it: unasked, so that a failure fails nothing.
async fn job_summary(text: String, grace: Duration) -> Result<()> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(());
    };
    let name = path.display().to_string();
    // Unasked: a FIFO that nobody reads is not waited for.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let write = move || {
        let file = std::fs::OpenOptions::new().append(true).create(true).custom_flags(nonblocking).open(&path);
        Ok(file.and_then(|mut file| file.write_all(text.as_bytes()))?)
    };
    on_disk(grace, write).await.with_context(|| format!("cannot write the job's summary {name}"))
}
