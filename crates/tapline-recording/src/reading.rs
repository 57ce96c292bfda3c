//! Reads a recording, whether it is complete or not.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tapline_protocol::{Json, Moment, Read as _, StopReason, Value};

use crate::beneath::Beneath;
use crate::error::RecordingError;
use crate::sent::SentPieces;
use crate::times::{Arrivals, TimedPiece, piece};
use crate::writing::{DECISIONS, End, Loss, Meta, Stop, Stream};

/// An opened recording.
#[derive(Clone, Debug)]
pub struct Recording {
    folder: Beneath,
    /// How the run was started.
    pub meta: Meta,
    /// How the run ended. `None` if the writer was killed or is still running.
    pub end: Option<End>,
}

impl Recording {
    /// Returns whether a path looks like a recording. Its files are no links that lead out of it.
    pub fn is_one(path: &Path) -> bool {
        Beneath::has(path, Stream::Stdout.file_name()) && Beneath::has(path, "meta.json")
    }

    /// Opens a recording.
    pub fn open(folder: &Path) -> Result<Self, RecordingError> {
        let inside = Beneath::open(folder).ok().filter(|_| Beneath::has(folder, Stream::Stdout.file_name()));
        let Some(inside) = inside else {
            let why = if folder.is_file() { RecordingError::File } else { RecordingError::NotARecording };
            return Err(why(folder.to_owned()));
        };
        let json = |name: &str| Json::parse(std::str::from_utf8(&inside.read(name).ok()?).ok()?).ok();
        let meta = json("meta.json").and_then(|json| json.with(read_meta)).unwrap_or_default();
        let end = json("end.json").and_then(|json| json.with(read_end));
        Ok(Self { folder: inside, meta, end })
    }

    /// Returns the file with the agent's exact output.
    pub fn stdout(&self) -> PathBuf {
        self.file(Stream::Stdout)
    }

    /// Returns the path of the file with the exact bytes of a stream.
    pub fn file(&self, stream: Stream) -> PathBuf {
        self.folder.root().join(stream.file_name())
    }

    /// Opens the file with the exact bytes of a stream.
    pub fn open_file(&self, stream: Stream) -> std::io::Result<File> {
        self.folder.file(&self.file(stream))
    }

    fn open_times(&self) -> std::io::Result<File> {
        self.folder.file(&self.folder.root().join(TIMES))
    }

    /// Lists where the recording is incomplete or was edited, in words.
    pub fn flaws(&self) -> Vec<String> {
        let meta = self.folder.read("meta.json").unwrap_or_default();
        let mut flaws = Vec::new();
        if !std::str::from_utf8(&meta).is_ok_and(|text| Json::parse(text).is_ok()) {
            flaws.push("meta.json is incomplete".to_owned());
        }
        match &self.end {
            None => flaws.push("it has no end (end.json)".to_owned()),
            Some(end) => flaws.extend(end.lost.iter().map(ToString::to_string)),
        }
        let mut told = [0; 3];
        for piece in self.pieces().into_iter().flatten() {
            told[piece.stream as usize] = piece.end.max(told[piece.stream as usize]);
        }
        if !self.folder.root().join(TIMES).exists() {
            flaws.push("it has no times, so the order of input and output is a guess".to_owned());
            return flaws;
        }
        if !self.folder.read(TIMES).is_ok_and(|times| times.last().is_none_or(|last| *last == b'\n')) {
            flaws.push("times is incomplete".to_owned());
        }
        for stream in Stream::ALL {
            let told = told[stream as usize];
            let there = self.open_file(stream).and_then(|file| file.metadata()).map_or(0, |meta| meta.len());
            if told != there {
                flaws.push(format!("{} has {there} bytes, but times lists {told}", stream.file_name()));
            }
        }
        flaws
    }

    /// Reads what the agent wrote to stderr. Invalid UTF-8 becomes U+FFFD.
    pub fn stderr(&self) -> Result<String, RecordingError> {
        let read = self.folder.read(Stream::Stderr.file_name());
        let bytes = read.map_err(|error| RecordingError::Read { path: self.file(Stream::Stderr), error })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads the first `limit` bytes of stderr. A verdict uses no more.
    pub fn stderr_head(&self, limit: u64) -> Result<String, RecordingError> {
        let mut bytes = Vec::new();
        let read = self.open_file(Stream::Stderr).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        read.map_err(|error| RecordingError::Read { path: self.file(Stream::Stderr), error })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns what was sent to the agent, and when. `None` if it cannot be read.
    pub fn sent(&self) -> Option<SentPieces> {
        Some(SentPieces::of(self.open_file(Stream::Stdin).ok()?, self.open_times().ok(), self.started()))
    }

    /// Returns when the run started. If the recording does not say, it is the start of 1970, and durations are still
    /// right.
    pub fn started(&self) -> Moment {
        let stamp = || self.meta.started_at.as_ref()?.parse::<Timestamp>().ok()?.as_millisecond().try_into().ok();
        self.meta.started_ms.or_else(|| stamp().map(Moment::from_millis)).unwrap_or(Moment::from_millis(0))
    }

    /// Returns when the agent's output arrived. `None` if `times` is missing, or does not match because `stdout` was
    /// edited.
    pub fn arrivals(&self) -> Option<Arrivals> {
        let mut times = self.open_times().ok()?;
        let length = self.open_file(Stream::Stdout).ok()?.metadata().ok()?.len();
        // In a recording without an end, one of the two files may be ahead of the other.
        if self.end.as_ref().is_some_and(|end| end.lost.is_empty())
            && last_piece(&mut times).is_some_and(|last| last.end != length)
        {
            return None;
        }
        times.seek(SeekFrom::Start(0)).ok()?;
        Some(Arrivals::new(times, Stream::Stdout, self.started()))
    }

    /// Returns when the last output arrived that `times` lists.
    pub fn last_arrival(&self) -> Option<Moment> {
        let mut times = self.open_times().ok()?;
        last_piece(&mut times).map(|piece| self.started().after(piece.at))
    }

    /// Returns when each part of the input was sent. `None` if `times` is missing.
    pub fn sendings(&self) -> Option<Arrivals> {
        Some(Arrivals::new(self.open_times().ok()?, Stream::Stdin, self.started()))
    }

    /// Returns whether the agent was sent messages, one per line, and not a prompt as plain text.
    pub fn takes_messages(&self) -> bool {
        let args = &self.meta.argv;
        args.iter().any(|arg| arg == "--input-format=stream-json")
            || args.windows(2).any(|pair| pair[0] == "--input-format" && pair[1] == "stream-json")
    }

    /// Returns whether the agent was told to write JSON lines. Otherwise it may have written one document.
    pub fn writes_lines(&self) -> bool {
        let args = &self.meta.argv;
        args.iter().any(|arg| ["--output-format=stream-json", "--json", "--experimental-json"].contains(&arg.as_str()))
            || args.windows(2).any(|pair| pair[0] == "--output-format" && pair[1] == "stream-json")
    }

    /// Rewrites the end with facts that the caller knows only after all attempts.
    pub fn amend(&mut self, end: End) -> Result<(), RecordingError> {
        let path = self.folder.root().join("end.json");
        crate::writing::replace_end(self.folder.root(), &end).map_err(|error| RecordingError::Finish { path, error })?;
        self.end = Some(end);
        Ok(())
    }

    /// Returns how permission requests were decided, one object each. Incomplete lines are skipped.
    pub fn decisions(&self) -> Vec<Json> {
        let text = self.folder.read(DECISIONS).ok().and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
        text.lines().filter_map(|line| Json::parse(line).ok()).collect()
    }

    /// Returns the pieces in order of arrival. Incomplete or invalid lines of `times` are skipped.
    pub fn pieces(&self) -> Result<Vec<TimedPiece>, RecordingError> {
        let read = self.folder.read(TIMES);
        let bytes = read.map_err(|error| RecordingError::Read { path: self.folder.root().join(TIMES), error })?;
        // There may be millions. A line has about twenty bytes.
        let mut pieces = Vec::with_capacity(bytes.len() / 20);
        pieces.extend(bytes.split_inclusive(|byte| *byte == b'\n').filter_map(piece));
        Ok(pieces)
    }
}

const TIMES: &str = "times";
/// The last piece of the output is searched for only in this many bytes at the end of `times`.
const TAIL: u64 = 64 << 10;

/// Returns the last piece of the output.
fn last_piece(times: &mut File) -> Option<TimedPiece> {
    let start = times.metadata().ok()?.len().saturating_sub(TAIL);
    times.seek(SeekFrom::Start(start)).ok()?;
    let mut tail = Vec::new();
    times.take(TAIL).read_to_end(&mut tail).ok()?;
    // The first line may be cut off.
    let pieces = tail.split_inclusive(|byte| *byte == b'\n').skip(usize::from(start > 0)).filter_map(piece);
    pieces.filter(|piece| piece.stream == Stream::Stdout).last()
}

fn text(value: Value<'_>, key: &str) -> Option<String> {
    value.get(key).and_then(String::read)
}

fn list(value: Value<'_>, key: &str) -> Vec<String> {
    value.get(key).and_then(Vec::read).unwrap_or_default()
}

fn flag(value: Value<'_>, key: &str) -> bool {
    value.get(key).and_then(bool::read).unwrap_or(false)
}

fn read_meta(value: Value<'_>) -> Meta {
    Meta {
        schema: value.get("schema").and_then(u64::read).and_then(|schema| u32::try_from(schema).ok()).unwrap_or_default(),
        agent: text(value, "agent"),
        argv: list(value, "argv"),
        cwd: text(value, "cwd"),
        env_names: list(value, "env_names"),
        started_at: text(value, "started_at"),
        started_ms: value.get("started_ms").and_then(u64::read).map(Moment::from_millis),
        label: text(value, "label"),
        tapline: text(value, "tapline"),
        no_heuristics: flag(value, "no_heuristics"),
        no_background_tasks: flag(value, "no_background_tasks"),
        session_before: value.get("session_before").map(Value::to_json),
    }
}

/// If earlier versions set several flags, a timeout counts before an interrupt, and that before lingering.
fn read_stop(value: Value<'_>) -> Option<Stop> {
    let clock = value.get("clock");
    let named = |reason: &StopReason| clock.and_then(|clock| text(clock, "name")).as_deref() == reason.clock();
    let reason = match ["timed_out", "interrupted", "lingered"].map(|name| flag(value, name)) {
        [true, ..] => Some(StopReason::Idle).filter(named).unwrap_or(StopReason::Timeout),
        [_, true, _] => StopReason::Interrupted,
        [.., true] => StopReason::Linger,
        [false, false, false] => return None,
    };
    let limit_ms = clock.filter(|_| named(&reason)).and_then(|clock| clock.get("ms")).and_then(u64::read);
    Some(Stop { reason, limit_ms })
}

fn read_end(value: Value<'_>) -> End {
    let losses = value.get("lost").and_then(Value::items).into_iter().flatten();
    End {
        exit_code: value.get("exit_code").and_then(|code| code.as_number()?.parse().ok()),
        signal: text(value, "signal"),
        stop: read_stop(value),
        violated: text(value, "violated"),
        left: value.get("left").and_then(u64::read).and_then(|left| usize::try_from(left).ok()),
        duration_ms: value.get("duration_ms").and_then(u64::read),
        verdict: value.get("verdict").and_then(Json::read),
        attempts: value.get("attempts").and_then(u64::read),
        started_at: text(value, "started_at"),
        ledger: value.get("ledger").and_then(Json::read),
        lost: losses
            .filter_map(|loss| {
                let from = loss.get("from").and_then(u64::read)?;
                Some(Loss { file: text(loss, "file")?, from, error: text(loss, "error")? })
            })
            .collect(),
    }
}
