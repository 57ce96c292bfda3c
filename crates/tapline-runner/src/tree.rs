//! Every process that a run has started, wherever it went. They are found by their mark, and no other process is ever
//! signalled. On Linux this uses `/proc`; elsewhere the process group is the best there is.

#[cfg(target_os = "linux")]
mod census;
#[cfg(not(target_os = "linux"))]
mod group;
#[cfg(target_os = "linux")]
mod proc;
#[cfg(target_os = "linux")]
mod search;
mod signal;

#[cfg(target_os = "linux")]
pub(crate) use census::{Tree, reaches_all};
#[cfg(not(target_os = "linux"))]
pub(crate) use group::{Tree, reaches_all};
pub(crate) use signal::{Left, StopSignal};
