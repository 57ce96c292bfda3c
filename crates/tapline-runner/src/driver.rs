//! Drives one run from start to end, over any transport: reads both streams, keeps the clocks, climbs the stop ladder,
//! and finishes only when nothing of the run is left. It runs at its own pace: a slow reader of its updates delays the
//! agent, never a clock.

mod ladder;
mod pipe;
mod reading;
mod state;
mod stopping;

use std::process::ExitStatus;
use std::time::Duration;

use tapline_recording::{End, Stream};
use tapline_session::signal_name;
use tokio::time::Instant;

use crate::dialogue::{Dialogue, Spoken};
use crate::input::Fed;
use crate::stopper::Order;
use crate::transport::Transport;
use crate::update::{Conclusion, Update};
use ladder::LOOK;
use reading::ended;
use state::State;
pub(crate) use state::{Driver, Wires};
use stopping::{NOT_TAKEN, stop_of};
use tapline_session::text::with_causes;

/// How long the disk may take at the end of a run that was not stopped.
const DISK: Duration = Duration::from_secs(30);

/// The next event.
enum Next {
    Order(Order),
    Abandoned,
    Exit(Option<ExitStatus>),
    Fed(Fed),
    HandedOver,
    Output(usize),
    ErrorOutput(usize),
    Alarm,
    Spoken(Spoken),
    Written,
}

impl<T: Transport> Driver<T> {
    pub(crate) async fn run(mut self) -> Conclusion {
        while !self.is_done() {
            self.wait().await;
        }
        self.transport.close().await;
        self.conclude().await
    }

    fn is_done(&self) -> bool {
        let read = !self.stdout.is_open() && !self.stderr.is_open();
        self.state.exited && self.state.swept && read && self.state.writing.is_none()
    }

    /// Waits for the next event and handles it.
    async fn wait(&mut self) {
        match self.next().await {
            Next::Order(order) => self.obey(order).await,
            Next::Abandoned => self.abandon(),
            Next::Exit(status) => {
                self.state.exited = true;
                self.state.exit = status;
                self.state.exited_at = Some(Instant::now());
                self.state.look_at = Some(Instant::now());
            }
            Next::Fed(fed) => self.take_fed(fed),
            // Until now, its output could not be read.
            Next::HandedOver => self.clocks.hear(Instant::now()),
            Next::Output(count) => self.take(Stream::Stdout, count),
            Next::ErrorOutput(count) => self.take(Stream::Stderr, count),
            Next::Written => self.written(),
            Next::Alarm => self.ring().await,
            Next::Spoken(spoken) => self.speak(spoken),
        }
    }

    async fn next(&mut self) -> Next {
        let alarm = self.next_alarm();
        let may_read = self.may_read();
        let State { exited, pending, pending_bytes, abandoned, writing, .. } = &mut self.state;
        let idle = writing.is_none();
        tokio::select! {
            biased;
            Some(order) = self.wires.orders.recv() => Next::Order(order),
            () = self.wires.updates.closed(), if !*abandoned => Next::Abandoned,
            status = self.transport.ended(), if !*exited => Next::Exit(status),
            Some(fed) = self.fed.recv() => Next::Fed(fed),
            spoken = spoken(&mut self.dialogue) => Next::Spoken(spoken),
            permit = self.wires.updates.reserve(), if !pending.is_empty() && !*abandoned => {
                if let Ok(permit) = permit {
                    permit.send(std::mem::take(pending));
                    *pending_bytes = 0;
                }
                Next::HandedOver
            }
            () = ended(writing) => Next::Written,
            // Before the pipes, so that an agent that writes without end cannot stop a clock.
            () = sleep_until(alarm) => Next::Alarm,
            count = self.stdout.read(), if self.stdout.is_open() && may_read && idle => Next::Output(count),
            count = self.stderr.read(), if self.stderr.is_open() && idle => Next::ErrorOutput(count),
        }
    }

    /// Passes on what is left, closes the recording, and says how the run ended.
    async fn conclude(mut self) -> Conclusion {
        // From here on, every request fails at once.
        self.dialogue = None;
        while let Ok(fed) = self.fed.try_recv() {
            self.take_fed(fed);
        }
        let steps = self.host.close(&mut self.fold);
        self.tell_sent(steps);
        self.ending.stderr = Some(self.redactor.text(&String::from_utf8_lossy(&self.state.stderr_kept)).into_owned());
        self.close_input();
        self.ending.exit_code = self.state.exit.and_then(|status| status.code());
        {
            use std::os::unix::process::ExitStatusExt as _;
            self.ending.signal = self.state.exit.and_then(|status| status.signal()).map(signal_name);
        }
        let stopped = self.ladder.reason();
        let stop = stopped.map(|reason| stop_of(reason, self.clocks.limits()));
        (self.ending.stopped, self.ending.limit_ms) = (stopped, stop.and_then(|stop| stop.limit_ms));
        let duration = self.epoch.elapsed();
        let summary = self.fold.finish(&self.ending);
        let end = End {
            exit_code: self.ending.exit_code,
            signal: self.ending.signal.clone(),
            stop,
            violated: self.ending.violated.clone(),
            left: self.state.left,
            duration_ms: u64::try_from(duration.as_millis()).ok(),
            verdict: summary.verdict.to_json(),
            ..End::default()
        };
        let mut updates = self.state.pending;
        updates.extend(self.journal.losses().iter().map(|loss| Update::Lost(loss.to_string())));
        // Flushing to the disk takes time, and other runs share this thread. A disk that does not answer is not waited
        // for.
        let journal = self.journal.clone();
        let finished = tokio::task::spawn_blocking(move || journal.finish(&end));
        let grace = self.ladder.grace();
        let patience = match stopped {
            _ if self.journal.is_given_up() => LOOK,
            Some(_) => grace,
            None => grace.max(DISK),
        };
        // If somebody stops a successful run now, the wait for the disk is as short as for any stopped run.
        let tired = async {
            if stopped.is_none() && tokio::time::timeout(patience, self.wires.orders.recv()).await.is_ok() {
                tokio::time::sleep(grace).await;
            } else if stopped.is_some() {
                tokio::time::sleep(patience).await;
            }
        };
        let finished = tokio::select! {
            biased;
            finished = finished => Some(finished),
            () = tired => None,
        };
        match finished {
            Some(Ok(Ok(losses))) => updates.extend(losses.iter().map(|loss| Update::Lost(loss.to_string()))),
            Some(Ok(Err(error))) => updates.push(Update::Lost(with_causes(&error))),
            Some(Err(_)) => {}
            None => updates.push(Update::Lost(
                "the recording's end.json is missing, and its last data may not be on the disk: the disk does not respond"
                    .to_owned(),
            )),
        }
        self.wires.over.send_replace(stopped);
        if !updates.is_empty() {
            // Wait for a slow reader, unless somebody stops the run.
            let tired = async {
                match stopped {
                    Some(_) => tokio::time::sleep(NOT_TAKEN).await,
                    None => drop(self.wires.orders.recv().await),
                }
            };
            tokio::select! {
                _ = self.wires.updates.send(updates) => {}
                () = tired => {}
            }
        }
        Conclusion { summary, ending: self.ending, duration }
    }
}

/// Returns the next event of the dialogue, if there is one.
async fn spoken(dialogue: &mut Option<Dialogue>) -> Spoken {
    match dialogue {
        Some(dialogue) => dialogue.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until this time, or for ever.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
