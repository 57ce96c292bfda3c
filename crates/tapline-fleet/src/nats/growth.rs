//! Reads a recording that grows, piece by piece: each byte once, and what all of it adds up to.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::outbox::Offsets;
use super::pieces::{Content, LARGEST_OBJECT, MOST, ObjectPart, Part, Piece, RecordingFile, SealedFile, hex, sum};

/// How many bytes of a file travel in messages, whatever comes. What comes later goes through the object store, if it is much at once.
const IN_MESSAGES: u64 = 8 << 20;

/// A recording that grows.
#[derive(Debug)]
pub(crate) struct Growth {
    folder: PathBuf,
    /// The beginning of the names of objects.
    prefix: String,
    /// Whether the first piece was read: it has every file that is there.
    begun: bool,
    tracks: [Track; RecordingFile::GROWING.len()],
}

#[derive(Debug)]
struct Track {
    file: RecordingFile,
    read: u64,
    /// Of the bytes that were read. `None`: not known yet.
    hash: Option<Sha256>,
}

/// A piece, and the object that must be stored before it is sent.
#[derive(Debug)]
pub(crate) struct Grown {
    pub(crate) piece: Piece,
    pub(crate) object: Option<(String, Bytes)>,
}

impl Growth {
    /// A recording of which this much was sent.
    pub(crate) fn from(folder: PathBuf, prefix: String, sent: Offsets) -> Self {
        let mut tracks = RecordingFile::GROWING.map(|file| Track { file, read: 0, hash: Some(Sha256::new()) });
        for (track, sent) in tracks.iter_mut().zip(sent) {
            if sent > 0 {
                (track.read, track.hash) = (sent, None);
            }
        }
        Self { folder, prefix, begun: false, tracks }
    }

    /// Returns how much was read of each file.
    pub(crate) fn offsets(&self) -> Offsets {
        self.tracks.each_ref().map(|track| track.read)
    }

    /// Returns whether the recording has begun.
    pub(crate) fn is_there(&self) -> bool {
        self.folder.join(RecordingFile::Meta.name()).is_file()
    }

    /// Returns what is new. `None` if nothing is.
    pub(crate) fn more(&mut self) -> io::Result<Option<Grown>> {
        if !self.is_there() {
            return Ok(None);
        }
        let grown = self.read(MOST)?;
        Ok(Some(grown).filter(|grown| !grown.piece.parts.is_empty()))
    }

    /// Returns what is left. Called until the piece is sealed.
    pub(crate) fn rest(&mut self) -> io::Result<Grown> {
        let end = whole(&self.folder, RecordingFile::End)?;
        let meta = whole(&self.folder, RecordingFile::Meta)?;
        let wholes = [(RecordingFile::Meta, meta), (RecordingFile::End, end)];
        let wholes: Vec<_> = wholes.into_iter().filter_map(|(file, bytes)| Some((file, bytes?))).collect();
        let inline: usize = wholes.iter().map(|(_, bytes)| bytes.len()).sum();
        let room = MOST.checked_sub(inline);
        let mut grown = self.read(room.unwrap_or(MOST))?;
        let is_all =
            self.lengths()?.iter().zip(&self.tracks).all(|(length, track)| length.is_none_or(|length| length <= track.read));
        if !is_all || grown.object.is_some() {
            return Ok(grown);
        }
        let mut files: Vec<SealedFile> = Vec::new();
        for (track, length) in self.tracks.iter().zip(self.lengths()?) {
            if let (Some(_), Some(hash)) = (length, &track.hash) {
                files.push(SealedFile { file: track.file, length: track.read, sum: hash.clone().finalize().into() });
            }
        }
        grown.piece.parts.retain(|part| part.file.grows());
        for (file, bytes) in wholes {
            let bytes = Bytes::from(bytes);
            files.push(SealedFile { file, length: bytes.len() as u64, sum: sum(&bytes) });
            // Readers take a recording with an end for complete: it comes last.
            let at = if file == RecordingFile::Meta { 0 } else { grown.piece.parts.len() };
            let content = match room {
                // Both at once would need two objects. One of them is small.
                None if bytes.len() > MOST / 4 => {
                    let name = format!("{}/{}/{}", self.prefix, file.name(), hex(&sum(&bytes)));
                    let object = ObjectPart { name: name.clone(), length: bytes.len(), sum: sum(&bytes) };
                    if grown.object.is_some() || bytes.len() > LARGEST_OBJECT {
                        return Err(io::Error::other(format!("{} is too large to be sent", file.name())));
                    }
                    grown.object = Some((name, bytes));
                    Content::Object(object)
                }
                Some(_) | None => Content::Bytes(bytes),
            };
            grown.piece.parts.insert(at, Part { file, offset: 0, content });
        }
        grown.piece.sealed = Some(files);
        Ok(grown)
    }

    fn lengths(&self) -> io::Result<[Option<u64>; RecordingFile::GROWING.len()]> {
        let mut lengths = [None; RecordingFile::GROWING.len()];
        // What tells of the others is looked at first, so that it is not ahead of them.
        for (length, track) in lengths.iter_mut().zip(&self.tracks).rev() {
            *length = match std::fs::metadata(self.folder.join(track.file.name())) {
                Ok(about) => Some(about.len()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        Ok(lengths)
    }

    fn read(&mut self, room: usize) -> io::Result<Grown> {
        let lengths = self.lengths()?;
        let (mut parts, mut room) = (Vec::new(), room);
        let is_first = !self.begun;
        if is_first && let Some(meta) = whole(&self.folder, RecordingFile::Meta)?.filter(|meta| meta.len() <= room) {
            room -= meta.len();
            parts.push(Part { file: RecordingFile::Meta, offset: 0, content: Content::Bytes(meta.into()) });
        }
        self.begun = true;
        for (track, length) in self.tracks.iter_mut().zip(lengths) {
            let Some(length) = length else { continue };
            track.catch_up(&self.folder, length)?;
            let new = length.saturating_sub(track.read);
            if new == 0 && !(is_first && track.read == 0) {
                continue;
            }
            if track.read >= IN_MESSAGES && new > MOST as u64 {
                // Alone: what was read before it, if anything, goes first.
                if !parts.is_empty() {
                    break;
                }
                let offset = track.read;
                let bytes = track.read(&self.folder, new.min(LARGEST_OBJECT as u64))?;
                let name = format!("{}/{}/{offset}-{}", self.prefix, track.file.name(), bytes.len());
                let object = ObjectPart { name: name.clone(), length: bytes.len(), sum: sum(&bytes) };
                let part = Part { file: track.file, offset, content: Content::Object(object) };
                return Ok(Grown { piece: Piece { parts: vec![part], sealed: None }, object: Some((name, bytes)) });
            }
            let offset = track.read;
            let bytes = track.read(&self.folder, new.min(room as u64))?;
            room -= bytes.len();
            if !bytes.is_empty() || is_first {
                parts.push(Part { file: track.file, offset, content: Content::Bytes(bytes) });
            }
        }
        Ok(Grown { piece: Piece { parts, sealed: None }, object: None })
    }
}

impl Track {
    /// Reads what was sent before by another process, to know what it adds up to.
    fn catch_up(&mut self, folder: &Path, length: u64) -> io::Result<()> {
        if self.hash.is_some() {
            return Ok(());
        }
        let sent = std::mem::take(&mut self.read);
        self.hash = Some(Sha256::new());
        // A file that has less than was sent is sent again.
        while length >= sent && self.read < sent {
            self.read(folder, (sent - self.read).min(1 << 20))?;
        }
        Ok(())
    }

    /// Reads so many bytes, or fewer at the end.
    fn read(&mut self, folder: &Path, count: u64) -> io::Result<Bytes> {
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(usize::MAX)];
        let file = File::open(folder.join(self.file.name()))?;
        let mut at = 0;
        while at < bytes.len() {
            match file.read_at(&mut bytes[at..], self.read + at as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => at += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.read += bytes.len() as u64;
        self.hash.get_or_insert_default().update(&bytes);
        Ok(bytes.into())
    }
}

/// Reads a file that travels whole. `None` if it is not there.
fn whole(folder: &Path, file: RecordingFile) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match File::open(folder.join(file.name())) {
        Ok(file) => file.take(LARGEST_OBJECT as u64 + 1).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(bytes))
}
