//! What a program says, line by line, as a test reads it.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use tapline_testkit::{HANG, TestProcess};

/// Starts a program. Returns what it writes to stdout and to stderr, too.
pub(crate) fn started(command: &mut Command) -> (TestProcess, Said, Said) {
    let mut process = TestProcess::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let (out, err) = (Said::of(process.stdout.take()), Said::of(process.stderr.take()));
    (process, out, err)
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
