//! `tapline collect`: writes recordings of other machines to the recordings folder, and tables to a folder or a store.

#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "collect/no_parquet.rs"]
mod parquet;
mod recordings;

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::SignalKind;
use tokio::sync::watch;

use crate::args::collect::Collect;
use crate::signals::Signals;
use crate::{exit, store};
use parquet::ParquetWriter;
use recordings::Recordings;
pub(crate) use recordings::told;

pub(crate) fn run(args: &Collect) -> Result<u8> {
    let writer = ParquetWriter::open(&args.tables, args.quiet)?;
    let recordings = match args.engine.broker()? {
        Some(broker) => Some(Recordings::new(broker, store::store()?, args.quiet)),
        None => None,
    };
    if writer.is_none() && recordings.is_none() {
        bail!(
            "nothing to collect: name the broker that recordings come from (--engine nats://HOST:4222), or a place for tables (--to parquet DEST)"
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let (stop, stopped) = watch::channel(false);
        let mut work = tokio::spawn(work(args.once, recordings, writer, stopped));
        let signal = tokio::select! {
            ended = &mut work => return ended?,
            number = signals.next() => number,
        };
        let _ = stop.send(true);
        // What is being written ends properly; a second signal does not wait for it.
        let ended = tokio::select! {
            ended = work => ended?,
            _ = signals.next() => Ok(0),
        };
        let code = if signal == SignalKind::interrupt().as_raw_value() { exit::INTERRUPTED } else { exit::TERMINATED };
        ended.map(|ended| if args.once { code } else { ended })
    });
    runtime.shutdown_background();
    ended
}

/// Collects recordings and writes tables, until there is nothing to do or somebody says stop.
async fn work(
    once: bool,
    recordings: Option<Recordings>,
    writer: Option<ParquetWriter>,
    stop: watch::Receiver<bool>,
) -> Result<u8> {
    let collect = {
        let stop = stop.clone();
        async move {
            match recordings {
                Some(recordings) => Box::pin(recordings.run(once, stop)).await,
                None => Ok(exit::SUCCESS),
            }
        }
    };
    let write = async move {
        match writer {
            Some(writer) => Box::pin(writer.run(once, stop)).await,
            None => Ok(exit::SUCCESS),
        }
    };
    let (collected, written) = if once {
        // The tables have what was collected, too.
        (collect.await?, write.await?)
    } else {
        tokio::try_join!(collect, write)?
    };
    Ok(collected.max(written))
}
