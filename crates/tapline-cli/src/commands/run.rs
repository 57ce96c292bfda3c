//! `tapline run`: starts an agent headless, shows it, judges it, records it, and leaves nothing behind.

mod attempt;
mod conclude;
mod context;
mod files;
mod messages;
pub(super) mod prepare;
mod redaction;
mod retrying;
mod show;
mod signals;
mod stdin;
mod typing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tapline_session::Fold;
use tapline_session::policy::PolicyChecker;

use crate::args::run::{Run, RunFormat};
use crate::commands::check::read_policy;
use crate::push::{Asks, Push};
use crate::{ci, config, exit, output, secrets, store};
use attempt::Attempt;
pub(super) use conclude::job_summary;
use redaction::Redaction;
use show::Show;
use signals::{NotBegun, Signals};

pub(crate) fn run(args: &Run) -> Result<u8> {
    // One thread drives the run and shows it, so an event passes no other thread on its way.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start a thread")?;
    let code = runtime.block_on(attempts(args));
    // A pending read of stdin must not delay the exit.
    runtime.shutdown_background();
    code
}

/// Makes attempts until one succeeds, a retry cannot help, or there were enough.
async fn attempts(args: &Run) -> Result<u8> {
    let (started, started_at) = (Instant::now(), tapline_runner::now());
    let signals = Signals::listen()?;
    let until = args.ending.timeout.and_then(|timeout| started.checked_add(timeout));
    let mut files = tokio::select! {
        files = conclude::check(args) => files?,
        // The disk does not answer, or nobody reads the pipe.
        why = signals::over(&signals, until) => {
            output::fail("--summary or --report: the file could not be opened in time; the agent was not started");
            return Ok(if why == NotBegun::Late { exit::TIMEOUT } else { signals.code().unwrap_or(exit::FAILED) });
        }
    };
    let mut policy = args.ending.policy.as_deref().map(read_policy).transpose()?.map(PolicyChecker::new);
    let mut plan = prepare::plan(args)?;
    let piped = plan.read_stdin(args, until, &signals).await?;
    let folder = store::folder(&args.kept)?;
    ensure!(args.pushed.ask || args.pushed.ask_timeout.is_none(), "--ask-timeout needs --ask");
    let title =
        args.shown.label.as_deref().or(args.any_prompt.as_deref()).or(args.prompt.as_deref().filter(|prompt| *prompt != "-"));
    let asks = Arc::<Asks>::default();
    let mut push = Push::start(&args.pushed, folder.as_deref(), args.shown.redact, plan.kind, title, &asks)?;
    // If nothing that is shown is redacted, or nothing is shown, notes about redaction are not needed.
    let is_told = (args.shown.redact || ci::is_log()) && plan.format != RunFormat::Quiet;
    let redactor = if is_told { secrets::redactor()? } else { config::redactor()?.0 };
    let redaction = Redaction::new(args, plan.format, redactor);
    let mut show = Show::new(args, plan.format, plan.kind, &redaction);
    conclude::open_group(args, &plan, &mut show);
    if let Ok(Some(note)) = &piped {
        show.note(note);
    }
    // The cost of all attempts. A resumed session continues its count, so a plain sum would be wrong.
    let mut whole = Fold::for_agent(Some(plan.kind));
    let (mut number, mut session) = (1, None::<String>);
    loop {
        let attempt = Attempt {
            args,
            plan: &plan,
            signals: &signals,
            number,
            started,
            started_at: started_at.clone(),
            folder: folder.as_deref(),
            policy: policy.as_mut(),
            redaction: &redaction,
            asks: args.pushed.ask.then(|| Arc::clone(&asks)),
        };
        let mut ended = match piped {
            Ok(_) => Box::pin(attempt.run(session.clone().filter(|_| number > 1), &mut show, &mut whole)).await?,
            Err(why) => attempt.not_begun(why, "while reading stdin; the agent was not started", &show),
        };
        // An attempt that died before it wrote anything had the session of the one before.
        session = ended.report.session.id.clone().or(session);
        let wait = retrying::wait(&args.ending, &ended, number).filter(|_| signals.code().is_none());
        // A retry that cannot finish in time is not started.
        let left = args.ending.timeout.map_or(Duration::MAX, |timeout| timeout.saturating_sub(started.elapsed()));
        if wait.is_some_and(|wait| wait >= left) {
            show.note("no retry: the wait would exceed --timeout");
        }
        let wait = wait.filter(|wait| *wait < left);
        if let Some(summary) = ended.summary.as_ref().filter(|_| wait.is_some()) {
            show.finish(summary);
        }
        if let Some(wait) = wait {
            let goes_on = pause(wait, &signals, &mut show).await;
            show.waited(!goes_on);
            // A reader that does not read delays neither a signal nor the clock, and the next attempt sees both.
            let rest = left.saturating_sub(wait);
            let goes_on = goes_on
                && tokio::select! {
                    biased;
                    () = show.flushed() => true,
                    () = signals.came() => false,
                    () = tokio::time::sleep(rest) => true,
                };
            if goes_on {
                show.again(args, plan.kind, &redaction);
                number += 1;
                continue;
            }
            ended.interrupt(signals.code());
        }
        let stopped = matches!(ended.code, exit::TIMEOUT | exit::INTERRUPTED | exit::TERMINATED | exit::VIOLATED);
        let code =
            Box::pin(conclude::conclude(args, &plan, ended, &mut show, &whole.ledger(), std::mem::take(&mut files), &signals))
                .await;
        if let Some(push) = push.take() {
            // It waits for the server, but not longer than somebody else waits for it. Who stopped it on the page wants to see its end.
            let given_up = async {
                match signals.code() {
                    Some(_) => tokio::time::sleep(NOT_TAKEN).await,
                    None => signals.came().await,
                }
            };
            push.finish_unless(given_up).await;
        }
        return Ok(if flush(&mut show, &signals, stopped).await { code } else { signals.code().unwrap_or(code) });
    }
}

/// How long unread output is kept, and a server may take the end, after a run was stopped, or after somebody stops waiting.
const NOT_TAKEN: Duration = Duration::from_secs(2);

/// Waits until everything is written. Returns `false` if nobody reads it.
async fn flush(show: &mut Show, signals: &Signals, stopped: bool) -> bool {
    let given_up = async {
        if !stopped {
            signals.came().await;
        }
        tokio::time::sleep(NOT_TAKEN).await;
    };
    tokio::select! {
        biased;
        () = show.flushed() => true,
        () = given_up => {
            show.not_taken().await;
            false
        }
    }
}

/// Waits, with a countdown. Returns `false` if a signal came.
async fn pause(wait: Duration, signals: &Signals, show: &mut Show) -> bool {
    let until = Instant::now() + wait;
    let mut first = true;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        // The first line says what was asked for, however long it took to get here.
        let left = if first { wait } else { left };
        show.waiting(left, std::mem::take(&mut first));
        tokio::select! {
            () = tokio::time::sleep(left.min(Duration::from_secs(1))) => {}
            () = signals.came() => return false,
        }
    }
    true
}
