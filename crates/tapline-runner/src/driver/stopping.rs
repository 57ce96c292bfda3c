//! What the driver does when something is due or the run must stop: it climbs the stop ladder, and uses the same ladder
//! for processes that outlive the agent.

use std::time::Duration;

use tapline_protocol::StopReason;
use tapline_recording::Stop;
use tokio::time::Instant;

use super::ladder::{LOOK, Rung};
use super::state::Driver;
use crate::spec::Limits;
use crate::stopper::Order;
use crate::transport::Transport;
use crate::tree::{Left, StopSignal};
use crate::update::Update;

/// How long to wait for a pipe that is still open after every process that could be found is dead.
const GIVE_UP: Duration = Duration::from_secs(2);
/// How long the output of a stopped run waits to be read. Then the run is over.
pub(super) const NOT_TAKEN: Duration = Duration::from_secs(3);

/// Returns why a run was stopped, for its recording.
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
    /// Returns when something is due next.
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
        // Read first, so that an agent that writes without end stops no clock, and no clock cuts off its output.
        self.drain().await;
        let now = Instant::now();
        if self.state.exited {
            return self.sweep(now).await;
        }
        if self.ladder.until.is_some_and(|until| until <= now) {
            self.next_rung().await;
            if self.ladder.is_stuck(now) {
                // The agent itself cannot be ended. That is left to the system.
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
        } else if self.ladder.reason.is_none()
            && self.dialogue.as_ref().is_some_and(|dialogue| dialogue.is_late(&self.activity, now))
        {
            self.stop(StopReason::Linger).await;
        } else {
            self.after_dialogue();
        }
    }

    /// Stops the run on a request from a program or person. A second request kills it at once.
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
            // The agent has ended. Only what it left behind can be killed sooner.
            if hurries {
                self.signal(StopSignal::Kill).await;
            }
        } else if self.ladder.reason.is_none() {
            self.stop(reason).await;
        } else if hurries {
            // Whatever stopped the run first, a person does not want to wait.
            self.signal(StopSignal::Kill).await;
        }
    }

    /// Kills everything at once, because nobody wants the run any more.
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
            // An agent in a conversation waits for the end of its input. Half a prompt would not be that.
            self.ladder.climb(Rung::Asked);
        } else {
            self.signal(StopSignal::Terminate).await;
        }
    }

    async fn next_rung(&mut self) {
        match self.ladder.rung {
            Rung::Running | Rung::Asked => self.signal(StopSignal::Terminate).await,
            Rung::Terminated | Rung::Killed => self.signal(StopSignal::Kill).await,
        };
    }

    /// Signals everything that is left, and returns what that was.
    async fn signal(&mut self, signal: StopSignal) -> Left {
        self.ladder.climb(if signal == StopSignal::Kill { Rung::Killed } else { Rung::Terminated });
        self.transport.signal(signal).await
    }

    /// Removes what the agent left running after its end.
    async fn sweep(&mut self, now: Instant) {
        self.state.look_at = Some(now + LOOK);
        let due = self.ladder.until.is_none_or(|until| until <= now);
        let left = match self.ladder.rung {
            Rung::Running | Rung::Asked => self.signal(StopSignal::Terminate).await,
            Rung::Terminated if due => self.signal(StopSignal::Kill).await,
            Rung::Terminated => self.transport.left().await,
            Rung::Killed => self.signal(StopSignal::Kill).await,
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

    /// Handles a pipe that is still open after every marked process is gone. Its content is read first. It is given up
    /// if it is readable and stays silent, or if the run was stopped.
    async fn give_up_pipes(&mut self, now: Instant) {
        let ended = self.state.exited_at.unwrap_or(now);
        let stopped = self.ladder.reason.is_some();
        let since = if stopped { ended } else { self.state.last_read.unwrap_or(ended).max(ended) };
        if stopped && !self.state.pending.is_empty() && now > since + NOT_TAKEN {
            // A stopped run ends, even if nobody reads its output.
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
