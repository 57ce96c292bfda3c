//! The commands: one file each.

mod inspect;

use anyhow::Result;

use crate::args::Command;

/// Runs a command and returns its exit code.
pub(crate) fn run(command: Command) -> Result<u8> {
    match command {
        Command::Inspect(args) => inspect::run(&args),
        _ => Ok(0),
    }
}
