//! Links that open the page once. The ticket in a link has a private file in the server's folder, named after its hash, so a command on this
//! machine can make links for a server that runs. A server leaves a note there that says where it is, and holds it locked as long as it runs.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use sha2::{Digest as _, Sha256};
use tapline_recording::Store;
use uuid::Uuid;

use crate::secret::Secret;

/// How long a ticket is good: links stay in logs and histories.
const GOOD_FOR: Duration = Duration::from_secs(10 * 60);
/// What the names of the files of tickets begin with.
const TICKET: &str = "ticket-";
/// What the names of notes begin with, and that of one that is being written.
const NOTE: &str = "running-";
const NEW_NOTE: &str = "starting-";

/// Returns the folder of servers: what they read, what is pushed, tickets and notes.
pub(crate) fn folder(store: &Store) -> PathBuf {
    store.root().join("serve")
}

/// The tickets of a server that runs.
#[derive(Debug)]
pub(crate) struct Tickets {
    folder: PathBuf,
    note: PathBuf,
    /// It is locked until the server ends, whatever ends it.
    _lock: File,
}

impl Tickets {
    /// Leaves a note that a server is at this address.
    pub(crate) fn open(folder: &Path, address: SocketAddr) -> io::Result<Self> {
        let name = Uuid::new_v4().simple().to_string();
        let (new, note) = (folder.join(format!("{NEW_NOTE}{name}")), folder.join(format!("{NOTE}{name}")));
        let lock = private(&new, &address.to_string())?;
        // Nobody finds it before it is locked. Where files cannot be locked, no link is made later.
        let _ = lock.lock();
        std::fs::rename(new, &note)?;
        Ok(Self { folder: folder.to_owned(), note, _lock: lock })
    }

    /// Returns whether this is a ticket. It is good only once, and for a while.
    pub(crate) fn take(&self, ticket: &str) -> bool {
        let hash = hash(ticket);
        let path = self.folder.join(format!("{TICKET}{hash}"));
        // Whoever may rename files in the folder makes no ticket of another file: it says what it is.
        let is_one = std::fs::read_to_string(&path).is_ok_and(|text| text == hash);
        let meta = std::fs::symlink_metadata(&path).ok().filter(|meta| is_one && is_own_file(meta));
        let is_good = meta.and_then(|meta| age(&meta)).is_some_and(|age| age < GOOD_FOR);
        // Of two at once, one removes it.
        std::fs::remove_file(path).is_ok() && is_good
    }
}

impl Drop for Tickets {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.note);
    }
}

/// Returns a fresh link of each server that runs with this store.
pub fn links_of_running_servers(store: &Store) -> io::Result<Vec<String>> {
    let folder = folder(store);
    let addresses = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?.flatten().filter_map(|entry| running(&entry.path())).collect::<Vec<SocketAddr>>(),
    };
    remove_old(&folder);
    addresses.into_iter().map(|address| link(&folder, address)).collect()
}

/// Returns a fresh link of the server at this address.
pub(crate) fn link(folder: &Path, mut address: SocketAddr) -> io::Result<String> {
    let ticket = Secret::random();
    let hash = hash(ticket.text());
    private(&folder.join(format!("{TICKET}{hash}")), &hash)?;
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    Ok(format!("http://{address}/open?ticket={}", ticket.text()))
}

/// Returns where the server of a note is, if it runs. The note of one that was killed is removed.
fn running(note: &Path) -> Option<SocketAddr> {
    let _ = note.file_name()?.to_str()?.strip_prefix(NOTE)?;
    let file = File::open(note).ok().filter(|file| file.metadata().is_ok_and(|meta| is_own_file(&meta)))?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => std::fs::read_to_string(note).ok()?.parse().ok(),
        Err(TryLockError::Error(_)) => None,
        Ok(()) => {
            let _ = std::fs::remove_file(note);
            None
        }
    }
}

/// Removes tickets that nobody used.
fn remove_old(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ticket = entry.file_name().to_str().is_some_and(|name| name.starts_with(TICKET));
        if is_ticket && entry.metadata().is_ok_and(|meta| age(&meta) >= Some(GOOD_FOR)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Writes a file that only this user can read.
fn private(path: &Path, text: &str) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

fn is_own_file(meta: &std::fs::Metadata) -> bool {
    meta.is_file() && meta.uid() == geteuid().as_raw()
}

/// Returns how old a file is. `None`: it is of the future.
fn age(meta: &std::fs::Metadata) -> Option<Duration> {
    meta.modified().ok()?.elapsed().ok()
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hash, byte| {
        let _ = write!(hash, "{byte:02x}");
        hash
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tapline_testkit::TempFolder;

    use super::*;

    const ADDRESS: ([u8; 4], u16) = ([0, 0, 0, 0], 7770);

    fn ticket(link: &str) -> &str {
        link.strip_prefix("http://127.0.0.1:7770/open?ticket=").unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_ticket_is_good_once_and_for_ten_minutes() {
        let folder = TempFolder::new();
        let tickets = Tickets::open(&folder.join(""), ADDRESS.into()).unwrap();
        let fresh = || link(&folder.join(""), ADDRESS.into()).unwrap();
        let (one, two, three) = (fresh(), fresh(), fresh());
        assert!(names(&folder.join("")).iter().all(|name| !name.contains(ticket(&one))));
        assert!(!tickets.take("another") && !tickets.take("") && !tickets.take("../x"));
        assert!(tickets.take(ticket(&one)) && !tickets.take(ticket(&one)));
        let aged = |link: &str, at: SystemTime| {
            let path = folder.join(format!("{TICKET}{}", hash(ticket(link))));
            File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
        };
        aged(&two, SystemTime::now() - GOOD_FOR);
        assert!(!tickets.take(ticket(&two)), "it is old");
        aged(&three, SystemTime::now() + GOOD_FOR);
        assert!(!tickets.take(ticket(&three)), "it is of the future");
    }

    #[test]
    fn another_file_does_not_become_a_ticket_by_its_name() {
        let folder = TempFolder::new();
        let tickets = Tickets::open(&folder.join(""), ADDRESS.into()).unwrap();
        for text in ["", "x", &hash("other")] {
            std::fs::write(folder.join(format!("{TICKET}{}", hash("planted"))), text).unwrap();
            assert!(!tickets.take("planted"), "{text}");
        }
        std::fs::write(folder.join("target"), hash("planted")).unwrap();
        std::os::unix::fs::symlink(folder.join("target"), folder.join(format!("{TICKET}{}", hash("planted")))).unwrap();
        assert!(!tickets.take("planted"), "a link");
        std::fs::write(folder.join(format!("{TICKET}{}", hash("planted"))), hash("planted")).unwrap();
        assert!(tickets.take("planted"), "and this is how one looks");
    }

    #[test]
    fn only_a_server_that_runs_gets_a_link() {
        let home = TempFolder::new();
        let store = Store::at(home.join("home"));
        let folder = folder(&store);
        let links = || links_of_running_servers(&store).unwrap();
        assert!(links().is_empty(), "there is no folder");
        std::fs::create_dir_all(&folder).unwrap();
        // One that was killed, and one that nobody can read.
        std::fs::write(folder.join("running-killed"), "127.0.0.1:1").unwrap();
        std::fs::write(folder.join("ticket-old"), "").unwrap();
        let old = File::options().append(true).open(folder.join("ticket-old")).unwrap();
        old.set_modified(SystemTime::now() - GOOD_FOR).unwrap();
        let tickets = Tickets::open(&folder, ADDRESS.into()).unwrap();
        let (one, two) = (links(), links());
        assert_eq!((one.len(), two.len()), (1, 1));
        assert!(one != two && tickets.take(ticket(&two[0])) && tickets.take(ticket(&one[0])), "each is good");
        assert_eq!(names(&folder).len(), 1, "only its note is left: {:?}", names(&folder));
        drop(tickets);
        assert!(links().is_empty() && names(&folder).is_empty());
    }
}
