//! A test may be started with SIGINT ignored: by a shell as a job in the background, by some CI runners.

use std::sync::Once;

use tokio::signal::unix::{SignalKind, signal};

/// Has the programs that this test starts take signals as they usually do. A signal that is ignored here would be ignored in them;
/// one that is caught here is not.
pub fn catch_ignored_signals() {
    static CAUGHT: Once = Once::new();
    // In a thread of its own: a test may be within a runtime already.
    CAUGHT.call_once(|| std::thread::spawn(catch).join().unwrap());
}

fn catch() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _context = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()] {
        if ignored.unwrap_or(0) >> (kind.as_raw_value() - 1) & 1 == 1 {
            // It stays caught when nobody listens any more.
            drop(signal(kind).unwrap());
        }
    }
}
