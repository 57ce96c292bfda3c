//! The recording of a run, shared by all that write to it. Threads of the runtime write it, so that no clock or signal
//! waits for a disk that hangs. If writing fails, the run continues, and the loss is reported. If the recording must
//! have no secrets, they are removed here; what the agent is sent, and decisions about it, are not changed.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tapline_protocol::Json;
use tapline_recording::{End, Loss, PieceRedactor, Recorder, RecordingError, Redactor, Stream};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

use crate::epoch::Epoch;
use crate::settled::Settled;

/// A recording, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Option<Arc<Kept>>);

#[derive(Debug)]
struct Kept {
    epoch: Epoch,
    /// Locked while somebody writes, for as long as the disk takes.
    open: Mutex<Open>,
    /// What is to be written, in order.
    queue: Mutex<VecDeque<Entry>>,
    untold: Mutex<Vec<Loss>>,
    /// How many bytes of each stream are written.
    written: [AtomicU64; 3],
    /// Whether writing was given up, and which streams are incomplete because of that.
    given_up: AtomicBool,
    missing: [AtomicBool; 3],
}

#[derive(Debug)]
struct Open {
    recorder: Option<Recorder>,
    redaction: Option<Redaction>,
}

#[derive(Debug)]
struct Redaction {
    redactor: Redactor,
    /// One for each stream.
    streams: [(PieceRedactor, Lines); 3],
}

/// When the lines arrived that a redactor holds back. They are recorded later, with the time of their arrival.
#[derive(Debug, Default)]
struct Lines {
    /// How many arrived together, and when.
    held: VecDeque<(usize, Duration)>,
    last: Duration,
}

impl Lines {
    fn came(&mut self, bytes: &[u8], at: Duration) {
        let lines = bytes.split(|byte| *byte == b'\n').count() - 1;
        self.held.extend((lines > 0).then_some((lines, at)));
        self.last = at;
    }

    /// Records the lines that a redactor releases. Lines that arrived together are one piece.
    fn record(&mut self, bytes: &[u8], stream: Stream, recorder: &mut Recorder) -> Vec<Loss> {
        let mut pieces: Vec<(usize, Duration)> = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            while self.held.front().is_some_and(|(lines, _)| *lines == 0) {
                self.held.pop_front();
            }
            let at = self.held.front_mut().map_or(self.last, |(lines, at)| {
                *lines -= usize::from(line.ends_with(b"\n"));
                *at
            });
            match pieces.last_mut().filter(|(_, time)| *time == at) {
                Some((length, _)) => *length += line.len(),
                None => pieces.push((line.len(), at)),
            }
        }
        let mut rest = bytes;
        let cut = |(length, at)| recorder.write_at(stream, rest.split_off(..length).unwrap_or_default(), at);
        pieces.into_iter().flat_map(cut).collect()
    }
}

#[derive(Debug)]
enum Entry {
    Piece(Stream, Arc<Vec<u8>>, usize, Duration),
    Closed(Stream, Duration),
    Decision(Settled, Duration),
}

/// Locks a mutex, even if another thread panicked with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the disk did not respond")
}

impl Open {
    fn write(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Vec<Loss> {
        let Some(recorder) = &mut self.recorder else { return Vec::new() };
        let Some(redaction) = &mut self.redaction else { return recorder.write_at(stream, bytes, at) };
        let (redactor, lines) = &mut redaction.streams[stream as usize];
        lines.came(bytes, at);
        lines.record(&redactor.push(bytes), stream, recorder)
    }

    /// Writes what a redactor still holds back.
    fn write_rest(&mut self, stream: Stream) -> Vec<Loss> {
        let (Some(recorder), Some(redaction)) = (&mut self.recorder, &mut self.redaction) else { return Vec::new() };
        let (redactor, lines) = &mut redaction.streams[stream as usize];
        lines.record(&redactor.finish(), stream, recorder)
    }

    fn close(&mut self, stream: Stream, at: Duration) -> Vec<Loss> {
        let mut losses = self.write_rest(stream);
        losses.extend(self.recorder.as_mut().map(|recorder| recorder.close_at(stream, at)).unwrap_or_default());
        losses
    }

    fn decide(&mut self, settled: &Settled, at: Duration) -> Vec<Loss> {
        let Some(recorder) = &mut self.recorder else { return Vec::new() };
        match &self.redaction {
            Some(redaction) => recorder.decide_at(&clean_decision(&redaction.redactor, settled), at),
            None => recorder.decide_at(settled, at),
        }
    }
}

/// Returns a value without its secrets, or `None` if it is no longer valid.
fn clean(redactor: &Redactor, json: &Json) -> Option<Json> {
    let clean = redactor.line(json.as_str().as_bytes());
    Json::parse(std::str::from_utf8(&clean).ok()?).ok()
}

/// Returns a decision without secrets. Each text is redacted on its own, so nothing can break.
fn clean_decision(redactor: &Redactor, settled: &Settled) -> Settled {
    let text = |text: &String| redactor.text(text).into_owned();
    let Settled { request_id, tool_use_id, tool, ruling, by, rule, reason, rewritten, remembered, suggestion: _ } = settled;
    Settled {
        request_id: request_id.as_ref().map(text),
        tool_use_id: tool_use_id.as_ref().map(text),
        tool: text(tool),
        rule: rule.as_ref().map(text),
        reason: reason.as_ref().map(text),
        ruling: *ruling,
        by: *by,
        rewritten: *rewritten,
        remembered: *remembered,
        // A recording does not keep it.
        suggestion: None,
    }
}

impl Kept {
    /// Writes everything that waits.
    fn flush(&self) {
        let mut open = lock(&self.open);
        while let Some(entry) = { lock(&self.queue).pop_front() } {
            let losses = match &entry {
                Entry::Piece(stream, bytes, count, at) => open.write(*stream, &bytes[..*count], *at),
                Entry::Closed(stream, at) => open.close(*stream, *at),
                Entry::Decision(settled, at) => open.decide(settled, *at),
            };
            if let Entry::Piece(stream, _, count, _) = entry {
                self.written[stream as usize].fetch_add(count as u64, Ordering::AcqRel);
            }
            lock(&self.untold).extend(losses);
        }
    }

    /// Notes that a piece was not written. Reported once per stream.
    fn miss(&self, stream: Stream) {
        if !self.missing[stream as usize].swap(true, Ordering::AcqRel) {
            let from = self.written[stream as usize].load(Ordering::Acquire);
            lock(&self.untold).push(Loss { file: stream.file_name().to_owned(), from, error: no_answer().to_string() });
        }
    }
}

impl Journal {
    /// Creates a journal. With a redactor, secrets are removed.
    pub(crate) fn new(recorder: Option<Recorder>, redactor: Option<Redactor>, epoch: Epoch) -> Self {
        let streams = |redactor: &Redactor| [(); 3].map(|()| (redactor.pieces(), Lines::default()));
        let redaction = redactor.map(|redactor| Redaction { streams: streams(&redactor), redactor });
        let kept = |recorder| Kept {
            epoch,
            open: Mutex::new(Open { recorder: Some(recorder), redaction }),
            queue: Mutex::default(),
            untold: Mutex::default(),
            written: Default::default(),
            given_up: AtomicBool::new(false),
            missing: Default::default(),
        };
        Self(recorder.map(|recorder| Arc::new(kept(recorder))))
    }

    /// Records the first `count` bytes, which just arrived or were sent, and returns the time. The task that it returns
    /// ends when they are written; there is none if there is no recording.
    pub(crate) fn write(&self, stream: Stream, bytes: &Arc<Vec<u8>>, count: usize) -> (Instant, Option<JoinHandle<()>>) {
        let Some(kept) = self.0.as_ref().filter(|_| count > 0) else { return (Instant::now(), None) };
        if kept.given_up.load(Ordering::Acquire) {
            kept.miss(stream);
            return (Instant::now(), None);
        }
        self.enter(|at| Entry::Piece(stream, Arc::clone(bytes), count, at))
    }

    /// Notes that a stream was closed just now.
    pub(crate) fn close(&self, stream: Stream) {
        self.enter(|at| Entry::Closed(stream, at));
    }

    /// Records a permission decision.
    pub(crate) fn decide(&self, settled: &Settled) {
        self.enter(|at| Entry::Decision(settled.clone(), at));
    }

    fn enter(&self, entry: impl FnOnce(Duration) -> Entry) -> (Instant, Option<JoinHandle<()>>) {
        let kept = self.0.clone().filter(|kept| !kept.given_up.load(Ordering::Acquire));
        let Some(kept) = kept else { return (Instant::now(), None) };
        let mut queue = lock(&kept.queue);
        // Read the clock while nobody else can add an entry, so that `times` is in order.
        let at = Instant::now();
        queue.push_back(entry(kept.epoch.time_of(at)));
        drop(queue);
        (at, Some(spawn_blocking(move || kept.flush())))
    }

    /// Stops recording, because the disk does not answer, and reports from where on data is missing.
    pub(crate) fn give_up(&self) {
        let Some(kept) = &self.0 else { return };
        kept.given_up.store(true, Ordering::Release);
        for entry in lock(&kept.queue).drain(..) {
            if let Entry::Piece(stream, ..) = entry {
                kept.miss(stream);
            }
        }
    }

    /// Notes that a piece is being written and may never be.
    pub(crate) fn miss(&self, stream: Stream) {
        if let Some(kept) = &self.0 {
            kept.miss(stream);
        }
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.0.as_ref().is_some_and(|kept| kept.given_up.load(Ordering::Acquire))
    }

    /// Returns the losses since the last call.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        self.0.as_ref().map(|kept| std::mem::take(&mut *lock(&kept.untold))).unwrap_or_default()
    }

    /// Writes the end, once, and returns the last losses. It waits for the disk.
    pub(crate) fn finish(&self, end: &End) -> Result<Vec<Loss>, RecordingError> {
        let Some(kept) = &self.0 else { return Ok(Vec::new()) };
        kept.flush();
        let (mut open, mut end) = (lock(&kept.open), end.clone());
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Stdin] {
            lock(&kept.untold).extend(open.write_rest(stream));
        }
        if let Some(Redaction { redactor, .. }) = &open.redaction {
            end.violated = end.violated.map(|rule| redactor.text(&rule).into_owned());
            end.verdict = end.verdict.and_then(|verdict| clean(redactor, &verdict));
        }
        let Some(mut recorder) = open.recorder.take() else { return Ok(Vec::new()) };
        drop(open);
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Stdin] {
            if kept.missing[stream as usize].load(Ordering::Acquire) {
                recorder.give_up(stream, &no_answer());
            }
        }
        let mut losses = recorder.finish(&end)?;
        losses.splice(..0, std::mem::take(&mut *lock(&kept.untold)));
        Ok(losses)
    }
}

#[cfg(test)]
mod tests {
    use tapline_session::permission::Ruling;

    use super::*;
    use crate::settled::SettledBy;

    #[test]
    fn no_text_of_a_decision_keeps_a_secret() {
        let secret = ["gh", "p_0123456789abcdefghijABCDEFGHIJ"].concat();
        let text = Some(format!("\u{0}\" PASSWORD=hunter2 {secret}"));
        let settled = Settled {
            request_id: text.clone(),
            tool_use_id: text.clone(),
            tool: secret.clone(),
            ruling: Ruling::Deny,
            by: SettledBy::Rule,
            rule: text.clone(),
            reason: text,
            rewritten: true,
            remembered: false,
            suggestion: None,
        };
        let clean = serde_json::to_string(&clean_decision(&Redactor::default(), &settled)).unwrap();
        assert!(!clean.contains(&secret) && !clean.contains("hunter2"), "{clean}");
        assert!(clean.contains("deny") && clean.contains("rewritten"), "{clean}");
    }
}
