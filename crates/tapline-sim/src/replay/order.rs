//! The order in which a recording is played: by its times, or, if it was edited and they no longer fit, by cause and
//! effect.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::time::Duration;

use tapline_recording::{Recording, Stream, TimedPiece};

use super::frame::{Frame, Line, answered, is_init};

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A stream of the agent continued up to this byte.
    Out { stream: Stream, end: u64, at: Duration },
    /// The host had sent this much.
    In { sent: Sent, at: Duration },
}

/// How much a host has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// This many of the recorded lines, in any order.
    Lines(usize),
    /// This many lines, if they arrive soon: the agent may have continued without them.
    Soon(usize),
    /// This many bytes, if they are not lines that can be told apart.
    Bytes(u64),
    /// Everything: its end is closed.
    All,
}

/// What the recorded host sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs {
    pub(super) lines: Vec<Line>,
    /// Where each line ends.
    ends: Vec<u64>,
    /// The bytes, if the input was plain text and not a conversation.
    pub(super) text: Option<Vec<u8>>,
}

impl Inputs {
    pub(super) fn read(recording: &Recording) -> Self {
        let bytes = std::fs::read(recording.file(Stream::Stdin)).unwrap_or_default();
        let mut inputs = Self::default();
        let mut end = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            end += line.len() as u64;
            let read = Line::read(line);
            // An incomplete line at the end was cut off. No host will ever send it.
            let cut = !line.ends_with(b"\n") && read.frame == Frame::Text && !inputs.lines.is_empty();
            if !line.trim_ascii().is_empty() && !cut {
                inputs.lines.push(read);
                inputs.ends.push(end);
            }
        }
        if inputs.lines.first().is_some_and(|line| line.frame == Frame::Text) {
            return Self { text: Some(bytes), ..Self::default() };
        }
        inputs
    }

    /// Returns how much is sent once this byte is.
    fn at(&self, end: u64) -> Sent {
        match self.text {
            Some(_) => Sent::Bytes(end),
            None => Sent::Lines(self.ends.partition_point(|line| *line <= end)),
        }
    }
}

/// Returns the order of a recording. Without timing, pieces that follow each other are joined.
pub(super) fn of(recording: &Recording, inputs: &Inputs, timed: bool) -> io::Result<Vec<Next>> {
    let length = |stream| std::fs::metadata(recording.file(stream)).map_or(0, |meta| meta.len());
    let pieces = recording.pieces().unwrap_or_default();
    let told = pieces.iter().filter(|piece| piece.stream == Stream::Stdout).map(|piece| piece.end).max().unwrap_or(0);
    // The times of a file that was cut off still fit, as far as it goes. A file that was edited has an end and a
    // different length.
    let edited = told > 0 && told != length(Stream::Stdout) && recording.end.is_some();
    let mut order = if pieces.is_empty() || (edited && !inputs.lines.is_empty()) {
        by_cause(recording, inputs)?
    } else {
        by_time(&pieces, inputs)
    };
    // What `times` does not list comes last.
    let at = pieces.last().map_or(Duration::ZERO, |piece| piece.at);
    order.extend([Stream::Stdout, Stream::Stderr].map(|stream| Next::Out { stream, end: length(stream), at }));
    if !timed {
        order.dedup_by(|later, earlier| match (later, earlier) {
            (Next::Out { stream, end, .. }, Next::Out { stream: before, end: reached, .. }) if stream == before => {
                *reached = (*reached).max(*end);
                true
            }
            _ => false,
        });
    }
    Ok(order)
}

fn by_time(pieces: &[TimedPiece], inputs: &Inputs) -> Vec<Next> {
    let (mut sent, mut order) = (0, Vec::with_capacity(pieces.len()));
    for TimedPiece { stream, end, at } in pieces.iter().copied() {
        match stream {
            // A host that sent nothing may leave its end open.
            Stream::Stdin if end == sent && sent == 0 => {}
            Stream::Stdin if end == sent => order.push(Next::In { sent: Sent::All, at }),
            Stream::Stdin => {
                sent = end;
                order.push(Next::In { sent: inputs.at(end), at });
            }
            Stream::Stdout | Stream::Stderr => order.push(Next::Out { stream, end, at }),
        }
    }
    order
}

/// Orders by cause: an answer follows its request, a request of the agent waits for the host's answer, and a turn
/// begins with a message.
fn by_cause(recording: &Recording, inputs: &Inputs) -> io::Result<Vec<Next>> {
    let at = Duration::ZERO;
    let (mut requests, mut responses, mut messages) = (HashMap::new(), HashMap::new(), Vec::new());
    for (count, line) in inputs.lines.iter().enumerate().map(|(before, line)| (before + 1, line)) {
        match &line.frame {
            Frame::Request(_) => drop(line.id_word().map(|id| requests.insert(id, count))),
            Frame::Response(id) => drop(responses.insert(id.clone(), count)),
            Frame::Message(kind) if kind == "user" => messages.push(count),
            Frame::Message(_) | Frame::Text => {}
        }
    }
    let mut reader = BufReader::new(File::open(recording.stdout())?);
    let (mut order, mut line, mut end, mut due, mut soon, mut turns) = (Vec::new(), Vec::new(), 0, 0, 0, 0);
    loop {
        line.clear();
        let count = reader.read_until(b'\n', &mut line)?;
        if count == 0 {
            break;
        }
        let cause = if is_init(&line) {
            turns += 1;
            messages.get(turns - 1)
        } else {
            answered(&line).and_then(|id| requests.get(&id))
        };
        due = due.max(cause.copied().unwrap_or(0));
        order.extend([Next::In { sent: Sent::Lines(due), at }, Next::In { sent: Sent::Soon(soon), at }]);
        end += count as u64;
        order.push(Next::Out { stream: Stream::Stdout, end, at });
        let read = Line::read(&line);
        if let (Frame::Request(_), Some(id)) = (&read.frame, read.id_word()) {
            soon = soon.max(responses.get(&id).copied().unwrap_or(0));
        }
    }
    if !inputs.lines.is_empty() || inputs.text.is_some() {
        order.push(Next::In { sent: Sent::All, at });
    }
    Ok(order)
}
