//! The folder of a batch below the data folder: its plan, its journal, its lock, patches and worktrees. Private to its owner.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
#[cfg(feature = "nats")]
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tapline_recording::{Store, create_private_folder, recording_name};

use crate::journal;
use crate::mistake::Mistakes;
use crate::note::{self, BatchNote, RepeatJobs};
use crate::plan::{Plan, RunsOn, Source};
use crate::worktree::Places;

/// Why a batch cannot be begun or resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// There is no such batch.
    #[error("there is no batch `{id}` in {folder}")]
    Unknown {
        /// The id.
        id: String,
        /// Where batches are.
        folder: PathBuf,
    },
    /// The id is the beginning of several.
    #[error("`{id}` is the start of several batches: {}", .names.join(", "))]
    Ambiguous {
        /// The id.
        id: String,
        /// Their ids.
        names: Vec<String>,
    },
    /// Another process works on it.
    #[error("the batch {0} is running in another process")]
    Taken(String),
    /// A file cannot be read or written.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The plan does not hold any more.
    #[error("the plan of the batch does not hold any more")]
    Plan(#[source] Mistakes),
}

/// The folder of a batch, locked for this process.
#[derive(Debug)]
pub struct BatchFolder {
    id: String,
    path: PathBuf,
    /// Locked as long as it is open. The kernel unlocks it however the process ends.
    _lock: File,
}

/// Where batches are.
fn batches(store: &Store) -> PathBuf {
    store.root().join("batches")
}

impl BatchFolder {
    /// Makes the folder of a new batch, and writes its plan into it.
    pub fn create(store: &Store, plan: &Plan) -> Result<Self, BatchError> {
        let id = recording_name();
        let path = batches(store).join(&id);
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |error| BatchError::File { path, error }
        };
        create_private_folder(&path).map_err(fail(&path))?;
        let folder = Self::lock(id, path)?;
        folder.write(PLAN, plan.source())?;
        let above = batches(store);
        File::open(&above).and_then(|above| above.sync_all()).map_err(fail(&above))?;
        Ok(folder)
    }

    /// Writes a file. After a crash, there is the old one or the new one.
    fn write(&self, name: &str, value: &impl serde::Serialize) -> Result<(), BatchError> {
        let file = self.path.join(name);
        let write = || {
            let part = self.path.join(format!("{name}.part"));
            let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
            to.write_all(&serde_json::to_vec(value)?)?;
            to.sync_all()?;
            std::fs::rename(&part, &file)?;
            // The name must be on the disk, too.
            File::open(&self.path)?.sync_all()
        };
        write().map_err(|error| BatchError::File { path: file.clone(), error })
    }

    /// Returns how to reach the engine that the batch began with: what [`BatchFolder::note_engine`] noted.
    pub fn engine(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&std::fs::read(self.path.join(ENGINE)).ok()?).ok()
    }

    /// Notes how to reach the engine, so that the batch goes on with it. Passwords do not belong there.
    pub fn note_engine(&self, engine: &impl serde::Serialize) -> Result<(), BatchError> {
        self.write(ENGINE, engine)
    }

    /// Returns how long a worker may be silent, if that was noted.
    #[cfg(feature = "nats")]
    pub(crate) fn patience(&self) -> Option<Duration> {
        serde_json::from_slice(&std::fs::read(self.path.join(PATIENCE)).ok()?).ok().map(Duration::from_millis)
    }

    /// Notes how long a worker may be silent.
    #[cfg(feature = "nats")]
    pub(crate) fn note_patience(&self, patience: Duration) -> Result<(), BatchError> {
        self.write(PATIENCE, &u64::try_from(patience.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns how many dollars the batch may cost: as many as it is given, or as it was given before.
    pub fn keep_budget(&self, given: Option<f64>) -> Result<Option<f64>, BatchError> {
        if let Some(usd) = given {
            return self.write(BUDGET, &usd).map(|()| given);
        }
        let path = self.path.join(BUDGET);
        let before = match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        before.map_err(|error| BatchError::File { path, error })
    }

    /// Opens the folder of a batch by the beginning of its id; `last` is the newest.
    pub fn open(store: &Store, id: &str) -> Result<(Self, Plan), BatchError> {
        Self::open_for(store, id, RunsOn::ThisMachine, RepeatJobs::Nothing)
    }

    /// Opens the folder of a batch whose jobs are run there, and some of them again. If it began with an engine, they are run on workers
    /// and not on this machine.
    pub fn open_for(store: &Store, id: &str, on: RunsOn, repeat: RepeatJobs) -> Result<(Self, Plan), BatchError> {
        let folder = batches(store);
        let unknown = || BatchError::Unknown { id: id.to_owned(), folder: folder.clone() };
        let entries = std::fs::read_dir(&folder).map_err(|_| unknown())?;
        let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| folder.join(name).join(PLAN).is_file());
        names.sort();
        if id == "last" {
            names.drain(..names.len().saturating_sub(1));
        } else {
            let unique = |name: &String| name.split_once("Z-").is_some_and(|(_, unique)| unique.starts_with(id));
            names.retain(|name| name.starts_with(id) || unique(name));
        }
        let name = match names.as_slice() {
            [] => return Err(unknown()),
            [name] => name.clone(),
            _ => return Err(BatchError::Ambiguous { id: id.to_owned(), names }),
        };
        let path = folder.join(&name);
        let folder = Self::lock(name, path)?;
        let file = folder.path.join(PLAN);
        let read = || -> io::Result<Source> { Ok(serde_json::from_slice(&std::fs::read(&file)?)?) };
        let source = read().map_err(|error| BatchError::File { path: file.clone(), error })?;
        let mut notes = folder.notes()?;
        notes.extend(repeat.note(&notes));
        let ended = note::results(&notes).into_keys().map(str::to_owned).collect();
        let on = if on == RunsOn::ThisMachine && folder.engine().is_some() { RunsOn::Workers } else { on };
        let plan = Plan::again(source, &ended, on).map_err(BatchError::Plan)?;
        Ok((folder, plan))
    }

    fn lock(id: String, path: PathBuf) -> Result<Self, BatchError> {
        let file = path.join("lock");
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&file);
        let lock = open.map_err(|error| BatchError::File { path: file.clone(), error })?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { id, path, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(BatchError::Taken(id)),
            Err(error) => Err(BatchError::File { path: file, error: error.into() }),
        }
    }

    /// Returns what was noted so far.
    pub fn notes(&self) -> Result<Vec<BatchNote>, BatchError> {
        let path = self.journal();
        journal::notes(&path).map_err(|error| BatchError::File { path, error })
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    pub(crate) fn worktrees(&self) -> Places {
        Places { worktrees: self.path.join("worktrees"), notes: self.path.join("worktree-notes") }
    }

    /// Returns whether secrets are replaced in the results and recordings of this batch.
    pub fn is_redacted(&self) -> bool {
        self.path.join(REDACTED).exists()
    }

    /// From now on, secrets are replaced in the results and recordings of this batch.
    pub(crate) fn redact(&self) -> Result<(), BatchError> {
        let path = self.path.join(REDACTED);
        let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let kept = made.and_then(|_| File::open(&self.path)?.sync_all());
        kept.map_err(|error| BatchError::File { path, error })
    }

    pub(crate) fn patches(&self) -> PathBuf {
        self.path.join("patches")
    }
}

const PLAN: &str = "plan.json";
/// The file that says how many dollars the batch may cost.
const BUDGET: &str = "budget.json";
/// The file that says how to reach the engine.
const ENGINE: &str = "engine.json";
/// The file that says how long a worker may be silent, in milliseconds.
#[cfg(feature = "nats")]
const PATIENCE: &str = "worker-timeout.json";
/// The file that says that secrets are replaced.
const REDACTED: &str = "redacted";
