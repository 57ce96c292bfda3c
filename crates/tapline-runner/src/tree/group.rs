//! The processes of a run where there is no `/proc`: the agent's process group. A process that leaves the group is not
//! found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::signal::{Left, StopSignal};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// The processes of a run.
#[derive(Debug)]
pub(crate) struct Tree {
    leader: Option<Pid>,
    swept: AtomicBool,
}

impl Tree {
    /// Creates the tree of this process.
    pub(crate) fn new(_mark: String, leader: Option<u32>, _pipes: &[i32]) -> Self {
        Self { leader: leader.and_then(|pid| Pid::from_raw(pid.cast_signed())), swept: AtomicBool::new(false) }
    }

    /// Returns whether everything is known to be gone.
    pub(crate) fn is_swept(&self) -> bool {
        self.swept.load(Ordering::Acquire)
    }

    pub(crate) fn set_swept(&self) {
        self.swept.store(true, Ordering::Release);
    }

    /// Interrupts the agent as a terminal would.
    pub(crate) fn interrupt(&self) {
        if let Some(leader) = self.leader {
            let _ = kill_process_group(leader, Signal::INT);
        }
    }

    /// Signals everything that is left, and returns how many groups that were.
    #[expect(clippy::unused_async, reason = "as on Linux")]
    pub(crate) async fn signal(&self, signal: StopSignal) -> Left {
        Left { processes: self.signal_group(signal), unclear: false }
    }

    /// Creates an empty tree: a mark alone finds nothing here.
    pub(crate) fn of_mark(mark: String) -> Self {
        Self::new(mark, None, &[])
    }

    pub(crate) fn signal_now(&self, signal: StopSignal) -> Left {
        Left { processes: self.signal_group(signal), unclear: false }
    }

    #[expect(clippy::unused_self, reason = "as on Linux")]
    pub(crate) fn left_now(&self) -> Left {
        Left::default()
    }

    pub(crate) fn kill_now(&self) -> Left {
        Left { processes: self.signal_group(StopSignal::Kill), unclear: false }
    }

    fn signal_group(&self, signal: StopSignal) -> usize {
        usize::from(self.leader.is_some_and(|leader| kill_process_group(leader, signal.signal()).is_ok()))
    }

    /// Returns how many groups are left.
    #[expect(clippy::unused_async, reason = "as on Linux")]
    pub(crate) async fn left(&self) -> Left {
        let processes = usize::from(self.leader.is_some_and(|leader| test_kill_process_group(leader).is_ok()));
        Left { processes, unclear: false }
    }

    /// Does nothing: processes cannot be found by their pipes here.
    #[expect(clippy::unused_self, reason = "as on Linux")]
    pub(crate) fn kill_holders(&self) {}

    /// Kills everything at once, for a run that is dropped.
    pub(crate) fn kill_dropped(self: &Arc<Self>) {
        if !self.is_swept() {
            self.signal_group(StopSignal::Kill);
        }
    }
}

/// Returns `false`: processes that leave the process group are not found.
pub(crate) fn reaches_all() -> bool {
    false
}
