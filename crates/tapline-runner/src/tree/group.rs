//! The processes of a run where there is no `/proc`: the agent's process group. What leaves the group is not reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::signal::{Firmness, Left};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// What a run has started.
#[derive(Debug)]
pub(crate) struct Tree {
    leader: Option<Pid>,
    swept: AtomicBool,
}

impl Tree {
    /// What will be started by this process.
    pub(crate) fn new(_mark: String, leader: Option<u32>, _pipes: &[i32]) -> Self {
        Self { leader: leader.and_then(|pid| Pid::from_raw(pid.cast_signed())), swept: AtomicBool::new(false) }
    }

    /// Whether everything is known to be gone.
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

    /// Signals everything that is left, and says how many groups that were.
    #[expect(clippy::unused_async, reason = "as on Linux")]
    pub(crate) async fn signal(&self, firmness: Firmness) -> Left {
        Left { processes: self.signal_group(firmness), unclear: false }
    }

    /// A mark alone finds nothing here.
    pub(crate) fn of_mark(mark: String) -> Self {
        Self::new(mark, None, &[])
    }

    pub(crate) fn signal_now(&self, firmness: Firmness) -> Left {
        Left { processes: self.signal_group(firmness), unclear: false }
    }

    #[expect(clippy::unused_self, reason = "as on Linux")]
    pub(crate) fn left_now(&self) -> Left {
        Left::default()
    }

    pub(crate) fn kill_now(&self) -> Left {
        Left { processes: self.signal_group(Firmness::Kill), unclear: false }
    }

    fn signal_group(&self, firmness: Firmness) -> usize {
        usize::from(self.leader.is_some_and(|leader| kill_process_group(leader, firmness.signal()).is_ok()))
    }

    /// How many groups are left.
    #[expect(clippy::unused_async, reason = "as on Linux")]
    pub(crate) async fn left(&self) -> Left {
        let processes = usize::from(self.leader.is_some_and(|leader| test_kill_process_group(leader).is_ok()));
        Left { processes, unclear: false }
    }

    /// Nobody can be found by the pipes they hold here.
    #[expect(clippy::unused_self, reason = "as on Linux")]
    pub(crate) fn kill_holders(&self) {}

    /// Kills everything at once, for a run that is dropped.
    pub(crate) fn kill_dropped(self: &Arc<Self>) {
        if !self.is_swept() {
            self.signal_group(Firmness::Kill);
        }
    }
}

/// What leaves the process group is not reached.
pub(crate) fn reaches_all() -> bool {
    false
}
