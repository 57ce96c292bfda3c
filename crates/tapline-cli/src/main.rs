//! The binary: reads the command line, runs the command, and returns its exit code.

#![forbid(unsafe_code)]

mod agents;
mod archive;
#[expect(clippy::doc_markdown, reason = "its comments are help texts, printed as they are")]
mod args;
mod ci;
mod clean;
mod clock;
mod commands;
mod config;
mod errors;
mod exit;
mod features;
mod follow;
mod init;
mod money;
#[cfg(feature = "otlp")]
mod otlp;
mod output;
mod page;
mod plain;
mod prices;
mod push;
mod secrets;
mod signals;
mod sink;
mod source;
mod store;
mod topics;
mod values;
mod when;

use std::io;
use std::process::ExitCode;

/// Reading is many small values, and a third of its time was the system's `malloc` and `free`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(code) = init::stand_in() {
        return code;
    }
    sink::watch_panics();
    // If it is called by the name of an agent, it stands in for it.
    if let Some((agent, args)) = commands::tee::called_as() {
        return code_of(commands::tee::run(&args::offline::Tee::standing_in(agent, args)));
    }
    let command = match args::parse() {
        Ok(command) => command,
        Err(code) => return code,
    };
    let ended = commands::run(command);
    sink::close_group();
    code_of(ended)
}

/// Reports an error on stderr. It is not an error if the reader is gone: a closed pipe is a quiet, successful end.
fn code_of(result: anyhow::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::fail(&errors::told(error.as_ref()));
            ExitCode::from(exit::USAGE)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}
