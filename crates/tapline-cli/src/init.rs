//! tapline as the first process of a container (`ENTRYPOINT ["tapline"]`). No signal ends a first process unless it
//! listens, and orphans become its children, for which it must wait. So the command runs in a process of its own; this
//! one passes on signals and waits for all children.

use std::io::{IsTerminal as _, stdin};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, wait};
use tokio::sync::oneshot;

use crate::exit;
use crate::signals::Signals;

/// If this is the first process of its container: runs the command in another process and returns its exit code. If
/// none can be started, this one continues.
pub(crate) fn stand_in() -> Option<ExitCode> {
    if std::process::id() != 1 {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(run())
}

async fn run() -> Option<ExitCode> {
    // Listen before there is a process to pass signals to, so that none is lost.
    let mut signals = Signals::listen().ok()?;
    let mut args = std::env::args_os();
    let mut command = Command::new(std::env::current_exe().ok()?);
    // It gets its own group, so that a Ctrl-C at the terminal reaches it once.
    let child = command.arg0(args.next()?).args(args).process_group(0).spawn().ok()?;
    let pid = Pid::from_raw(child.id().cast_signed())?;
    if stdin().is_terminal() && rustix::termios::tcsetpgrp(stdin(), pid).is_ok() {
        // It may have been faster and was stopped because the terminal was not its own yet.
        let _ = kill_process_group(pid, Signal::CONT);
    }
    let (ended, mut status) = oneshot::channel();
    std::thread::Builder::new().name("tapline-wait".to_owned()).spawn(move || ended.send(wait_for(pid))).ok()?;
    loop {
        tokio::select! {
            status = &mut status => return Some(ExitCode::from(code(status.ok().flatten()))),
            number = signals.next() => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
}

/// Waits for every child that ends, until this one does.
fn wait_for(pid: Pid) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == pid => return Some(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Returns the exit code for how it ended, as a shell has it.
fn code(status: Option<WaitStatus>) -> u8 {
    let code = status.and_then(|status| status.exit_status().or_else(|| Some(128 + status.terminating_signal()?)));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILED)
}
