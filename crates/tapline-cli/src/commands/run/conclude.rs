//! The end of a run: what is printed, where it is summarised, and the exit code.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tapline_protocol::{Json, StopReason};
use tapline_recording::{Recording, Stop, attempt_folder};
use tapline_session::render::{Style, digest, glance};
use tapline_session::text::{one_line, visible};
use tapline_session::{Advice, Category, Ledger, Outcome, Report, Run as RunFacts, Verdict, Warned};

use super::NOT_TAKEN;
use super::attempt::Ended;
use super::files::{EndFiles, on_disk};
use super::prepare::Plan;
use super::show::Show;
use super::signals::Signals;
use crate::agents::habits;
use crate::args::run::{Run, RunFormat};
use crate::ci::{Kind, Level};
use crate::commands::denials::Started;
use crate::{exit, output, store, values};

/// Warnings that go to stderr in every format except `quiet`, because the answer may not be what was asked for.
const TOLD_EVERYWHERE: &[&str] = &["interactive-hang", "background-task", "max-tokens"];

/// Checks what would otherwise be found wrong only after the run is paid for.
pub(super) async fn check(args: &Run) -> Result<EndFiles> {
    values::check(&args.shown.get)?;
    let files = EndFiles::open(&args.shown).await?;
    for attempt in 2..=u64::from(args.ending.retry).min(100) + 1 {
        let further = args.kept.record.clone().map(|folder| attempt_folder(folder, attempt));
        if let Some(taken) = further.filter(|folder| folder.exists()) {
            bail!("{} already exists, and a retry would be recorded there; use another --record", taken.display());
        }
    }
    Ok(files)
}

/// Starts a group in a CI log, so that the agent's work can be folded.
pub(super) fn open_group(args: &Run, plan: &Plan, show: &mut Show) {
    if args.shown.get.is_empty() && matches!(plan.format, RunFormat::Live | RunFormat::Lines) {
        let name = args.shown.label.as_deref().unwrap_or("tapline run");
        show.group(name);
    }
}

/// Prints what is printed at the end, and returns the exit code.
pub(super) async fn conclude(
    args: &Run,
    plan: &Plan,
    mut ended: Ended,
    show: &mut Show,
    ledger: &Ledger,
    files: EndFiles,
    signals: &Signals,
) -> u8 {
    let grace = args.ending.grace.max(NOT_TAKEN);
    if ended.report.run.attempts > 1 {
        count_all_attempts(&mut ended, ledger);
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
    let human = matches!(plan.format, RunFormat::Live | RunFormat::Lines) && args.shown.get.is_empty();
    match (args.shown.get.as_slice(), plan.format) {
        ([], RunFormat::Text) => show.answer(report.answer.as_deref().filter(|_| failure.is_none())),
        ([], RunFormat::Json) => show.line(&output::raw(&show.outputs.document(&report)), Kind::Json),
        ([], RunFormat::Report | RunFormat::Steps) => show.line(&output::escaped(&report.to_json()), Kind::Json),
        ([], RunFormat::Live | RunFormat::Lines | RunFormat::StreamJson | RunFormat::Quiet) => {}
        (paths, _) => code = print_values(&report, paths, code, show),
    }
    let asked_for = Started { whose: &args.whose, told: &args.told, extra: &args.extra };
    let redactor = show.redactor.clone();
    let denied = show.denials.told(&asked_for, redactor.as_ref());
    denied.told(show.has_shown()).iter().for_each(|call| show.note(call));
    denied.advice.iter().for_each(|advice| show.block(advice));
    let warned = Warned::of(&told.verdict, &args.ending.fail_on, args.ending.require_clean).filter(|_| code == 0);
    if !human {
        // The view shows these warnings. Other formats do not.
        for warning in told.verdict.warnings.iter().filter(|warning| TOLD_EVERYWHERE.contains(&&*warning.code)) {
            show.note(&format!("{}: {}", warning.code, warning.message));
        }
    }
    code = if warned.is_some() { exit::FAILED } else { code };
    let wrong_input = plan.wrong_input.advice();
    code = if wrong_input.is_some() { exit::USAGE } else { code };
    if let Some(failure) = failure.as_ref().filter(|_| plan.format != RunFormat::Quiet) {
        match plan.format {
            RunFormat::Text => {
                show.error_line(&format!("Error: {}", visible(failure)));
            }
            // The view has already shown it.
            _ if human && started => {}
            _ => show.note(failure),
        }
        let advice = wrong_input.map(str::to_owned).or(advice);
        if let Some(advice) = advice.or_else(|| advise(told, args)) {
            show.note(&advice);
        }
    } else if let Some(advice) = wrong_input {
        show.note(advice);
    }
    if report.run.attempts > 1 {
        let how = if failure.is_some() { "failed" } else { "succeeded" };
        show.note(&format!("the last of {} attempts {how}", report.run.attempts));
    }
    let warned_of = warned.as_ref().map(Warned::to_string);
    if let Some(warning) = warned {
        let code = &*warning.first.code;
        let is_told = !denied.calls.is_empty() && code == "permission-denied" || !human && TOLD_EVERYWHERE.contains(&code);
        show.note(&if is_told { exit::warned_after(&warning) } else { warning.to_string() });
        failure.clone_from(&warned_of);
    } else if let Some(tip) =
        exit::unclean(&told.verdict, &args.ending.fail_on, args.ending.require_clean).filter(|_| code == 0)
    {
        show.note(&tip);
    }
    if plan.format != RunFormat::Quiet {
        annotate(told, failure.as_deref(), code, show);
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
    let json = if files.report.is_some() { format!("{}\n", report.to_json()) } else { String::new() };
    for (file, text) in [(files.summary, text), (files.report, json)] {
        if let Some(file) = file
            && let Err(error) = file.write(text, grace, signals).await
        {
            show.note(&format!("{error:#}"));
            code = if code == 0 { exit::USAGE } else { code };
        }
    }
    if let Some(error) = show.failure() {
        show.error_line(&format!("tapline: cannot write the output: {error}"));
        code = if code == 0 { exit::USAGE } else { code };
    }
    code
}

/// Has the end tell what all attempts took together.
fn count_all_attempts(ended: &mut Ended, ledger: &Ledger) {
    if let Some(summary) = &mut ended.summary {
        summary.ledger = ledger.clone();
    }
    for report in std::iter::once(&mut ended.report).chain(&mut ended.told) {
        report.ledger = ledger.clone();
    }
}

/// Annotates a failure, or a success that is not clean, in a CI log.
fn annotate(told: &Report, failure: Option<&str>, code: u8, show: &mut Show) {
    if let Some(failure) = failure {
        show.annotate(Level::Error, title(told), failure);
    } else if let Some(doubt) = told.verdict.doubt().filter(|_| code == 0) {
        let judged = glance(&told.verdict, "", Style::plain());
        show.annotate(Level::Warning, title(told), &format!("{judged}: {}", doubt.message));
    }
}

/// What was found after the recording was closed. It is added, so that the recording is read as the run was reported.
struct Amendment {
    folder: PathBuf,
    run: RunFacts,
    verdict: Verdict,
    ledger: Ledger,
    /// The limit for all attempts. The last one had what was left of it.
    timeout: Option<Duration>,
    /// Whether somebody interrupted the wait for the next attempt.
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

/// Says what to do about a failure, if that is known.
fn advise(report: &Report, args: &Run) -> Option<String> {
    let agent = report.agent.map_or("the agent", |agent| agent.name());
    if let Some(advice) = report.verdict.error.as_deref().and_then(habits(args.whose.agent).after) {
        return Some(advice.to_owned());
    }
    match report.verdict.category? {
        Category::Auth => {
            let variable = habits(args.whose.agent).key;
            let log_in =
                format!("log in by starting `{agent}` once, or `export {variable}=…` in the shell that starts tapline");
            Some(log_in + &key(report))
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

/// Returns the label of the key that the agent used, as it reports it.
fn key(report: &Report) -> String {
    let source = report.session.setup.api_key_source.as_deref().filter(|source| *source != "none");
    source.map(|source| format!("; it used the key from: {}", one_line(source))).unwrap_or_default()
}

fn print_values(report: &Report, paths: &[String], code: u8, show: &mut Show) -> u8 {
    let found = values::of(report, paths);
    for value in found.lines.iter().skip(usize::from(show.session_told)) {
        show.line(&output::raw(value), values::kind_of(value));
    }
    for why in &found.missing {
        show.note(why);
        show.annotate(Level::Error, title(report), why);
    }
    if code == 0 && !found.missing.is_empty() { exit::FAILED } else { code }
}

/// Returns the title of an annotation.
fn title(report: &Report) -> &str {
    report.run.label.as_deref().unwrap_or("tapline run")
}

/// Writes a summary for the job, if the CI system has a place for it. Nobody asked for it, so a failure has no
/// consequences.
pub(in crate::commands) async fn job_summary(text: String, grace: Duration) -> Result<()> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(());
    };
    let name = path.display().to_string();
    // Nobody asked for it, so it does not wait for a FIFO without a reader.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let write = move || {
        let file = std::fs::OpenOptions::new().append(true).create(true).custom_flags(nonblocking).open(&path);
        Ok(file.and_then(|mut file| file.write_all(text.as_bytes()))?)
    };
    on_disk(grace, write).await.with_context(|| format!("cannot write the job's summary {name}"))
}
