//! Folders that no link leads out of. Agents and other machines write into the folders that tapline reads, and a link there could make it
//! read, show and copy any file of its user. So the folder itself may be a link, and is resolved once. A link in it is followed only to what
//! lies in the same folder.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// A folder, and what lies beneath it.
#[derive(Clone, Debug)]
pub struct Beneath {
    root: PathBuf,
    resolved: PathBuf,
}

impl Beneath {
    /// Resolves a folder. What is beneath a file is that file.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { root: root.to_owned(), resolved: root.canonicalize()? })
    }

    /// Returns the folder, as it was named.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns where a path leads: the same folder, and then no link. Fails if it leads out of the folder.
    pub fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.real(path).map(|real| joined(&self.root, real.strip_prefix(&self.resolved).unwrap_or(&real)))
    }

    /// Opens a file or a folder, if it lies in the folder.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        // Most paths have no link: they are opened without asking where they lead.
        if let Ok(rest) = path.strip_prefix(&self.root)
            && let Some(opened) = without_links(&joined(&self.resolved, rest))
        {
            return opened;
        }
        let real = self.real(path)?;
        // Whatever it led to a moment ago, there must be no link now.
        without_links(&real).unwrap_or_else(|| Err(leads_out(path)))
    }

    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        let real = path.canonicalize()?;
        if real.starts_with(&self.resolved) { Ok(real) } else { Err(leads_out(&real)) }
    }

    /// Returns whether a folder has a file of this name, or a link to another file in it.
    pub fn has(folder: &Path, name: &str) -> bool {
        let path = folder.join(name);
        let linked = || Self::open(folder)?.resolve(&path)?.symlink_metadata();
        let about = path.symlink_metadata().and_then(|about| if about.is_symlink() { linked() } else { Ok(about) });
        about.is_ok_and(|about| about.is_file())
    }

    /// Opens a file of a folder by its name.
    pub fn file_in(folder: &Path, name: &str) -> io::Result<File> {
        Self::open(folder)?.file(&folder.join(name))
    }

    /// Reads a file in the folder.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(&self.root.join(name))?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The error about a link that leads out of its folder.
fn leads_out(to: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("a link leads out of the folder, to {}", to.display()))
}

/// Joins paths. With an empty one, [`Path::join`] would add a slash, and a file has none.
fn joined(root: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { root.to_owned() } else { root.join(rest) }
}

/// Opens what is at a path. `None` if there is a link on the way.
fn without_links(path: &Path) -> Option<io::Result<File>> {
    use rustix::fs::{Mode, OFlags, open};
    use rustix::io::Errno;
    // Nobody waits for a pipe that was put in place of a file.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let told = |opened| match opened {
        Err(Errno::LOOP) => None,
        Err(error) => Some(Err(io::Error::from(error))),
        Ok(file) => Some(Ok(File::from(file))),
    };
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, ResolveFlags, openat2};
        let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        // Old kernels and some sandboxes do not have this call.
        if !matches!(opened, Err(Errno::NOSYS | Errno::PERM)) {
            return told(opened);
        }
    }
    if path.canonicalize().is_ok_and(|real| real != path) {
        return None;
    }
    told(open(path, flags | OFlags::NOFOLLOW, Mode::empty()))
}
