//! A file that a command writes as a whole. A regular file is replaced only when everything is written, and keeps its
//! mode and owner. Links are followed. A device, a FIFO or a socket is written to. Nothing else is ever replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tapline_recording::recording_name;

use super::Visible;
use crate::exit;
use crate::signals::Signals;

/// An output that is being written. If it is dropped before [`OutputFile::keep`], a regular file stays unchanged.
pub(crate) struct OutputFile {
    /// The path as given, for messages.
    name: PathBuf,
    way: Way,
}

enum Way {
    /// The output is written directly.
    Into(Box<dyn Write + Send>),
    /// The output is written to another file, which then replaces the old one.
    Beside { part: Part, file: BufWriter<File>, path: PathBuf, there: Option<File> },
    /// The file cannot be replaced. It is overwritten once everything is known.
    Over { file: File, bytes: Vec<u8> },
}

impl OutputFile {
    /// Opens the file at this path, which need not exist. `-` is stdout.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::with_mode(path, 0o666)
    }

    /// The same, but only the owner can read a new file.
    pub(crate) fn private(path: &Path) -> Result<Self> {
        Self::with_mode(path, 0o600)
    }

    fn with_mode(path: &Path, mode: u32) -> Result<Self> {
        let way = Self::way(path, mode).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { name: path.to_owned(), way })
    }

    fn way(path: &Path, mode: u32) -> io::Result<Way> {
        let path = match resolve(path)? {
            Place::Descriptor(file) => return Ok(into(file)),
            Place::Path(path) => path,
        };
        let there = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (part, file) = Part::create(&path, mode)?;
                return Ok(Way::Beside { part, file: BufWriter::new(file), path, there: None });
            }
            there => there?,
        };
        if there.file_type().is_socket() {
            return Ok(Way::Into(Box::new(UnixStream::connect(&path)?)));
        }
        // Without permission to write the file, it must not be replaced either.
        let opening = there.file_type().is_fifo().then(|| tell_of_waiting(&path));
        let file = OpenOptions::new().write(true).open(&path)?;
        drop(opening);
        if !file.metadata()?.is_file() {
            return Ok(into(file));
        }
        // A file with several names keeps them all.
        let replaced = if there.nlink() == 1 { Part::like(&path, &there).ok() } else { None };
        Ok(match replaced {
            Some((part, beside)) => Way::Beside { part, file: BufWriter::new(beside), path, there: Some(file) },
            None => Way::Over { file, bytes: Vec::new() },
        })
    }

    /// Returns whether the path is a regular file or does not exist.
    pub(crate) fn is_regular(&self) -> bool {
        !matches!(self.way, Way::Into(_))
    }

    /// Finishes, and puts the output in its place.
    pub(crate) fn keep(self) -> Result<()> {
        Self::keep_all(vec![self])
    }

    /// Finishes several, and then puts all of them in their places: a signal ends this program before or afterwards.
    pub(crate) fn keep_all(mut files: Vec<Self>) -> Result<()> {
        for file in &mut files {
            file.way.complete().with_context(|| file.failure())?;
        }
        // Who removes partial files after a signal waits for this.
        let placing = parts();
        let placed = files.iter_mut().try_for_each(|file| file.way.place().with_context(|| file.failure()));
        drop(placing);
        placed
    }

    fn failure(&self) -> String {
        format!("cannot write {}", self.name.display())
    }

    /// Names the file, because whoever writes to it does not know it.
    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.failure()))
    }
}

impl Way {
    /// Writes everything, so that only the name of the file must change.
    fn complete(&mut self) -> io::Result<()> {
        match self {
            Self::Into(to) => to.flush(),
            Self::Beside { part, file, path, .. } => {
                file.flush()?;
                part.name(file.get_ref())?;
                // In the meantime, something else may have taken its place.
                if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
                    return Err(io::Error::other("it is no longer a regular file"));
                }
                Ok(())
            }
            Self::Over { .. } => Ok(()),
        }
    }

    fn place(&mut self) -> io::Result<()> {
        match self {
            Self::Into(_) => Ok(()),
            Self::Beside { part, path, there, .. } => match (fs::rename(&part.path, path), there.take()) {
                // A mount point cannot be replaced.
                (Err(_), Some(there)) => write_over(there, &mut File::open(&part.path)?),
                (renamed, _) => renamed,
            },
            Self::Over { file, bytes } => write_over(file.try_clone()?, &mut bytes.as_slice()),
        }
    }
}

fn write_over(mut file: File, from: &mut impl io::Read) -> io::Result<()> {
    let length = io::copy(from, &mut file)?;
    file.set_len(length)
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.way {
            Way::Into(to) => to.write(bytes),
            Way::Beside { file, .. } => file.write(bytes),
            Way::Over { bytes: kept, .. } => kept.write(bytes),
        };
        written.map_err(|error| self.named(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match &mut self.way {
            Way::Into(to) => to.flush(),
            Way::Beside { file, .. } => file.flush(),
            Way::Over { .. } => Ok(()),
        };
        flushed.map_err(|error| self.named(&error))
    }
}

/// Says after a moment that a FIFO waits for its reader, unless the returned value is dropped.
fn tell_of_waiting(path: &Path) -> mpsc::Sender<()> {
    let (opened, opening) = mpsc::channel();
    let text = format!("waiting for a reader of the FIFO {}", path.display());
    // Without the thread nothing is said. Nothing else depends on it.
    let _ = std::thread::Builder::new().name("tapline-fifo".to_owned()).spawn(move || {
        if opening.recv_timeout(MOMENT) == Err(mpsc::RecvTimeoutError::Timeout) {
            super::tell(&text);
        }
    });
    opened
}

const MOMENT: Duration = Duration::from_secs(1);

/// Returns a writer for something that is not a regular file. A terminal gets only visible text.
fn into(file: File) -> Way {
    let is_terminal = file.is_terminal();
    let file = BufWriter::with_capacity(64 << 10, file);
    Way::Into(if is_terminal { Box::new(Visible::new(file)) } else { Box::new(file) })
}

/// Where a path leads.
enum Place {
    /// To a file that this process has open.
    Descriptor(File),
    /// To this path, which is not a link.
    Path(PathBuf),
}

/// How many links are followed, as in the kernel.
const LINKS: usize = 40;

/// Follows links, even to a file that does not exist yet.
fn resolve(path: &Path) -> io::Result<Place> {
    if path == Path::new("-") {
        return Ok(Place::Descriptor(io::stdout().as_fd().try_clone_to_owned()?.into()));
    }
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(to) = fs::read_link(&path) else { return Ok(Place::Path(path)) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Ok(inside) = fs::canonicalize(folder)
            && inside.starts_with("/proc")
        {
            // The kernel's own links do not contain paths.
            return Ok(descriptor(&inside, &path).map_or(Place::Path(path), Place::Descriptor));
        }
        path = folder.join(to);
    }
    Err(io::Error::other("too many links"))
}

/// Returns the descriptor of this process behind `/dev/stdout`, `/dev/fd/3` and the like, at its current position.
fn descriptor(folder: &Path, path: &Path) -> Option<File> {
    if folder != Path::new(&format!("/proc/{}/fd", std::process::id())) {
        return None;
    }
    let number: i32 = path.file_name()?.to_str()?.parse().ok()?;
    let own = match number {
        1 => io::stdout().as_fd().try_clone_to_owned().ok()?,
        2 => io::stderr().as_fd().try_clone_to_owned().ok()?,
        _ => other(number)?,
    };
    Some(own.into())
}

#[cfg(target_os = "linux")]
fn other(number: i32) -> Option<std::os::fd::OwnedFd> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let own = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
    pidfd_getfd(own, number, PidfdGetfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn other(_: i32) -> Option<std::os::fd::OwnedFd> {
    None
}

/// A file beside another that it will replace. It is removed if it does not, even when a signal ends this program. If
/// the system has files without names, it gets one only when everything is written, so not even SIGKILL leaves a
/// partial file behind.
struct Part {
    path: PathBuf,
    is_named: bool,
}

impl Part {
    fn create(beside: &Path, mode: u32) -> io::Result<(Self, File)> {
        // It does not contain the other name, which may already have the greatest length.
        let path = beside.with_file_name(format!(".tapline-{}.part", recording_name()));
        if let Some(file) = unnamed(beside, mode) {
            return Ok((Self { path, is_named: false }, file));
        }
        let part = Self { path, is_named: true };
        let watched = part.watch();
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&part.path)?;
        drop(watched);
        Ok((part, file))
    }

    /// Has a signal remove it. As long as the returned value lives, nothing is removed yet: it may not be there.
    fn watch(&self) -> MutexGuard<'static, Vec<PathBuf>> {
        LazyLock::force(&SIGNALS);
        let mut parts = parts();
        parts.push(self.path.clone());
        parts
    }

    /// Gives it its name, if it has none.
    fn name(&self, file: &File) -> io::Result<()> {
        if self.is_named {
            return Ok(());
        }
        let _watched = self.watch();
        let own = own_link(file);
        Ok(rustix::fs::linkat(rustix::fs::CWD, own, rustix::fs::CWD, &self.path, rustix::fs::AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Creates one with the owner and mode of the file that it will replace.
    fn like(path: &Path, there: &fs::Metadata) -> io::Result<(Self, File)> {
        let (part, file) = Self::create(path, 0o600)?;
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (there.uid(), there.gid()) {
            fchown(&file, Some(there.uid()), Some(there.gid()))?;
        }
        file.set_permissions(fs::Permissions::from_mode(there.mode() & 0o7777))?;
        Ok((part, file))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // If it has replaced the file, there is nothing to remove.
        let _ = fs::remove_file(&self.path);
        parts().retain(|path| *path != self.path);
    }
}

/// Creates a file without a name on the same disk as this one, if the system can do that and name it later.
#[cfg(target_os = "linux")]
fn unnamed(beside: &Path, mode: u32) -> Option<File> {
    let folder = beside.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flag = rustix::fs::OFlags::TMPFILE.bits().cast_signed();
    let file = OpenOptions::new().write(true).custom_flags(flag).mode(mode).open(folder).ok()?;
    fs::symlink_metadata(own_link(&file)).is_ok().then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path, _: u32) -> Option<File> {
    None
}

/// Returns the kernel's own link to an open file.
fn own_link(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The partial files that are being written.
static PARTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn parts() -> MutexGuard<'static, Vec<PathBuf>> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes partial files when a signal ends this program. A command that listens for signals itself (it has a runtime)
/// ends by dropping them.
static SIGNALS: LazyLock<()> = LazyLock::new(|| {
    if tokio::runtime::Handle::try_current().is_ok() {
        return;
    }
    let (ready, listening) = mpsc::channel();
    let listen = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let signals = Signals::listen();
            let _ = ready.send(());
            if let Ok(mut signals) = signals {
                let number = signals.next().await;
                // Held until the end, so that no other one is made.
                let parts = parts();
                for part in &*parts {
                    let _ = fs::remove_file(part);
                }
                exit::die_of(number);
            }
        });
        io::Result::Ok(())
    };
    // Without the thread, a signal may leave a partial file behind. Nothing else depends on it.
    if std::thread::Builder::new().name("tapline-signals".to_owned()).spawn(listen).is_ok() {
        let _ = listening.recv();
    }
});
