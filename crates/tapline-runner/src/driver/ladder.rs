//! The stop ladder: stdin closed or SIGINT → grace → SIGTERM to every descendant → grace → SIGKILL to every descendant,
//! again and again until none is left. What outlives its agent is swept away by the same ladder.

use std::time::{Duration, Instant};

use tapline_recording::Clock;

use super::{Driver, GIVE_UP, LOOK, NOT_TAKEN, STUCK};
use crate::agent::Limits;
use crate::clocks::Alarm;
use crate::dialogue::Dialogue;
use crate::running::{Order, StopReason, Update};
use crate::tree::{Firmness, Left};

/// The clock that has stopped a run, for its recording.
pub(super) fn clock_of(reason: StopReason, limits: &Limits) -> Option<Clock> {
    let (name, limit) = match reason {
        StopReason::Timeout => ("timeout", limits.timeout?),
        StopReason::Idle => ("idle-timeout", limits.idle?),
        StopReason::Linger => ("linger", limits.linger),
        StopReason::Interrupted | StopReason::Terminated | StopReason::Stopped => return None,
    };
    Some(Clock { name: name.to_owned(), ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) })
}

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
    /// When SIGKILL was sent first.
    killed_at: Option<Instant>,
    stopped_at: Option<Instant>,
}

impl Ladder {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { grace, rung: Rung::Running, reason: None, until: None, killed_at: None, stopped_at: None }
    }

    /// Why the run was told to stop, if it was.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason
    }

    /// How long each rung lasts.
    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }

    /// When the run was first told to stop.
    pub(crate) fn stopped_at(&self) -> Option<Instant> {
        self.stopped_at
    }

    fn climb(&mut self, rung: Rung) {
        let wait = if rung == Rung::Killed { LOOK } else { self.grace };
        if rung == Rung::Killed {
            self.killed_at.get_or_insert_with(Instant::now);
        }
        self.stopped_at.get_or_insert_with(Instant::now);
        self.rung = self.rung.max(rung);
        self.until = Instant::now().checked_add(wait);
    }

    /// SIGKILL was sent long ago: whoever is left cannot be ended.
    fn is_stuck(&self, now: Instant) -> bool {
        self.killed_at.is_some_and(|at| now > at + STUCK)
    }
}

impl Driver {
    /// When something is due next.
    pub(super) fn next_alarm(&self) -> Option<Instant> {
        let disk = self.disk_alarm();
        if self.state.exited {
            return self.state.look_at.into_iter().chain(disk).min();
        }
        let clock = self.clocks.next(self.may_read()).map(|(at, _)| at).filter(|_| self.ladder.reason.is_none());
        let close = self.dialogue.as_ref().and_then(Dialogue::alarm).filter(|_| self.ladder.reason.is_none());
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
            && let Some((at, alarm)) = self.clocks.next(self.may_read())
            && at <= now
        {
            let reason = match alarm {
                Alarm::Timeout => StopReason::Timeout,
                Alarm::Idle => StopReason::Idle,
                Alarm::Linger => StopReason::Linger,
            };
            self.stop(reason).await;
        } else {
            self.after_dialogue();
        }
    }

    /// A program or person tells the run to stop; told again, at once.
    pub(super) async fn obey(&mut self, order: Order) {
        let hurries = matches!(order, Order::Interrupt | Order::Terminate);
        let reason = match order {
            Order::Interrupt => StopReason::Interrupted,
            Order::Terminate => StopReason::Terminated,
            Order::Violated(rule) => {
                self.ending.violated.get_or_insert(rule);
                StopReason::Stopped
            }
            Order::NotTalking(why) => {
                self.ending.not_started.get_or_insert(why);
                StopReason::Stopped
            }
            Order::Stop => StopReason::Stopped,
        };
        if self.state.exited {
            // It has ended as it ended: only what it left behind can be hurried.
            if hurries {
                self.signal(Firmness::Kill).await;
            }
        } else if self.ladder.reason.is_none() {
            self.stop(reason).await;
        } else if hurries {
            // Whoever stopped it first: a person does not want to wait.
            self.ending.interrupted |= !self.ending.timed_out && !self.ending.lingered;
            self.signal(Firmness::Kill).await;
        }
    }

    /// What may not run runs: everything is killed at once.
    pub(super) fn kill(&mut self, why: String) {
        if self.ending.violated.is_none() {
            self.tell(Update::Trouble(why.clone()));
            self.ending.violated = Some(why);
        }
        if self.state.exited {
            return;
        }
        if self.ladder.reason.replace(StopReason::Stopped).is_none() {
            self.tell(Update::Stopping(StopReason::Stopped));
        }
        self.ladder.climb(Rung::Killed);
        self.ladder.until = Some(Instant::now());
    }

    /// Nobody is there any more who could want the run: everything is killed at once.
    pub(super) fn abandon(&mut self) {
        self.give_up_updates();
        self.ladder.reason.get_or_insert(StopReason::Stopped);
        self.ending.interrupted |= !self.ending.timed_out && !self.ending.lingered;
        self.close_input();
        self.ladder.climb(Rung::Killed);
        self.ladder.until = Some(Instant::now());
    }

    /// Nobody takes updates any more.
    fn give_up_updates(&mut self) {
        self.state.abandoned = true;
        self.state.pending.clear();
        self.state.pending_bytes = 0;
    }

    async fn stop(&mut self, reason: StopReason) {
        self.ladder.reason = Some(reason);
        self.tell(Update::Stopping(reason));
        match reason {
            StopReason::Timeout | StopReason::Idle => self.ending.timed_out = true,
            StopReason::Linger => self.ending.lingered = true,
            StopReason::Interrupted | StopReason::Terminated | StopReason::Stopped => self.ending.interrupted = true,
        }
        let was_open = self.close_input();
        if reason == StopReason::Interrupted {
            self.tree.interrupt();
            self.ladder.climb(Rung::Asked);
        } else if was_open && self.converses && matches!(reason, StopReason::Timeout | StopReason::Idle | StopReason::Linger) {
            // The end of a conversation is what its agent waits for. Half a prompt is none.
            self.ladder.climb(Rung::Asked);
        } else {
            self.signal(Firmness::Terminate).await;
        }
    }

    /// Closes the agent's input, and says whether it was open.
    pub(super) fn close_input(&mut self) -> bool {
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

    /// Signals everything that is left, and says what that was.
    async fn signal(&mut self, firmness: Firmness) -> Left {
        self.ladder.climb(if firmness == Firmness::Kill { Rung::Killed } else { Rung::Terminated });
        if firmness == Firmness::Kill && !self.state.exited {
            // Whatever can be found or not.
            let _ = self.child.start_kill();
        }
        self.tree.signal(firmness).await
    }

    /// The agent has ended: nothing that it started stays.
    async fn sweep(&mut self, now: Instant) {
        self.state.look_at = Some(now + LOOK);
        let due = self.ladder.until.is_none_or(|until| until <= now);
        let left = match self.ladder.rung {
            Rung::Running | Rung::Asked => self.signal(Firmness::Terminate).await,
            Rung::Terminated if due => self.signal(Firmness::Kill).await,
            Rung::Terminated => self.tree.left().await,
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
        let tree = std::sync::Arc::clone(&self.tree);
        let _ = tokio::task::spawn_blocking(move || tree.kill_holders()).await;
        self.state.look_at = Some(Instant::now() + 5 * LOOK);
        let since = if stopped { ended } else { self.state.last_read.unwrap_or(ended).max(ended) };
        if now > since + GIVE_UP && self.stdout.is_drained() && self.stderr.is_drained() {
            self.stdout.close();
            self.stderr.close();
        }
    }
}
