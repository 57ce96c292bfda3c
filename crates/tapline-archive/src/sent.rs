//! What the host sent, returned at the place where it was sent: between the agent's records.

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
    /// Whether the times of what was sent fit those of the records.
    timed: bool,
}

impl SentBefore {
    pub(crate) fn of(recording: &Recording, timed: bool) -> Option<Self> {
        let host = if recording.takes_messages() { Host::with_messages() } else { Host::with_text() };
        Some(Self { pieces: recording.sent()?.peekable(), host, received: 0, closed: false, timed })
    }

    /// Notes that a record of this many bytes was read.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Returns what was sent before the end of the record that was read last, or all that is left if there is no
    /// record.
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
        // A recording that was cut off never says that stdin was closed.
        if !record && !std::mem::replace(&mut self.closed, true) { self.host.close(fold) } else { Vec::new() }
    }
}
