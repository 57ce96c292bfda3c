//! A program that a test started, and what it says. It is gone after the test.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use crate::broker::{HANG, wait_until};

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Started(Child);

impl Started {
    /// Starts a program. Returns what it writes to stdout and to stderr, too.
    pub(crate) fn new(command: &mut Command) -> (Self, Said, Said) {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (Said::of(child.stdout.take()), Said::of(child.stderr.take()));
        (Self(child), out, err)
    }

    /// Asks it to end, as a service manager would.
    pub(crate) fn stop(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits for its end. Returns its exit code.
    pub(crate) fn code(mut self) -> Option<i32> {
        let mut ended = None;
        wait_until("the program ends", || {
            ended = self.0.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines that a program writes, as they come. One that says nothing for long, and does not end either, hangs.
#[derive(Debug)]
pub(crate) struct Said(Receiver<String>);

impl Said {
    fn of(from: Option<impl Read + Send + 'static>) -> Self {
        let (tell, told) = channel();
        let lines = BufReader::new(from.unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self(told)
    }
}

impl Iterator for Said {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        match self.0.recv_timeout(HANG) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the program says nothing more, and does not end"),
        }
    }
}
