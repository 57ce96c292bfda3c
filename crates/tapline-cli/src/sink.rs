//! stdout and stderr that nobody waits for: what can be written at once is written by the caller, and the rest by
//! another thread. So one thread can drive a run and show it, and a reader that does not read stops no clock.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::Notify;

use crate::ci::{self, Filter, Kind, Level};

/// How much may wait to be written. Then the writer waits, too.
const BACKLOG: usize = 1 << 20;
/// How much a ready pipe accepts without blocking.
const AT_ONCE: usize = 4 << 10;
/// How much is buffered before it is written.
const BUFFER: usize = 64 << 10;

/// A stream that is written without waiting.
pub(crate) struct Sink {
    file: Option<Arc<File>>,
    /// Whether this is a file. A disk can stall without warning, so the other thread always writes to it.
    is_file: bool,
    waiting: Arc<Waiting>,
    queue: Option<Sender<Vec<u8>>>,
    filter: Filter,
    /// What the next flush writes.
    buffer: Vec<u8>,
}

#[derive(Default)]
struct Waiting {
    bytes: AtomicUsize,
    changed: Notify,
    failed: Mutex<Option<io::Error>>,
}

impl Waiting {
    fn fail(&self, error: io::Error) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn has_failed(&self) -> bool {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl Sink {
    pub(crate) fn stdout() -> Self {
        Self::of(io::stdout().as_fd())
    }

    pub(crate) fn stderr() -> Self {
        Self::of(io::stderr().as_fd())
    }

    /// Returns stdout and stderr. If both are the same file, their output is in this order.
    pub(crate) fn both() -> (Self, Self) {
        let (mut out, mut err) = (Self::stdout(), Self::stderr());
        if let Some(file) = out.file.clone().filter(|_| out.is_file && out.is_with(&err)) {
            err.queue = Some(out.queue(&file).clone());
            err.waiting = Arc::clone(&out.waiting);
        }
        (out, err)
    }

    fn of(stream: BorrowedFd<'_>) -> Self {
        let waiting = Arc::new(Waiting::default());
        let file = stream.try_clone_to_owned().map(File::from).map_err(|error| waiting.fail(error)).ok();
        let is_file = file.as_ref().is_some_and(|file| file.metadata().is_ok_and(|meta| meta.is_file()));
        Self { file: file.map(Arc::new), is_file, waiting, queue: None, filter: Filter::of(stream), buffer: Vec::new() }
    }

    /// Returns whether both go to the same place: a terminal, a pipe or a file.
    pub(crate) fn is_with(&self, other: &Self) -> bool {
        let place = |sink: &Self| sink.file.as_ref()?.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
        place(self).is_some_and(|here| place(other) == Some(here))
    }

    /// Returns whether this is a file.
    pub(crate) fn is_file(&self) -> bool {
        self.is_file
    }

    /// Writes text, now or as soon as possible. After a failure, which is kept, nothing more is written.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.put(bytes, Kind::Text);
        self.flush();
    }

    /// Writes bytes at the next flush.
    pub(crate) fn put(&mut self, bytes: &[u8], kind: Kind) {
        self.buffer.extend_from_slice(&self.filter.pass(bytes, kind));
        if self.buffer.len() > BUFFER {
            self.flush();
        }
    }

    /// Flushes what was put.
    pub(crate) fn flush(&mut self) {
        let bytes = std::mem::take(&mut self.buffer);
        self.write_out(&bytes);
        // Reuse its memory.
        self.buffer = bytes;
        self.buffer.clear();
    }

    /// Starts a group in a CI log, which can be folded.
    pub(crate) fn group(&mut self, name: &str) {
        let line = ci::group(&self.filter, name);
        self.own(&line);
    }

    /// Ends the group, if one is open.
    pub(crate) fn end_group(&mut self) {
        let line = ci::end_group(&self.filter);
        self.own(&line);
    }

    /// Writes an annotation in a CI log.
    pub(crate) fn annotate(&mut self, level: Level, title: &str, text: &str) {
        let line = ci::annotation(&self.filter, level, title, text);
        self.own(&line);
    }

    /// Writes a command of our own. The filter only takes note of it.
    fn own(&mut self, line: &str) {
        let _ = self.filter.pass(line.as_bytes(), Kind::Text);
        self.buffer.extend_from_slice(line.as_bytes());
        self.flush();
    }

    fn write_out(&mut self, mut bytes: &[u8]) {
        let Some(file) = self.file.clone().filter(|_| !self.waiting.has_failed()) else { return };
        while !bytes.is_empty() && self.waiting.bytes.load(Ordering::Acquire) == 0 {
            if self.is_file || !is_ready(&file) {
                break;
            }
            match (&*file).write(&bytes[..bytes.len().min(AT_ONCE)]) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return self.waiting.fail(error),
            }
        }
        if !bytes.is_empty() {
            self.put_off(&file, bytes);
        }
    }

    fn put_off(&mut self, file: &Arc<File>, bytes: &[u8]) {
        self.waiting.bytes.fetch_add(bytes.len(), Ordering::AcqRel);
        let _ = self.queue(file).send(bytes.to_vec());
    }

    /// Returns the queue of the other thread, which is started on first use.
    fn queue(&mut self, file: &Arc<File>) -> &Sender<Vec<u8>> {
        let waiting = &self.waiting;
        self.queue.get_or_insert_with(|| {
            let (queue, pieces) = channel();
            let (file, for_thread) = (Arc::clone(file), Arc::clone(waiting));
            let write = move || drain(&file, &pieces, &for_thread);
            if let Err(error) = std::thread::Builder::new().name("tapline-write".to_owned()).spawn(write) {
                waiting.fail(error);
            }
            queue
        })
    }

    /// Returns whether more can be written.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.bytes.load(Ordering::Acquire) < BACKLOG || self.waiting.has_failed()
    }

    /// Waits until more can be written.
    pub(crate) async fn ready(&self) {
        self.below(BACKLOG).await;
    }

    /// Waits until everything is written.
    pub(crate) async fn flushed(&self) {
        self.below(1).await;
    }

    async fn below(&self, limit: usize) {
        loop {
            let changed = self.waiting.changed.notified();
            if self.waiting.bytes.load(Ordering::Acquire) < limit || self.waiting.has_failed() {
                return;
            }
            changed.await;
        }
    }

    /// Returns how many bytes are not written yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.bytes.load(Ordering::Acquire)
    }

    /// Stops writing, as if the reader were gone.
    pub(crate) fn give_up(&self) {
        self.waiting.fail(io::ErrorKind::BrokenPipe.into());
    }

    /// Returns why it cannot be written any more.
    pub(crate) fn failure(&self) -> Option<String> {
        let failed = self.waiting.failed.lock().unwrap_or_else(PoisonError::into_inner);
        // It is not an error if the reader is gone.
        failed.as_ref().filter(|error| error.kind() != io::ErrorKind::BrokenPipe).map(ToString::to_string)
    }
}

fn is_ready(file: &File) -> bool {
    let mut watched = [PollFd::new(file, PollFlags::OUT)];
    // Any other problem shows when writing.
    !matches!(poll(&mut watched, Some(&Timespec::default())), Ok(0))
}

/// Writes what could not be written at once.
fn drain(file: &File, pieces: &Receiver<Vec<u8>>, waiting: &Waiting) {
    for piece in pieces {
        if !waiting.has_failed()
            && let Err(error) = crate::plain::write_all(file, &piece)
        {
            waiting.fail(error);
        }
        waiting.bytes.fetch_sub(piece.len(), Ordering::AcqRel);
        waiting.changed.notify_waiters();
    }
}

/// Closes a group that was left open, whatever has happened. It does not wait for the reader.
pub(crate) fn close_group() {
    let mut out = Sink::stdout();
    out.end_group();
}

/// Makes a panic in tapline close the group and write an annotation.
pub(crate) fn watch_panics() {
    if !ci::is_job() {
        return;
    }
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |fault| {
        told(fault);
        close_group();
        ci::annotate(&fault.to_string());
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_tapline_closes_the_group_and_is_an_annotation() -> io::Result<()> {
        if std::env::var_os("FAULTY").is_some() {
            watch_panics();
            Sink::stdout().group("work");
            panic!("oh no");
        }
        // In a separate process, because the hook is global.
        let mut faulty = std::process::Command::new(std::env::current_exe()?);
        faulty.args(["--exact", "sink::tests::a_fault_in_tapline_closes_the_group_and_is_an_annotation", "--nocapture"]);
        let output = faulty.env("FAULTY", "1").env("GITHUB_ACTIONS", "true").output()?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success(), "{out}{err}");
        let behind = out.split_once("::group::work").map_or("", |(_, behind)| behind);
        assert!(behind.contains("::endgroup::"), "{out}");
        let told = format!("{out}{err}");
        assert!(told.lines().any(|line| line.starts_with("::error") && line.contains("oh no")), "{told}");
        Ok(())
    }
}
