//! Where recordings are kept: under `TAPLINE_HOME`, else in the data folder of the XDG standard.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Result, bail};
use tapline_recording::Sync;
use tapline_runner::RecordTo;

use crate::args::run::{Kept, SyncWhen};

/// The folder that everything is kept under.
pub(crate) fn root() -> Result<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(root) = given("TAPLINE_HOME") {
        return Ok(root);
    }
    // A relative XDG path is to be ignored, says the standard.
    if let Some(data) = given("XDG_DATA_HOME").filter(|path| path.is_absolute()) {
        return Ok(data.join("tapline"));
    }
    match given("HOME") {
        Some(home) => Ok(home.join(".local/share/tapline")),
        None => bail!("no folder for recordings: set TAPLINE_HOME, or use --record PATH or --no-record"),
    }
}

/// A folder for a new recording.
pub(crate) fn new_recording() -> Result<PathBuf> {
    Ok(root()?.join("recordings").join(recording_name()))
}

/// Where a run is kept, as the command line says: refused before the agent starts, if it cannot be.
pub(crate) fn folder(kept: &Kept) -> Result<Option<PathBuf>> {
    match &kept.record {
        _ if kept.no_record => Ok(None),
        Some(path) => Ok(Some(path.clone())),
        None => new_recording().map(Some),
    }
}

/// Where a run is kept, for people. The HOME that `tapline sim` makes for a command goes with it, and all that is in it.
pub(crate) fn recorded_in(folder: &Path) -> String {
    let home = std::env::var_os(SIM_HOME).filter(|home| !home.is_empty());
    let gone = home.is_some_and(|home| std::path::absolute(folder).is_ok_and(|folder| folder.starts_with(home)));
    let until = if gone { ", which is removed when `tapline sim` ends (use --record PATH to keep it)" } else { "" };
    format!("recorded in {}{until}", folder.display())
}

/// The variable with the HOME that a `tapline sim` has made for its command alone.
pub(crate) const SIM_HOME: &str = "TAPLINE_SIM_HOME";

/// A recording there, put on the disk when it was asked for.
pub(crate) fn record_to(kept: &Kept, folder: PathBuf, redact: bool) -> RecordTo {
    RecordTo { folder, sync: if kept.sync == SyncWhen::Always { Sync::Always } else { Sync::EverySecond }, redact }
}

/// A name for a new recording: it sorts by time, and no two are the same.
pub(crate) fn recording_name() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let moment = tapline_session::rfc3339(since.as_secs_f64()).unwrap_or_default().replace(':', "-");
    format!("{moment}-{:06x}{:04x}", since.subsec_nanos() >> 6, std::process::id() & 0xffff)
}

/// A further attempt of a run is a recording of its own, beside the first.
pub(crate) fn of_attempt(folder: PathBuf, attempt: u64) -> PathBuf {
    if attempt <= 1 {
        return folder;
    }
    let mut name = OsString::from(folder);
    name.push(format!("-{attempt}"));
    PathBuf::from(name)
}
