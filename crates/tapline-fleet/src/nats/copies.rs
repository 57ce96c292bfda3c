//! Copies of recordings in the recordings folder, written from their pieces. Bytes have offsets, so a piece that comes again changes nothing,
//! also if two processes write the same copy. A file in the folder says that it is a copy, and whether it is complete.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tapline_recording::{Store, create_private_folder};

use super::pieces::{Content, Piece, RecordingFile, SealedFile, Sum};
use crate::work::COLLECTED as MARK;

/// With more files than this, the whole file system is flushed at once.
const FEW: usize = 8;

/// What a copy is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    batch: String,
    /// `None`: more of it may come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<Seal>,
}

/// The end of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Seal {
    /// Which piece sealed it.
    piece: String,
    /// What is wrong with it. `None`: it is as the original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
}

/// What a recording is here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Collected {
    /// A copy that is as the original, byte by byte.
    Complete,
    /// The original itself: it was made here.
    Original,
    /// A copy that is not as the original, for this reason.
    Damaged(String),
    /// Not all of it came yet.
    Incomplete,
    /// It cannot be written here, for this reason: the disk is full, for example.
    Unwritten(String),
}

/// What became of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is written. Whether the folder is new.
    Grown { is_new: bool },
    /// Bytes before it are missing.
    Gap,
    /// The copy is sealed with it, once `sealed` was called.
    Sealed(Option<String>),
    /// All of it was known.
    Known(Collected),
    /// The folder is the copy of another batch's recording.
    Foreign,
}

/// What must reach the disk before a piece is acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    paths: BTreeSet<PathBuf>,
}

/// The copies in a recordings folder.
#[derive(Clone, Debug)]
pub(crate) struct Copies {
    folder: PathBuf,
}

impl Copies {
    pub(crate) fn of(store: &Store) -> io::Result<Self> {
        create_private_folder(&store.folder())?;
        Ok(Self { folder: store.folder() })
    }

    /// Returns what a recording is here. `None` if more of it may come.
    pub(crate) fn state(&self, recording: &str) -> io::Result<Option<Collected>> {
        let folder = self.folder.join(recording);
        Ok(match mark(&folder)? {
            Some(Mark { sealed: Some(seal), .. }) => Some(seal.damage.map_or(Collected::Complete, Collected::Damaged)),
            None if folder.exists() => Some(Collected::Original),
            Some(Mark { sealed: None, .. }) | None => None,
        })
    }

    /// Writes a piece of which all bytes are here: `objects` has those of parts that are objects, in order.
    pub(crate) fn take(
        &self,
        batch: &str,
        recording: &str,
        piece: &Piece,
        objects: &[bytes::Bytes],
        unflushed: &mut Unflushed,
    ) -> io::Result<Taken> {
        let folder = self.folder.join(recording);
        let is_new = !folder.exists();
        if is_new && !self.make(batch, &folder, recording)? {
            return self.take(batch, recording, piece, objects, unflushed);
        }
        let Some(known) = mark(&folder)? else { return Ok(Taken::Known(Collected::Original)) };
        if known.batch != batch {
            return Ok(Taken::Foreign);
        }
        if is_new {
            unflushed.paths.extend([self.folder.clone(), folder.clone(), folder.join(MARK)]);
        }
        if let (Some(seal), Some(files)) = (&known.sealed, &piece.sealed)
            && seal.piece == fingerprint(files)
        {
            return Ok(Taken::Known(seal.damage.clone().map_or(Collected::Complete, Collected::Damaged)));
        }
        // What has no seal cannot add to a copy that is complete. One that is damaged can be mended.
        if let (Some(Seal { damage: None, .. }), None) = (&known.sealed, &piece.sealed) {
            return Ok(Taken::Known(Collected::Complete));
        }
        let mut objects = objects.iter();
        for part in &piece.parts {
            let path = folder.join(part.file.name());
            let bytes = match &part.content {
                Content::Bytes(bytes) => bytes,
                Content::Object(_) => objects.next().ok_or(io::ErrorKind::InvalidInput)?,
            };
            if !part.file.grows() {
                replace(&path, bytes)?;
                unflushed.paths.insert(folder.clone());
            } else if !append(&path, part.offset, bytes)? {
                return Ok(Taken::Gap);
            }
            unflushed.paths.insert(path);
        }
        let Some(files) = &piece.sealed else { return Ok(Taken::Grown { is_new }) };
        for file in files.iter().filter(|file| file.length == 0 && file.file.grows()) {
            append(&folder.join(file.file.name()), 0, &[])?;
        }
        let lacks = |file: &&SealedFile| length(&folder.join(file.file.name())).is_none_or(|length| length < file.length);
        if files.iter().filter(|file| file.file.grows()).any(|file| lacks(&file)) {
            return Ok(Taken::Gap);
        }
        Ok(Taken::Sealed(compare(&folder, files)?))
    }

    /// Notes that a copy is sealed. What was written must be on the disk; the note is not yet.
    pub(crate) fn seal(
        &self,
        batch: &str,
        recording: &str,
        files: &[SealedFile],
        damage: Option<String>,
        unflushed: &mut Unflushed,
    ) -> io::Result<()> {
        let folder = self.folder.join(recording);
        for entry in std::fs::read_dir(&folder)?.flatten() {
            // Left by a process that was killed.
            if entry.file_name().to_string_lossy().ends_with(".part") {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        let mark = Mark { batch: batch.to_owned(), sealed: Some(Seal { piece: fingerprint(files), damage }) };
        replace(&folder.join(MARK), &serde_json::to_vec(&mark)?)?;
        unflushed.paths.extend([folder.join(MARK), folder]);
        Ok(())
    }

    /// Makes the folder of a copy. It gets its name when it says that it is a copy. `false`: it is there.
    fn make(&self, batch: &str, folder: &Path, recording: &str) -> io::Result<bool> {
        let part = self.folder.join(format!(".{recording}.collecting"));
        match DirBuilder::new().mode(0o700).create(&part) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        let mark = Mark { batch: batch.to_owned(), sealed: None };
        let made = replace(&part.join(MARK), &serde_json::to_vec(&mark)?).and_then(|()| std::fs::rename(&part, folder));
        match made {
            Ok(()) => Ok(true),
            // Another process was faster.
            Err(_) if folder.exists() => {
                let _ = std::fs::remove_dir_all(&part);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

impl Unflushed {
    /// Adds what others have written.
    pub(crate) fn and(&mut self, other: Self) {
        self.paths.extend(other.paths);
    }

    /// Puts everything on the disk.
    pub(crate) fn flush(self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if self.paths.len() > FEW
            && let Some(first) = self.paths.first()
        {
            return rustix::fs::syncfs(File::open(first)?).map_err(io::Error::from);
        }
        for path in self.paths {
            File::open(path)?.sync_all()?;
        }
        Ok(())
    }
}

/// Reads what a copy is. `None` if it is none.
fn mark(folder: &Path) -> io::Result<Option<Mark>> {
    match std::fs::read(folder.join(MARK)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What tells one seal from another.
fn fingerprint(files: &[SealedFile]) -> String {
    let (_, id) = Piece { parts: Vec::new(), sealed: Some(files.to_vec()) }.encode();
    id
}

fn length(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|about| about.len())
}

/// Writes bytes at this offset of a file that grows: those that it does not have. `false`: bytes before them are missing.
fn append(path: &Path, offset: u64, bytes: &[u8]) -> io::Result<bool> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let length = file.metadata()?.len();
    let Some(known) = length.checked_sub(offset) else { return Ok(false) };
    let known = usize::try_from(known).unwrap_or(usize::MAX).min(bytes.len());
    file.write_all_at(&bytes[known..], offset + known as u64)?;
    Ok(true)
}

/// Replaces a file. Readers see the old one or the new one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut tries = 0;
    loop {
        let part = path.with_extension(format!("{}-{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(bytes)?;
        tries += 1;
        match std::fs::rename(&part, path) {
            // Another process took it for one that is left of a process that was killed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < 5 => {}
            renamed => return renamed,
        }
    }
}

/// Compares a copy with what its original has. Returns what is wrong.
fn compare(folder: &Path, files: &[SealedFile]) -> io::Result<Option<String>> {
    for file in RecordingFile::ALL {
        let path = folder.join(file.name());
        let wrong = match (files.iter().find(|sealed| sealed.file == file), length(&path)) {
            (None, Some(_)) => "is not in the original".to_owned(),
            (Some(_), None) => "is missing".to_owned(),
            (Some(sealed), Some(length)) if sealed.length != length => {
                format!("has {length} bytes, and the original has {}", sealed.length)
            }
            (Some(sealed), Some(_)) if sum_of(&path)? != sealed.sum => "has other bytes than the original".to_owned(),
            (None, None) | (Some(_), Some(_)) => continue,
        };
        return Ok(Some(format!("{} {wrong}", file.name())));
    }
    Ok(None)
}

fn sum_of(path: &Path) -> io::Result<Sum> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; 256 << 10]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hash.finalize().into()),
            Ok(count) => hash.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
