//! Errors of scenarios, sims and replays.

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

/// Why a sim or a replay cannot be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SimError {
    /// The scenario has an error.
    #[error("the scenario is wrong: {0}")]
    Scenario(#[from] ScenarioError),
    /// The address is not available.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The log cannot be written.
    #[error("cannot write the log {}", path.display())]
    Log {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// A folder or file could not be created.
    #[error("cannot create {}", path.display())]
    Make {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The HOME has settings that tapline did not write.
    #[error("{} was not created by tapline and would be overwritten: use another folder as HOME", .0.display())]
    NotOurs(PathBuf),
    /// The recording cannot be opened.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// No thread could be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}
