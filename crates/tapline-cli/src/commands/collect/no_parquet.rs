//! What stands for the writer of tables in a build without Parquet. No value of it can exist.

use std::convert::Infallible;

use anyhow::Result;
use tokio::sync::watch;

use crate::args::parquet::Tables;
use crate::features::{Feature, missing};

pub(super) struct ParquetWriter(Infallible);

impl ParquetWriter {
    pub(super) fn open(args: &Tables, _: bool) -> Result<Option<Self>> {
        if args.to.is_some() { Err(missing("--to parquet", Feature::Parquet)) } else { Ok(None) }
    }

    #[expect(clippy::unused_async, reason = "as the real one")]
    pub(super) async fn run(self, _: bool, _: watch::Receiver<bool>) -> Result<u8> {
        match self.0 {}
    }
}
