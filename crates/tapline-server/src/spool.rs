//! The steps of a session as the page gets them, in a file without a name: memory holds only where each of them is. A session of any size
//! can be paged that way, and the file goes with the server.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// How many bytes wait in memory before they are written.
const PENDING: usize = 64 << 10;

/// How many bytes of replaced steps the file may have, beside as many as the steps have.
const SPARE: u64 = 1 << 20;

fn nameless(folder: &Path) -> io::Result<File> {
    let path = folder.join(Uuid::new_v4().simple().to_string());
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Where a step is in the file.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    length: u32,
}

/// The steps of a session.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    file: File,
    places: Vec<Place>,
    /// How many bytes the steps have. The others in the file are of steps that were replaced.
    used: u64,
    /// How much of the file is written. What waits comes after it.
    written: u64,
    pending: Vec<u8>,
}

impl Spool {
    /// Makes an empty one. Its file is private and has no name.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        let file = nameless(folder)?;
        Ok(Self { folder: folder.to_owned(), file, places: Vec::new(), used: 0, written: 0, pending: Vec::new() })
    }

    /// Returns how many steps there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn end(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Sets a step: the next one, or one that is there already.
    pub(crate) fn put(&mut self, n: usize, json: &str) -> io::Result<()> {
        let length = u32::try_from(json.len()).map_err(|_| io::ErrorKind::InvalidData)?;
        if let Some(old) = self.places.get(n).copied() {
            self.used -= u64::from(old.length);
            // Text that types along is replaced again and again, mostly at the end.
            if old.offset + u64::from(old.length) == self.end() {
                self.cut(old.offset);
            }
        }
        let place = Place { offset: self.end(), length };
        self.used += u64::from(length);
        self.pending.extend_from_slice(json.as_bytes());
        if n < self.places.len() {
            self.places[n] = place;
        } else {
            self.places.push(place);
        }
        if self.pending.len() >= PENDING {
            self.flush()?;
        }
        if self.end() > 2 * self.used + SPARE { self.compact() } else { Ok(()) }
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

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.pending, self.written)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Writes the steps to a new file, without those that were replaced.
    fn compact(&mut self) -> io::Result<()> {
        self.flush()?;
        let mut new = Self {
            file: nameless(&self.folder)?,
            folder: self.folder.clone(),
            places: Vec::with_capacity(self.places.len()),
            used: 0,
            written: 0,
            pending: Vec::new(),
        };
        let mut step = Vec::new();
        for place in &self.places {
            step.resize(place.length as usize, 0);
            self.file.read_exact_at(&mut step, place.offset)?;
            new.places.push(Place { offset: new.end(), length: place.length });
            new.used += u64::from(place.length);
            new.pending.extend_from_slice(&step);
            if new.pending.len() >= PENDING {
                new.flush()?;
            }
        }
        *self = new;
        Ok(())
    }

    /// Appends steps to JSON, with commas between them.
    pub(crate) fn page(&mut self, from: usize, limit: usize, out: &mut Vec<u8>) -> io::Result<()> {
        self.flush()?;
        for (at, place) in self.places.iter().skip(from).take(limit).enumerate() {
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
    use super::*;

    #[test]
    fn steps_are_paged_and_replaced() {
        let mut spool = Spool::create(&std::env::temp_dir()).unwrap();
        for n in 0..1_000 {
            spool.put(n, &format!("{{\"n\":{n},\"html\":\"{}\"}}", "x".repeat(n))).unwrap();
        }
        spool.put(3, "{\"n\":3}").unwrap();
        let mut out = Vec::new();
        spool.page(2, 3, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"n\":2,\"html\":\"xx\"},{\"n\":3},{\"n\":4,\"html\":\"xxxx\"}");
        assert_eq!(spool.len(), 1_000);
        assert!(spool.get(999).unwrap().starts_with("{\"n\":999"));
        assert_eq!(spool.get(1_000).unwrap(), "");
    }

    #[test]
    fn steps_that_are_replaced_leave_nothing_behind() {
        let mut spool = Spool::create(&std::env::temp_dir()).unwrap();
        spool.put(0, "first").unwrap();
        let text = |n: usize| format!("{{\"html\":\"{}\"}}", "x".repeat(n));
        // Text that types along, in one step and in two at once.
        for n in 0..20_000 {
            spool.put(1, &text(n)).unwrap();
        }
        assert!(spool.file.metadata().unwrap().len() < 2 * SPARE && spool.end() < 30_000);
        for n in 0..20_000 {
            spool.put(1, &text(n)).unwrap();
            spool.put(2, &text(n / 2)).unwrap();
            assert!(spool.end() <= 2 * spool.used + SPARE);
        }
        assert_eq!((spool.get(0).unwrap().as_str(), spool.len()), ("first", 3));
        assert_eq!((spool.get(1).unwrap(), spool.get(2).unwrap()), (text(19_999), text(9_999)));
    }
}
