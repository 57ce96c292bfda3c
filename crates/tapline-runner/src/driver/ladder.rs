//! Where a run stands on the stop ladder: stdin closed or SIGINT → grace → SIGTERM to every descendant → grace → SIGKILL to
//! every descendant, again and again until none is left. Pure.

use std::time::Duration;

use tapline_protocol::StopReason;
use tokio::time::Instant;

/// How often it is looked whether something of a run is left.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// What SIGKILL has not ended after this long waits for a disk or the network, and nobody can end it.
const STUCK: Duration = Duration::from_secs(10);

/// How far a run has been told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rung {
    /// Not at all.
    Running,
    /// By the end of its input, or SIGINT.
    Asked,
    /// By SIGTERM.
    Terminated,
    /// By SIGKILL.
    Killed,
}

/// Where a run stands on the ladder.
#[derive(Debug)]
pub(super) struct Ladder {
    grace: Duration,
    pub(super) rung: Rung,
    pub(super) reason: Option<StopReason>,
    /// When the next rung is due.
    pub(super) until: Option<Instant>,
    /// When SIGKILL was sent first.
    killed_at: Option<Instant>,
    stopped_at: Option<Instant>,
}

impl Ladder {
    pub(super) fn new(grace: Duration) -> Self {
        Self { grace, rung: Rung::Running, reason: None, until: None, killed_at: None, stopped_at: None }
    }

    /// Why the run was told to stop, if it was.
    pub(super) fn reason(&self) -> Option<StopReason> {
        self.reason
    }

    /// How long each rung lasts.
    pub(super) fn grace(&self) -> Duration {
        self.grace
    }

    /// When the run was first told to stop.
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

    /// SIGKILL was sent long ago: whoever is left cannot be ended.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        self.killed_at.is_some_and(|at| now > at + STUCK)
    }
}
