//! `collect --to parquet`: the tables of `tapline export` in a folder or a store, renewed again and again.

use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use jiff::tz::TimeZone;
use tapline_archive::Prices;
use tapline_archive::export::{Export, ExportFormat};
use tapline_archive::stats::Query;
use tapline_fleet::{PartitionedStore, PartitionsError, PartitionsWritten};
use tapline_recording::Redactor;
use tapline_session::text::count_of;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::args::parquet::Tables;
use crate::args::run::span;
use crate::{archive, exit, output, prices, secrets, store};

/// Writes the tables of the archive.
pub(super) struct ParquetWriter {
    to: PartitionedStore,
    address: String,
    prices: Prices,
    redactor: Option<Redactor>,
    every: Duration,
    quiet: bool,
}

impl ParquetWriter {
    /// Opens the place for tables, if the command line names one.
    pub(super) fn open(args: &Tables, quiet: bool) -> Result<Option<Self>> {
        let (Some(_), Some(address)) = (args.to, &args.dest) else { return Ok(None) };
        let mut to = PartitionedStore::open(&store::store()?, address)?;
        if args.again {
            to.forget()?;
        }
        let prices = Prices::embedded().clone().with(&prices::own(&args.prices)?);
        let redactor = args.redact.then(secrets::redactor).transpose()?;
        Ok(Some(Self { to, address: address.clone(), prices, redactor, every: args.every, quiet }))
    }

    /// Writes the tables once, or again and again until somebody says stop. What fails is said, and tried again the next
    /// time. Returns the exit code.
    pub(super) async fn run(mut self, once: bool, mut stop: watch::Receiver<bool>) -> Result<u8> {
        let mut times = tokio::time::interval(self.every);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = times.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return Ok(0),
            }
            let seen = stop.clone();
            let written;
            (self, written) = tokio::task::spawn_blocking(move || {
                let written = self.write(&seen);
                (self, written)
            })
            .await
            .context("the tables are no longer written")?;
            match written {
                Ok(written) => self.tell(&written, once),
                Err(error) if is_stopped(&error) => return Ok(0),
                Err(error) if once => {
                    output::fail(&format!("{error:#}"));
                    return Ok(exit::FAILED);
                }
                Err(error) => output::tell(&format!("{error:#}; tried again in {}", span(self.every))),
            }
            if once {
                return Ok(exit::SUCCESS);
            }
        }
    }

    /// Reads what is new, and writes what has changed.
    fn write(&mut self, stop: &watch::Receiver<bool>) -> Result<PartitionsWritten> {
        let archive = archive::open_checked(&[], self.quiet)?;
        // Days are the same for everybody who writes there.
        let mut query = Query::default();
        query.zone = TimeZone::UTC;
        let mut export = Export::new(ExportFormat::Parquet, &query);
        if let Some(redactor) = &self.redactor {
            export = export.redacted(redactor);
        }
        Ok(self.to.write(&export, &archive.index, &self.prices, &archive.selection, stop)?)
    }

    fn tell(&self, written: &PartitionsWritten, once: bool) {
        if self.quiet || (written.written == 0 && !once) {
            return;
        }
        if written.written == 0 {
            output::tell(&format!("nothing has changed since {} was last written", self.address));
            return;
        }
        let parts = count_of(written.written, "part");
        let of = written.written + written.unchanged;
        let rows = count_of(usize::try_from(written.rows).unwrap_or(usize::MAX), "row");
        output::tell(&format!("wrote {parts} of {of} ({rows}, {} kB) to {}", written.bytes.div_ceil(1_000), self.address));
    }
}

/// Returns whether somebody said stop.
fn is_stopped(error: &Error) -> bool {
    matches!(error.downcast_ref::<PartitionsError>(), Some(PartitionsError::Stopped))
}
