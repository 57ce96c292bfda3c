//! In what order a recording is played: as it was, by its times; or, where it was edited and they fit no more, by what follows
//! from what.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::time::Duration;

use tapline_recording::{Piece, Recording, Stream};

use super::frame::{Frame, Line, answered, is_init};

/// The next thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A stream of the agent's went on to this byte.
    Out { stream: Stream, end: u64, at: Duration },
    /// The host had sent so many lines.
    In { lines: usize, at: Duration },
    /// The host had closed its end.
    Closed { at: Duration },
}

/// What the recorded host sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs {
    pub(super) lines: Vec<Line>,
    /// Where each ends.
    ends: Vec<u64>,
    /// The bytes, if it was no conversation but a text.
    pub(super) text: Option<Vec<u8>>,
}

impl Inputs {
    pub(super) fn read(recording: &Recording) -> Self {
        let bytes = std::fs::read(recording.file(Stream::Stdin)).unwrap_or_default();
        let mut inputs = Self::default();
        let mut end = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            end += line.len() as u64;
            if !line.trim_ascii().is_empty() {
                inputs.lines.push(Line::read(line));
                inputs.ends.push(end);
            }
        }
        if inputs.lines.first().is_some_and(|line| line.frame == Frame::Text) {
            return Self { text: Some(bytes), ..Self::default() };
        }
        inputs
    }

    /// How many lines are whole at this byte.
    fn whole(&self, end: u64) -> usize {
        self.ends.partition_point(|line| *line <= end)
    }
}

/// The order of a recording.
pub(super) fn of(recording: &Recording, inputs: &Inputs) -> io::Result<Vec<Next>> {
    let length = |stream| std::fs::metadata(recording.file(stream)).map_or(0, |meta| meta.len());
    let pieces = recording.pieces().unwrap_or_default();
    let told = pieces.iter().filter(|piece| piece.stream == Stream::Stdout).map(|piece| piece.end).max().unwrap_or(0);
    // A shorter file was cut, and its times still fit; a longer one may only lack its last times. Else it was edited.
    let edited = told > 0 && told != length(Stream::Stdout) && recording.end.is_some();
    let mut order = if pieces.is_empty() || (edited && !inputs.lines.is_empty()) {
        by_cause(recording, inputs)?
    } else {
        by_time(&pieces, inputs)
    };
    // What the times do not tell of comes last.
    let at = pieces.last().map_or(Duration::ZERO, |piece| piece.at);
    order.extend([Stream::Stdout, Stream::Stderr].map(|stream| Next::Out { stream, end: length(stream), at }));
    Ok(order)
}

fn by_time(pieces: &[Piece], inputs: &Inputs) -> Vec<Next> {
    let (mut sent, mut order) = (0, Vec::with_capacity(pieces.len()));
    for Piece { stream, end, at } in pieces.iter().copied() {
        match stream {
            Stream::Stdin if end == sent => order.push(Next::Closed { at }),
            Stream::Stdin => {
                sent = end;
                order.push(Next::In { lines: inputs.whole(end), at });
            }
            _ => order.push(Next::Out { stream, end, at }),
        }
    }
    order
}

/// An answer follows its request; a request of the agent's waits for the host's answer; a turn begins with a message.
fn by_cause(recording: &Recording, inputs: &Inputs) -> io::Result<Vec<Next>> {
    let at = Duration::ZERO;
    let position = |wanted: &dyn Fn(&Line) -> bool| inputs.lines.iter().position(wanted).map(|found| found + 1);
    let mut reader = BufReader::new(File::open(recording.stdout())?);
    let (mut order, mut line, mut end, mut due, mut turns) = (Vec::new(), Vec::new(), 0, 0, 0);
    let message = |turn: usize| {
        let mut messages = inputs.lines.iter().enumerate().filter(|(_, line)| line.frame == Frame::Message("user".to_owned()));
        messages.nth(turn).map(|(found, _)| found + 1)
    };
    loop {
        line.clear();
        let count = reader.read_until(b'\n', &mut line)?;
        if count == 0 {
            break;
        }
        if let Some(id) = answered(&line) {
            due = due.max(position(&|line| line.id.as_ref() == Some(&id)).unwrap_or(0));
        }
        if is_init(&line) {
            due = due.max(message(turns).unwrap_or(0));
            turns += 1;
        }
        order.push(Next::In { lines: due, at });
        end += count as u64;
        order.push(Next::Out { stream: Stream::Stdout, end, at });
        let read = Line::read(&line);
        if let (Frame::Request(_), Some(id)) = (&read.frame, &read.id) {
            due = due.max(position(&|line| line.frame == Frame::Response(id.clone())).unwrap_or(0));
        }
    }
    if !inputs.lines.is_empty() {
        order.push(Next::Closed { at });
    }
    Ok(order)
}
