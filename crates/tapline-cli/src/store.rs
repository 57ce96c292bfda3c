//! Where a run is recorded, and which recording a person means.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use tapline_archive::sessions::SessionLookup;
use tapline_recording::{FindError, Recording, Store, Sync};
use tapline_runner::RecordTo;

use crate::archive;
use crate::args::run::{Kept, SyncWhen};

/// Returns the user's store.
pub(crate) fn store() -> Result<Store> {
    Store::of_user().context(
        "no folder for recordings, because HOME is not set: set it or TAPLINE_HOME, or use --record PATH or --no-record",
    )
}

/// Returns what a person means by FILE: an existing path, or else a recording in the store, by its name or `last`, or
/// else a session of the archive, by the beginning of its id. A session that was recorded is opened as the recording,
/// which has the whole stream.
pub(crate) fn meant(path: &Path) -> Result<PathBuf> {
    let Some((id, store)) = id_of(path) else { return Ok(path.to_owned()) };
    let found = store.find(id);
    if id == LAST || found.as_ref().is_ok_and(|recording| is_named(recording, id)) {
        return told(found, id);
    }
    match (archive::find(id, &[], false)?, found) {
        (SessionLookup::Several(several), _) => Err(archive::ambiguous(id, &several)),
        (SessionLookup::One(session), Err(_)) => {
            let there = session.recording.or(session.transcript);
            there.or_else(|| archive::kept::of_session(&session.id)).ok_or_else(|| {
                anyhow!("the files of session {} are gone; only its numbers are kept (`tapline stats`)", session.id)
            })
        }
        (_, found) => named(found, id, " and no session has such an id (`tapline sessions --list` lists them)"),
    }
}

/// Returns what a person means by RECORDING: an existing path, or else a recording in the store.
pub(crate) fn recorded(path: &Path) -> Result<PathBuf> {
    id_of(path).map_or_else(|| Ok(path.to_owned()), |(id, store)| told(store.find(id), id))
}

/// If a path does not exist, it may be an id.
fn id_of(path: &Path) -> Option<(&str, Store)> {
    let is_id = |text: &&str| !text.contains(['/', '.']) && !text.is_empty() && *text != "-";
    let id = path.to_str().filter(is_id).filter(|_| path.symlink_metadata().is_err())?;
    Some((id, Store::of_user()?))
}

/// Says that there is no such file either.
fn told(found: Result<PathBuf, FindError>, id: &str) -> Result<PathBuf> {
    named(found, id, "")
}

/// Says that there is no such file either, nor something else.
fn named(found: Result<PathBuf, FindError>, id: &str, nor: &str) -> Result<PathBuf> {
    found.map_err(|error| match error {
        FindError::Empty(_) | FindError::Unknown { .. } => anyhow!(error).context(format!("there is no file `{id}`{nor}")),
        error => error.into(),
    })
}

/// The name of the newest recording.
const LAST: &str = "last";

/// Returns whether a recording was meant by its name, not by its session.
fn is_named(recording: &Path, id: &str) -> bool {
    let name = recording.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with(id) || name.split_once("Z-").is_some_and(|(_, unique)| unique.starts_with(id))
}

/// The file to follow that a person means by FILE: of a recording what the agent writes. It need not be there yet.
pub(crate) fn to_follow(path: &Path) -> Result<PathBuf> {
    let path = match meant(path) {
        Err(error) if matches!(error.downcast_ref(), Some(FindError::Unknown { .. })) => path.to_owned(),
        path => path?,
    };
    Ok(if Recording::is_one(&path) { Recording::open(&path)?.stdout() } else { path })
}

/// Returns where the command line wants a run recorded. An impossible place is rejected before the agent starts.
pub(crate) fn folder(kept: &Kept) -> Result<Option<PathBuf>> {
    match &kept.record {
        _ if kept.no_record => Ok(None),
        Some(path) => Ok(Some(path.clone())),
        None => Ok(Some(store()?.new_recording())),
    }
}

/// Says where a run is recorded. The HOME that `tapline sim` makes for a command is removed with everything in it.
pub(crate) fn recorded_in(folder: &Path) -> String {
    let home = std::env::var_os(SIM_HOME).filter(|home| !home.is_empty());
    let gone = home.is_some_and(|home| std::path::absolute(folder).is_ok_and(|folder| folder.starts_with(home)));
    let until = if gone { ", which is removed when `tapline sim` ends (use --record PATH to keep it)" } else { "" };
    format!("recorded in {}{until}", folder.display())
}

/// The variable with the HOME that a `tapline sim` has made only for its command.
pub(crate) const SIM_HOME: &str = "TAPLINE_SIM_HOME";

/// Returns how to record there, and when to flush.
pub(crate) fn record_to(kept: &Kept, folder: PathBuf, redact: bool) -> RecordTo {
    RecordTo { folder, sync: if kept.sync == SyncWhen::Always { Sync::Always } else { Sync::EverySecond }, redact }
}
