//! Writes a recording while the run goes on. Every piece is in the kernel's hands before the call returns, so that
//! a writer that is killed loses nothing; a disk that fails costs the rest of that file, and says so.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::RecordingError;
use crate::syncing::Synced;

/// What a piece belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// What the agent wrote.
    Stdout,
    /// What it wrote beside it.
    Stderr,
    /// What was sent to it.
    Stdin,
}

impl Stream {
    pub(crate) const ALL: [Self; 3] = [Self::Stdout, Self::Stderr, Self::Stdin];

    /// The file's name.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Stdin => "stdin",
        }
    }

    /// The letter in `times`.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Stdout => 'o',
            Self::Stderr => 'e',
            Self::Stdin => 'i',
        }
    }
}

/// When what was written is put on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Once a second: a power loss costs at most that.
    #[default]
    EverySecond,
    /// With every piece: a power loss costs nothing.
    Always,
}

/// What was started. Secrets are to be redacted before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "each is what its name says")]
pub struct Meta {
    pub schema: u32,
    pub agent: Option<String>,
    pub argv: Vec<String>,
    pub cwd: Option<String>,
    pub env_names: Vec<String>,
    pub started_at: Option<String>,
    pub label: Option<String>,
    pub tapline: Option<String>,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct End {
    /// The exit code.
    pub exit_code: Option<i32>,
    /// The signal, by name.
    pub signal: Option<String>,
    /// A watchdog ended it.
    pub timed_out: bool,
    /// A person or program interrupted it.
    pub interrupted: bool,
    /// It was stopped after its final result.
    pub lingered: bool,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// The verdict, as the report words it.
    pub verdict: Option<tapline_protocol::Json>,
    /// Where the recording is incomplete.
    pub lost: Vec<Loss>,
}

/// A file that could not be written on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Which.
    pub file: String,
    /// From which byte on.
    pub from: u64,
    /// Why.
    pub error: String,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, from, error } = self;
        write!(f, "the recording's {file} is incomplete from byte {from} on: {error}")
    }
}

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder {
    folder: PathBuf,
    streams: [Track; 3],
    times: Track,
    started: Instant,
    sync: Sync,
}

/// A file that grows.
#[derive(Debug)]
struct Track {
    name: &'static str,
    file: Arc<Synced>,
    written: u64,
    lost: Option<Loss>,
}

impl Track {
    fn create(folder: &Path, name: &'static str) -> io::Result<Self> {
        Ok(Self { name, file: Synced::new(create_private(&folder.join(name))?), written: 0, lost: None })
    }

    /// Appends; after a failure nothing more, so that the file has no hole.
    fn append(&mut self, bytes: &[u8], sync: Sync) -> Result<(), Loss> {
        if self.lost.is_some() {
            return Ok(());
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            match (&self.file.file).write(rest) {
                Ok(0) => return Err(self.lose(&io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    self.written += count as u64;
                    rest = &rest[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lose(&error)),
            }
        }
        self.file.changed();
        if sync == Sync::Always {
            self.file.sync();
        }
        Ok(())
    }

    fn lose(&mut self, error: &io::Error) -> Loss {
        let loss = Loss { file: self.name.to_owned(), from: self.written, error: error.to_string() };
        self.lost = Some(loss.clone());
        loss
    }
}

impl Recorder {
    /// Makes the folder, which must not be there, and the files in it, private to their owner.
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
        write_json(folder, "meta.json", meta).map_err(fail)?;
        let [stdout, stderr, stdin] = Stream::ALL.map(|stream| Track::create(folder, stream.file_name()));
        let streams = [stdout.map_err(fail)?, stderr.map_err(fail)?, stdin.map_err(fail)?];
        let times = Track::create(folder, "times").map_err(fail)?;
        Ok(Self { folder: folder.to_owned(), streams, times, started: Instant::now(), sync })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a piece that came just now. Returns the loss, the first time something is lost.
    pub fn write(&mut self, stream: Stream, bytes: &[u8]) -> Option<Loss> {
        self.write_at(stream, bytes, self.started.elapsed())
    }

    /// Appends a piece that came at this time of the run.
    pub fn write_at(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Option<Loss> {
        if bytes.is_empty() {
            return None;
        }
        let track = &mut self.streams[stream as usize];
        let lost = track.append(bytes, self.sync).err();
        let line = format!("{} {} {}\n", stream.letter(), track.written, at.as_micros());
        let times = self.times.append(line.as_bytes(), self.sync).err();
        lost.or(times)
    }

    /// Takes it away again: what was to be recorded never began.
    pub fn discard(self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    /// Where it is incomplete so far.
    pub fn losses(&self) -> Vec<Loss> {
        self.streams.iter().chain([&self.times]).filter_map(|track| track.lost.clone()).collect()
    }

    /// Writes how it ended and puts everything on the disk.
    pub fn finish(self, end: &End) -> Result<(), RecordingError> {
        let end = End { lost: self.losses(), ..end.clone() };
        for track in self.streams.iter().chain([&self.times]) {
            track.file.sync();
        }
        let fail = |error| RecordingError::Finish { path: self.folder.clone(), error };
        write_json(&self.folder, "end.json", &end).map_err(fail)
    }
}

/// Makes a folder and those above it, private to their owner; one that is there stays as it is.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    private_folders().recursive(true).create(path)
}

fn private_folders() -> DirBuilder {
    #[allow(unused_mut, reason = "not every system has modes")]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Written whole or not at all: a file of another name that is renamed when it is on the disk.
fn write_json(folder: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    let part = folder.join(format!("{name}.part"));
    let mut file = create_private(&part)?;
    file.write_all((serde_json::to_string(value)? + "\n").as_bytes())?;
    file.sync_data()?;
    std::fs::rename(&part, folder.join(name))
}
