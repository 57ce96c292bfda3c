//! The two signals that end a tree, and what is left of it afterwards.

/// What of a run is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) processes: usize,
    /// Somebody could not be looked at just now.
    pub(crate) unclear: bool,
}

/// A signal of the stop ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Firmness {
    /// SIGTERM
    Terminate,
    /// SIGKILL
    Kill,
}

impl Firmness {
    pub(super) fn signal(self) -> rustix::process::Signal {
        match self {
            Self::Terminate => rustix::process::Signal::TERM,
            Self::Kill => rustix::process::Signal::KILL,
        }
    }
}
