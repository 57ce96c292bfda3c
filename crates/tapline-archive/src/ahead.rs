//! Decodes the records of a large file on a second thread, while the first one makes use of them.

use std::io::{self, BufReader, Read};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::{thread, vec};

use tapline_protocol::{Input, InputShape, Record};

/// Smaller files are read before a second thread would be of use.
pub(crate) const WORTH_A_THREAD: u64 = 4 << 20;
/// How many records are passed on together, and how many such batches may wait.
const BATCH: usize = 64;
const WAITING: usize = 4;
/// A batch with this many bytes is passed on at once, so that long lines do not take much memory.
const BATCH_BYTES: usize = 1 << 20;

type Batch = Vec<io::Result<Record>>;

/// Where records come from.
#[derive(Debug)]
pub(crate) enum Records<R> {
    Here(Input<BufReader<R>>),
    Ahead { shape: InputShape, batches: Receiver<Batch>, batch: vec::IntoIter<io::Result<Record>> },
}

impl<R: Read> Records<R> {
    /// Returns the shape of the input.
    pub(crate) fn shape(&self) -> InputShape {
        match self {
            Self::Here(input) => input.shape(),
            Self::Ahead { shape, .. } => *shape,
        }
    }

    /// Returns whether the next record is available without waiting. A file never waits.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Here(input) => input.is_ready(),
            Self::Ahead { .. } => true,
        }
    }
}

impl<R: Read + Send + 'static> Records<R> {
    /// Reads on a second thread from here on, if the system has one. It ends with this value.
    pub(crate) fn ahead(self) -> Self {
        let Self::Here(input) = self else { return self };
        let (give, take) = channel::<Input<BufReader<R>>>();
        let (send, batches) = sync_channel(WAITING);
        let reading = move || {
            let Ok(mut input) = take.recv() else { return };
            loop {
                let (mut batch, mut bytes) = (Vec::with_capacity(BATCH), 0);
                while batch.len() < BATCH
                    && bytes < BATCH_BYTES
                    && let Some(record) = input.next()
                {
                    bytes += record.as_ref().map_or(0, |record| record.bytes.len());
                    batch.push(record);
                }
                if batch.is_empty() || send.send(batch).is_err() {
                    return;
                }
            }
        };
        let shape = input.shape();
        if thread::Builder::new().name("tapline-reader".to_owned()).spawn(reading).is_err() {
            return Self::Here(input);
        }
        match give.send(input) {
            Ok(()) => Self::Ahead { shape, batches, batch: Vec::new().into_iter() },
            Err(back) => Self::Here(back.0),
        }
    }
}

impl<R: Read> Iterator for Records<R> {
    type Item = io::Result<Record>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Here(input) => input.next(),
            Self::Ahead { batches, batch, .. } => loop {
                if let Some(record) = batch.next() {
                    return Some(record);
                }
                *batch = batches.recv().ok()?.into_iter();
            },
        }
    }
}
