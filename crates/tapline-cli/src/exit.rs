//! Exit codes, one table (README.md shows it), and how errors are told.

use std::io;
use std::process::ExitCode;

/// Bad usage or input.
pub(crate) const USAGE: u8 = 2;
/// A policy is violated, or `check --strict` found something.
pub(crate) const VIOLATED: u8 = 3;
/// There is no result.
pub(crate) const INCOMPLETE: u8 = 4;
/// `--get` found nothing; the agent failed.
pub(crate) const FAILED: u8 = 1;

/// Tells an error on stderr. A reader that has gone is no error: a closed pipe is a quiet, successful end.
pub(crate) fn code_of(result: anyhow::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            crate::output::tell(&format!("{error:#}"));
            ExitCode::from(USAGE)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}
