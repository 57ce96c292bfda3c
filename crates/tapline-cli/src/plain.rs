//! stdin, stdout and stderr without a buffer, as plain system calls. They also work if the parent made them
//! non-blocking.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};

/// A stream without a buffer.
#[derive(Debug)]
pub(crate) struct Plain(File);

impl Plain {
    /// Takes stdin. When this is dropped, the writer sees a closed pipe.
    pub(crate) fn stdin() -> io::Result<Self> {
        let own = Self::of(io::stdin().as_fd())?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        Ok(own)
    }

    /// Takes stdout. When this is dropped, the reader sees the end.
    pub(crate) fn stdout() -> io::Result<Self> {
        let own = Self::of(io::stdout().as_fd())?;
        rustix::stdio::dup2_stdout(nowhere()?)?;
        Ok(own)
    }

    pub(crate) fn stderr() -> io::Result<Self> {
        Self::of(io::stderr().as_fd())
    }

    fn of(stream: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(stream.try_clone_to_owned()?.into()))
    }
}

impl Read for Plain {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        patiently(&self.0, PollFlags::IN, |mut file| file.read(buffer))
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        patiently(&self.0, PollFlags::OUT, |mut file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Closes stdout, so that the reader sees the end.
pub(crate) fn close_stdout() {
    if let Ok(nowhere) = nowhere() {
        let _ = rustix::stdio::dup2_stdout(nowhere);
    }
}

fn nowhere() -> io::Result<File> {
    File::options().write(true).open("/dev/null")
}

/// Writes all bytes.
pub(crate) fn write_all(file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = patiently(file, PollFlags::OUT, |mut file| file.write(bytes))?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Waits if the stream is non-blocking.
fn patiently(file: &File, wanted: PollFlags, mut call: impl FnMut(&File) -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call(file) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(file, wanted)], None)?;
            }
            done => return done,
        }
    }
}
