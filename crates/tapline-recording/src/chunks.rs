//! A buffer that is there only while there is something in it: many files are followed at once, and most of them say nothing most of the time.

use std::io::{self, BufRead, Read};

/// A reader with a buffer, which is freed when there is nothing more to read for now.
///
/// ```
/// use std::io::BufRead as _;
///
/// let mut lines = tapline_recording::Chunks::new(1 << 10, b"one\ntwo\n".as_slice()).lines();
/// assert_eq!(lines.next().transpose()?.as_deref(), Some("one"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Chunks<R> {
    reader: R,
    size: usize,
    buffer: Vec<u8>,
    /// How much of the buffer was taken.
    taken: usize,
}

impl<R: Read> Chunks<R> {
    /// Reads at most so many bytes at once.
    pub fn new(size: usize, reader: R) -> Self {
        Self { reader, size, buffer: Vec::new(), taken: 0 }
    }
}

impl<R: Read> BufRead for Chunks<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.buffer.len() {
            self.taken = 0;
            // The bytes of the last chunk are written over.
            self.buffer.resize(self.size, 0);
            let read = self.reader.read(&mut self.buffer);
            match read {
                Ok(count) if count > 0 => self.buffer.truncate(count),
                _ => self.buffer = Vec::new(),
            }
            read?;
        }
        Ok(&self.buffer[self.taken..])
    }

    fn consume(&mut self, amount: usize) {
        self.taken = self.buffer.len().min(self.taken + amount);
        if self.taken == self.buffer.len() && self.taken < self.size {
            // There was no more than this.
            (self.buffer, self.taken) = (Vec::new(), 0);
        }
    }
}

impl<R: Read> Read for Chunks<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(out)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says that there is nothing more yet, now and then.
    struct Slow(Vec<Option<&'static [u8]>>);

    impl Read for Slow {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            match self.0.pop() {
                Some(Some(mut bytes)) => bytes.read(out),
                Some(None) => Err(io::ErrorKind::WouldBlock.into()),
                None => Ok(0),
            }
        }
    }

    #[test]
    fn there_is_no_buffer_while_there_is_nothing_to_read() {
        let mut chunks = Chunks::new(1 << 16, Slow(vec![Some(b"two\n"), None, Some(b"one\nan")]));
        let mut line = Vec::new();
        assert_eq!(chunks.buffer.capacity(), 0);
        assert_eq!((chunks.read_until(b'\n', &mut line).unwrap(), line.as_slice()), (4, b"one\n".as_slice()));
        line.clear();
        assert_eq!(chunks.read_until(b'\n', &mut line).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!((line.as_slice(), chunks.buffer.capacity()), (b"an".as_slice(), 0));
        assert_eq!((chunks.read_until(b'\n', &mut line).unwrap(), line.as_slice()), (4, b"antwo\n".as_slice()));
        assert_eq!(chunks.buffer.capacity(), 0, "all of it was taken");
        assert_eq!((chunks.read_until(b'\n', &mut line).unwrap(), chunks.buffer.capacity()), (0, 0));
        // A file may grow after its end.
        chunks.reader.0.push(Some(b"three"));
        assert_eq!(io::read_to_string(chunks).unwrap(), "three");
    }
}
