//! What is read is decoded again without its secrets. A line waits where its end may be the beginning of a secret.

use std::collections::VecDeque;

use tapline_protocol::{Decoder, Record};
use tapline_recording::{Redactor, StreamRedactor};
use tapline_session::{Step, What};

/// Records go in, and come out without secrets, in order. A record waits where its end may be the beginning of a secret.
#[derive(Debug)]
pub struct CleanRecords {
    stream: StreamRedactor,
    decoder: Decoder,
    /// What went in and has not come out.
    waiting: VecDeque<Record>,
}

impl CleanRecords {
    /// Takes out what this redactor finds.
    pub fn new(redactor: &Redactor) -> Self {
        Self { stream: redactor.stream(), decoder: Decoder::default(), waiting: VecDeque::new() }
    }

    /// Takes a record, and hands out those that are clean, with how many bytes each had before.
    pub fn take(&mut self, record: Record, mut each: impl FnMut(Record, usize)) {
        let bytes = record.bytes.clone();
        self.waiting.push_back(record);
        let Self { stream, decoder, waiting } = self;
        stream.line(bytes, |line| read(decoder, waiting, line, &mut each));
    }

    /// No more records come: hands out the rest.
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
    /// What came out and was not taken.
    ready: VecDeque<(Record, usize)>,
    ended: bool,
}

impl Redaction {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { records: CleanRecords::new(&redactor), redactor, ready: VecDeque::new(), ended: false }
    }

    /// The next record without secrets, and how many bytes it had with them.
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

    /// Whether there is one that need not be read.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes secrets out of a prompt that was sent to the agent.
    pub(crate) fn prompt(&self, step: &mut Step) {
        if let What::Prompt { text } = &mut step.what {
            *text = self.redactor.text(text).into_owned();
        }
    }
}
