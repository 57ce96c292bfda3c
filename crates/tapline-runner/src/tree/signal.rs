//! The two signals that end a tree of processes, and what is left of it.

/// What is left of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) processes: usize,
    /// Whether a process could not be read just now.
    pub(crate) unclear: bool,
}

/// A signal of the stop ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// SIGTERM
    Terminate,
    /// SIGKILL
    Kill,
}

impl StopSignal {
    pub(super) fn signal(self) -> rustix::process::Signal {
        match self {
            Self::Terminate => rustix::process::Signal::TERM,
            Self::Kill => rustix::process::Signal::KILL,
        }
    }
}
