//! The binary: reads the command line, runs the command, gives back its exit code.

mod args;
mod commands;
mod exit;
mod output;
mod source;

use std::process::ExitCode;

fn main() -> ExitCode {
    let command = match args::parse() {
        Ok(command) => command,
        Err(code) => return code,
    };
    exit::code_of(commands::run(command))
}
