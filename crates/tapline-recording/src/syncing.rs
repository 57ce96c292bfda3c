//! One thread for all recordings of the process: once a second, what was written is put on the disk.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

/// A file or folder that is put on the disk when it has changed.
#[derive(Debug)]
pub(crate) struct Synced {
    pub(crate) file: File,
    changed: AtomicBool,
    /// How much was written, and how much of it is on the disk.
    written: AtomicU64,
    synced: AtomicU64,
    syncing: Mutex<()>,
    /// The first failure, until it is told: from which byte on, and why.
    failed: Mutex<Option<(u64, io::Error)>>,
}

static FILES: LazyLock<Mutex<Vec<Weak<Synced>>>> = LazyLock::new(|| {
    // Without the thread a power loss may cost more than a second: nothing else depends on it.
    let _ = std::thread::Builder::new().name("tapline-sync".to_owned()).spawn(run);
    Mutex::new(Vec::new())
});

impl Synced {
    /// Takes care of a file.
    pub(crate) fn new(file: File) -> Arc<Self> {
        let (written, synced) = (AtomicU64::new(0), AtomicU64::new(0));
        let synced = Arc::new(Self {
            file,
            changed: AtomicBool::new(false),
            written,
            synced,
            syncing: Mutex::default(),
            failed: Mutex::default(),
        });
        FILES.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&synced));
        synced
    }

    /// It has changed, and is so long now.
    pub(crate) fn changed(&self, written: u64) {
        self.written.store(written, Ordering::Release);
        self.changed.store(true, Ordering::Release);
    }

    /// Puts it on the disk now, if it has changed.
    pub(crate) fn sync(&self) {
        // Who finds it unchanged waits for whoever is just putting it there.
        let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.changed.swap(false, Ordering::AcqRel) {
            return;
        }
        let written = self.written.load(Ordering::Acquire);
        match self.file.sync_data() {
            Ok(()) => self.synced.store(written, Ordering::Release),
            Err(error) => {
                let from = self.synced.load(Ordering::Acquire);
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((from, error));
            }
        }
    }

    /// A failure that was not told yet.
    pub(crate) fn failure(&self) -> Option<(u64, io::Error)> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn run() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let live: Vec<Arc<Synced>> = {
            let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
            files.retain(|file| file.strong_count() > 0);
            files.iter().filter_map(Weak::upgrade).collect()
        };
        for file in live {
            file.sync();
        }
    }
}
