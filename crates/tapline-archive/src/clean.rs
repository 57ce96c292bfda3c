//! Decodes records again without their secrets. A line waits while its end may be the beginning of a secret.

use std::collections::VecDeque;

use tapline_protocol::{Decoder, Record};
use tapline_recording::{Redactor, StreamRedactor};
use tapline_session::{Step, What};

/// Removes secrets from records, and returns them in order. A record waits while its end may be the beginning of a
/// secret.
#[derive(Debug)]
pub struct CleanRecords {
    stream: StreamRedactor,
    decoder: Decoder,
    /// Records that were taken and not returned yet.
    waiting: VecDeque<Record>,
}

impl CleanRecords {
    /// Removes the secrets that this redactor finds.
    pub fn new(redactor: &Redactor) -> Self {
        Self { stream: redactor.stream(), decoder: Decoder::default(), waiting: VecDeque::new() }
    }

    /// Takes a record and passes on the clean ones, each with its former length in bytes.
    pub fn take(&mut self, record: Record, mut each: impl FnMut(Record, usize)) {
        let bytes = record.bytes.clone();
        self.waiting.push_back(record);
        let Self { stream, decoder, waiting } = self;
        stream.line(bytes, |line| read(decoder, waiting, line, &mut each));
    }

    /// Ends the records and passes on the rest.
    pub fn finish(&mut self, mut each: impl FnMut(Record, usize)) {
        let Self { stream, decoder, waiting } = self;
        stream.finish(|line| read(decoder, waiting, line, &mut each));
    }
}

fn read(decoder: &mut Decoder, waiting: &mut VecDeque<Record>, line: Vec<u8>, each: &mut impl FnMut(Record, usize)) {
    if let Some(record) = waiting.pop_front() {
        let length = record.bytes.len();
        each(decoder.decode_again(record, line), length);
    }
}

/// The redaction of a source.
#[derive(Debug)]
pub(crate) struct Redaction {
    redactor: Redactor,
    records: CleanRecords,
    /// Clean records that were not returned yet.
    ready: VecDeque<(Record, usize)>,
    ended: bool,
}

impl Redaction {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { records: CleanRecords::new(&redactor), redactor, ready: VecDeque::new(), ended: false }
    }

    /// Returns the next record without secrets, and its length in bytes with them.
    pub(crate) fn next<E>(
        &mut self,
        mut read: impl FnMut() -> Result<Option<Record>, E>,
    ) -> Result<Option<(Record, usize)>, E> {
        while self.ready.is_empty() && !self.ended {
            let each = |record, length| self.ready.push_back((record, length));
            if let Some(record) = read()? {
                self.records.take(record, each);
            } else {
                self.ended = true;
                self.records.finish(each);
            }
        }
        Ok(self.ready.pop_front())
    }

    /// Returns whether a record is available without reading.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Removes secrets from a prompt that was sent to the agent.
    pub(crate) fn prompt(&self, step: &mut Step) {
        if let What::Prompt { text } = &mut step.what {
            *text = self.redactor.text(text).into_owned();
        }
    }
}
