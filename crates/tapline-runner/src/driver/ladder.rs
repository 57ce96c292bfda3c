//! The stop ladder: stdin closed or SIGINT → grace → SIGTERM to every descendant → grace → SIGKILL to every descendant,
//! again and again until none is left. What outlives its agent is swept away by the same ladder.

use std::time::{Duration, Instant};

use super::{Driver, GIVE_UP, LOOK, NOT_TAKEN, STUCK};
use crate::clocks::Alarm;
use crate::running::{Order, StopReason, Update};
use crate::tree::Firmness;

/// How far a run has been told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rung {
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
pub(crate) struct Ladder {
    grace: Duration,
    rung: Rung,
    reason: Option<StopReason>,
    /// When the next rung is due.
    until: Option<Instant>,
}

impl Ladder {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { grace, rung: Rung::Running, reason: None, until: None }
    }

    /// Why the run was told to stop, if it was.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason
    }

    fn climb(&mut self, rung: Rung) {
        let wait = if rung == Rung::Killed { LOOK } else { self.grace };
        self.rung = self.rung.max(rung);
        self.until = Some(Instant::now() + wait);
    }
}

impl Driver {
    /// When something is due next.
    pub(super) fn next_alarm(&self) -> Option<Instant> {
        if self.state.exit.is_some() {
            return self.state.look_at;
        }
        let clock = self.clocks.next().map(|(at, _)| at).filter(|_| self.ladder.reason.is_none());
        [self.ladder.until, clock].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) async fn ring(&mut self) {
        let now = Instant::now();
        if self.state.exit.is_some() {
            return self.sweep(now).await;
        }
        if self.ladder.until.is_some_and(|until| until <= now) {
            self.next_rung().await;
        } else if self.ladder.reason.is_none()
            && let Some((at, alarm)) = self.clocks.next()
            && at <= now
        {
            let reason = match alarm {
                Alarm::Timeout => StopReason::Timeout,
                Alarm::Linger => StopReason::Linger,
            };
            self.stop(reason).await;
        }
    }

    /// A program or person tells the run to stop; told again, it is told more firmly.
    pub(super) async fn obey(&mut self, order: Order) {
        let reason = match order {
            Order::Interrupt => StopReason::Interrupted,
            Order::Terminate => StopReason::Terminated,
            Order::Stop => StopReason::Stopped,
        };
        if self.ladder.reason.is_some() && order != Order::Stop {
            // Whoever stopped it first: a person does not want to wait.
            if self.ladder.reason == Some(StopReason::Linger) {
                return self.next_rung().await;
            }
            self.ending.interrupted |= !self.ending.timed_out;
            self.next_rung().await;
        } else if self.ladder.reason.is_none() {
            self.stop(reason).await;
        }
    }

    /// Nobody is there any more who could want the run: everything is killed at once.
    pub(super) fn abandon(&mut self) {
        self.state.abandoned = true;
        self.state.pending.clear();
        self.ladder.reason.get_or_insert(StopReason::Stopped);
        self.ending.interrupted |= !self.ending.timed_out && !self.ending.lingered;
        self.close_input();
        self.ladder.rung = Rung::Killed;
        self.ladder.until = Some(Instant::now());
    }

    async fn stop(&mut self, reason: StopReason) {
        self.ladder.reason = Some(reason);
        self.tell(Update::Stopping(reason));
        match reason {
            StopReason::Timeout => self.ending.timed_out = true,
            StopReason::Linger => self.ending.lingered = true,
            StopReason::Interrupted | StopReason::Terminated | StopReason::Stopped => self.ending.interrupted = true,
        }
        let was_open = self.close_input();
        if reason == StopReason::Interrupted {
            self.tree.interrupt();
            self.ladder.climb(Rung::Asked);
        } else if was_open && reason != StopReason::Terminated {
            self.ladder.climb(Rung::Asked);
        } else {
            self.signal(Firmness::Terminate).await;
        }
    }

    /// Closes the agent's input, and says whether it was open.
    fn close_input(&mut self) -> bool {
        let was_open = self.feeder.as_ref().is_some_and(|feeder| !feeder.is_finished());
        if let Some(feeder) = self.feeder.take() {
            feeder.abort();
        }
        was_open
    }

    async fn next_rung(&mut self) {
        match self.ladder.rung {
            Rung::Running | Rung::Asked => self.signal(Firmness::Terminate).await,
            Rung::Terminated | Rung::Killed => self.signal(Firmness::Kill).await,
        };
    }

    /// Signals everything that is left, and says how many that were.
    async fn signal(&mut self, firmness: Firmness) -> usize {
        self.ladder.climb(if firmness == Firmness::Kill { Rung::Killed } else { Rung::Terminated });
        self.tree.signal(firmness).await
    }

    /// The agent has ended: nothing that it started stays.
    async fn sweep(&mut self, now: Instant) {
        self.state.look_at = Some(now + LOOK);
        let due = self.ladder.until.is_none_or(|until| until <= now);
        let left = match self.ladder.rung {
            Rung::Running | Rung::Asked => self.signal(Firmness::Terminate).await,
            Rung::Terminated if due => self.signal(Firmness::Kill).await,
            Rung::Terminated => self.tree.count().await,
            Rung::Killed => self.signal(Firmness::Kill).await,
        };
        let stuck =
            self.ladder.rung == Rung::Killed && self.state.exited_at.is_some_and(|at| now > at + self.ladder.grace + STUCK);
        self.state.swept = left == 0 || stuck;
        if left > 0 && stuck {
            self.tell(Update::Left(left));
        }
        let since = self.state.last_read.max(self.state.exited_at).unwrap_or(now);
        // Everybody who carries the mark is gone, and a pipe is still held. It is for the reader of the updates to read
        // what is in it; only who could be read and says nothing is given up.
        if self.state.swept && self.ladder.reason.is_some() && !self.state.pending.is_empty() && now > since + NOT_TAKEN {
            // A run that was stopped ends, also where nobody takes what it said.
            self.state.abandoned = true;
            self.state.pending.clear();
        }
        if self.state.swept && self.state.pending.is_empty() && now > since + LOOK {
            self.tree.kill_holders();
            if now > since + GIVE_UP {
                self.stdout.close();
                self.stderr.close();
            }
        }
    }
}
