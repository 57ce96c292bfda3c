//! What the driver does when something is due or the run is to stop: it climbs the stop ladder, and sweeps away what outlives
//! the agent by the same ladder.

use std::time::Duration;

use tapline_protocol::StopReason;
use tapline_recording::Stop;
use tokio::time::Instant;

use super::ladder::{LOOK, Rung};
use super::state::Driver;
use crate::spec::Limits;
use crate::stopper::Order;
use crate::transport::Transport;
use crate::tree::{Firmness, Left};
use crate::update::Update;

/// A pipe that is still held when everybody who could be found is dead is given up after this.
const GIVE_UP: Duration = Duration::from_secs(2);
/// What a stopped run said is waited to be taken for this long, then the run is over.
pub(super) const NOT_TAKEN: Duration = Duration::from_secs(3);

/// Why a run was stopped, for its recording.
pub(super) fn stop_of(reason: StopReason, limits: &Limits) -> Stop {
    let limit = match reason {
        StopReason::Timeout => limits.timeout,
        StopReason::Idle => limits.idle,
        StopReason::Linger => Some(limits.linger),
        StopReason::Interrupted | StopReason::Terminated | StopReason::Stopped => None,
    };
    let limit_ms = limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    Stop { reason, limit_ms }
}

impl<T: Transport> Driver<T> {
    /// When something is due next.
    pub(super) fn next_alarm(&self) -> Option<Instant> {
        let disk = self.disk_alarm();
        if self.state.exited {
            return self.state.look_at.into_iter().chain(disk).min();
        }
        let clock =
            self.clocks.next(&self.activity, self.may_read()).map(|(at, _)| at).filter(|_| self.ladder.reason.is_none());
        let close =
            self.dialogue.as_ref().and_then(|dialogue| dialogue.alarm(&self.activity)).filter(|_| self.ladder.reason.is_none());
        [self.ladder.until, clock, close, disk].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) async fn ring(&mut self) {
        if self.disk_alarm().is_some_and(|at| at <= Instant::now()) {
            self.give_up_disk();
        }
        // An agent that talks all the time stops no clock, and no clock keeps it from being heard.
        self.drain().await;
        let now = Instant::now();
        if self.state.exited {
            return self.sweep(now).await;
        }
        if self.ladder.until.is_some_and(|until| until <= now) {
            self.next_rung().await;
            if self.ladder.is_stuck(now) {
                // The agent itself cannot be ended. It is for the system to do so, one day.
                self.state.left = Some(1);
                self.tell(Update::Left(1));
                self.state.exited = true;
                self.state.swept = true;
                self.stdout.close();
                self.stderr.close();
            }
        } else if self.ladder.reason.is_none()
            && let Some((at, reason)) = self.clocks.next(&self.activity, self.may_read())
            && at <= now
        {
            self.stop(reason).await;
        } else {
            self.after_dialogue();
        }
    }

    /// A program or person tells the run to stop; told again, at once.
    pub(super) async fn obey(&mut self, order: Order) {
        let reason = match order {
            Order::Stop(reason) => reason,
            Order::Violated(rule) => {
                self.ending.violated.get_or_insert(rule);
                StopReason::Stopped
            }
            Order::NotTalking(why) => {
                self.ending.not_started.get_or_insert(why);
                StopReason::Stopped
            }
        };
        let hurries = matches!(reason, StopReason::Interrupted | StopReason::Terminated);
        if self.state.exited {
            // It has ended as it ended: only what it left behind can be hurried.
            if hurries {
                self.signal(Firmness::Kill).await;
            }
        } else if self.ladder.reason.is_none() {
            self.stop(reason).await;
        } else if hurries {
            // Whoever stopped it first: a person does not want to wait.
            self.signal(Firmness::Kill).await;
        }
    }

    /// Nobody is there any more who could want the run: everything is killed at once.
    pub(super) fn abandon(&mut self) {
        self.give_up_updates();
        self.ladder.reason.get_or_insert(StopReason::Stopped);
        self.close_input();
        self.ladder.climb(Rung::Killed);
        self.ladder.until = Some(Instant::now());
    }

    async fn stop(&mut self, reason: StopReason) {
        self.ladder.reason = Some(reason);
        self.tell(Update::Stopping(reason));
        let was_open = self.close_input();
        if reason == StopReason::Interrupted {
            self.transport.interrupt();
            self.ladder.climb(Rung::Asked);
        } else if was_open && self.converses && !reason.is_interrupt() {
            // The end of a conversation is what its agent waits for. Half a prompt is none.
            self.ladder.climb(Rung::Asked);
        } else {
            self.signal(Firmness::Terminate).await;
        }
    }

    async fn next_rung(&mut self) {
        match self.ladder.rung {
            Rung::Running | Rung::Asked => self.signal(Firmness::Terminate).await,
            Rung::Terminated | Rung::Killed => self.signal(Firmness::Kill).await,
        };
    }

    /// Signals everything that is left, and says what that was.
    async fn signal(&mut self, firmness: Firmness) -> Left {
        self.ladder.climb(if firmness == Firmness::Kill { Rung::Killed } else { Rung::Terminated });
        self.transport.signal(firmness).await
    }

    /// The agent has ended: nothing that it started stays.
    async fn sweep(&mut self, now: Instant) {
        self.state.look_at = Some(now + LOOK);
        let due = self.ladder.until.is_none_or(|until| until <= now);
        let left = match self.ladder.rung {
            Rung::Running | Rung::Asked => self.signal(Firmness::Terminate).await,
            Rung::Terminated if due => self.signal(Firmness::Kill).await,
            Rung::Terminated => self.transport.left().await,
            Rung::Killed => self.signal(Firmness::Kill).await,
        };
        let stuck = self.ladder.is_stuck(now);
        if stuck && left != Left::default() && self.state.left.replace(left.processes).is_none() {
            self.tell(Update::Left(left.processes));
        }
        self.state.swept = left == Left::default() || stuck;
        if self.state.swept {
            self.give_up_pipes(now).await;
        }
    }

    /// Everybody who carries the mark is gone, and a pipe is still held. It is for the reader of the updates to read what is
    /// in it; only who could be read and says nothing is given up, and whoever talks on after a run was stopped.
    async fn give_up_pipes(&mut self, now: Instant) {
        let ended = self.state.exited_at.unwrap_or(now);
        let stopped = self.ladder.reason.is_some();
        let since = if stopped { ended } else { self.state.last_read.unwrap_or(ended).max(ended) };
        if stopped && !self.state.pending.is_empty() && now > since + NOT_TAKEN {
            // A run that was stopped ends, also where nobody takes what it said.
            self.give_up_updates();
        }
        if !self.drain().await || !self.state.pending.is_empty() || now < since + LOOK {
            return;
        }
        self.transport.kill_holders().await;
        self.state.look_at = Some(Instant::now() + 5 * LOOK);
        let since = if stopped { ended } else { self.state.last_read.unwrap_or(ended).max(ended) };
        if now > since + GIVE_UP && self.stdout.is_drained() && self.stderr.is_drained() {
            self.stdout.close();
            self.stderr.close();
        }
    }
}
