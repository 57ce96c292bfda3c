//! What is read is decoded again without its secrets. A line waits where its end may be the beginning of a secret.

use std::collections::VecDeque;

use anyhow::Result;
use tapline_protocol::{Decoder, Record};
use tapline_recording::{Redactor, StreamRedactor};
use tapline_session::{Step, What};

pub(super) struct Redaction {
    redactor: Redactor,
    stream: StreamRedactor,
    decoder: Decoder,
    /// What went in and has not come out.
    waiting: VecDeque<Record>,
    /// What came out and was not taken.
    ready: VecDeque<Vec<u8>>,
    ended: bool,
}

impl Redaction {
    pub(super) fn new(redactor: Redactor) -> Self {
        let stream = redactor.stream();
        let (decoder, waiting, ready) = (Decoder::default(), VecDeque::new(), VecDeque::new());
        Self { redactor, stream, decoder, waiting, ready, ended: false }
    }

    /// The next record without secrets, and how many bytes it had with them.
    pub(super) fn next(&mut self, mut read: impl FnMut() -> Result<Option<Record>>) -> Result<Option<(Record, usize)>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                let Some(record) = self.waiting.pop_front() else { return Ok(None) };
                let length = record.bytes.len();
                return Ok(Some((self.decoder.decode_again(record, bytes), length)));
            }
            if self.ended {
                return Ok(None);
            }
            if let Some(record) = read()? {
                self.stream.line(record.bytes.clone(), |line| self.ready.push_back(line));
                self.waiting.push_back(record);
            } else {
                self.ended = true;
                self.stream.finish(|line| self.ready.push_back(line));
            }
        }
    }

    /// Whether there is one that need not be read.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes secrets out of a prompt that was sent to the agent.
    pub(super) fn prompt(&self, step: &mut Step) {
        if let What::Prompt { text } = &mut step.what {
            *text = self.redactor.text(text).into_owned();
        }
    }
}
