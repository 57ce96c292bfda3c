//! Once a second, flushes what all recordings of the process have written to the disk. A disk that hangs blocks only
//! the thread that waits for it: other files get another thread a second later.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// A file or folder that is flushed to the disk after it changed.
#[derive(Debug)]
pub(crate) struct Synced {
    pub(crate) file: File,
    /// The disk that it is on.
    disk: u64,
    changed: AtomicBool,
    /// Whether it waits for a thread or has one.
    waits: AtomicBool,
    /// How many bytes were written, and how many of them are on the disk.
    written: AtomicU64,
    synced: AtomicU64,
    syncing: Mutex<()>,
    /// The first failure that was not reported yet: from which byte on, and the cause.
    failed: Mutex<Option<(u64, io::Error)>>,
}

static FILES: LazyLock<Mutex<Vec<Weak<Synced>>>> = LazyLock::new(|| {
    // Without the thread, a power failure may cost more than a second. Nothing else depends on it.
    let _ = start(run);
    Mutex::new(Vec::new())
});

/// How many threads may wait for one disk. More would not make it faster.
const THREADS: usize = 4;

/// Files that wait to be flushed, in order.
#[derive(Debug, Default)]
struct Queue {
    files: VecDeque<Arc<Synced>>,
    /// How many threads each disk keeps busy.
    busy: HashMap<u64, usize>,
}

static QUEUE: LazyLock<Mutex<Queue>> = LazyLock::new(Mutex::default);

impl Queue {
    /// Takes the first file whose disk has a thread to spare.
    fn take(&mut self) -> Option<Arc<Synced>> {
        let at = self.files.iter().position(|file| self.busy.get(&file.disk).is_none_or(|busy| *busy < THREADS))?;
        let file = self.files.remove(at)?;
        *self.busy.entry(file.disk).or_default() += 1;
        Some(file)
    }

    fn done(&mut self, file: &Synced) {
        if let Some(busy) = self.busy.get_mut(&file.disk) {
            *busy -= 1;
        }
    }
}

impl Synced {
    /// Registers a file.
    pub(crate) fn new(file: File) -> Arc<Self> {
        let (written, synced) = (AtomicU64::new(0), AtomicU64::new(0));
        let synced = Arc::new(Self {
            disk: disk_of(&file),
            file,
            changed: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            written,
            synced,
            syncing: Mutex::default(),
            failed: Mutex::default(),
        });
        lock(&FILES).push(Arc::downgrade(&synced));
        synced
    }

    /// Notes that the file has changed, and its new length.
    pub(crate) fn changed(&self, written: u64) {
        self.written.store(written, Ordering::Release);
        self.changed.store(true, Ordering::Release);
    }

    /// Flushes the file now, if it has changed.
    pub(crate) fn sync(&self) {
        // If another thread is flushing it right now, wait for that.
        let _one = lock(&self.syncing);
        if !self.changed.swap(false, Ordering::AcqRel) {
            return;
        }
        let written = self.written.load(Ordering::Acquire);
        match self.file.sync_data() {
            Ok(()) => self.synced.store(written, Ordering::Release),
            Err(error) => {
                let from = self.synced.load(Ordering::Acquire);
                lock(&self.failed).get_or_insert((from, error));
            }
        }
    }

    /// Takes a failure that was not reported yet.
    pub(crate) fn failure(&self) -> Option<(u64, io::Error)> {
        lock(&self.failed).take()
    }
}

/// Once a second, starts threads for the files that have changed.
fn run() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let mut queue = lock(&QUEUE);
        {
            let mut files = lock(&FILES);
            files.retain(|file| file.strong_count() > 0);
            let changed = files.iter().filter_map(Weak::upgrade).filter(|file| file.changed.load(Ordering::Acquire));
            queue.files.extend(changed.filter(|file| !file.waits.swap(true, Ordering::AcqRel)));
        }
        if let Some(first) = queue.take() {
            drop(queue);
            // If no thread can be started, do it here.
            let again = Arc::clone(&first);
            if start(move || work(first)).is_err() {
                work(again);
            }
        }
    }
}

/// Flushes the waiting files until there are none.
fn work(first: Arc<Synced>) {
    let mut next = Some(first);
    while let Some(file) = next {
        file.sync();
        file.waits.store(false, Ordering::Release);
        let mut queue = lock(&QUEUE);
        queue.done(&file);
        next = queue.take();
    }
}

fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("tapline-sync".to_owned()).spawn(work).map(drop)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn disk_of(file: &File) -> u64 {
    file.metadata().map_or(0, |about| std::os::unix::fs::MetadataExt::dev(&about))
}

#[cfg(test)]
mod tests {
    use tapline_testkit::wait_until;

    use super::*;

    #[test]
    fn a_file_whose_disk_does_not_answer_keeps_no_other_file_from_the_disk() {
        let file = || Synced::new(File::open("/dev/null").unwrap());
        let (stalled, other) = (file(), file());
        // The thread that flushes a file holds this lock.
        let held = lock(&stalled.syncing);
        stalled.changed(1);
        // One second after the other: by then, the first thread is blocked.
        for written in 1..=3 {
            other.changed(written);
            wait_until("it waits for no disk but its own", || !other.changed.load(Ordering::Acquire));
        }
        assert!(stalled.changed.load(Ordering::Acquire), "it is still held up");
        drop(held);
    }
}
