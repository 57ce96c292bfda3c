//! Everything a run has started, wherever it went: found again by its mark, and signalled without ever touching what is
//! not ours. On Linux under `/proc`; elsewhere the process group is the best there is.

#[cfg(target_os = "linux")]
mod census;
#[cfg(not(target_os = "linux"))]
mod group;
#[cfg(target_os = "linux")]
mod proc;
#[cfg(target_os = "linux")]
mod search;

#[cfg(target_os = "linux")]
pub(crate) use census::{Tree, reaches_all};
#[cfg(not(target_os = "linux"))]
pub(crate) use group::{Tree, reaches_all};

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
    fn signal(self) -> rustix::process::Signal {
        match self {
            Self::Terminate => rustix::process::Signal::TERM,
            Self::Kill => rustix::process::Signal::KILL,
        }
    }
}
