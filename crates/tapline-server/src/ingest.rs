//! Streams that others push: kept as recordings. Bytes have offsets, so that sending them again changes nothing, and they are acknowledged
//! only when they are on the disk.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tapline_recording::{End, Meta, Recorder, Recording, Store, Stream, Sync};

use crate::row::now;

pub use tapline_archive::runs::PUSHED_AS;
/// The file that says that a recording was pushed, and under which name.
pub(crate) const MARK: &str = tapline_archive::runs::PUSHED_HERE;
/// The longest name of a run.
const LONGEST_NAME: usize = 128;
/// The most bytes of one run.
const LARGEST: u64 = 4 << 30;
/// How many runs have their files open. Those that were silent longest make place, and go on when more bytes come.
const OPEN: usize = 64;

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
    #[error("Another server keeps what is pushed to this machine's recordings. Push to that one, or end it.")]
    Elsewhere,
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

/// A run that is pushed. It is known for as long as its recording is there, so that nothing is kept twice.
#[derive(Debug)]
struct Run {
    folder: PathBuf,
    /// `None` while nobody pushes.
    files: Option<Files>,
    /// `None` if it was not pushed to yet, or if it has ended.
    known: Option<Known>,
}

/// The files of a run, open.
#[derive(Debug)]
struct Files {
    stdout: File,
    times: File,
    known: Known,
}

/// What is known about a run while its files are closed, so that they need not be read again.
#[derive(Clone, Copy, Debug)]
struct Known {
    length: u64,
    started: u64,
    ended: bool,
}

type Shared = Arc<Mutex<Run>>;

/// All runs that are pushed.
#[derive(Debug)]
pub(crate) struct Ingest {
    store: Store,
    /// The file that the server which keeps runs has locked.
    lock_file: PathBuf,
    runs: Mutex<Runs>,
    /// Runs whose files are open, the one that was used last at the end.
    open: Mutex<VecDeque<Shared>>,
}

#[derive(Debug, Default)]
struct Runs {
    /// The lock of this server. `None`: another server has it.
    lock: Option<File>,
    by_name: HashMap<String, Shared>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ingest {
    /// Takes the runs that are there already, unless another server has them.
    pub(crate) fn open(store: Store, folder: &Path) -> Self {
        let ingest = Self { store, lock_file: folder.join("ingest.lock"), runs: Mutex::default(), open: Mutex::default() };
        // Whoever pushes is told why, if it cannot be done.
        drop(ingest.runs());
        ingest
    }

    /// Returns the runs. The first time, they are looked for: only names that a server wrote down lead to folders.
    fn runs(&self) -> Result<MutexGuard<'_, Runs>, IngestError> {
        let mut runs = locked(&self.runs);
        if runs.lock.is_some() {
            return Ok(runs);
        }
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.lock_file)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(IngestError::Elsewhere),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        for entry in std::fs::read_dir(self.store.folder())?.flatten() {
            let folder = entry.path();
            let mark = std::fs::read(folder.join(MARK)).ok().and_then(|mark| serde_json::from_slice::<Mark>(&mark).ok());
            if let Some(mark) = mark {
                runs.by_name.insert(mark.run, Arc::new(Mutex::new(Run { folder, files: None, known: None })));
            }
        }
        runs.lock = Some(lock);
        Ok(runs)
    }

    /// Returns a run. A new one begins with its first byte.
    fn run(&self, name: &str, offset: Option<u64>, about: &About) -> Result<Shared, IngestError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
            return Err(IngestError::Name);
        }
        let mut runs = self.runs()?;
        if let Some(run) = runs.by_name.get(name) {
            return Ok(Arc::clone(run));
        }
        if offset.is_some_and(|offset| offset > 0) {
            return Err(IngestError::Gap(0));
        }
        let run = Arc::new(Mutex::new(Run::create(&self.store, name, about)?));
        runs.by_name.insert(name.to_owned(), Arc::clone(&run));
        Ok(run)
    }

    fn known(&self, name: &str) -> Result<Shared, IngestError> {
        self.runs()?.by_name.get(name).cloned().ok_or(IngestError::NoRun)
    }

    /// Returns the folder of a run.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, IngestError> {
        let run = self.known(name)?;
        let folder = locked(&run).folder.clone();
        Ok(folder)
    }

    /// Does something with the files of a run. Afterwards they stay open for a while. If somebody deleted the recording, nothing was done that
    /// lasts, and the run begins again.
    fn with<T>(
        &self,
        name: &str,
        run: &Shared,
        work: impl FnOnce(&Path, &mut Files) -> Result<T, IngestError>,
    ) -> Result<T, IngestError> {
        let (done, is_kept, is_gone) = {
            let mut run = locked(run);
            let Run { folder, files, known } = &mut *run;
            let opened = match files.take() {
                Some(open) => Ok(open),
                None => Files::open_again(folder, *known).map_or_else(|| Files::open(folder), Ok),
            };
            let (done, is_gone) = match opened {
                Ok(open) => {
                    let open = files.insert(open);
                    let done = work(folder, open);
                    // After it: what was written to a file without a name is not kept, whenever the name was taken from it.
                    (done, open.stdout.metadata().is_ok_and(|meta| meta.nlink() == 0))
                }
                Err(error) => (Err(error.into()), !folder.exists()),
            };
            // Nobody pushes to a run that has ended.
            *known = files.as_ref().map(|open| open.known).filter(|known| !known.ended && !is_gone);
            if known.is_none() {
                *files = None;
            }
            (done, known.is_some(), is_gone)
        };
        if is_gone {
            // A new one may have its name already.
            let mut runs = self.runs()?;
            if runs.by_name.get(name).is_some_and(|known| Arc::ptr_eq(known, run)) {
                runs.by_name.remove(name);
            }
        }
        let mut open = locked(&self.open);
        open.retain(|known| !Arc::ptr_eq(known, run));
        if is_kept {
            open.push_back(Arc::clone(run));
        }
        let silent = if open.len() > OPEN { open.pop_front() } else { None };
        drop(open);
        if let Some(silent) = silent {
            locked(&silent).files = None;
        }
        if is_gone { Err(IngestError::Gap(0)) } else { done }
    }

    /// Takes bytes at an offset, or at the end. As soon as they can be read, `written` is told the run's folder: who follows the run need not
    /// wait for the disk. Returns how many bytes the run has, all of them on the disk, and its folder.
    pub(crate) fn append(
        &self,
        name: &str,
        offset: Option<u64>,
        bytes: &[u8],
        about: &About,
        written: impl Fn(&Path),
    ) -> Result<(u64, PathBuf), IngestError> {
        let run = self.run(name, offset, about)?;
        self.with(name, &run, |folder, run| {
            let Known { length, ended, .. } = run.known;
            let offset = offset.unwrap_or(length);
            if offset > length {
                return Err(IngestError::Gap(length));
            }
            let known = usize::try_from(length - offset).unwrap_or(usize::MAX).min(bytes.len());
            let (again, new) = bytes.split_at(known);
            if !again.is_empty() && !run.has(offset, again)? {
                return Err(IngestError::Differs(length));
            }
            if new.is_empty() {
                // They may be left from a write that failed.
                run.stdout.sync_data()?;
                written(folder);
                return Ok((length, folder.to_owned()));
            }
            if ended {
                return Err(IngestError::Ended(length));
            }
            if length + new.len() as u64 > LARGEST {
                return Err(IngestError::Large);
            }
            run.write(new, || written(folder))?;
            Ok((run.known.length, folder.to_owned()))
        })
    }

    /// Notes how a run ended. Saying it again changes nothing. Returns how many bytes it has, and its folder.
    pub(crate) fn finish(&self, name: &str, exit_code: Option<i32>) -> Result<(u64, PathBuf), IngestError> {
        let run = self.known(name)?;
        self.with(name, &run, |folder, run| {
            if !run.known.ended {
                let mut recording = Recording::open(folder).map_err(io::Error::other)?;
                let duration_ms = Some(now().as_millis().saturating_sub(run.known.started));
                recording.amend(End { exit_code, duration_ms, ..End::default() }).map_err(io::Error::other)?;
                File::open(folder)?.sync_all()?;
                run.known.ended = true;
            }
            Ok((run.known.length, folder.to_owned()))
        })
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
        Ok(Self { folder, files: None, known: None })
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).open(path)
}

impl Files {
    fn open(folder: &Path) -> io::Result<Self> {
        let recording = Recording::open(folder).map_err(io::Error::other)?;
        let stdout = append_to(&recording.file(Stream::Stdout))?;
        // What was written before the server ended is acknowledged from now on.
        stdout.sync_data()?;
        let length = stdout.metadata()?.len();
        let (times, started) = (append_to(&folder.join("times"))?, recording.started().as_millis());
        Ok(Self { stdout, times, known: Known { length, started, ended: recording.end.is_some() } })
    }

    /// Opens the files of a run about which everything is known. `None` if they are not as they were left.
    fn open_again(folder: &Path, known: Option<Known>) -> Option<Self> {
        let known = known?;
        let stdout = append_to(&folder.join(Stream::Stdout.file_name())).ok()?;
        let is_same = stdout.metadata().is_ok_and(|meta| meta.len() == known.length);
        let times = append_to(&folder.join("times")).ok().filter(|_| is_same)?;
        Some(Self { stdout, times, known })
    }

    /// Returns whether these bytes are there.
    fn has(&mut self, offset: u64, bytes: &[u8]) -> io::Result<bool> {
        let mut there = vec![0; bytes.len()];
        self.stdout.seek(SeekFrom::Start(offset))?;
        self.stdout.read_exact(&mut there)?;
        Ok(there == bytes)
    }

    fn write(&mut self, bytes: &[u8], written: impl Fn()) -> io::Result<()> {
        let length = self.known.length + bytes.len() as u64;
        let times = self.times.metadata().map(|times| times.len());
        let kept = self.stdout.write_all(bytes).and_then(|()| {
            // When it came is good to know, but nobody was promised it.
            let micros = now().as_millis().saturating_sub(self.known.started).saturating_mul(1_000);
            let _ = self.times.write_all(format!("o {length} {micros}\n").as_bytes());
            written();
            self.stdout.sync_data()
        });
        if let Err(error) = kept {
            // What is half there is not acknowledged, and must not be in the way of sending it again.
            if self.stdout.set_len(self.known.length).is_err() {
                self.known.length = self.stdout.metadata()?.len();
            }
            if let Ok(times) = times {
                let _ = self.times.set_len(times);
            }
            // Whoever was told of it reads the run again.
            written();
            return Err(error);
        }
        self.known.length = length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    #[test]
    fn who_follows_a_run_can_read_bytes_before_they_are_acknowledged() {
        let folder = TempFolder::new();
        let store = Store::at(&*folder);
        std::fs::create_dir_all(store.folder()).unwrap();
        let ingest = Ingest::open(store, &folder);
        let told = std::cell::RefCell::new(Vec::new());
        let read = |folder: &Path, name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let note = |folder: &Path| told.borrow_mut().push((read(folder, "stdout"), read(folder, "times").lines().count()));
        let append =
            |offset, bytes: &[u8]| ingest.append("run", offset, bytes, &About::default(), note).map(|(length, _)| length);
        assert_eq!([append(None, b"1\n").unwrap(), append(Some(0), b"1\n2\n").unwrap()], [2, 4]);
        // They are there, with the time at which they came. Sending them again tells it again.
        assert_eq!(append(Some(2), b"2\n").unwrap(), 4);
        assert!(append(Some(9), b"3\n").is_err() && append(Some(0), b"x\n").is_err());
        let [one, two] = [("1\n", 1), ("1\n2\n", 2)].map(|(text, times)| (text.to_owned(), times));
        assert_eq!(*told.borrow(), [one, two.clone(), two]);
    }

    #[test]
    fn many_runs_can_be_unfinished_and_few_files_are_open() {
        let folder = TempFolder::new();
        let store = Store::at(&*folder);
        std::fs::create_dir_all(store.folder()).unwrap();
        let ingest = Ingest::open(store, &folder);
        let append = |name: &str, offset, bytes: &[u8]| ingest.append(name, offset, bytes, &About::default(), |_| {});
        let open = |ingest: &Ingest| {
            let runs = ingest.runs().unwrap();
            runs.by_name.values().filter(|run| locked(run).files.is_some()).count()
        };
        for n in 0..OPEN + 8 {
            assert_eq!(append(&format!("run-{n}"), Some(0), b"{}\n").unwrap().0, 3);
            assert_eq!(open(&ingest), (n + 1).min(OPEN));
        }
        // The first one was silent longest. It goes on where it was.
        assert_eq!(append("run-0", Some(3), b"{}\n").unwrap().0, 6);
        assert_eq!(append("run-0", None, b"{}\n").unwrap().0, 9);
        assert!(matches!(append("run-1", Some(4), b"{}\n"), Err(IngestError::Gap(3))));
        assert_eq!(open(&ingest), OPEN);
        // One that ended needs no file, and stays as it is.
        let last = format!("run-{}", OPEN + 7);
        ingest.finish(&last, Some(0)).unwrap();
        assert_eq!(open(&ingest), OPEN - 1);
        assert!(matches!(append(&last, None, b"{}\n"), Err(IngestError::Ended(3))));
        assert_eq!(append(&last, Some(0), b"{}\n").unwrap().0, 3);
        assert_eq!(open(&ingest), OPEN - 1);
        assert!(locked(&ingest.open).len() <= OPEN);
    }
}
