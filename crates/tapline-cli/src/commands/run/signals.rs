//! Ctrl-C, SIGTERM and SIGHUP while a run goes on: the agent is stopped in order; told again, or by Ctrl-\\, at once.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};
use tapline_runner::Stopper;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::exit;
use crate::signals::is_ignored;

/// Why a run was over before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotBegun {
    /// Its time was over.
    Late,
    /// A signal came.
    Interrupted,
}

/// Waits until the run is to be over: a signal comes, or its time ends.
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

/// What signals are told to.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// The exit code that the first signal asks for; 0 while there was none.
    code: Arc<AtomicU8>,
    stopper: Arc<Mutex<Option<Stopper>>>,
    came: Arc<Notify>,
}

impl Signals {
    /// Listens from now on.
    pub(super) fn listen() -> Result<Self> {
        let open = |kind| signal(kind).context("cannot listen for signals");
        let all = [open(SignalKind::interrupt())?, open(SignalKind::terminate())?, open(SignalKind::quit())?];
        // Whoever started us with nohup wants us to live on.
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

    /// From now on this run is stopped by them; at once, if one came already.
    pub(super) fn watch(&self, stopper: Stopper) {
        *self.stopper.lock().unwrap_or_else(PoisonError::into_inner) = Some(stopper);
        if let Some(code) = self.code() {
            self.tell(code);
        }
    }

    /// The exit code that a signal asked for.
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
