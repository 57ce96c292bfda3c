//! What the host sent, returned at the place where it was sent: between the agent's records.

use tapline_recording::{Recording, SentPiece, SentPieces};
use tapline_session::{Fold, Host, Step};

#[derive(Debug)]
pub(crate) struct SentBefore {
    pieces: SentPieces,
    /// What was read and comes later.
    next: Option<SentPiece>,
    host: Host,
    /// Where the record that was read last ends.
    received: u64,
    closed: bool,
    /// Whether the times of what was sent fit those of the records.
    timed: bool,
    /// Whether more may be sent.
    grows: bool,
}

impl SentBefore {
    pub(crate) fn of(recording: &Recording, timed: bool, grows: bool) -> Option<Self> {
        let host = if recording.takes_messages() { Host::with_messages() } else { Host::with_text() };
        let pieces = recording.sent()?;
        let pieces = if grows { pieces.growing() } else { pieces };
        Some(Self { pieces, next: None, host, received: 0, closed: false, timed, grows })
    }

    /// Takes the next piece, if it was sent by then.
    fn take(&mut self, record: bool) -> Option<SentPiece> {
        if record && self.next.is_none() && self.pieces.after() >= self.received {
            // Whatever comes was sent later. Of a file that grows, asking would read it once for each record.
            return None;
        }
        self.next = self.next.take().or_else(|| self.pieces.next());
        self.next.take_if(|sent| match (record, self.grows) {
            (true, _) => sent.after < self.received,
            // Output that is not read yet came before.
            (false, true) => sent.after <= self.received,
            (false, false) => true,
        })
    }

    /// Notes that the recording has ended.
    pub(crate) fn ends(&mut self) {
        self.grows = false;
    }

    /// Notes that a record of this many bytes was read.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Returns what was sent before the end of the record that was read last, or all that is left if there is no
    /// record.
    pub(crate) fn before(&mut self, record: bool, fold: &mut Fold) -> Vec<Step> {
        while let Some(sent) = self.take(record) {
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
        if !record && !self.grows && !std::mem::replace(&mut self.closed, true) { self.host.close(fold) } else { Vec::new() }
    }
}
