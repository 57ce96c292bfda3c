//! The commands: one file each.

mod archive;
mod batch;
mod chain;
mod chat;
mod check;
#[cfg(feature = "nats")]
mod collect;
mod convert;
mod demo;
mod denials;
mod doctor;
mod export;
mod help;
mod inspect;
mod man;
mod replay;
mod run;
mod schema;
mod search;
mod serve;
mod sessions;
mod shim;
mod sim;
mod stats;
mod statusline;
pub(crate) mod tee;
mod updates;
mod view;
#[cfg(feature = "nats")]
mod worker;

use anyhow::Result;

use tapline_runner::GuardProgram;

use crate::args::{Command, GUARD};
#[cfg(not(feature = "nats"))]
use crate::features::{Feature, missing};

/// Runs a command and returns its exit code.
pub(crate) fn run(command: Command) -> Result<u8> {
    match command {
        Command::Guard { mark } => {
            tapline_runner::guard(&mark);
            Ok(0)
        }
        Command::Run(args) => run::run(&args),
        Command::Chat(args) => chat::run(&args),
        Command::Batch(args) => batch::run(&args),
        #[cfg(feature = "nats")]
        Command::Worker(args) => worker::run(&args),
        #[cfg(feature = "nats")]
        Command::Collect(args) => collect::run(&args),
        #[cfg(not(feature = "nats"))]
        Command::Worker(_) => Err(missing("tapline worker", Feature::Nats)),
        #[cfg(not(feature = "nats"))]
        Command::Collect(_) => Err(missing("tapline collect", Feature::Nats)),
        Command::Inspect(args) => inspect::run(&args),
        Command::View(args) => view::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Archive(args) => archive::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Sessions(args) => sessions::run(&args),
        Command::Statusline(args) => statusline::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Tee(args) => tee::run(&args),
        Command::Shim(args) => shim::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => man::completions(args.shell),
        Command::Man(args) => man::run(args.folder.as_deref()),
        Command::Schema(args) => schema::run(args.of),
        Command::Help(args) => help::run(&args),
    }
}

/// Returns this program, as the guard of what it starts.
fn guard_program() -> Option<GuardProgram> {
    std::env::current_exe().ok().map(|program| GuardProgram { program, args: vec![GUARD.into()] })
}
