//! A file that grows: reading waits for more, across truncation and rotation.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::output;

/// How long to wait before checking again.
const PAUSE: Duration = Duration::from_millis(100);

/// A file that is read for ever.
pub(crate) struct Follow {
    path: PathBuf,
    file: Option<File>,
    position: u64,
    mid_line: bool,
}

impl Follow {
    /// Opens the file. If it does not exist yet, reading waits for it.
    pub(crate) fn open(path: &Path) -> Self {
        let file = File::open(path);
        if let Err(error) = &file {
            let why = match error.kind() {
                io::ErrorKind::NotFound => "does not exist yet".to_owned(),
                _ => format!("cannot be read ({error})"),
            };
            output::tell(&format!("waiting for {}, which {why} (Ctrl-C to stop waiting)", path.display()));
        }
        Self { path: path.to_owned(), file: file.ok(), position: 0, mid_line: false }
    }

    /// Returns whether another file has taken this one's name.
    fn has_successor(&self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        let here = file.metadata()?;
        Ok(self.path.metadata().is_ok_and(|there| !same_file(&here, &there)))
    }

    /// Starts over if the file was truncated or replaced. Returns `true` if so.
    fn start_over(&mut self) -> io::Result<bool> {
        if let Some(file) = &mut self.file {
            let here = file.metadata()?;
            if here.len() < self.position {
                file.seek(SeekFrom::Start(0))?;
                self.position = 0;
                return Ok(true);
            }
            // While a file is rotated, none may have its name. Wait for the next.
            if self.path.metadata().is_ok_and(|there| same_file(&here, &there)) {
                return Ok(false);
            }
        }
        let Ok(file) = File::open(&self.path) else { return Ok(false) };
        self.file = Some(file);
        self.position = 0;
        Ok(true)
    }
}

fn same_file(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

impl Read for Follow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.file.as_mut().map_or(Ok(0), |file| file.read(buffer))?;
            if count > 0 {
                self.position += count as u64;
                self.mid_line = buffer[count - 1] != b'\n';
                return Ok(count);
            }
            if self.has_successor()? {
                // What was written before the change still counts.
                let count = self.file.as_mut().map_or(Ok(0), |file| file.read(buffer))?;
                if count > 0 {
                    self.position += count as u64;
                    self.mid_line = buffer[count - 1] != b'\n';
                    return Ok(count);
                }
            }
            if self.start_over()? {
                // A line that was cut off is a line of its own, not the start of the next.
                if std::mem::take(&mut self.mid_line) && !buffer.is_empty() {
                    buffer[0] = b'\n';
                    return Ok(1);
                }
            } else {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    #[test]
    fn what_was_cut_off_is_a_line_of_its_own() {
        let folder = TempFolder::new();
        let path = folder.write("growing", "half a li");
        let mut follow = Follow::open(&path);
        let mut buffer = [0; 64];
        let mut next = || {
            let count = follow.read(&mut buffer).unwrap();
            String::from_utf8(buffer[..count].to_vec()).unwrap()
        };
        assert_eq!(next(), "half a li");
        std::fs::write(&path, "new\n").unwrap();
        assert_eq!((next(), next()), ("\n".into(), "new\n".into()));
        std::fs::write(&path, "x\n").unwrap();
        assert_eq!(next(), "x\n");
    }
}
