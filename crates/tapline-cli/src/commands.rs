//! The commands: one file each.

mod check;
mod convert;
mod demo;
mod doctor;
mod inspect;
mod man;
mod run;
mod view;

use anyhow::Result;

use crate::args::Command;

/// Runs a command and returns its exit code.
pub(crate) fn run(command: Command) -> Result<u8> {
    match command {
        Command::Guard { mark } => {
            tapline_runner::guard(&mark);
            Ok(0)
        }
        Command::Run(args) => run::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::View(args) => view::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => man::completions(args.shell),
        Command::Man(args) => man::run(args.folder.as_deref()),
    }
}
