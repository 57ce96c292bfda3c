//! One thread for all recordings of the process: once a second, what was written is put on the disk.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

/// A file that is put on the disk when it has changed.
#[derive(Debug)]
pub(crate) struct Synced {
    pub(crate) file: File,
    changed: AtomicBool,
}

static FILES: LazyLock<Mutex<Vec<Weak<Synced>>>> = LazyLock::new(|| {
    // Without the thread a power loss may cost more than a second: nothing else depends on it.
    let _ = std::thread::Builder::new().name("tapline-sync".to_owned()).spawn(run);
    Mutex::new(Vec::new())
});

impl Synced {
    /// Takes care of a file.
    pub(crate) fn new(file: File) -> Arc<Self> {
        let synced = Arc::new(Self { file, changed: AtomicBool::new(false) });
        FILES.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&synced));
        synced
    }

    pub(crate) fn changed(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Puts it on the disk now.
    pub(crate) fn sync(&self) {
        if self.changed.swap(false, Ordering::AcqRel) {
            let _ = self.file.sync_data();
        }
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
