//! The position of a run on the stop ladder: stdin closed or SIGINT → grace → SIGTERM to every descendant → grace →
//! SIGKILL to every descendant, repeated until none is left. Pure.

use std::time::Duration;

use tapline_protocol::StopReason;
use tokio::time::Instant;

/// How often to check whether something of a run is left.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// A process that still exists this long after SIGKILL waits for a disk or the network, and cannot be ended.
const STUCK: Duration = Duration::from_secs(10);

/// How far a run has been stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rung {
    /// Not at all.
    Running,
    /// By closing its input, or by SIGINT.
    Asked,
    /// By SIGTERM.
    Terminated,
    /// By SIGKILL.
    Killed,
}

/// The position of a run on the ladder.
#[derive(Debug)]
pub(super) struct Ladder {
    grace: Duration,
    pub(super) rung: Rung,
    pub(super) reason: Option<StopReason>,
    /// When the next rung is due.
    pub(super) until: Option<Instant>,
    /// When SIGKILL was first sent.
    killed_at: Option<Instant>,
    stopped_at: Option<Instant>,
}

impl Ladder {
    pub(super) fn new(grace: Duration) -> Self {
        Self { grace, rung: Rung::Running, reason: None, until: None, killed_at: None, stopped_at: None }
    }

    /// Returns why the run is being stopped, if it is.
    pub(super) fn reason(&self) -> Option<StopReason> {
        self.reason
    }

    /// Returns how long each rung lasts.
    pub(super) fn grace(&self) -> Duration {
        self.grace
    }

    /// Returns when stopping began.
    pub(super) fn stopped_at(&self) -> Option<Instant> {
        self.stopped_at
    }

    pub(super) fn climb(&mut self, rung: Rung) {
        let wait = if rung == Rung::Killed { LOOK } else { self.grace };
        if rung == Rung::Killed {
            self.killed_at.get_or_insert_with(Instant::now);
        }
        self.stopped_at.get_or_insert_with(Instant::now);
        self.rung = self.rung.max(rung);
        self.until = Instant::now().checked_add(wait);
    }

    /// Returns whether SIGKILL was sent long ago, so what is left cannot be ended.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        self.killed_at.is_some_and(|at| now > at + STUCK)
    }
}
