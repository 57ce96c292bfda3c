//! A file that is still written: reading it never waits, but says that there may be more.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// A file that grows.
#[derive(Debug)]
pub(crate) struct Growing {
    file: File,
    /// A file that exists once nothing more will come.
    end: Option<PathBuf>,
}

impl Growing {
    /// Reads an open file. Nothing more will come once the file `end` exists.
    pub(crate) fn new(file: File, end: Option<PathBuf>) -> Self {
        Self { file, end }
    }
}

impl Read for Growing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        if !self.end.as_ref().is_some_and(|end| end.exists()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // Something may have been written before the end.
        self.file.read(buffer)
    }
}
