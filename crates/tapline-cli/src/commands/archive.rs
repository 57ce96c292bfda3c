//! `tapline archive`: what tapline keeps of sessions, and uses to count and price them.

mod forget;
mod keep;
mod prices;
mod restore;
mod status;
mod verify;

use anyhow::Result;

use crate::args::archive::{Archive, ArchiveCommand};

pub(crate) fn run(args: &Archive) -> Result<u8> {
    match &args.command {
        ArchiveCommand::Keep(args) => keep::run(args),
        ArchiveCommand::Verify(args) => verify::run(args),
        ArchiveCommand::Restore(args) => restore::run(args),
        ArchiveCommand::Forget(args) => forget::run(args),
        ArchiveCommand::Status(args) => status::run(args),
        ArchiveCommand::Prices(args) => prices::run(args),
    }
}

/// A number of bytes for people.
#[expect(clippy::cast_precision_loss, reason = "it is shown with three digits")]
pub(super) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = |unit: &usize| bytes >> (10 * unit) >= 1024;
    let unit = (0..units.len() - 1).take_while(step).count();
    let number = bytes as f64 / (1_u64 << (10 * unit)) as f64;
    if unit == 0 || number >= 100.0 { format!("{number:.0} {}", units[unit]) } else { format!("{number:.1} {}", units[unit]) }
}
