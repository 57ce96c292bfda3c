//! What the host sent, handed out where it was sent: between the records of the agent's answer.

use std::iter::Peekable;

use tapline_recording::{Recording, SentPieces};
use tapline_session::{Fold, Host, Step};

#[derive(Debug)]
pub(crate) struct SentBefore {
    pieces: Peekable<SentPieces>,
    host: Host,
    /// Where the record that was read last ends.
    received: u64,
    closed: bool,
    /// Its times fit those of the records.
    timed: bool,
}

impl SentBefore {
    pub(crate) fn of(recording: &Recording, timed: bool) -> Option<Self> {
        let host = if recording.takes_messages() { Host::with_messages() } else { Host::with_text() };
        Some(Self { pieces: recording.sent()?.peekable(), host, received: 0, closed: false, timed })
    }

    /// A record of so many bytes was read.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// What was sent before the record that was read last was whole; all that is left, if there is none.
    pub(crate) fn before(&mut self, record: bool, fold: &mut Fold) -> Vec<Step> {
        while let Some(sent) = self.pieces.next_if(|sent| !record || sent.after < self.received) {
            let steps = if sent.bytes.is_empty() {
                self.host.close(fold)
            } else {
                self.host.push(&sent.bytes, sent.at.filter(|_| self.timed), fold)
            };
            if !steps.is_empty() {
                return steps;
            }
        }
        // A recording that was cut never says that stdin was closed.
        if !record && !std::mem::replace(&mut self.closed, true) { self.host.close(fold) } else { Vec::new() }
    }
}
