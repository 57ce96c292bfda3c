//! `tapline collect`: writes tables to a folder or a store.

mod parquet;

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::SignalKind;
use tokio::sync::watch;

use crate::args::collect::Collect;
use crate::exit;
use crate::signals::Signals;
use parquet::ParquetWriter;

pub(crate) fn run(args: &Collect) -> Result<u8> {
    let Some(writer) = ParquetWriter::open(&args.tables, args.quiet)? else {
        bail!("nothing to collect: name a place for tables, as in `tapline collect --to parquet --every 1h DEST`");
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let (stop, stopped) = watch::channel(false);
        let mut tables = tokio::spawn(writer.run(args.once, stopped));
        let signal = tokio::select! {
            ended = &mut tables => return ended?,
            number = signals.next() => number,
        };
        let _ = stop.send(true);
        // What is being written ends properly; a second signal does not wait for it.
        let ended = tokio::select! {
            ended = tables => ended?,
            _ = signals.next() => Ok(0),
        };
        let code = if signal == SignalKind::interrupt().as_raw_value() { exit::INTERRUPTED } else { exit::TERMINATED };
        ended.map(|ended| if args.once { code } else { ended })
    });
    runtime.shutdown_background();
    ended
}
