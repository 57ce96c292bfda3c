//! `tapline run`: an agent, headless: started, shown, judged, kept, and gone afterwards.

mod attempt;
mod conclude;
mod context;
pub(super) mod prepare;
mod redaction;
mod show;
mod signals;
mod stdin;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tapline_session::policy::PolicyChecker;
use tapline_session::{Advice, Fold, parse_rfc3339};

use crate::args::run::{Format, Run};
use crate::commands::check::read_policy;
use crate::{ci, config, exit, output, secrets, store};
use attempt::{Attempt, Ended};
use redaction::Redaction;
use show::Show;
use signals::{NotBegun, Signals};

pub(crate) fn run(args: &Run) -> Result<u8> {
    // One thread drives the run and shows it: an event passes no other on its way.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start a thread")?;
    let code = runtime.block_on(attempts(args));
    // A read of stdin that is still waited for must not keep us.
    runtime.shutdown_background();
    code
}

/// Tries until it is done, cannot be helped, or has been tried often enough.
async fn attempts(args: &Run) -> Result<u8> {
    let (started, started_at) = (Instant::now(), tapline_runner::now());
    let signals = Signals::listen()?;
    let until = args.ending.timeout.and_then(|timeout| started.checked_add(timeout));
    let mut summary = tokio::select! {
        summary = conclude::check(args) => summary?,
        // A disk that does not answer, or a pipe that nobody reads.
        why = signals::over(&signals, until) => {
            output::fail("--summary: the file could not be opened in time; the agent was not started");
            return Ok(if why == NotBegun::Late { exit::TIMEOUT } else { signals.code().unwrap_or(exit::FAILED) });
        }
    };
    let mut policy = args.ending.policy.as_deref().map(read_policy).transpose()?.map(PolicyChecker::new);
    let mut plan = prepare::plan(args)?;
    let piped = plan.read_stdin(args, until, &signals).await?;
    let folder = store::folder(&args.kept)?;
    // Where nothing that is shown is redacted, or nothing is shown, there is nothing to say about it.
    let is_told = (args.shown.redact || ci::is_log()) && plan.format != Format::Quiet;
    let redactor = if is_told { secrets::redactor()? } else { config::redactor()?.0 };
    let redaction = Redaction::new(args, plan.format, redactor);
    let mut show = Show::new(args, plan.format, plan.kind, &redaction);
    conclude::open_group(args, &plan, &mut show);
    if let Ok(Some(note)) = &piped {
        show.note(note);
    }
    // What all attempts cost: a resumed session goes on counting where it stopped, so that no sum would be right.
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
        };
        let mut ended = match piped {
            Ok(_) => attempt.run(session.clone().filter(|_| number > 1), &mut show, &mut whole).await?,
            Err(why) => attempt.not_begun(why, "while reading stdin; the agent was not started", &show),
        };
        // An attempt that died before it said a word had the session of the one before.
        session = ended.report.session.id.clone().or(session);
        let wait = retry_in(args, &ended, number).filter(|_| signals.code().is_none());
        // What cannot be finished in time is not begun.
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
            // A reader that does not read holds up neither a signal nor the clock, which the next attempt hears.
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
        let code = conclude::conclude(args, &plan, ended, &mut show, &whole.ledger(), summary.take(), &signals).await;
        return Ok(if flush(&mut show, &signals, stopped).await { code } else { signals.code().unwrap_or(code) });
    }
}

/// How long to wait before it is tried again; none if that cannot help, or nobody wants it.
fn retry_in(args: &Run, ended: &Ended, number: u64) -> Option<Duration> {
    let verdict = &ended.report.verdict;
    if number > u64::from(args.ending.retry) || !ended.violations.is_empty() || !ended.started {
        return None;
    }
    let step = u32::try_from(number - 1).unwrap_or(u32::MAX).min(5);
    match verdict.retry.advice {
        Advice::No => None,
        Advice::Now => Some(Duration::from_secs(1 << step)),
        Advice::Later => match verdict.retry.at.as_deref().and_then(parse_rfc3339) {
            // A second more: clocks differ.
            Some(at) => Some(Duration::from_secs(u64::try_from(at - unix_now() + 1).unwrap_or(0)).max(Duration::from_secs(1))),
            // The agent's own waits were not enough.
            None => Some(asked_for(ended).unwrap_or_default().max(Duration::from_secs(30 << step))),
        },
    }
}

/// How long the agent itself was last told to wait.
fn asked_for(ended: &Ended) -> Option<Duration> {
    ended.report.retries.last()?.delay_ms.as_ref()?.as_u64().map(Duration::from_millis)
}

/// This moment, in the seconds of [`parse_rfc3339`].
fn unix_now() -> i64 {
    tapline_runner::now().as_deref().and_then(parse_rfc3339).unwrap_or(0)
}

/// What nobody takes after a run was stopped, or after somebody is tired of waiting, is given up.
const NOT_TAKEN: Duration = Duration::from_secs(2);

/// Waits until everything is out. `false` if nobody takes it.
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

/// Waits, with a countdown. `false` if a signal came.
async fn pause(wait: Duration, signals: &Signals, show: &mut Show) -> bool {
    let until = Instant::now() + wait;
    let mut first = true;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        show.waiting(left, std::mem::take(&mut first));
        tokio::select! {
            () = tokio::time::sleep(left.min(Duration::from_secs(1))) => {}
            () = signals.came() => return false,
        }
    }
    true
}
