//! Where each step of a session is: entries of one size in a file without a name. Memory holds only the last few, however many there are.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use uuid::Uuid;

/// How many entries wait in memory before they are written.
const PENDING: usize = 128;
/// How many bytes an entry has in the file.
const SIZE: usize = 20;

/// Makes a private file that has no name, so that it goes with the server.
pub(crate) fn nameless(folder: &Path) -> io::Result<File> {
    let path = folder.join(Uuid::new_v4().simple().to_string());
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Where a step is in the spool's file, and with which line of the session's file it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) line: u64,
}

impl Place {
    fn write(self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.offset.to_le_bytes());
        out[8..12].copy_from_slice(&self.length.to_le_bytes());
        out[12..SIZE].copy_from_slice(&self.line.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            offset: u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?),
            length: u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?),
            line: u64::from_le_bytes(bytes.get(12..SIZE)?.try_into().ok()?),
        })
    }
}

/// The places of all steps, in order.
#[derive(Debug)]
pub(crate) struct Table {
    file: File,
    /// How many entries are in the file. Those that wait come after them.
    written: usize,
    pending: Vec<Place>,
}

impl Table {
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: nameless(folder)?, written: 0, pending: Vec::new() })
    }

    pub(crate) fn len(&self) -> usize {
        self.written + self.pending.len()
    }

    /// Returns how many entries are in memory.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.pending.len()
    }

    /// Returns a step's place.
    pub(crate) fn get(&self, n: usize) -> io::Result<Option<Place>> {
        if let Some(at) = n.checked_sub(self.written) {
            return Ok(self.pending.get(at).copied());
        }
        let mut bytes = [0; SIZE];
        self.file.read_exact_at(&mut bytes, offset(n))?;
        Ok(Place::read(&bytes))
    }

    /// Returns the places of steps that follow each other.
    pub(crate) fn range(&self, from: usize, limit: usize) -> io::Result<Vec<Place>> {
        let end = from.saturating_add(limit).min(self.len());
        let from = from.min(end);
        let mut bytes = vec![0; SIZE * end.min(self.written).saturating_sub(from)];
        self.file.read_exact_at(&mut bytes, offset(from))?;
        let mut places: Vec<Place> = bytes.chunks_exact(SIZE).filter_map(Place::read).collect();
        let waiting = from.max(self.written) - self.written..end.max(self.written) - self.written;
        places.extend_from_slice(&self.pending[waiting]);
        Ok(places)
    }

    /// Sets the place of a step: the next one, or one that is there already.
    pub(crate) fn set(&mut self, n: usize, place: Place) -> io::Result<()> {
        match n.checked_sub(self.written) {
            None => {
                let mut bytes = [0; SIZE];
                place.write(&mut bytes);
                self.file.write_all_at(&bytes, offset(n))
            }
            Some(at) if at < self.pending.len() => {
                self.pending[at] = place;
                Ok(())
            }
            Some(_) => {
                self.pending.push(place);
                if self.pending.len() >= PENDING { self.flush() } else { Ok(()) }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; SIZE * self.pending.len()];
        bytes.chunks_exact_mut(SIZE).zip(&self.pending).for_each(|(bytes, place)| place.write(bytes));
        self.file.write_all_at(&bytes, offset(self.written))?;
        self.written += self.pending.len();
        self.pending.clear();
        Ok(())
    }

    /// Returns how many steps began by a line. Steps begin in the order of their lines.
    pub(crate) fn begun_by(&self, line: u64) -> io::Result<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle)?.is_some_and(|place| place.line <= line) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

fn offset(n: usize) -> u64 {
    (n as u64) * SIZE as u64
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    #[test]
    fn places_are_found_whether_they_wait_or_are_written() {
        let folder = TempFolder::new();
        let mut table = Table::create(&folder).unwrap();
        let place = |n: usize, length: u32| Place { offset: n as u64 * 7, length, line: n as u64 / 3 };
        let count = 5 * PENDING + 7;
        for n in 0..count {
            table.set(n, place(n, 1)).unwrap();
            // Text that types along is set again and again.
            table.set(n, place(n, 2)).unwrap();
            assert!(table.kept() < PENDING, "only the last few are in memory");
        }
        table.set(3, place(3, 9)).unwrap();
        table.set(count - 1, place(count - 1, 9)).unwrap();
        assert_eq!(table.len(), count);
        let wanted: Vec<Place> = (0..count).map(|n| place(n, if n == 3 || n == count - 1 { 9 } else { 2 })).collect();
        for (from, limit) in
            [(0, 1), (2, 3), (0, count), (5 * PENDING - 2, 4), (count - 1, 9), (count, 1), (count + 9, 1), (0, 0)]
        {
            let end = (from + limit).min(count);
            assert_eq!(table.range(from, limit).unwrap(), wanted[from.min(end)..end], "{from}, {limit}");
        }
        for n in [0, 3, PENDING, count - 1] {
            assert_eq!(table.get(n).unwrap(), Some(wanted[n]));
        }
        assert_eq!(table.get(count).unwrap(), None);
        for line in [0, 1, 200, count / 3 - 1] {
            assert_eq!(table.begun_by(line as u64).unwrap(), 3 * (line + 1));
        }
        assert_eq!(table.begun_by(u64::MAX).unwrap(), count);
    }
}
