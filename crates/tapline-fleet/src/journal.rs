//! The notes of a batch in a file, one JSON object per line. A note is kept once it is on the disk. Notes that arrive together are
//! flushed together, so many jobs that end at once wait for the disk once.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::sync::oneshot;

use crate::note::BatchNote;

/// Writes notes, from any task.
#[derive(Debug)]
pub(crate) struct Journal {
    orders: Sender<Order>,
}

struct Order {
    line: Vec<u8>,
    kept: oneshot::Sender<io::Result<()>>,
}

impl Journal {
    /// Opens the file, and returns the notes so far. A last line that is not complete was never kept, and is removed.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Vec<BatchNote>)> {
        let Read { notes, whole, length } = read(path)?;
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        if whole < length {
            file.set_len(whole as u64)?;
        }
        file.sync_all()?;
        // Its name must be on the disk, too.
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        let (orders, received) = channel();
        std::thread::Builder::new().name("journal".to_owned()).spawn(move || write(file, &received))?;
        Ok((Self { orders }, notes))
    }

    /// Keeps a note. It is on the disk when this returns.
    pub(crate) async fn keep(&self, note: &BatchNote) -> io::Result<()> {
        let mut line = serde_json::to_vec(note)?;
        line.push(b'\n');
        let (kept, answer) = oneshot::channel();
        let gone = || io::Error::other("the thread that writes the journal has ended");
        self.orders.send(Order { line, kept }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// What a journal has.
struct Read {
    notes: Vec<BatchNote>,
    /// Where its last complete line ends.
    whole: usize,
    length: usize,
}

fn read(path: &Path) -> io::Result<Read> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut notes = Vec::new();
    for line in text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        notes.push(serde_json::from_slice(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?);
    }
    Ok(Read { notes, whole, length: text.len() })
}

/// Returns the notes so far.
pub(crate) fn notes(path: &Path) -> io::Result<Vec<BatchNote>> {
    Ok(read(path)?.notes)
}

/// Writes what was ordered, and flushes it.
fn write(mut file: File, orders: &Receiver<Order>) {
    let mut length = file.metadata().map_or(0, |meta| meta.len());
    while let Ok(first) = orders.recv() {
        let together: Vec<Order> = std::iter::once(first).chain(orders.try_iter()).collect();
        let lines: Vec<u8> = together.iter().flat_map(|order| &order.line).copied().collect();
        let written = file.write_all(&lines).and_then(|()| file.sync_data());
        match &written {
            Ok(()) => length += lines.len() as u64,
            // Half a line in the middle would spoil all that comes after it.
            Err(_) => drop(file.set_len(length)),
        }
        for order in together {
            let told = match &written {
                Ok(()) => Ok(()),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            let _ = order.kept.send(told);
        }
    }
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;
    use crate::note::AccountLimit;

    fn limit(until: i64) -> BatchNote {
        BatchNote::Limit(AccountLimit { account: "a".to_owned(), until })
    }

    #[tokio::test]
    async fn a_note_that_was_cut_off_was_never_kept() -> io::Result<()> {
        let folder = TempFolder::new();
        let path = folder.join("journal");
        let (journal, before) = Journal::open(&path)?;
        assert!(before.is_empty());
        let (one, two) = (limit(1), limit(2));
        let kept = tokio::join!(journal.keep(&one), journal.keep(&two));
        kept.0?;
        kept.1?;
        drop(journal);
        let whole = std::fs::read(&path)?;
        // Wherever a crash cuts the file, it is read up to the last whole note, and goes on from there.
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut])?;
            let (journal, notes) = Journal::open(&path)?;
            let lines = whole[..cut].split(|byte| *byte == b'\n').count() - 1;
            assert_eq!(notes, [limit(1), limit(2)][..lines]);
            journal.keep(&limit(3)).await?;
            let (_, notes) = Journal::open(&path)?;
            assert_eq!(notes.last(), Some(&limit(3)));
            assert_eq!(notes.len(), lines + 1);
        }
        Ok(())
    }
}
