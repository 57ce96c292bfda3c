//! The environment of an agent: its own HOME, a dummy key, and the scripted model as the only one it knows.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tapline_recording::create_private_folder;
use uuid::Uuid;

use crate::agents::{Guest, guests};
use crate::error::SimError;

/// The only variables that are passed on.
const PASSED_ON: &[&str] = &["PATH", "TERM", "LANG"];

/// A HOME for agents.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether it was created here, and is removed at the end.
    fresh: bool,
}

impl Folder {
    /// Creates a HOME, or uses the given one, and writes what agents need in it.
    pub(crate) fn make(given: Option<PathBuf>, address: SocketAddr) -> Result<Self, SimError> {
        let fresh = given.is_none();
        let path =
            given.map_or_else(|| temporary("tapline-sim"), |path| std::path::absolute(&path).map_err(|error| (path, error)));
        let path = path.map_err(|(path, error)| SimError::Make { path, error })?;
        let folder = Self { path, fresh };
        let tmp = folder.path.join("tmp");
        create_private_folder(&tmp).map_err(|error| SimError::Make { path: tmp, error })?;
        for guest in guests() {
            folder.furnish(guest, address)?;
        }
        Ok(folder)
    }

    /// Writes the configuration that an agent needs.
    fn furnish(&self, guest: &Guest, address: SocketAddr) -> Result<(), SimError> {
        let Some((file, config)) = guest.config else { return Ok(()) };
        let path = self.path.join(guest.folder.1);
        create_private_folder(&path).map_err(|error| SimError::Make { path: path.clone(), error })?;
        let path = path.join(file);
        // A given HOME may be a person's own.
        if std::fs::read(&path).is_ok_and(|text| !text.starts_with(WRITTEN.as_bytes())) {
            return Err(SimError::NotOurs(path));
        }
        let text = format!("{WRITTEN}{}", config(address));
        std::fs::write(&path, text).map_err(|error| SimError::Make { path, error })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.fresh {
            remove(&self.path);
        }
    }
}

/// Removes a folder that was created here. A process that an agent left running may still write to it, so it tries
/// several times.
pub(crate) fn remove(path: &Path) {
    for _ in 0..5 {
        if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Creates a private folder with a unique name.
pub(crate) fn temporary(prefix: &str) -> Result<PathBuf, (PathBuf, std::io::Error)> {
    let path = std::env::temp_dir().join(format!("{prefix}-{}", Uuid::new_v4().simple()));
    create_private_folder(&path).map_err(|error| (path.clone(), error))?;
    Ok(path)
}

/// The first line of a configuration that tapline wrote.
const WRITTEN: &str = "# Written by tapline sim.\n";

/// Returns the variables that agents need to use the model at this address.
pub(crate) fn variables(address: SocketAddr) -> Vec<(String, OsString)> {
    let pairs = guests().flat_map(|guest| (guest.variables)(address));
    pairs.map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// Returns the folders of agents under this HOME, with the variables that name them.
pub(crate) fn folders(home: &Path) -> impl Iterator<Item = (String, OsString)> {
    guests().map(|guest| folder(guest, home))
}

fn folder(guest: &Guest, home: &Path) -> (String, OsString) {
    let (name, folder) = guest.folder;
    (name.to_owned(), home.join(folder).into_os_string())
}

/// Returns the whole environment.
pub(crate) fn environment(address: SocketAddr, home: &Path) -> Vec<(String, OsString)> {
    let passed_on = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)));
    let own = [("HOME", home.to_owned()), ("TMPDIR", home.join("tmp"))];
    let own = own.into_iter().map(|(name, path)| (name.to_owned(), path.into_os_string()));
    // Only agents with a configuration of ours need to know where it is.
    let configured = guests().filter(|guest| guest.config.is_some()).map(|guest| folder(guest, home));
    passed_on.chain(own).chain(configured).chain(variables(address)).collect()
}
