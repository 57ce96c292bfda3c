//! The recording of a run, shared by those who write to it. It is written by threads of the runtime's, so that neither clock nor
//! signal waits for a disk that does not answer. It may fail: the run goes on, and the loss is kept to be told.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tapline_recording::{End, Loss, Recorder, RecordingError, Stream};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::answers::Settled;

/// A recording, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Option<Arc<Kept>>);

#[derive(Debug)]
struct Kept {
    /// Whoever writes holds it, for as long as the disk takes.
    recorder: Mutex<Option<Recorder>>,
    /// What is to be written, in order.
    queue: Mutex<VecDeque<Entry>>,
    untold: Mutex<Vec<Loss>>,
    /// How much of each stream is written.
    written: [AtomicU64; 3],
    /// Nothing more is written; of which streams something is missing for that.
    given_up: AtomicBool,
    missing: [AtomicBool; 3],
}

#[derive(Debug)]
enum Entry {
    Piece(Stream, Arc<Vec<u8>>, usize),
    Closed(Stream),
    Decision(Settled),
}

/// A lock that a panic elsewhere does not take from us.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the disk did not answer")
}

impl Kept {
    /// Writes whatever waits.
    fn flush(&self) {
        let mut open = lock(&self.recorder);
        while let Some(entry) = { lock(&self.queue).pop_front() } {
            let Some(recorder) = open.as_mut() else { return };
            let losses = match &entry {
                Entry::Piece(stream, bytes, count) => recorder.write(*stream, &bytes[..*count]),
                Entry::Closed(stream) => recorder.close(*stream),
                Entry::Decision(settled) => recorder.decide(settled),
            };
            if let Entry::Piece(stream, _, count) = entry {
                self.written[stream as usize].fetch_add(count as u64, Ordering::AcqRel);
            }
            lock(&self.untold).extend(losses);
        }
    }

    /// A piece that is not written: told the first time.
    fn miss(&self, stream: Stream) {
        if !self.missing[stream as usize].swap(true, Ordering::AcqRel) {
            let from = self.written[stream as usize].load(Ordering::Acquire);
            lock(&self.untold).push(Loss { file: stream.file_name().to_owned(), from, error: no_answer().to_string() });
        }
    }
}

impl Journal {
    pub(crate) fn new(recorder: Option<Recorder>) -> Self {
        let kept = |recorder| Kept {
            recorder: Mutex::new(Some(recorder)),
            queue: Mutex::default(),
            untold: Mutex::default(),
            written: Default::default(),
            given_up: AtomicBool::new(false),
            missing: Default::default(),
        };
        Self(recorder.map(|recorder| Arc::new(kept(recorder))))
    }

    /// Keeps the first so many bytes, which came or were sent just now. What is returned ends when they are written; where
    /// nothing is, there is nothing to wait for.
    pub(crate) fn write(&self, stream: Stream, bytes: &Arc<Vec<u8>>, count: usize) -> Option<JoinHandle<()>> {
        let kept = self.0.as_ref().filter(|_| count > 0)?;
        if kept.given_up.load(Ordering::Acquire) {
            kept.miss(stream);
            return None;
        }
        self.enter(Entry::Piece(stream, Arc::clone(bytes), count))
    }

    /// Notes that a stream was closed just now.
    pub(crate) fn close(&self, stream: Stream) {
        self.enter(Entry::Closed(stream));
    }

    /// Keeps how a permission question was settled.
    pub(crate) fn decide(&self, settled: &Settled) {
        self.enter(Entry::Decision(settled.clone()));
    }

    fn enter(&self, entry: Entry) -> Option<JoinHandle<()>> {
        let kept = self.0.clone().filter(|kept| !kept.given_up.load(Ordering::Acquire))?;
        lock(&kept.queue).push_back(entry);
        Some(spawn_blocking(move || kept.flush()))
    }

    /// The disk does not answer: nothing more is kept, and from where on is told.
    pub(crate) fn give_up(&self) {
        let Some(kept) = &self.0 else { return };
        kept.given_up.store(true, Ordering::Release);
        for entry in lock(&kept.queue).drain(..) {
            if let Entry::Piece(stream, ..) = entry {
                kept.miss(stream);
            }
        }
    }

    /// A piece that is being written, and may never be.
    pub(crate) fn miss(&self, stream: Stream) {
        if let Some(kept) = &self.0 {
            kept.miss(stream);
        }
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.0.as_ref().is_some_and(|kept| kept.given_up.load(Ordering::Acquire))
    }

    /// What was lost since this was last asked.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        self.0.as_ref().map(|kept| std::mem::take(&mut *lock(&kept.untold))).unwrap_or_default()
    }

    /// Writes how it ended, once, and says what was lost last. Waits for the disk.
    pub(crate) fn finish(&self, end: &End) -> Result<Vec<Loss>, RecordingError> {
        let Some(kept) = &self.0 else { return Ok(Vec::new()) };
        kept.flush();
        let Some(mut recorder) = lock(&kept.recorder).take() else { return Ok(Vec::new()) };
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Stdin] {
            if kept.missing[stream as usize].load(Ordering::Acquire) {
                recorder.give_up(stream, &no_answer());
            }
        }
        recorder.finish(end)
    }
}
