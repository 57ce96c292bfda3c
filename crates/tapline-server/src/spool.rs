//! The steps of a session as the page gets them, in a file without a name: memory does not even hold where each of them is. A session of any
//! size can be paged that way, and the file goes with the server.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::table::{Place, Table, nameless};

/// How many bytes wait in memory before they are written.
const PENDING: usize = 16 << 10;

/// How many bytes may wait while nothing comes.
const LITTLE: usize = 1 << 10;

/// How many bytes of replaced steps the file may have, beside as many as the steps have.
const SPARE: u64 = 1 << 20;

/// How many places are read at once.
const AT_ONCE: usize = 1_024;

/// The steps of a session.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    file: File,
    places: Table,
    /// How many bytes the steps have. The others in the file are of steps that were replaced.
    used: u64,
    /// How much of the file is written. What waits comes after it.
    written: u64,
    pending: Vec<u8>,
}

impl Spool {
    /// Makes an empty one. Its file is private and has no name.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        let (file, places) = (nameless(folder)?, Table::create(folder)?);
        Ok(Self { folder: folder.to_owned(), file, places, used: 0, written: 0, pending: Vec::new() })
    }

    /// Returns how many steps there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn end(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Sets a step: the next one, which began with a line of the session's file, or one that is there already.
    pub(crate) fn put(&mut self, n: usize, line: u64, json: &str) -> io::Result<()> {
        let length = u32::try_from(json.len()).map_err(|_| io::ErrorKind::InvalidData)?;
        let old = self.places.get(n)?;
        if let Some(old) = old {
            self.used -= u64::from(old.length);
            // Text that types along is replaced again and again, mostly at the end.
            if old.offset + u64::from(old.length) == self.end() {
                self.cut(old.offset);
            }
        }
        let place = Place { offset: self.end(), length, line: old.map_or(line, |old| old.line) };
        self.used += u64::from(length);
        self.pending.extend_from_slice(json.as_bytes());
        self.places.set(n, place)?;
        if self.pending.len() >= PENDING {
            self.flush()?;
        }
        if self.end() > 2 * self.used + SPARE { self.compact() } else { Ok(()) }
    }

    /// Returns the last step that began by a line.
    pub(crate) fn step_at(&self, line: u64) -> io::Result<Option<usize>> {
        Ok(self.places.begun_by(line)?.checked_sub(1))
    }

    /// Returns how many steps are known in memory.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.places.kept()
    }

    /// Returns how many bytes of memory it has for what waits.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.pending.capacity()
    }

    /// Forgets what comes after an offset.
    fn cut(&mut self, offset: u64) {
        if let Some(kept) = offset.checked_sub(self.written) {
            self.pending.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        } else {
            self.pending.clear();
            self.written = offset;
        }
    }

    /// Writes what waits, if it is much, and frees its memory: there are many sessions, and most of them are silent.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        if self.pending.len() > LITTLE {
            self.flush()?;
        }
        if self.pending.capacity() > 2 * LITTLE {
            self.pending.shrink_to_fit();
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.pending, self.written)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Writes the steps to a new file, without those that were replaced.
    fn compact(&mut self) -> io::Result<()> {
        self.flush()?;
        let mut new = Self::create(&self.folder)?;
        let mut step = Vec::new();
        for from in (0..self.places.len()).step_by(AT_ONCE) {
            for place in self.places.range(from, AT_ONCE)? {
                step.resize(place.length as usize, 0);
                self.file.read_exact_at(&mut step, place.offset)?;
                new.places.set(new.places.len(), Place { offset: new.end(), ..place })?;
                new.used += u64::from(place.length);
                new.pending.extend_from_slice(&step);
                if new.pending.len() >= PENDING {
                    new.flush()?;
                }
            }
        }
        *self = new;
        Ok(())
    }

    /// Appends steps to JSON, with commas between them.
    pub(crate) fn page(&mut self, from: usize, limit: usize, out: &mut Vec<u8>) -> io::Result<()> {
        self.flush()?;
        for (at, place) in self.places.range(from, limit)?.into_iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            let start = out.len();
            out.resize(start + place.length as usize, 0);
            self.file.read_exact_at(&mut out[start..], place.offset)?;
        }
        Ok(())
    }

    /// Returns one step as JSON.
    pub(crate) fn get(&mut self, n: usize) -> io::Result<String> {
        let mut out = Vec::new();
        self.page(n, 1, &mut out)?;
        String::from_utf8(out).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    #[test]
    fn steps_are_paged_and_replaced() {
        let folder = TempFolder::new();
        let mut spool = Spool::create(&folder).unwrap();
        for n in 0..1_000 {
            spool.put(n, n as u64 / 2, &format!("{{\"n\":{n},\"html\":\"{}\"}}", "x".repeat(n))).unwrap();
        }
        spool.put(3, 9_999, "{\"n\":3}").unwrap();
        let mut out = Vec::new();
        spool.page(2, 3, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"n\":2,\"html\":\"xx\"},{\"n\":3},{\"n\":4,\"html\":\"xxxx\"}");
        assert_eq!(spool.len(), 1_000);
        assert!(spool.get(999).unwrap().starts_with("{\"n\":999"));
        assert_eq!(spool.get(1_000).unwrap(), "");
        // A step that is replaced stays where it began.
        assert_eq!([0, 1, 2, 600].map(|line| spool.step_at(line).unwrap()), [Some(1), Some(3), Some(5), Some(999)]);
    }

    #[test]
    fn steps_that_are_replaced_leave_nothing_behind() {
        let folder = TempFolder::new();
        let mut spool = Spool::create(&folder).unwrap();
        spool.put(0, 0, "first").unwrap();
        let text = |n: usize| format!("{{\"html\":\"{}\"}}", "x".repeat(n));
        // Text that types along, in one step and in two at once.
        for n in 0..20_000 {
            spool.put(1, 1, &text(n)).unwrap();
        }
        assert!(spool.file.metadata().unwrap().len() < 2 * SPARE && spool.end() < 30_000);
        for n in 0..20_000 {
            spool.put(1, 1, &text(n)).unwrap();
            spool.put(2, 2, &text(n / 2)).unwrap();
            assert!(spool.end() <= 2 * spool.used + SPARE);
        }
        assert_eq!((spool.get(0).unwrap().as_str(), spool.len()), ("first", 3));
        assert_eq!((spool.get(1).unwrap(), spool.get(2).unwrap()), (text(19_999), text(9_999)));
    }
}
