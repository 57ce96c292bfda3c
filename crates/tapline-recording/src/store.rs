//! The store: where recordings are kept, how they are named, and how one is found again.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tapline_protocol::{Json, Read as _};

use crate::beneath::Beneath;
use crate::reading::Recording;
use crate::writing::Stream;

/// The name for the newest recording in [`Store::find`].
const LAST: &str = "last";
/// The shortest prefix of an id. Shorter ones match too many.
const SHORTEST_ID: usize = 4;
/// How much of a recording is read to find the session id, which is in the agent's first line.
const LOOKED_AT: u64 = 64 << 10;
/// How many names an error lists.
const NAMED: usize = 5;

/// A folder of recordings.
///
/// ```no_run
/// use tapline_recording::{Recording, Store};
///
/// let store = Store::of_user().expect("a home folder");
/// let newest = Recording::open(&store.find("last")?)?;
/// println!("{:?}", newest.meta.argv);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    root: PathBuf,
}

/// Why a recording was not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// The store is empty.
    #[error("there is no recording in {0} yet")]
    Empty(PathBuf),
    /// No recording has this id.
    #[error("no recording in {folder} has a name or session id that starts with `{id}`")]
    Unknown {
        /// The id.
        id: String,
        /// The folder.
        folder: PathBuf,
    },
    /// Several recordings have this id.
    #[error("`{id}` is the start of several recordings: {}{}", .names.join(", "), and_more(*.more))]
    Ambiguous {
        /// The id.
        id: String,
        /// The names of the newest of them.
        names: Vec<String>,
        /// How many others there are.
        more: usize,
    },
    /// The folder cannot be read.
    #[error("cannot list the recordings in {folder}")]
    List {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
}

impl Store {
    /// Returns the user's store: in `TAPLINE_HOME`, or else in the XDG data folder. `None` if there is no home folder.
    pub fn of_user() -> Option<Self> {
        let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // The standard says to ignore a relative path.
        let data = || given("XDG_DATA_HOME").filter(|path| path.is_absolute());
        let data = || data().or_else(|| Some(given("HOME")?.join(".local/share")));
        given("TAPLINE_HOME").or_else(|| Some(data()?.join("tapline"))).map(Self::at)
    }

    /// Returns the store in this folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the folder of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder with the recordings.
    pub fn folder(&self) -> PathBuf {
        self.root.join("recordings")
    }

    /// Returns a folder for a new recording. It does not exist yet.
    pub fn new_recording(&self) -> PathBuf {
        self.folder().join(recording_name())
    }

    /// Lists the folders of all recordings, newest first.
    pub fn list(&self) -> Result<Vec<PathBuf>, FindError> {
        let folder = self.folder();
        match recordings_in(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            found => found.map(|found| found.into_iter().rev().collect()).map_err(|error| FindError::List { folder, error }),
        }
    }

    /// Finds a recording: `last` is the newest; otherwise `id` is the start of its name, of the part of its name after
    /// the time, or of its session id. If several attempts or runs belong together, it returns the newest.
    pub fn find(&self, id: &str) -> Result<PathBuf, FindError> {
        let all = self.list()?;
        if id == LAST {
            return all.into_iter().next().ok_or_else(|| FindError::Empty(self.folder()));
        }
        let unknown = || FindError::Unknown { id: id.to_owned(), folder: self.folder() };
        let named = |path: &&PathBuf| name_of(path).is_some_and(|name| name.starts_with(id) || unique(name).starts_with(id));
        if let Some(same) = all.iter().find(|path| name_of(path) == Some(id)) {
            return Ok(same.clone());
        }
        if id.len() < SHORTEST_ID {
            return Err(unknown());
        }
        let by_name: Vec<_> = all.iter().filter(named).collect();
        if !by_name.is_empty() {
            return one_of(id, &by_name, |path| name_of(path).map(|name| attempt_of(name).0.to_owned()));
        }
        let session = |path: &PathBuf| session_of(path).filter(|session| session.starts_with(id));
        let by_session: Vec<_> = all.iter().filter(|path| session(path).is_some()).collect();
        if by_session.is_empty() { Err(unknown()) } else { one_of(id, &by_session, |path| session(path)) }
    }
}

/// Lists the recordings in a folder, sorted by the time in their names, the oldest first. Names without a time come first. A link that leads
/// out of the folder is left out.
pub fn recordings_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (entries, beneath) = (std::fs::read_dir(folder)?, Beneath::open(folder)?);
    let inside = entries.flatten().filter_map(|entry| beneath.resolve(&entry.path()).ok());
    let mut found: Vec<_> = inside.filter(|path| Recording::is_one(path)).collect();
    found.sort();
    found.dedup();
    found.sort_by_cached_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (run, attempt) = attempt_of(&name);
        (has_time(&name), run.to_owned(), attempt)
    });
    Ok(found)
}

/// Returns the newest recording of a group, unless others match, too.
fn one_of(id: &str, found: &[&PathBuf], group: impl Fn(&PathBuf) -> Option<String>) -> Result<PathBuf, FindError> {
    let newest = found[0];
    if found.iter().all(|path| group(path) == group(newest)) {
        return Ok(newest.clone());
    }
    let names: Vec<_> = found.iter().filter_map(|path| name_of(path)).take(NAMED).map(str::to_owned).collect();
    Err(FindError::Ambiguous { id: id.to_owned(), more: found.len() - names.len(), names })
}

fn and_more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" and {count} more") }
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// A name without the number of the attempt, and the number: `2026-11-16T06-46-57Z-0a1b2c3d4e-2` is the second attempt of
/// `2026-11-16T06-46-57Z-0a1b2c3d4e`.
fn attempt_of(name: &str) -> (&str, u64) {
    let numbered = name.rsplit_once('-').filter(|(run, _)| run.contains("Z-"));
    numbered.and_then(|(run, number)| Some((run, number.parse().ok()?))).unwrap_or((name, 1))
}

/// Whether a name starts with a time, as those of new recordings do.
fn has_time(name: &str) -> bool {
    let time = name.split_once("Z-").map_or("", |(time, _)| time);
    time.len() == "2026-11-16T06-46-57".len() && time.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the part of a name after the time.
fn unique(name: &str) -> &str {
    name.split_once("Z-").map_or(name, |(_, unique)| unique)
}

/// Reads the session id from the agent's first lines.
fn session_of(path: &Path) -> Option<String> {
    let mut head = Vec::new();
    let stdout = Recording::open(path).ok()?.open_file(Stream::Stdout).ok()?;
    stdout.take(LOOKED_AT).read_to_end(&mut head).ok()?;
    let text = String::from_utf8_lossy(&head);
    let id = |line: &str| {
        Json::parse(line)
            .ok()?
            .with(|line| ["session_id", "thread_id"].iter().find_map(|key| line.get(key).and_then(String::read)))?
    };
    text.lines().take(20).find_map(id)
}

/// Makes a name for a new recording. Names sort by time, and are unique.
pub fn recording_name() -> String {
    let now = Timestamp::now();
    let moment = now.strftime("%Y-%m-%dT%H-%M-%SZ");
    format!("{moment}-{:06x}{:04x}", now.subsec_nanosecond() >> 6, std::process::id() & 0xffff)
}

/// Returns where a further attempt of a run is recorded: next to the first.
pub fn attempt_folder(first: PathBuf, attempt: u64) -> PathBuf {
    if attempt <= 1 {
        return first;
    }
    let mut name = OsString::from(first);
    name.push(format!("-{attempt}"));
    PathBuf::from(name)
}
