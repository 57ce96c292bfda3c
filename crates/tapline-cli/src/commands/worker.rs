//! `tapline worker`: runs the jobs of batches that other machines put on a queue.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use tapline_fleet::{JobResult, Worker, WorkerNews, WorkerOptions, Workplace};
use tapline_session::render::Style;
use tapline_session::text::{count_of, one_line, visible};
use tokio::signal::unix::SignalKind;
use tokio::sync::{mpsc, watch};

use super::batch::time_of;
use super::check::read_permissions;
use super::guard_program;
use crate::args::engine::trusted;
use crate::args::worker::Worker as Args;
use crate::signals::Signals;
use crate::{config, exit, output, push, secrets, store};

pub(crate) fn run(args: &Args) -> Result<u8> {
    let mut broker = args.engine.broker()?.context("name the NATS server: --engine nats://HOST:4222, or $TAPLINE_ENGINE")?;
    broker.trusted = trusted(&args.trust)?;
    let mut place = Workplace::new(store::store()?);
    place.guard = guard_program();
    place.redact = args.redact;
    // A batch can ask for it, whatever this worker was told.
    place.redactor = if args.redact { secrets::redactor()? } else { config::redactor()?.0 };
    place.environment = push::kept_from_agents();
    let mut options = WorkerOptions::default();
    options.name = args.name.clone().unwrap_or_else(name_of_machine);
    (options.labels, options.require) = (args.label.clone(), args.require.clone());
    (options.places, options.programs) = (args.jobs, args.bin.clone());
    options.allow_args = args.allow_args;
    (options.folders, options.max_permission_mode) = (args.folders.clone(), args.max_permission_mode);
    options.permissions = args.permissions.as_deref().map(read_permissions).transpose()?;
    let name = options.name.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let worked = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let (news, mut told) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(0);
        let places = format!("{} at once, in {}", count_of(args.jobs, "job"), folders(&args.folders)?);
        let shown = tokio::spawn(async move {
            while let Some(event) = told.recv().await {
                show(&event, &name, &places);
            }
        });
        let opening = Worker::open(&broker, place, options, news);
        let worker = tokio::select! {
            worker = opening => worker?,
            signal = signals.next() => return Ok(code_of(signal)),
        };
        let listening = tokio::spawn(async move {
            let mut last = 0;
            loop {
                let signal = signals.next().await;
                stop.send_modify(|count| *count += if signal == SignalKind::quit().as_raw_value() { 3 } else { 1 });
                if *stop.borrow() > 1 && last == 0 {
                    last = signal;
                    let _ = SIGNAL.set(code_of(signal));
                }
            }
        });
        worker.run(stopped).await;
        listening.abort();
        let _ = shown.await;
        Ok(SIGNAL.get().copied().unwrap_or(0))
    });
    runtime.shutdown_background();
    worked
}

/// Where jobs work: folders that are there.
fn folders(chosen: &[PathBuf]) -> Result<String> {
    let mut folders = chosen.to_vec();
    if folders.is_empty() {
        folders.push(std::env::current_dir().context("the folder of this worker cannot be used")?);
    }
    for folder in &folders {
        ensure!(folder.is_dir(), "--folders {}: there is no such folder", folder.display());
    }
    let shown: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    Ok(shown.join(", "))
}

/// The exit code of a worker whose runs were stopped.
static SIGNAL: std::sync::OnceLock<u8> = std::sync::OnceLock::new();

fn code_of(signal: i32) -> u8 {
    if signal == SignalKind::interrupt().as_raw_value() { exit::INTERRUPTED } else { exit::TERMINATED }
}

/// A result in one line.
fn ended(result: &JobResult) -> String {
    let why = result.why().map(|why| format!(": {}", visible(&one_line(why)))).unwrap_or_default();
    format!("{}{why}", result.glance(Style::plain()))
}

/// Writes a line for each change. If nobody reads it, the worker goes on.
fn show(event: &WorkerNews, name: &str, places: &str) {
    let plain = |text: &str| visible(&one_line(text)).into_owned();
    let line = match event {
        WorkerNews::Ready => format!("worker {}: ready for {}", plain(name), plain(places)),
        WorkerNews::Began { batch, job, attempt } => {
            let again = if *attempt > 1 { format!(", run {attempt}") } else { String::new() };
            format!("▸ {} started (batch {}{again})", plain(job), plain(batch))
        }
        WorkerNews::Ended { result, .. } => ended(result),
        WorkerNews::Refused { job, why } => format!("✗ {} refused: {}", plain(job), plain(why)),
        WorkerNews::Again { job, why, .. } => {
            let why = why.as_deref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
            format!("↻ {} failed, and is tried again{why}", plain(job))
        }
        WorkerNews::Stopped { job, .. } => format!("! {} stopped with its batch", plain(job)),
        WorkerNews::GivenBack { job, why, .. } => format!("↩ {} given back: {why}", plain(job)),
        WorkerNews::Rests { agent, why } => format!("! rests, and takes no jobs for {agent}: {}", plain(why)),
        WorkerNews::Rested { agent } => format!("· takes jobs for {agent} again"),
        WorkerNews::Limit(limit) => {
            format!("! {}: limit reached, no further run before {}", plain(&limit.account), time_of(limit.until))
        }
        WorkerNews::Trouble(what) => return tell(&plain(what)),
        WorkerNews::Stopping { running: 0 } => return,
        WorkerNews::Stopping { running } => {
            let runs = count_of(*running, "run");
            return tell(&format!("takes no more, and waits for {runs}; once more stops them, and they go on elsewhere"));
        }
    };
    let mut out = output::stdout();
    let time = if output::is_terminal() { String::new() } else { format!("{} ", time_now()) };
    let _ = writeln!(out, "{time}{line}").and_then(|()| out.flush());
}

/// Writes a line to stderr. In a log, it begins with the time.
fn tell(text: &str) {
    let who = if std::io::stderr().is_terminal() { "tapline".to_owned() } else { format!("{} tapline", time_now()) };
    output::tell_of(&who, text);
}

/// This moment, as clocks here show it.
fn time_now() -> String {
    jiff::Zoned::now().strftime("%H:%M:%S").to_string()
}

/// What this machine is called.
fn name_of_machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|name| name.trim().to_owned());
    let named = read("/proc/sys/kernel/hostname").or_else(|| read("/etc/hostname")).or_else(|| std::env::var("HOSTNAME").ok());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| "worker".to_owned())
}

#[cfg(test)]
mod tests {
    use tapline_fleet::JobOutcome;

    use super::*;

    #[test]
    fn a_success_that_is_not_clean_is_told_as_a_batch_tells_it() {
        let mut result = JobResult::default();
        (result.job, result.outcome) = ("j".to_owned(), JobOutcome::Success);
        assert_eq!(ended(&result), "✓ j success");
        (result.denials, result.doubt) = (1, Some("denied: Bash was denied".to_owned()));
        assert_eq!(ended(&result), "! j success · 1 call denied: denied: Bash was denied");
        (result.outcome, result.error) = (JobOutcome::Failure, Some("it\nbroke\u{1b}[31m".to_owned()));
        assert_eq!(ended(&result), "✗ j failure · 1 call denied: it broke␛[31m");
    }
}
