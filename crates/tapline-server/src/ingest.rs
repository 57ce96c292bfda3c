//! Streams that others push: kept as recordings. Bytes have offsets, so that sending them again changes nothing, and they are acknowledged
//! only when they are on the disk.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tapline_recording::{End, Meta, Recorder, Recording, Store, Stream, Sync};

use crate::row::now;

/// The file that says that a recording was pushed, and under which name.
pub(crate) const MARK: &str = "push.json";
/// The file in a recording that is being pushed elsewhere: it says under which name. If that is here, both are one run.
pub const PUSHED_AS: &str = "pushed-as.json";
/// The longest name of a run.
const LONGEST_NAME: usize = 128;
/// The most bytes of one run.
const LARGEST: u64 = 4 << 30;
/// The most runs that are pushed at once.
const MOST: usize = 4_096;

/// Why bytes are not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IngestError {
    #[error(
        "The name of a run has 1 to 128 letters, digits, dots, dashes and underscores, and begins with a letter or a digit."
    )]
    Name,
    #[error("No run has this name. Push its first bytes.")]
    NoRun,
    #[error("Bytes are missing: send those from offset {0} on.")]
    Gap(u64),
    #[error("Other bytes were sent at this offset before. Push a new run under another name.")]
    Differs(u64),
    #[error("The run has ended. Push a new run under another name.")]
    Ended(u64),
    #[error("The run has more than {} bytes. Push a new run under another name.", LARGEST)]
    Large,
    #[error("Too many runs are pushed at once. End some of them, or try again later.")]
    Many,
    #[error("The server cannot keep the bytes: {0}.")]
    Io(#[from] io::Error),
}

/// What a client may say about a run when it begins.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct About {
    pub(crate) agent: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) folder: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Mark {
    run: String,
}

/// Returns the name under which the run in this recording is pushed: here, or from here.
pub(crate) fn run_of(recording: &Path) -> Option<String> {
    let read = |name: &str| std::fs::read(recording.join(name)).ok();
    let mark = read(MARK).or_else(|| read(PUSHED_AS))?;
    serde_json::from_slice::<Mark>(&mark).ok().map(|mark| mark.run)
}

/// A run that is pushed.
#[derive(Debug)]
struct Run {
    folder: PathBuf,
    stdout: File,
    times: File,
    length: u64,
    started: u64,
    ended: bool,
}

/// All runs that are pushed.
#[derive(Debug)]
pub(crate) struct Ingest {
    store: Store,
    runs: Mutex<HashMap<String, Arc<Mutex<Run>>>>,
}

impl Ingest {
    /// Opens the runs that are there already. Only names that this server wrote down lead to folders.
    pub(crate) fn open(store: Store) -> Self {
        let mut runs = HashMap::new();
        for entry in std::fs::read_dir(store.folder()).into_iter().flatten().flatten() {
            let folder = entry.path();
            let mark = std::fs::read(folder.join(MARK)).ok().and_then(|mark| serde_json::from_slice::<Mark>(&mark).ok());
            if let Some((mark, run)) = mark.and_then(|mark| Some((mark, Run::open(&folder).ok()?))) {
                runs.insert(mark.run, Arc::new(Mutex::new(run)));
            }
        }
        Self { store, runs: Mutex::new(runs) }
    }

    /// Returns a run. A new one begins with its first byte.
    fn run(&self, name: &str, offset: Option<u64>, about: &About) -> Result<Arc<Mutex<Run>>, IngestError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
            return Err(IngestError::Name);
        }
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = runs.get(name) {
            return Ok(Arc::clone(run));
        }
        if offset.is_some_and(|offset| offset > 0) {
            return Err(IngestError::Gap(0));
        }
        if runs.len() >= MOST {
            // Those that ended are found again when the server starts; nobody pushes them any more.
            runs.retain(|_, run| !run.lock().unwrap_or_else(PoisonError::into_inner).ended);
            if runs.len() >= MOST {
                return Err(IngestError::Many);
            }
        }
        let run = Arc::new(Mutex::new(Run::create(&self.store, name, about)?));
        runs.insert(name.to_owned(), Arc::clone(&run));
        Ok(run)
    }

    fn known(&self, name: &str) -> Result<Arc<Mutex<Run>>, IngestError> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned().ok_or(IngestError::NoRun)
    }

    /// Returns the folder of a run.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, IngestError> {
        let run = self.known(name)?;
        let folder = run.lock().unwrap_or_else(PoisonError::into_inner).folder.clone();
        Ok(folder)
    }

    /// Takes bytes at an offset, or at the end. Returns how many bytes the run has, all of them on the disk.
    pub(crate) fn append(&self, name: &str, offset: Option<u64>, bytes: &[u8], about: &About) -> Result<u64, IngestError> {
        let run = self.run(name, offset, about)?;
        let mut run = run.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = offset.unwrap_or(run.length);
        if offset > run.length {
            return Err(IngestError::Gap(run.length));
        }
        let known = usize::try_from(run.length - offset).unwrap_or(usize::MAX).min(bytes.len());
        let (again, new) = bytes.split_at(known);
        if !run.has(offset, again)? {
            return Err(IngestError::Differs(run.length));
        }
        if new.is_empty() {
            // They may be left from a write that failed.
            run.stdout.sync_data()?;
            return Ok(run.length);
        }
        if run.ended {
            return Err(IngestError::Ended(run.length));
        }
        if run.length + new.len() as u64 > LARGEST {
            return Err(IngestError::Large);
        }
        run.write(new)?;
        Ok(run.length)
    }

    /// Notes how a run ended. Saying it again changes nothing.
    pub(crate) fn finish(&self, name: &str, exit_code: Option<i32>) -> Result<u64, IngestError> {
        let run = self.known(name)?;
        let mut run = run.lock().unwrap_or_else(PoisonError::into_inner);
        if !run.ended {
            let mut recording = Recording::open(&run.folder).map_err(io::Error::other)?;
            let duration_ms = Some(now().as_millis().saturating_sub(run.started));
            recording.amend(End { exit_code, duration_ms, ..End::default() }).map_err(io::Error::other)?;
            File::open(&run.folder)?.sync_all()?;
            run.ended = true;
        }
        Ok(run.length)
    }
}

impl Run {
    fn create(store: &Store, name: &str, about: &About) -> io::Result<Self> {
        let started = now();
        let folder = store.folder().join(format!(
            "{}-{}",
            tapline_recording::recording_name(),
            &uuid::Uuid::new_v4().simple().to_string()[..6]
        ));
        let meta = Meta {
            schema: 1,
            agent: about.agent.clone(),
            cwd: about.folder.clone(),
            label: about.title.clone(),
            started_at: crate::row::written(started),
            started_ms: Some(started),
            ..Meta::default()
        };
        drop(Recorder::create(&folder, &meta, Sync::Always).map_err(io::Error::other)?);
        let mut mark = OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(MARK))?;
        mark.write_all(&serde_json::to_vec(&Mark { run: name.to_owned() })?)?;
        mark.sync_all()?;
        File::open(&folder)?.sync_all()?;
        File::open(store.folder())?.sync_all()?;
        Self::open(&folder)
    }

    fn open(folder: &Path) -> io::Result<Self> {
        let recording = Recording::open(folder).map_err(io::Error::other)?;
        let append = |path: PathBuf| OpenOptions::new().read(true).append(true).open(path);
        let stdout = append(recording.file(Stream::Stdout))?;
        // What was written before the server ended is acknowledged from now on.
        stdout.sync_data()?;
        let length = stdout.metadata()?.len();
        let (times, started) = (append(folder.join("times"))?, recording.started().as_millis());
        Ok(Self { folder: folder.to_owned(), stdout, times, length, started, ended: recording.end.is_some() })
    }

    /// Returns whether these bytes are there.
    fn has(&mut self, offset: u64, bytes: &[u8]) -> io::Result<bool> {
        let mut there = vec![0; bytes.len()];
        self.stdout.seek(SeekFrom::Start(offset))?;
        self.stdout.read_exact(&mut there)?;
        Ok(there == bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.stdout.write_all(bytes).and_then(|()| self.stdout.sync_data());
        if let Err(error) = written {
            // What is half there is not acknowledged, and must not be in the way of sending it again.
            if self.stdout.set_len(self.length).is_err() {
                self.length = self.stdout.metadata()?.len();
            }
            return Err(error);
        }
        self.length += bytes.len() as u64;
        // When it came is good to know, but nobody was promised it.
        let micros = now().as_millis().saturating_sub(self.started).saturating_mul(1_000);
        let _ = self.times.write_all(format!("o {} {micros}\n", self.length).as_bytes());
        Ok(())
    }
}
