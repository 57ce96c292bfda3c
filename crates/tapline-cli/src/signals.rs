//! The signals that end or interrupt a program, for commands that pass them on.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end or interrupt a program.
pub(crate) struct Signals(Vec<(i32, Signal)>);

impl Signals {
    /// Starts listening. Signals that were ignored at the start stay ignored, here and in child processes.
    pub(crate) fn listen() -> Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
        let open = |kind: SignalKind| Ok((kind.as_raw_value(), signal(kind).context("cannot listen for signals")?));
        Ok(Self(kinds.into_iter().filter(|kind| !is_ignored(*kind)).map(open).collect::<Result<_>>()?))
    }

    /// Returns the number of the next signal.
    pub(crate) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.0 {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Returns whether this process was started with a signal ignored.
pub(crate) fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}
