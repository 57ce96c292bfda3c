//! Limits that the batches of a user tell each other, in a file of the data folder.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tapline_recording::{Store, create_private_folder};

use crate::note::AccountLimit;

/// The file with the limits. It saves runs that would fail, so whatever is wrong
/// with it keeps no batch from going on.
#[derive(Debug)]
pub(crate) struct SharedLimits {
    path: PathBuf,
    /// The file that was read last.
    seen: Option<(u64, i64, i64)>,
}

/// No limit lasts longer than a week. An agent that says so is wrong, and must not hold up other batches.
const LONGEST: i64 = 8 * 24 * 60 * 60;

impl SharedLimits {
    pub(crate) fn of(store: &Store) -> Self {
        Self { path: store.root().join("limits.json"), seen: None }
    }

    /// Returns the limits that hold now, if they were changed since this was last asked.
    pub(crate) fn news(&mut self, now: i64) -> Vec<AccountLimit> {
        let seen = std::fs::metadata(&self.path).ok().map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec()));
        if seen == self.seen {
            return Vec::new();
        }
        self.seen = seen;
        read(&self.path, now).into_iter().map(|(account, until)| AccountLimit { account, until }).collect()
    }

    /// Returns where the limits are.
    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

/// The limits of the file that hold now.
fn read(path: &Path, now: i64) -> BTreeMap<String, i64> {
    let all = std::fs::read(path).ok().and_then(|text| serde_json::from_slice::<BTreeMap<String, i64>>(&text).ok());
    all.unwrap_or_default().into_iter().filter(|(_, until)| (now..now.saturating_add(LONGEST)).contains(until)).collect()
}

/// Tells other batches of a limit.
pub(crate) fn share(path: &Path, limit: &AccountLimit, now: i64) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        create_private_folder(folder)?;
    }
    let open =
        |ending| OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path.with_extension(ending));
    let lock: File = open("lock")?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let mut all = read(path, now);
    let until = all.entry(limit.account.clone()).or_insert(limit.until);
    *until = limit.until.max(*until);
    let mut part = open("part")?;
    part.set_len(0)?;
    part.write_all(&serde_json::to_vec(&all)?)?;
    std::fs::rename(path.with_extension("part"), path)
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    #[test]
    fn batches_tell_each_other_of_limits() -> io::Result<()> {
        let folder = TempFolder::new();
        let mut shared = SharedLimits::of(&Store::at(&*folder));
        let limit = |account: &str, until| AccountLimit { account: account.to_owned(), until };
        assert_eq!(shared.news(50), []);
        share(&shared.path(), &limit("a", 100), 50)?;
        share(&shared.path(), &limit("b", 60), 50)?;
        share(&shared.path(), &limit("a", 90), 50)?;
        share(&shared.path(), &limit("never", i64::MAX), 50)?;
        assert_eq!(shared.news(50), [limit("a", 100), limit("b", 60)]);
        assert_eq!(shared.news(50), [], "nothing has changed");
        let mut other = SharedLimits::of(&Store::at(&*folder));
        assert_eq!(other.news(70), [limit("a", 100)]);
        std::fs::write(other.path(), "{")?;
        assert_eq!(other.news(70), [], "a damaged file holds nobody up");
        share(&other.path(), &limit("a", 100), 50)?;
        assert_eq!(other.news(70), [limit("a", 100)]);
        Ok(())
    }
}
