//! The end of a run: what is printed of it, where it is summed up, and the exit code.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use tapline_runner::{StartError, report_not_started};
use tapline_session::render::digest;
use tapline_session::text::{one_line, visible};
use tapline_session::{Advice, Category, GetError, Ledger, Outcome, Report, get};

use super::attempt::Ended;
use super::prepare::Plan;
use super::show::Show;
use crate::args::run::{Format, Run};
use crate::{exit, output, store};

/// What would be found wrong only when the run is paid for.
pub(super) fn check(args: &Run) -> Result<()> {
    if let Some(path) = args.shown.get.as_deref() {
        ensure!(
            get("{}", path) != Err(GetError::Syntax),
            "--get: `{path}` is no path: write it like session.id or tools.calls[].name"
        );
        // A report of nothing has every key that a report can have at its top.
        let nothing = StartError::Refused(String::new());
        let report = report_not_started(tapline_protocol::Agent::Codex, &nothing, tapline_session::Run::default()).to_json();
        let root = path.split(['.', '[']).next().unwrap_or_default();
        if let Err(error @ GetError::NoKey { .. }) = get(&report, root) {
            bail!("--get: no value at `{path}`: {error}");
        }
    }
    if let Some(path) = &args.shown.summary {
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
        opened.with_context(|| format!("cannot write the summary {}", path.display()))?;
    }
    for attempt in 2..=u64::from(args.ending.retry).min(100) + 1 {
        let further = args.kept.record.clone().map(|folder| store::of_attempt(folder, attempt));
        if let Some(taken) = further.filter(|folder| folder.exists()) {
            bail!("{} is there already: a further attempt would be recorded there; give another --record", taken.display());
        }
    }
    Ok(())
}

/// In a CI log the agent's work is a group that can be folded.
pub(super) fn open_group(args: &Run, plan: &Plan, show: &mut Show) {
    if is_grouped(args, plan) {
        let name = args.shown.label.as_deref().unwrap_or("tapline run");
        let line = format!("::group::{}", escaped(&show.clean(name)));
        show.line(&line);
    }
}

fn is_grouped(args: &Run, plan: &Plan) -> bool {
    output::is_ci_log() && args.shown.get.is_none() && matches!(plan.format, Format::Live | Format::Lines)
}

/// Prints what is to be printed at the end, and returns the exit code.
pub(super) fn conclude(args: &Run, plan: &Plan, mut ended: Ended, show: &mut Show, ledger: &Ledger) -> u8 {
    if ended.report.run.attempts > 1 {
        if let Some(summary) = &mut ended.summary {
            summary.ledger = ledger.clone();
        }
        for report in std::iter::once(&mut ended.report).chain(&mut ended.told) {
            report.ledger = ledger.clone();
        }
    }
    if is_grouped(args, plan) {
        show.line("::endgroup::");
    }
    if let Some(summary) = &ended.summary {
        show.finish(summary);
    }
    let Ended { report, told, advice, mut code, recorded, started, .. } = ended;
    let told = told.as_ref().unwrap_or(&report);
    let failure = failure(told);
    let human = matches!(plan.format, Format::Live | Format::Lines) && args.shown.get.is_none();
    match (&args.shown.get, plan.format) {
        (Some(path), _) => code = print_value(&report, path, code, show),
        (None, Format::Text) if failure.is_none() => print_text(&report, show),
        (None, Format::Json) => print_json(&report, show),
        (None, Format::Report) => show.line(&output::json(&output::raw(&report.to_json()))),
        (None, Format::Text | Format::Live | Format::Lines | Format::StreamJson | Format::Quiet) => {}
    }
    if let Some(failure) = failure.as_ref().filter(|_| plan.format != Format::Quiet) {
        match plan.format {
            Format::Text => {
                let text = output::human(format!("Error: {}", visible(failure)));
                show.error_line(&text);
            }
            // The view has told it.
            _ if human && started => {}
            _ => show.note(failure),
        }
        if let Some(advice) = advice.or_else(|| advise(told, args)) {
            show.note(&advice);
        }
        annotate(told, failure, show);
    }
    if let Some(folder) = recorded.filter(|_| human || failure.is_some()) {
        show.note(&format!("recorded in {}", folder.display()));
    }
    if let Err(error) = job_summary(told) {
        show.note(&format!("{error:#}"));
    }
    if let Some(path) = &args.shown.summary
        && let Err(error) = std::fs::write(path, digest(told))
    {
        show.note(&format!("cannot write the summary {}: {error}", path.display()));
        code = if code == 0 { exit::USAGE } else { code };
    }
    if let Some(error) = show.failure() {
        show.error_line(&format!("tapline: cannot write the output: {error}"));
        code = if code == 0 { exit::USAGE } else { code };
    }
    code
}

/// What went wrong, in the words a person should read.
fn failure(report: &Report) -> Option<String> {
    let verdict = &report.verdict;
    if verdict.outcome == Outcome::Success {
        return None;
    }
    let word = verdict.category.map_or(verdict.outcome.word(), |category| category.word());
    let error = verdict.error.as_deref().map(|error| error.strip_prefix("Error: ").unwrap_or(error));
    Some(match error {
        Some(error) if error == word => error.to_owned(),
        Some(error) => format!("{error} ({word})"),
        None => "there is no result: the run did not end, or its end was lost".to_owned(),
    })
}

/// What to do about a failure, where we know.
fn advise(report: &Report, args: &Run) -> Option<String> {
    let agent = report.agent.name();
    match report.verdict.category? {
        Category::Auth => Some(format!("log in by starting `{agent}` once, or set its API key (--env NAME=VALUE)")),
        _ if report.verdict.retry.advice != Advice::No && args.ending.retry == 0 => {
            Some("trying again can help: --retry N waits as long as it takes".to_owned())
        }
        _ => None,
    }
}

fn print_value(report: &Report, path: &str, code: u8, show: &mut Show) -> u8 {
    match get(&report.to_json(), path) {
        // A list with nothing in it is no line.
        Ok(value) if value.is_empty() => code,
        Ok(value) => {
            show.line(&output::human(output::raw(&value).into_owned()));
            code
        }
        Err(error) => {
            show.note(&format!("no value at `{path}`: {error}"));
            let failed = if error == GetError::Syntax { exit::USAGE } else { exit::FAILED };
            if code == 0 { failed } else { code }
        }
    }
}

fn print_text(report: &Report, show: &mut Show) {
    let answer = report.answer.as_deref().unwrap_or_default();
    show.line(&output::human(output::raw(answer.strip_suffix('\n').unwrap_or(answer)).into_owned()));
}

fn print_json(report: &Report, show: &mut Show) {
    // Without a result there is nothing to print, and the failure is told.
    if let Ok(json) = show.outputs.json(report.agent) {
        show.line(&output::json(&output::raw(json.trim_end())));
    }
}

/// In GitHub Actions a failure is an annotation.
fn annotate(report: &Report, failure: &str, show: &mut Show) {
    if output::is_ci_log() {
        let title = report.run.label.as_deref().unwrap_or("tapline run");
        let title = escaped(title).replace(':', "%3A").replace(',', "%2C");
        show.error_line(&format!("::error title={title}::{}", escaped(&one_line(failure))));
    }
}

/// Text in a workflow command.
fn escaped(text: &str) -> String {
    one_line(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Sums the run up for the job, where the CI system wants it: unasked, so that a failure fails nothing.
fn job_summary(report: &Report) -> Result<()> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(());
    };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(digest(report).as_bytes()));
    written.with_context(|| format!("cannot write the job's summary {}", path.display()))
}
