//! What the driver takes in: the agent's streams, first into the recording and then to the reader; what was sent to the
//! agent; and the events of a dialogue.

use std::sync::Arc;
use std::time::Duration;

use tapline_recording::Stream;
use tapline_session::Step;
use tapline_session::permission::Ruling;
use tokio::time::Instant;

use super::state::{Driver, Writing};
use crate::dialogue::{Outcome, Spoken};
use crate::input::Fed;
use crate::transport::Transport;
use crate::update::{Seen, Update};

/// How much of stderr is kept for the verdict and shown. The recording has all of it.
const STDERR_KEPT: usize = 64 << 10;
/// How many reads are made before something that is due.
const DRAINED: usize = 16;
/// How soon a piece is usually in the recording.
const AT_ONCE: Duration = Duration::from_millis(20);

/// The stream that was read, and how many bytes.
enum Read {
    Output(usize),
    Errors(usize),
    Nothing,
}

impl<T: Transport> Driver<T> {
    pub(super) fn take_fed(&mut self, fed: Fed) {
        let steps = match fed {
            Fed::Sent(bytes, at) => {
                // Most of what a dialogue sends starts no turn: requests and answers. And what we send is not a sign of
                // life of the agent.
                if self.dialogue.is_none() {
                    self.clocks.hear(Instant::now());
                    self.activity.sent();
                }
                self.host.push(&bytes, Some(self.epoch.moment_of(at)), &mut self.fold)
            }
            Fed::Closed => {
                let now = Instant::now();
                self.clocks.input_closed(now);
                self.activity.input_closed(now);
                self.host.close(&mut self.fold)
            }
        };
        self.tell_sent(steps);
    }

    pub(super) fn tell_sent(&mut self, steps: Vec<Step>) {
        if !steps.is_empty() {
            self.tell(Update::Sent(steps));
        }
    }

    /// Handles an event of the dialogue.
    pub(super) fn speak(&mut self, spoken: Spoken) {
        let Some(dialogue) = &mut self.dialogue else { return };
        let owed = dialogue.is_owed();
        let outcome = dialogue.speak(spoken, &self.activity);
        if dialogue.is_owed() && !owed {
            self.clocks.hear(Instant::now());
            self.activity.sent();
        }
        self.follow(outcome);
        self.tell_losses();
        self.after_dialogue();
    }

    /// Records and reports the consequences of an event. If something breaks the rules, the run is stopped at once.
    fn follow(&mut self, outcome: Outcome) {
        for settled in &outcome.settled {
            self.journal.decide(settled);
            // The result of a denied call can be read before it is noted that the answer was sent.
            if let Some(request) = settled.request_id.as_ref().filter(|_| settled.ruling == Ruling::Deny) {
                self.fold.refuse(request);
            }
        }
        for update in outcome.updates {
            self.tell(update);
        }
        if let Some(why) = outcome.violated {
            self.kill(why);
        }
    }

    /// Closes the agent's input once nothing needs it, and pauses the clocks while the agent waits for us.
    pub(super) fn after_dialogue(&mut self) {
        let Some(dialogue) = &mut self.dialogue else { return };
        let now = Instant::now();
        let over = dialogue.settle_due(&self.activity, now);
        dialogue.close_if_over(&self.activity, now);
        self.clocks.ask(dialogue.is_asked(), dialogue.is_owed(), now);
        for update in over {
            self.tell(update);
        }
    }

    /// Takes what was read: first into the recording, then to the reader.
    pub(super) fn take(&mut self, stream: Stream, count: usize) {
        let buffer = if stream == Stream::Stdout { self.stdout.take() } else { self.stderr.take() };
        let buffer = Arc::new(buffer);
        let (since, written) = self.journal.write(stream, &buffer, count);
        if stream == Stream::Stdout && count > 0 {
            self.state.last_output = Some(since);
        }
        match written {
            Some(written) => {
                self.state.writing = Some(Writing { stream, buffer, count, since, written });
            }
            None => self.taken(stream, buffer, count),
        }
    }

    /// Handles the last piece, which is in the recording or never will be.
    pub(super) fn written(&mut self) {
        if let Some(Writing { stream, buffer, count, .. }) = self.state.writing.take() {
            self.taken(stream, buffer, count);
        }
    }

    fn taken(&mut self, stream: Stream, buffer: Arc<Vec<u8>>, count: usize) {
        let is_output = stream == Stream::Stdout;
        if is_output {
            self.output(&buffer[..count]);
        } else {
            self.error_output(&buffer[..count]);
        }
        // A thread that waits for the disk may still hold it.
        let buffer = Arc::try_unwrap(buffer).unwrap_or_else(|buffer| vec![0; buffer.len()]);
        if is_output { self.stdout.give_back(buffer, count) } else { self.stderr.give_back(buffer, count) }
    }

    /// Returns when to give up on a disk that does not answer. It must not delay a run that has ended or is being
    /// stopped.
    pub(super) fn disk_alarm(&self) -> Option<Instant> {
        let writing = self.state.writing.as_ref()?;
        let over = self.ladder.stopped_at().into_iter().chain(self.state.exited_at).min()?;
        writing.since.max(over).checked_add(self.ladder.grace())
    }

    pub(super) fn give_up_disk(&mut self) {
        if let Some(writing) = &self.state.writing {
            self.journal.miss(writing.stream);
            self.journal.give_up();
            self.written();
        }
    }

    /// Reads what is already available, so that nothing that is due delays it. It stops after a while, because an agent
    /// may write without end. Returns `true` if nothing is left.
    pub(super) async fn drain(&mut self) -> bool {
        for _ in 0..DRAINED {
            if self.state.writing.is_some() {
                if tokio::time::timeout(AT_ONCE, ended(&mut self.state.writing)).await.is_err() {
                    return false;
                }
                self.written();
            }
            let (out, err) = (self.stdout.is_open() && self.may_read(), self.stderr.is_open());
            let next = async {
                tokio::select! {
                    count = self.stdout.read(), if out => Read::Output(count),
                    count = self.stderr.read(), if err => Read::Errors(count),
                    else => Read::Nothing,
                }
            };
            match tokio::time::timeout(Duration::ZERO, next).await {
                Ok(Read::Output(count)) => self.take(Stream::Stdout, count),
                Ok(Read::Errors(count)) => self.take(Stream::Stderr, count),
                _ => break,
            }
        }
        self.state.writing.is_none() && self.stdout.is_drained() && self.stderr.is_drained()
    }

    fn output(&mut self, bytes: &[u8]) {
        let now = Instant::now();
        self.state.last_read = Some(now);
        let records = if bytes.is_empty() { self.decoder.finish() } else { self.decoder.push(bytes) };
        if bytes.is_empty() {
            self.clocks.output_closed(now);
            if let Some(dialogue) = &mut self.dialogue {
                let outcome = dialogue.agent_gone();
                self.follow(outcome);
            }
        } else {
            self.clocks.hear(now);
        }
        let arrived = self.state.last_output.map(|at| self.epoch.moment_of(at));
        for mut record in records {
            record.arrived = arrived;
            let steps = self.fold.apply(&record);
            self.activity.accept(&record, &steps, now);
            let heard = self.dialogue.as_mut().map(|dialogue| dialogue.accept(&record, &steps, &self.activity));
            self.tell(Update::Record(Box::new(Seen { record, steps })));
            if let Some(outcome) = heard {
                self.follow(outcome);
            }
        }
        self.after_dialogue();
        self.tell_losses();
    }

    fn error_output(&mut self, bytes: &[u8]) {
        let state = &mut self.state;
        let room = STDERR_KEPT - state.stderr_kept.len();
        let kept = &bytes[..bytes.len().min(room)];
        state.stderr_kept.extend_from_slice(kept);
        // Whole lines are shown, and at the end the rest.
        let behind = &state.stderr_kept[state.stderr_shown..];
        let full = state.stderr_kept.len() == STDERR_KEPT;
        let end = if bytes.is_empty() || full {
            behind.len()
        } else {
            behind.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        };
        let text = String::from_utf8_lossy(&behind[..end]).into_owned();
        state.stderr_shown += end;
        let mut shown = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            self.error_lines.line(line.as_bytes().to_vec(), |line| shown.push(line));
        }
        if bytes.is_empty() || full {
            self.error_lines.finish(|line| shown.push(line));
        }
        for line in shown {
            let shown = String::from_utf8_lossy(&line).into_owned();
            self.fold.hear_stderr(&shown);
            self.tell(Update::Stderr(shown));
        }
        if full && !kept.is_empty() {
            self.tell(Update::Stderr("… (the rest of stderr is not shown)".to_owned()));
        }
        self.tell_losses();
    }
}

/// Waits until the piece is written, or for ever if there is none.
pub(super) async fn ended(writing: &mut Option<Writing>) {
    match writing {
        Some(writing) => drop((&mut writing.written).await),
        None => std::future::pending().await,
    }
}
