//! Opens the archive for a command: finds session files, reads what is new, and shows how far it is.

pub(crate) mod kept;

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use tapline_archive::sessions::{self, SessionFiles, SessionLookup};
use tapline_archive::{ArchiveError, DamagedFile, FolderMemory, Index, Places, Prices, Progress, Selection, Updated};
use tapline_recording::Store;
use tapline_session::Ledger;
use tapline_session::text::{count_of, fit, one_line, with_causes};

use crate::output;
use crate::when::now;

/// Work that takes less time than this shows no progress.
const NOTICED: Duration = Duration::from_millis(400);
/// How many files that cannot be read are named.
const NAMED: usize = 5;

/// The index, and what a command is on.
pub(crate) struct Archive {
    pub(crate) index: Index,
    pub(crate) selection: Selection,
}

/// Returns the folder of the archive.
pub(crate) fn folder() -> Result<PathBuf> {
    let store = Store::of_user().context("no folder for the archive, because HOME is not set: set it or TAPLINE_HOME")?;
    Ok(store.root().join("archive"))
}

/// Returns a variable of the environment that holds a path.
pub(crate) fn path_of(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Opens the archive and reads what is new: below these paths, or where agents and tapline keep sessions.
pub(crate) fn open(paths: &[PathBuf], quiet: bool) -> Result<Archive> {
    open_and_tell(paths, quiet, true)
}

/// The same, and everything in the index was looked at: for what cannot begin again when the index turns out to be
/// damaged, and for lookups, which do not notice what they no longer find.
pub(crate) fn open_checked(paths: &[PathBuf], quiet: bool) -> Result<Archive> {
    let archive = open(paths, quiet)?;
    match archive.index.check() {
        Err(error) if error.is_damage() => {
            drop(rebuild(archive.index)?);
            open(paths, quiet)
        }
        checked => Ok(checked.map(|()| archive)?),
    }
}

/// Opens the archive; what cannot be read is named only if `telling`.
fn open_and_tell(paths: &[PathBuf], quiet: bool, telling: bool) -> Result<Archive> {
    let found = places(paths)?;
    let mut index = open_index()?;
    let mut filled = fill(&mut index, found, paths.is_empty(), quiet);
    match &filled {
        Err(error) if error.is_damage() => {
            index = rebuild(index)?;
            filled = fill(&mut index, places(paths)?, paths.is_empty(), quiet);
        }
        Err(error) => {
            // The disk is full, for example. The numbers are right all the same.
            output::tell(&format!(
                "the index of the archive cannot be kept ({}): what is new is read again each time",
                with_causes(error)
            ));
            index = Index::copy_in_memory(&folder()?)?;
            filled = fill(&mut index, places(paths)?, paths.is_empty(), quiet);
        }
        Ok(_) => {}
    }
    let (places, updated) = filled.context("cannot read the archive")?;
    if telling {
        tell_unreadable(&places, &updated.unreadable);
    }
    // The index may know more: what other command lines named.
    let selection = Selection { below: places.roots, ..Selection::default() };
    Ok(Archive { index, selection })
}

/// Puts a damaged index aside, makes a new one, and says so.
fn rebuild(index: Index) -> Result<Index> {
    let index = index.rebuild().context("the index of the archive is damaged and cannot be built again")?;
    output::tell(DAMAGED);
    Ok(index)
}

/// Returns where to look for session files: below these paths, or where agents and tapline keep sessions.
pub(crate) fn roots(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let failed = |path: &Path| {
        // Elsewhere the beginning of an id stands for a session.
        let is_id = path.components().count() == 1 && !path.exists();
        let advice = if is_id { " (a session is opened by its id with `tapline view ID`)" } else { "" };
        format!("cannot read {}{advice}", path.display())
    };
    let below = paths.iter().map(|path| path.canonicalize().with_context(|| failed(path)));
    let below: Vec<PathBuf> = below.collect::<Result<_>>()?;
    Ok(if below.is_empty() { Places::roots_of_user(&path_of) } else { below })
}

/// Looks for session files there.
pub(crate) fn places(paths: &[PathBuf]) -> Result<Places> {
    if paths.is_empty() {
        return Ok(places_of_user());
    }
    let roots = roots(paths)?;
    Ok(memory().map_or_else(|| Places::below(&roots), |memory| Places::below_with(&memory, &roots)))
}

/// Looks for session files where agents and tapline keep them.
pub(crate) fn places_of_user() -> Places {
    memory().map_or_else(|| Places::of_user(&path_of), |memory| Places::of_user_with(&memory, &path_of))
}

/// Returns where it is remembered what was in folders.
fn memory() -> Option<FolderMemory> {
    Some(FolderMemory::new(&folder().ok()?, now()))
}

/// Says where was looked, if no file there can hold a session, and how to look elsewhere.
pub(crate) fn nothing_there(paths: &[PathBuf], elsewhere: &str) -> Option<String> {
    let places = places(paths).ok().filter(|places| places.files.is_empty())?;
    if places.roots.is_empty() {
        return Some(format!(
            "No sessions found: HOME is not set, so it is not known where agents keep them. To name a place: {elsewhere}\n"
        ));
    }
    let looked: Vec<_> = places.roots.iter().map(|root| format!("  {}", one_line(&root.display().to_string()))).collect();
    Some(format!("No sessions found. tapline looked here:\n{}\nTo look elsewhere: {elsewhere}\n", looked.join("\n")))
}

/// What is said when an index is built again.
const DAMAGED: &str = "the index of the archive was damaged: it is built again, and the old one is kept as index.db.old (if there was one \
                       already, with a number behind it). What can still be read in it stays counted";

/// Opens the archive and reads a result from it. If the index turns out to be damaged, it is built again.
pub(crate) fn read<T>(paths: &[PathBuf], quiet: bool, read: impl Fn(&Archive) -> Result<T>) -> Result<T> {
    read_from(|| open(paths, quiet), read)
}

/// The same once more, for a screen that is renewed: what cannot be read was named before.
pub(crate) fn read_again<T>(paths: &[PathBuf], read: impl Fn(&Archive) -> Result<T>) -> Result<T> {
    read_from(|| open_and_tell(paths, true, false), read)
}

fn read_from<T>(open: impl Fn() -> Result<Archive>, read: impl Fn(&Archive) -> Result<T>) -> Result<T> {
    let archive = open()?;
    match read(&archive) {
        Err(error) if error.downcast_ref::<ArchiveError>().is_some_and(ArchiveError::is_damage) => {
            drop(rebuild(archive.index)?);
            read(&open()?)
        }
        read => read,
    }
}

/// Reads what is new in these places, and notes what is gone. If they are all that the user has, copies of files that are
/// gone and that the index does not know belong to them.
fn fill(index: &mut Index, mut places: Places, all: bool, quiet: bool) -> Result<(Places, Updated), ArchiveError> {
    if all {
        kept::add_to(&mut places, || index.paths())?;
    }
    let mut bar = Bar::new("reading sessions", quiet);
    let updated = index.update(&places, &AtomicBool::new(false), |progress| bar.show(progress));
    bar.clear();
    let updated = updated?;
    if all {
        index.note_gone(&places)?;
    }
    Ok((places, updated))
}

/// Opens the index. If its folder cannot be written, the archive is read anew, and kept nowhere.
pub(crate) fn open_index() -> Result<Index> {
    let opened = folder().and_then(|folder| Ok(Index::open(&folder)?));
    match opened {
        Ok(index) => {
            if index.was_damaged() {
                output::tell(DAMAGED);
            }
            Ok(index)
        }
        Err(error) => {
            output::tell(&format!("the index of the archive cannot be kept ({error:#}): everything is read again each time"));
            Ok(folder().map_or_else(|_| Index::in_memory(), |folder| Index::copy_in_memory(&folder))?)
        }
    }
}

/// Names what could not be read.
pub(crate) fn tell_unreadable(places: &Places, others: &[(PathBuf, io::Error)]) {
    let unreadable = || places.unreadable.iter().chain(others);
    for (path, error) in unreadable().take(NAMED) {
        tell_one_unreadable(path, error);
    }
    let more = unreadable().count().saturating_sub(NAMED);
    if more > 0 {
        output::tell(&format!("and {} more that cannot be read", count_of(more, "file")));
    }
}

/// Names a path that could not be read. The reason can name another one.
pub(crate) fn tell_one_unreadable(path: &Path, error: &io::Error) {
    output::tell(&format!("cannot read {}: {}", one_line(&path.display().to_string()), one_line(&error.to_string())));
}

/// Names the files with lines that could not be read.
pub(crate) fn tell_damaged(files: &[DamagedFile]) {
    let lines = |lines: u64| count_of(usize::try_from(lines).unwrap_or(usize::MAX), "line");
    for file in files.iter().take(NAMED) {
        output::tell(&format!("{} of {} could not be read", lines(file.lines), one_line(&file.path.display().to_string())));
    }
    let more = files.iter().skip(NAMED).map(|file| file.lines).sum::<u64>();
    if more > 0 {
        output::tell(&format!("and {} of {}", lines(more), count_of(files.len() - NAMED, "other file")));
    }
}

/// A line on stderr that says how far the reading is.
pub(crate) struct Bar {
    what: &'static str,
    began: Instant,
    shown: Option<Instant>,
    quiet: bool,
}

impl Bar {
    pub(crate) fn new(what: &'static str, quiet: bool) -> Self {
        Self { what, began: Instant::now(), shown: None, quiet: quiet || !io::stderr().is_terminal() }
    }

    pub(crate) fn show(&mut self, progress: Progress) {
        let due = self.shown.map_or(NOTICED, |_| Duration::from_millis(100));
        if self.quiet || self.shown.unwrap_or(self.began).elapsed() < due {
            return;
        }
        self.shown = Some(Instant::now());
        let share = progress.read.saturating_mul(100) / progress.of.max(1);
        let mega = |bytes: u64| bytes >> 20;
        let _ = write!(io::stderr(), "\r\x1b[K{} … {share} % of {} MiB", self.what, mega(progress.of));
    }

    pub(crate) fn clear(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// More than this is not read only to count one session: `tapline stats` does that.
const LITTLE: u64 = 64 << 20;

/// Finds the sessions whose id begins with this text, where agents and tapline keep sessions, or below these paths.
pub(crate) fn find(start: &str, paths: &[PathBuf], quiet: bool) -> Result<SessionLookup> {
    Ok(sessions::find(&open_checked(paths, quiet)?.index, start)?)
}

/// Returns the one session whose id begins with this text.
pub(crate) fn session(start: &str, paths: &[PathBuf], quiet: bool) -> Result<SessionFiles> {
    only(start, find(start, paths, quiet)?)
}

/// Returns the one session that a lookup found.
pub(crate) fn only(start: &str, found: SessionLookup) -> Result<SessionFiles> {
    match found {
        SessionLookup::One(found) => Ok(found),
        SessionLookup::Several(several) => Err(ambiguous(start, &several)),
        _ => bail!("no session has an id that starts with `{start}`: `tapline sessions --list` lists them"),
    }
}

/// Returns the files of the archive's indexes that were put aside.
pub(crate) fn asides() -> Result<Vec<PathBuf>> {
    let names = std::fs::read_dir(folder()?)?.flatten().map(|entry| entry.path());
    let is_aside = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".db.old"));
    let mut asides: Vec<PathBuf> = names.filter(is_aside).collect();
    asides.sort();
    Ok(asides)
}

/// Says which sessions an id may mean.
pub(crate) fn ambiguous(start: &str, several: &[(String, String)]) -> anyhow::Error {
    let line = |(id, title): &(String, String)| format!("\n  {}  {}", one_line(id), fit(&one_line(title), 60));
    let listed: String = several.iter().take(LISTED).map(line).collect();
    let more = several.len().saturating_sub(LISTED);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    anyhow!("`{start}` is the start of several session ids: give more of it{listed}{more}")
}

/// How many sessions an error lists.
const LISTED: usize = 10;

/// Counts what the session of a transcript used and cost, as `tapline stats` does: what a fork copied counts where it
/// was said first. `None` if the transcript lies elsewhere, or if there is too much to read first.
pub(crate) fn ledger(transcript: &Path, session: &str) -> Option<Ledger> {
    let mut places = places_of_user();
    places.roots.extend(kept::kept().ok().map(|kept| kept.folder().to_owned()));
    let transcript = transcript.canonicalize().ok()?;
    let is_below = |root: &PathBuf| root.canonicalize().is_ok_and(|root| transcript.starts_with(root));
    if !places.roots.iter().any(is_below) {
        return None;
    }
    let selection = Selection { below: places.roots.clone(), ..Selection::default() };
    let count = |index: &mut Index| match index.update_little(&places, LITTLE)? {
        Some(_) => sessions::ledger(index, Prices::embedded(), &selection, session),
        None => Ok(None),
    };
    let mut index = Index::open(&folder().ok()?).ok()?;
    match count(&mut index) {
        Err(error) if error.is_damage() => count(&mut rebuild(index).ok()?).ok()?,
        counted => counted.ok()?,
    }
}
