//! `tapline sim`: runs a command with a model that follows a script, or serves such a model.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tapline_runner::Process;
use tapline_session::text::visible;
use tapline_sim::{EXAMPLE, Logged, Scenario, SimOptions};
use tokio::signal::unix::SignalKind;

use crate::args::offline::Sim;
use crate::commands::guard_program;
use crate::commands::run::prepare;
use crate::signals::Signals;
use crate::source::tell_of_typing;
use crate::{errors, exit, output, secrets, store};

pub(crate) fn run(args: &Sim) -> Result<u8> {
    if args.example {
        let mut out = output::stdout();
        out.write_all(EXAMPLE.as_bytes())?;
        out.flush()?;
        return Ok(0);
    }
    if args.command.is_empty() && args.listen.is_none() {
        bail!("give a command after `--`, like `-- claude -p \"hello\"`, or use --listen to only serve");
    }
    let scenario = read(args.scenario.as_deref().unwrap_or(Path::new("-")))?;
    let extra = args.env.iter().map(|entry| variable(entry)).collect::<Result<Vec<_>>>()?;
    let on_request = args.verbose.then_some(tell_request as fn(&Logged));
    let log = args.log.clone().map(|path| if path == Path::new("-") { "/dev/stdout".into() } else { path });
    let options = SimOptions { keep: false, on_request, home: args.home.clone(), unique_ids: true, ..SimOptions::default() };
    let redactor = if log.is_some() { secrets::redactor()? } else { options.redactor.clone() };
    let options = SimOptions { log, redactor, ..options };
    let options = SimOptions { listen: args.listen.unwrap_or(options.listen), ..options };
    let sim = tapline_sim::Sim::start_with(scenario, options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let (code, interrupted) = if args.command.is_empty() {
        (runtime.block_on(serve(&sim))?, false)
    } else {
        let environment = sim.environment().into_iter().map(|(name, value)| (OsString::from(name), value));
        let fresh = environment.clone().find(|(name, _)| name == "HOME" && args.home.is_none());
        let fresh = fresh.map(|(_, home)| (OsString::from(store::SIM_HOME), home));
        let environment = environment.chain(fresh).chain(extra);
        runtime.block_on(accompany(&args.command, environment.collect(), args.grace))?
    };
    for note in sim.notes() {
        output::tell(&format!("sim: note: {note}"));
    }
    let failures = sim.failures();
    for failure in &failures {
        output::fail(&format!("sim: {failure}"));
    }
    drop(sim);
    if interrupted {
        // A script or loop around us must stop, too.
        exit::die_of(SignalKind::interrupt().as_raw_value());
    }
    Ok(if failures.is_empty() || code != 0 { code } else { exit::VIOLATED })
}

/// Prints a line about a request.
fn tell_request(request: &Logged) {
    let Logged { method, path, turn, fault, status, failure, .. } = request;
    let asked = request.facts.as_ref().map(|facts| format!(" · {} agent, answer {}", facts.lane.name(), facts.count + 1));
    let turn = turn.map(|turn| format!(" · turn {turn}")).or_else(|| failure.as_ref().map(|_| " · no turn".to_owned()));
    let fault = fault.map(|fault| format!(" · {fault}"));
    let words = [asked, turn, fault].into_iter().flatten().collect::<String>();
    output::tell(&format!("sim: {method} {path}{words} · {status}"));
}

/// Reads a scenario. An error names its line and reason.
fn read(path: &Path) -> Result<Scenario> {
    let (name, text) = if path == Path::new("-") {
        let mut text = String::new();
        tell_of_typing("the scenario");
        std::io::stdin().read_to_string(&mut text).context("cannot read the scenario from stdin")?;
        ("stdin".to_owned(), text)
    } else {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let advice = format!("`tapline sim --example > {}` writes an example", output::quoted(&name));
            errors::unreadable(error, "scenario", path, &advice)
        })?;
        (name, text)
    };
    Scenario::parse(&text).map_err(|error| {
        let (line, column, reason) = (error.line, error.column, error.reason);
        anyhow::anyhow!(
            "{name}:{line}:{column}: {reason} (`tapline help scenarios` describes scenarios, `tapline sim --example` prints one)"
        )
    })
}

/// Parses `NAME=VALUE`, or `NAME` with its current value.
fn variable(entry: &str) -> Result<(OsString, OsString)> {
    let (name, value) = prepare::variable(entry);
    ensure!(!name.is_empty(), "--env {entry}: a variable needs a name");
    let value = value.or_else(|| std::env::var_os(&name));
    let value = value.with_context(|| format!("--env {entry}: this variable is not set; write {entry}=VALUE"))?;
    Ok((name, value))
}

/// Serves until a signal comes.
async fn serve(sim: &tapline_sim::Sim) -> Result<u8> {
    let mut signals = Signals::listen()?;
    let mut text = format!("unset {}\n", tapline_sim::Sim::logins().collect::<Vec<_>>().join(" "));
    for (name, value) in sim.variables() {
        let _ = writeln!(text, "export {name}={}", output::quoted(&value.to_string_lossy()));
    }
    let mut out = output::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    drop(out);
    // The reader of the variables must see their end.
    crate::plain::close_stdout();
    let tell = format!("sim: serving on {}; press Ctrl-C to stop", sim.url());
    output::tell(&visible(&tell));
    signals.next().await;
    Ok(0)
}

/// Runs the command with only this environment, and ends everything it started. Returns its exit code, and whether
/// Ctrl-C ended it.
async fn accompany(command: &[OsString], environment: Vec<(OsString, OsString)>, grace: Duration) -> Result<(u8, bool)> {
    let mut signals = Signals::listen()?;
    let (program, arguments) = command.split_first().context("no command")?;
    let mut prepared = Command::new(program);
    prepared.args(arguments).env_clear().envs(environment);
    // At a terminal, the command may use it and gets signals from there. Elsewhere it gets them only from us.
    let at_terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
    let mut process = match Process::within(prepared, at_terminal, guard_program().as_ref()).await {
        Ok(process) => process,
        Err(error) => {
            let (code, advice) = match error.kind() {
                std::io::ErrorKind::NotFound => (exit::NOT_FOUND, "is it installed, and on PATH?"),
                _ => (exit::NOT_EXECUTABLE, "is it a program?"),
            };
            output::fail(&format!("sim: cannot start {}: {error} ({advice})", program.to_string_lossy()));
            return Ok((code, false));
        }
    };
    let mut patience = None;
    let status = loop {
        let impatient = async {
            match patience {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            status = process.wait() => break status.context("cannot wait for the command")?,
            () = impatient => {
                output::tell("sim: the command did not exit after the signal: killing it");
                process.kill().await;
                patience = None;
            }
            number = signals.next() => {
                patience.get_or_insert_with(|| tokio::time::Instant::now() + grace);
                if !at_terminal || !of_terminal(number) {
                    process.signal(number);
                }
            }
        }
    };
    if !process.sweep().await {
        output::tell("sim: WARNING: a process that the command started may still be running");
    }
    let interrupted = status.signal() == Some(SignalKind::interrupt().as_raw_value());
    Ok((exit::code_of_status(status), interrupted))
}

/// Returns whether a terminal sends this signal to every process.
fn of_terminal(number: i32) -> bool {
    [SignalKind::interrupt(), SignalKind::quit()].iter().any(|kind| kind.as_raw_value() == number)
}
