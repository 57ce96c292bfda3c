//! Starts any program in the same way as agents: it dies with this one, and, if wanted, so does everything that it
//! started.

use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt as _;
use tokio::process::Child;

use crate::guard::{Guard, GuardProgram};
use crate::marker;
use crate::spawn::{Group, spawn};
use crate::tree::{Left, StopSignal, Tree};

/// How long the remaining processes have to end by themselves.
const GRACE: Duration = Duration::from_secs(2);

/// A running program. It is killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// The processes that it starts, if they must end with it.
    tree: Option<Arc<Tree>>,
    guard: Option<Guard>,
    /// Whether signals go to its whole group, as they would without us.
    whole_group: bool,
}

impl Process {
    /// Starts a program in its own process group, so that only we pass it a Ctrl-C from the terminal. The processes
    /// that it starts are not tracked.
    pub async fn beside(command: Command) -> io::Result<Self> {
        let child = spawn(command.into(), Group::Own).await?;
        Ok(Self { child, tree: None, guard: None, whole_group: false })
    }

    /// Starts a program and ends everything that it starts with it, with the guard's help if this program is killed. If
    /// it must use the terminal, it runs in our process group.
    pub async fn within(command: Command, at_terminal: bool, guard: Option<&GuardProgram>) -> io::Result<Self> {
        let mark = marker::random();
        let mut command = tokio::process::Command::from(command);
        command.env(marker::VARIABLE, marker::value(&mark));
        let guard = guard.and_then(|program| Guard::post(program, &mark));
        let child = spawn(command, if at_terminal { Group::Ours } else { Group::Own }).await?;
        let tree = Arc::new(Tree::new(mark, child.id(), &[]));
        Ok(Self { child, tree: Some(tree), guard, whole_group: !at_terminal })
    }

    /// Returns what a program prints, if it ends in time. Otherwise the program is killed. Everything that it started is
    /// ended, too.
    pub async fn output(mut command: Command, within: Duration) -> io::Result<Vec<u8>> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Self::within(command, false, None).await?;
        let mut printed = Vec::new();
        let ended = tokio::time::timeout(within, async {
            if let Some(stdout) = &mut process.child.stdout {
                stdout.read_to_end(&mut printed).await?;
            }
            process.child.wait().await
        })
        .await;
        if ended.is_err() {
            process.kill().await;
            let _ = process.wait().await;
        }
        process.sweep().await;
        ended.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "it does not respond"))??;
        Ok(printed)
    }

    /// Takes the process's streams: input, output, errors.
    pub fn streams(&mut self) -> io::Result<[Option<std::os::fd::OwnedFd>; 3]> {
        Ok([
            self.child.stdin.take().map(tokio::process::ChildStdin::into_owned_fd).transpose()?,
            self.child.stdout.take().map(tokio::process::ChildStdout::into_owned_fd).transpose()?,
            self.child.stderr.take().map(tokio::process::ChildStderr::into_owned_fd).transpose()?,
        ])
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Sends it the signal with this number. Nothing happens if it has ended.
    pub fn signal(&self, number: i32) {
        // It has not been waited for, so its number is still its own.
        let pid = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        if let (Some(pid), Some(signal)) = (pid, rustix::process::Signal::from_named_raw(number)) {
            let send = if self.whole_group { rustix::process::kill_process_group } else { rustix::process::kill_process };
            let _ = send(pid, signal);
        }
    }

    /// Kills it and everything that it has started. You must still wait for it.
    pub async fn kill(&mut self) {
        let _ = self.child.start_kill();
        if let Some(tree) = self.tree.clone() {
            let _ = tokio::task::spawn_blocking(move || tree.kill_now()).await;
        }
    }

    /// Ends what it left behind. Returns `false` if something may be left.
    pub async fn sweep(mut self) -> bool {
        let mut left = Left::default();
        if let Some(tree) = &self.tree {
            let until = Instant::now() + GRACE;
            left = tree.signal(StopSignal::Terminate).await;
            while left != Left::default() && Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(10)).await;
                left = tree.left().await;
            }
            if left != Left::default() {
                left = tree.kill_now();
            }
            tree.set_swept();
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss().await;
        }
        left == Left::default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(tree) = &self.tree {
            tree.kill_dropped();
        }
    }
}
