//! Errors, and what to do about them.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tapline_recording::RecordingError;
use thiserror::Error;

/// An error in a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct ScenarioError {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// The reason.
    pub reason: String,
}

/// A sim or a replay that cannot be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SimError {
    /// The scenario has an error.
    #[error("the scenario is wrong: {0}")]
    Scenario(#[from] ScenarioError),
    /// The address is not available.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The log cannot be written.
    #[error("cannot write the log {}", path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A folder or file could not be created.
    #[error("cannot create {}", path.display())]
    Make {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A HOME with settings that tapline did not write.
    #[error("{} was not created by tapline and would be overwritten: use another folder as HOME", .0.display())]
    NotOurs(PathBuf),
    /// The recording cannot be opened.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// No thread could be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}
