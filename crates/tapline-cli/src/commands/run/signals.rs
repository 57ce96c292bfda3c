//! Ctrl-C, SIGTERM and SIGHUP during a run: the agent is stopped properly; a second signal, or Ctrl-\\, kills it at
//! once.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};
use tapline_runner::Stopper;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::exit;
use crate::signals::is_ignored;

/// Why a run ended before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotBegun {
    /// Its time was up.
    Late,
    /// A signal came.
    Interrupted,
}

/// Waits until the run must end: a signal comes, or its time is up.
pub(super) async fn over(signals: &Signals, until: Option<Instant>) -> NotBegun {
    let late = async {
        match until {
            Some(until) => tokio::time::sleep_until(until.into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = signals.came() => NotBegun::Interrupted,
        () = late => NotBegun::Late,
    }
}

/// Handles signals.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// The exit code for the first signal. 0 while there was none.
    code: Arc<AtomicU8>,
    stopper: Arc<Mutex<Option<Stopper>>>,
    came: Arc<Notify>,
}

impl Signals {
    /// Starts listening.
    pub(super) fn listen() -> Result<Self> {
        let open = |kind| signal(kind).context("cannot listen for signals");
        let all = [open(SignalKind::interrupt())?, open(SignalKind::terminate())?, open(SignalKind::quit())?];
        // With nohup, the program must continue.
        let hangup = if is_ignored(SignalKind::hangup()) { None } else { Some(open(SignalKind::hangup())?) };
        let signals = Self::default();
        tokio::spawn(signals.clone().run(all, hangup));
        Ok(signals)
    }

    async fn run(self, [mut interrupt, mut terminate, mut quit]: [Signal; 3], mut hangup: Option<Signal>) {
        loop {
            let hung_up = async {
                match &mut hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            let code = tokio::select! {
                _ = interrupt.recv() => exit::INTERRUPTED,
                _ = terminate.recv() => exit::TERMINATED,
                _ = hung_up => exit::TERMINATED,
                _ = quit.recv() => {
                    self.tell(exit::INTERRUPTED);
                    exit::INTERRUPTED
                }
            };
            let _ = self.code.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
            self.tell(code);
            self.came.notify_one();
        }
    }

    fn tell(&self, code: u8) {
        match (&*self.stopper.lock().unwrap_or_else(PoisonError::into_inner), code) {
            (Some(stopper), exit::INTERRUPTED) => stopper.interrupt(),
            (Some(stopper), _) => stopper.terminate(),
            (None, _) => {}
        }
    }

    /// Stops this run on a signal from now on, or at once if one already came.
    pub(super) fn watch(&self, stopper: Stopper) {
        *self.stopper.lock().unwrap_or_else(PoisonError::into_inner) = Some(stopper);
        if let Some(code) = self.code() {
            self.tell(code);
        }
    }

    /// Returns the exit code for the signal, if one came.
    pub(super) fn code(&self) -> Option<u8> {
        Some(self.code.load(Ordering::Acquire)).filter(|code| *code > 0)
    }

    /// Waits for a signal.
    pub(super) async fn came(&self) {
        if self.code().is_none() {
            self.came.notified().await;
        }
    }
}
