//! The binary: reads the command line, runs the command, gives back its exit code.

#![forbid(unsafe_code)]

#[expect(clippy::doc_markdown, reason = "its comments are help texts, printed as they are")]
mod args;
mod commands;
mod exit;
mod follow;
mod output;
mod sink;
mod source;
mod store;

use std::process::ExitCode;

fn main() -> ExitCode {
    let command = match args::parse() {
        Ok(command) => command,
        Err(code) => return code,
    };
    exit::code_of(commands::run(command))
}
