//! Piped input with a prompt: read as the agents themselves read it, and added after the prompt in their own way.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The longest piped input. More than that never ends.
const LIMIT: usize = 1 << 30;

/// The content of stdin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piped {
    /// All of it.
    All(Vec<u8>),
    /// It stayed open, and nothing came.
    Silent,
    /// The time of the run was up before its end.
    Late,
    /// It has no end.
    Endless,
}

/// Returns stdin, whatever it is.
pub(super) fn any() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// Returns stdin if it may be meant for the agent: a pipe, a socket or a file. A terminal or `/dev/null` is not.
pub(super) fn meant() -> Option<File> {
    let stdin = any().ok()?;
    let kind = stdin.metadata().ok()?.file_type();
    (kind.is_fifo() || kind.is_socket() || kind.is_file()).then_some(stdin)
}

/// Reads to the end. The first byte must arrive within `wait`, if given, and all of it before `until`.
pub(super) fn read(stdin: &File, wait: Option<Duration>, until: Option<Instant>) -> io::Result<Piped> {
    read_up_to(LIMIT, stdin, wait, until)
}

fn read_up_to(limit: usize, mut stdin: &File, wait: Option<Duration>, until: Option<Instant>) -> io::Result<Piped> {
    let first = wait.and_then(|wait| Instant::now().checked_add(wait));
    let (mut all, mut piece) = (Vec::new(), vec![0; 256 << 10]);
    while all.len() <= limit {
        let next = if all.is_empty() { first.into_iter().chain(until).min() } else { until };
        if !is_ready(stdin, next)? {
            let late = until.is_some_and(|until| until <= Instant::now());
            return Ok(if late { Piped::Late } else { Piped::Silent });
        }
        match stdin.read(&mut piece) {
            Ok(0) => return Ok(Piped::All(all)),
            Ok(count) => all.extend_from_slice(&piece[..count]),
            // Another process that shares the pipe has made it non-blocking, or was faster.
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Piped::Endless)
}

/// Waits for more, or for the end. Returns `false` if the time is up.
fn is_ready(stdin: &File, until: Option<Instant>) -> io::Result<bool> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(stdin, PollFlags::IN)], left.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn pipe() -> (File, File) {
        let (read, write) = io::pipe().unwrap_or_else(|error| panic!("{error}"));
        (File::from(std::os::fd::OwnedFd::from(read)), File::from(std::os::fd::OwnedFd::from(write)))
    }

    #[test]
    fn a_silent_pipe_is_not_waited_for_a_slow_one_is_read_to_its_end() -> io::Result<()> {
        let (read_end, mut write_end) = pipe();
        assert_eq!(read(&read_end, Some(Duration::ZERO), None)?, Piped::Silent);
        write_end.write_all(b"a")?;
        let writer = std::thread::spawn(move || write_end.write_all(b"b"));
        assert_eq!(read(&read_end, Some(Duration::from_secs(60)), None)?, Piped::All(b"ab".to_vec()));
        assert!(writer.join().is_ok_and(|written| written.is_ok()));
        assert_eq!(read(&read_end, None, None)?, Piped::All(Vec::new()), "closed");
        Ok(())
    }

    #[test]
    fn a_pipe_without_an_end() -> io::Result<()> {
        let (read_end, mut write_end) = pipe();
        write_end.write_all(b"more")?;
        assert_eq!(read(&read_end, None, Some(Instant::now()))?, Piped::Late);
        write_end.write_all(b"more")?;
        assert_eq!(read_up_to(3, &read_end, None, None)?, Piped::Endless);
        Ok(())
    }
}
