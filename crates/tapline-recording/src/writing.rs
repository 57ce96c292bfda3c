//! Writes a recording during the run. Every piece is passed to the kernel before the call returns, so killing the
//! writer loses nothing. If the disk fails, the rest of that file is lost, and the recording says so.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::ser::SerializeMap as _;
use tapline_protocol::{Moment, StopReason};

use crate::error::RecordingError;
use crate::syncing::Synced;

/// The stream of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The agent's stdout.
    Stdout,
    /// The agent's stderr.
    Stderr,
    /// What was sent to the agent.
    Stdin,
}

impl Stream {
    pub(crate) const ALL: [Self; 3] = [Self::Stdout, Self::Stderr, Self::Stdin];

    /// Returns the file name.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Stdin => "stdin",
        }
    }

    /// Returns the letter in `times`.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Stdout => 'o',
            Self::Stderr => 'e',
            Self::Stdin => 'i',
        }
    }
}

/// When data is flushed to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Once a second: a power failure costs at most one second.
    #[default]
    EverySecond,
    /// After every piece: a power failure costs nothing.
    Always,
}

/// How the run was started. The caller removes secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "each is what its name says")]
pub struct Meta {
    pub schema: u32,
    pub agent: Option<String>,
    pub argv: Vec<String>,
    pub cwd: Option<String>,
    pub env_names: Vec<String>,
    pub started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<Moment>,
    pub label: Option<String>,
    pub tapline: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_heuristics: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_background_tasks: bool,
    /// What the session had used before the run, if it resumed one and that was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_before: Option<tapline_protocol::Json>,
}

/// How the run ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct End {
    /// The exit code.
    pub exit_code: Option<i32>,
    /// The name of the signal.
    pub signal: Option<String>,
    /// Why the run was stopped, if it was.
    #[serde(flatten, serialize_with = "stop_on_disk")]
    pub stop: Option<Stop>,
    /// The rule that the run broke and was stopped for.
    pub violated: Option<String>,
    /// How many processes could not be stopped. 0 if they could not be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<usize>,
    /// How long the run took.
    pub duration_ms: Option<u64>,
    /// The verdict, as in the report.
    pub verdict: Option<tapline_protocol::Json>,
    /// For the last of several attempts: how many there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// For the last of several attempts: when the first started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// For the last of several attempts: what all of them used and cost, as in the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<tapline_protocol::Json>,
    /// Where the recording is incomplete.
    pub lost: Vec<Loss>,
}

/// Why a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The reason.
    pub reason: StopReason,
    /// The limit of the clock that stopped it, if one did, in milliseconds.
    pub limit_ms: Option<u64>,
}

/// Writes three flags and the clock: `"clock":{"name":"idle-timeout","ms":5000}`.
#[expect(clippy::ref_option, reason = "serde gives the field so")]
fn stop_on_disk<S: serde::Serializer>(stop: &Option<Stop>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Clock {
        name: &'static str,
        ms: u64,
    }
    let is = |kind: fn(StopReason) -> bool| stop.is_some_and(|stop| kind(stop.reason));
    let clock = stop.and_then(|stop| Some(Clock { name: stop.reason.clock()?, ms: stop.limit_ms? }));
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("timed_out", &is(StopReason::is_timeout))?;
    if let Some(clock) = clock {
        map.serialize_entry("clock", &clock)?;
    }
    map.serialize_entry("interrupted", &is(StopReason::is_interrupt))?;
    map.serialize_entry("lingered", &is(|reason| reason == StopReason::Linger))?;
    map.end()
}

/// A file that could not be written to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The file.
    pub file: String,
    /// The first byte that is missing.
    pub from: u64,
    /// The cause.
    pub error: String,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, from, error } = self;
        write!(f, "the recording's {file} is incomplete from byte {from} on: {error}")
    }
}

/// Writes a recording.
///
/// ```
/// use std::time::Duration;
///
/// use tapline_recording::{End, Meta, Recorder, Stream, Sync};
///
/// # let temporary = tapline_testkit::TempFolder::new();
/// # let folder = temporary.join("recording");
/// let mut recorder = Recorder::create(&folder, &Meta::default(), Sync::EverySecond)?;
/// let losses = recorder.write_at(Stream::Stdout, b"{\"type\":\"keep_alive\"}\n", Duration::from_millis(850));
/// assert!(losses.is_empty());
/// recorder.finish(&End { exit_code: Some(0), ..End::default() })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a recording that is not finished looks as if its writer had been killed"]
pub struct Recorder {
    folder: PathBuf,
    streams: [Track; 3],
    times: Track,
    /// The file of permission decisions. It is created with the first one.
    decisions: Option<Result<Track, Loss>>,
    /// The file for the end. Its space is reserved from the start, so the end can be written even if the disk is full.
    end: File,
    /// `meta.json`, the folder and its parent, which are flushed like the rest.
    entries: Vec<Arc<Synced>>,
    sync: Sync,
}

/// The file of permission decisions.
pub(crate) const DECISIONS: &str = "decisions";

#[derive(Serialize)]
struct At<'a, T> {
    at_us: u64,
    #[serde(flatten)]
    decision: &'a T,
}

/// How much space is reserved for the end.
const END_ROOM: usize = 8 << 10;

/// A file that grows.
#[derive(Debug)]
struct Track {
    name: &'static str,
    file: Arc<Synced>,
    written: u64,
    /// Whether writing has failed.
    stopped: bool,
    lost: Option<Loss>,
}

impl Track {
    fn create(folder: &Path, name: &'static str) -> io::Result<Self> {
        let file = Synced::new(create_private(&folder.join(name))?);
        Ok(Self { name, file, written: 0, stopped: false, lost: None })
    }

    /// Appends bytes. After a failure nothing more is written, so the file has no gap. Returns the loss once.
    fn append(&mut self, bytes: &[u8], sync: Sync) -> Option<Loss> {
        let mut rest = bytes;
        while !rest.is_empty() && !self.stopped {
            match (&self.file.file).write(rest) {
                Ok(0) => return self.stop(&io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.written += count as u64;
                    rest = &rest[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.stop(&error),
            }
        }
        self.file.changed(self.written);
        if sync == Sync::Always {
            self.file.sync();
        }
        self.not_synced()
    }

    fn stop(&mut self, error: &io::Error) -> Option<Loss> {
        self.stopped = true;
        self.lose(self.written, error)
    }

    /// Returns what may not be on the disk, if flushing failed.
    fn not_synced(&mut self) -> Option<Loss> {
        let (from, error) = self.file.failure()?;
        self.lose(from, &error)
    }

    fn lose(&mut self, from: u64, error: &io::Error) -> Option<Loss> {
        if self.lost.is_some() {
            return None;
        }
        self.lost = Some(Loss { file: self.name.to_owned(), from, error: error.to_string() });
        self.lost.clone()
    }
}

impl Recorder {
    /// Creates the folder, which must not exist, and its files, all private to their owner.
    pub fn create(folder: &Path, meta: &Meta, sync: Sync) -> Result<Self, RecordingError> {
        let fail = |error| RecordingError::Create { path: folder.to_owned(), error };
        if let Some(above) = folder.parent() {
            create_private_folder(above).map_err(fail)?;
        }
        match private_folders().create(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(RecordingError::Exists(folder.to_owned()));
            }
            made => made.map_err(fail)?,
        }
        // If a recording cannot be started, nothing of it remains.
        Self::begin(folder, meta, sync).map_err(|error| {
            let _ = std::fs::remove_dir_all(folder);
            fail(error)
        })
    }

    fn begin(folder: &Path, meta: &Meta, sync: Sync) -> io::Result<Self> {
        let mut about = create_private(&folder.join("meta.json.part"))?;
        about.write_all((serde_json::to_string(meta)? + "\n").as_bytes())?;
        std::fs::rename(folder.join("meta.json.part"), folder.join("meta.json"))?;
        let [stdout, stderr, stdin] = Stream::ALL.map(|stream| Track::create(folder, stream.file_name()));
        let (streams, times) = ([stdout?, stderr?, stdin?], Track::create(folder, "times")?);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        private(&mut options);
        let mut end = options.open(folder.join(END_PART))?;
        end.write_all(&[b' '; END_ROOM])?;
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let entries = vec![Synced::new(about), Synced::new(File::open(folder)?), Synced::new(File::open(above)?)];
        for entry in &entries {
            entry.changed(0);
            if sync == Sync::Always {
                entry.sync();
            }
        }
        Ok(Self { folder: folder.to_owned(), streams, times, decisions: None, end, entries, sync })
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a piece that arrived at this time of the run. Returns each loss once.
    pub fn write_at(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Vec<Loss> {
        if bytes.is_empty() {
            return Vec::new();
        }
        let track = &mut self.streams[stream as usize];
        let before = track.written;
        let lost = track.append(bytes, self.sync);
        // An empty piece would mean that the stream was closed.
        let grown = track.written > before;
        lost.into_iter().chain(grown.then(|| self.note(stream, at)).flatten()).collect()
    }

    /// Notes that a stream was closed at this time of the run, as an empty piece.
    pub fn close_at(&mut self, stream: Stream, at: Duration) -> Vec<Loss> {
        self.note(stream, at).into_iter().collect()
    }

    fn note(&mut self, stream: Stream, at: Duration) -> Option<Loss> {
        let line = format!("{} {} {}\n", stream.letter(), self.streams[stream as usize].written, at.as_micros());
        self.times.append(line.as_bytes(), self.sync)
    }

    /// Appends how a permission request was decided at this time of the run, as one JSON object per line.
    pub fn decide_at(&mut self, decision: &impl Serialize, at: Duration) -> Vec<Loss> {
        if self.decisions.is_none() {
            let lost = |error: io::Error| Loss { file: DECISIONS.to_owned(), from: 0, error: error.to_string() };
            let track = Track::create(&self.folder, DECISIONS).map_err(lost);
            let lost = track.as_ref().err().cloned();
            self.decisions = Some(track);
            if let Some(lost) = lost {
                return vec![lost];
            }
        }
        let at_us = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        // A decision is a struct of texts, which JSON can represent.
        let line = serde_json::to_string(&At { at_us, decision }).unwrap_or_default() + "\n";
        let track = self.decisions.as_mut().and_then(|track| track.as_mut().ok());
        let lost = track.and_then(|track| track.append(line.as_bytes(), self.sync));
        lost.into_iter().collect()
    }

    /// Stops recording a stream whose data did not reach the recorder. The recording says where it ends.
    pub fn give_up(&mut self, stream: Stream, error: &io::Error) {
        self.streams[stream as usize].stop(error);
    }

    /// Removes the recording, because the run never started.
    pub fn discard(self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    /// Lists where the recording is incomplete so far.
    pub fn losses(&self) -> Vec<Loss> {
        let decisions = self
            .decisions
            .as_ref()
            .and_then(|track| track.as_ref().map_or_else(|lost| Some(lost.clone()), |track| track.lost.clone()));
        let tracks = self.streams.iter().chain([&self.times]).filter_map(|track| track.lost.clone());
        tracks.chain(decisions).collect()
    }

    /// Writes how the run ended and flushes everything to the disk. Returns the last losses.
    pub fn finish(mut self, end: &End) -> Result<Vec<Loss>, RecordingError> {
        let mut losses = Vec::new();
        for track in self.streams.iter_mut().chain([&mut self.times]).chain(self.decisions.iter_mut().flatten()) {
            track.file.sync();
            losses.extend(track.not_synced());
        }
        let end = End { lost: self.losses(), ..end.clone() };
        // If there is no space for all of it, write the essential part.
        let written = self.write_end(&end).or_else(|_| self.write_end(&End { verdict: None, ..end }));
        written.map_err(|error| RecordingError::Finish { path: self.folder.clone(), error }).map(|()| losses)
    }

    fn write_end(&mut self, end: &End) -> io::Result<()> {
        let text = serde_json::to_string(end)? + "\n";
        self.end.seek(SeekFrom::Start(0))?;
        self.end.write_all(text.as_bytes())?;
        self.end.set_len(text.len() as u64)?;
        self.end.sync_data()?;
        std::fs::rename(self.folder.join(END_PART), self.folder.join("end.json"))?;
        for entry in &self.entries {
            entry.changed(0);
            entry.sync();
        }
        Ok(())
    }
}

/// Replaces the end that was written.
pub(crate) fn replace_end(folder: &Path, end: &End) -> io::Result<()> {
    let part = folder.join(END_PART);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    private(&mut options);
    let mut file = options.open(&part)?;
    file.write_all((serde_json::to_string(end)? + "\n").as_bytes())?;
    file.sync_data()?;
    std::fs::rename(part, folder.join("end.json"))
}

/// The file of the end before the end is known.
const END_PART: &str = "end.json.part";

/// Creates a folder and its parents, private to their owner. An existing folder is not changed.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    private_folders().recursive(true).create(path)
}

fn private_folders() -> DirBuilder {
    let mut builder = DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    private(&mut options);
    options.open(path)
}

fn private(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}
