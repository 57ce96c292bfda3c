//! A child process and everything that it starts.

use std::os::fd::{AsFd, AsRawFd as _};
use std::process::ExitStatus;
use std::sync::Arc;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use super::{Killer, Source, Streams, Transport};
use crate::guard::Guard;
use crate::tree::{Left, StopSignal, Tree};

#[derive(Debug)]
pub(crate) struct ChildTransport {
    child: Child,
    tree: Arc<Tree>,
    guard: Option<Guard>,
}

impl ChildTransport {
    /// Creates the transport of a child that was started with this mark.
    pub(crate) fn new(child: Child, mark: String, guard: Option<Guard>) -> Self {
        let (output, errors) = (child.stdout.as_ref(), child.stderr.as_ref());
        let output = output.map(ChildStdout::as_raw_fd).into_iter();
        let pipes: Vec<_> = output.chain(errors.map(ChildStderr::as_raw_fd)).collect();
        let tree = Arc::new(Tree::new(mark, child.id(), &pipes));
        Self { child, tree, guard }
    }
}

impl Transport for ChildTransport {
    type Input = ChildStdin;
    type Output = ChildStdout;
    type Errors = ChildStderr;

    fn streams(&mut self) -> Streams<ChildStdin, ChildStdout, ChildStderr> {
        let child = &mut self.child;
        Streams { input: child.stdin.take(), output: child.stdout.take(), errors: child.stderr.take() }
    }

    async fn ended(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    fn interrupt(&self) {
        self.tree.interrupt();
    }

    async fn signal(&mut self, signal: StopSignal) -> Left {
        if signal == StopSignal::Kill {
            // Kill the child itself in any case. Nothing happens if it was already waited for.
            let _ = self.child.start_kill();
        }
        self.tree.signal(signal).await
    }

    async fn left(&mut self) -> Left {
        self.tree.left().await
    }

    async fn kill_holders(&mut self) {
        let tree = Arc::clone(&self.tree);
        let _ = tokio::task::spawn_blocking(move || tree.kill_holders()).await;
    }

    async fn close(&mut self) {
        self.tree.set_swept();
        if let Some(guard) = self.guard.take() {
            guard.dismiss().await;
        }
    }

    fn killer(&self) -> Arc<dyn Killer> {
        Arc::clone(&self.tree) as Arc<dyn Killer>
    }
}

impl Killer for Tree {
    fn kill(self: Arc<Self>) {
        self.kill_dropped();
    }
}

impl Source for ChildStdout {
    fn is_drained(&self) -> bool {
        is_drained(self)
    }
}

impl Source for ChildStderr {
    fn is_drained(&self) -> bool {
        is_drained(self)
    }
}

fn is_drained(pipe: &impl AsFd) -> bool {
    !rustix::io::ioctl_fionread(pipe).is_ok_and(|bytes| bytes > 0)
}
