//! The steps of a session as the page gets them, in a file without a name: memory holds only where each of them is. A session of any size
//! can be paged that way, and the file goes with the server.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use uuid::Uuid;

/// How many bytes wait in memory before they are written.
const PENDING: usize = 64 << 10;

/// Where a step is in the file.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    length: u32,
}

/// The steps of a session.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    places: Vec<Place>,
    /// How much of the file is written. What waits comes after it.
    written: u64,
    pending: Vec<u8>,
}

impl Spool {
    /// Makes an empty one. Its file is private and has no name.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        let path = folder.join(Uuid::new_v4().simple().to_string());
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(Self { file, places: Vec::new(), written: 0, pending: Vec::new() })
    }

    /// Returns how many steps there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Sets a step: the next one, or one that is there already.
    pub(crate) fn put(&mut self, n: usize, json: &str) -> io::Result<()> {
        let place = Place {
            offset: self.written + self.pending.len() as u64,
            length: u32::try_from(json.len()).map_err(|_| io::ErrorKind::InvalidData)?,
        };
        self.pending.extend_from_slice(json.as_bytes());
        if n < self.places.len() {
            self.places[n] = place;
        } else {
            self.places.push(place);
        }
        if self.pending.len() >= PENDING { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.pending, self.written)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
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
}
