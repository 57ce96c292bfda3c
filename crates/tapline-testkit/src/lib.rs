//! What the tests of all crates share. Crates have it as a dev-dependency, and nobody publishes it.
//!
//! - [`TempFolder`]: a private folder that is gone after its test.
//! - [`wait_until`] and its relatives: waiting for a condition, instead of sleeping.
//! - [`agent`]: programs that stand in for a coding agent.
//! - [`Home`]: a `HOME` and a `TAPLINE_HOME` that nobody else uses.
//! - [`TestProcess`]: a process that does not outlive its test; [`processes_with`]: what is left of others.
//! - [`rounds`]: how often a slow test repeats itself.
//! - [`fixture`] and [`files`]: the project's fixtures, and folders full of files.
//! - [`mutations`]: streams and transcripts that are damaged on purpose.
//!
//! With the feature `tokio` it has what async tests need, and with the feature `nats` a NATS server of a test's own.
//!
//! It depends on no other crate of tapline, so that each of them can use it.
//!
//! ```
//! use tapline_testkit::{TempFolder, TestProcess, wait_until};
//!
//! let folder = TempFolder::new();
//! let program = folder.script("greets", "echo hello >greeting.part && mv greeting.part greeting");
//! let mut command = std::process::Command::new(program);
//! let _process = TestProcess::spawn(command.current_dir(&folder));
//! wait_until("the greeting is there", || folder.join("greeting").exists());
//! assert_eq!(std::fs::read(folder.join("greeting"))?, b"hello\n");
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "all of this is part of tests: whatever goes wrong fails one"
)]

pub mod agent;
pub mod files;
mod fixtures;
mod folder;
mod git;
mod home;
#[cfg(feature = "tokio")]
mod ignored_signals;
pub mod mutations;
#[cfg(feature = "nats")]
pub mod nats;
mod process;
mod processes;
mod rounds;
mod wait;

pub use fixtures::{fixture, fixtures, root, streams};
pub use folder::TempFolder;
pub use git::git;
pub use home::Home;
#[cfg(feature = "tokio")]
pub use ignored_signals::catch_ignored_signals;
pub use process::{TestProcess, rerun, signal};
pub use processes::{FoundProcess, processes_with, unique};
pub use rounds::rounds;
pub use wait::{HANG, eventually, wait_for, wait_until};
#[cfg(feature = "tokio")]
pub use wait::{wait_until_async, within};
