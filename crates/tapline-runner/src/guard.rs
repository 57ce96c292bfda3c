//! A guard: a small program that outlives this one and ends what is left of a run if this one is killed. The kernel
//! then kills the agent's own process; the guard kills what that has started (such as the real program behind a
//! wrapper, or a shell in its own session).

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use crate::tree::{Left, StopSignal, Tree};

/// A program that guards runs. It is started with these arguments and the run's mark, and calls [`guard`].
#[derive(Clone, Debug)]
pub struct GuardProgram {
    /// The path.
    pub program: PathBuf,
    /// The arguments before the mark.
    pub args: Vec<OsString>,
}

/// How long the remaining processes have to end by themselves.
const GRACE: Duration = Duration::from_secs(2);

/// Waits until the parent says that the run is over, or is gone, and then ends what is left of the run with this mark.
/// Call it in the `main` of a [`GuardProgram`].
pub fn guard(mark: &str) {
    let mut said = Vec::new();
    if io::stdin().read_to_end(&mut said).is_ok() && !said.is_empty() {
        return;
    }
    let tree = Tree::of_mark(mark.to_owned());
    let until = Instant::now() + GRACE;
    let mut left = tree.signal_now(StopSignal::Terminate);
    while left != Left::default() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
        left = tree.left_now();
    }
    tree.kill_now();
}

/// A running guard.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Starts a guard for the run with this mark. If that fails, the run continues without one.
    pub(crate) fn post(program: &GuardProgram, mark: &str) -> Option<Self> {
        let mut command = Command::new(&program.program);
        command.args(&program.args).arg(mark).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Signals from the terminal must not reach it.
        command.process_group(0);
        command.spawn().ok().map(Self)
    }

    /// Ends the guard, because nothing of the run is left.
    pub(crate) async fn dismiss(mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            let _ = stdin.write_all(b"over").await;
        }
        let _ = tokio::time::timeout(GRACE, self.0.wait()).await;
    }
}
