//! Reads a recording that grows, piece by piece: each byte once, and what all of it adds up to.

use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tapline_recording::Beneath;

use super::outbox::Offsets;
use super::pieces::{Content, LARGEST_OBJECT, ObjectPart, Part, Piece, RecordingFile, SealedFile, hex, sum};

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
    /// How many bytes travel in one message.
    most: usize,
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
    /// A recording of which this much was sent, in messages of at most so many bytes.
    pub(crate) fn from(folder: PathBuf, prefix: String, sent: Offsets, most: usize) -> Self {
        let mut tracks = RecordingFile::GROWING.map(|file| Track { file, read: 0, hash: Some(Sha256::new()) });
        for (track, sent) in tracks.iter_mut().zip(sent) {
            if sent > 0 {
                (track.read, track.hash) = (sent, None);
            }
        }
        Self { folder, prefix, begun: false, most, tracks }
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
        let grown = self.read(self.most)?;
        Ok(Some(grown).filter(|grown| !grown.piece.parts.is_empty()))
    }

    /// Returns what is left. Called until the piece is sealed.
    pub(crate) fn rest(&mut self) -> io::Result<Grown> {
        let end = whole(&self.folder, RecordingFile::End)?;
        let meta = whole(&self.folder, RecordingFile::Meta)?;
        let wholes = [(RecordingFile::Meta, meta), (RecordingFile::End, end)];
        let wholes: Vec<_> = wholes.into_iter().filter_map(|(file, bytes)| Some((file, bytes?))).collect();
        let inline: usize = wholes.iter().map(|(_, bytes)| bytes.len()).sum();
        let room = self.most.checked_sub(inline);
        let mut grown = self.read(room.unwrap_or(self.most))?;
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
                None if bytes.len() > self.most / 4 => {
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
            if track.read >= IN_MESSAGES && new > self.most as u64 {
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
        let file = Beneath::file_in(folder, self.file.name())?;
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
    match Beneath::file_in(folder, file.name()) {
        Ok(file) => file.take(LARGEST_OBJECT as u64 + 1).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::io::Write as _;

    use tapline_testkit::TempFolder;

    use super::super::pieces::MOST;
    use super::*;

    /// What somebody has who was given the pieces, in order.
    #[derive(Default)]
    struct Given {
        files: BTreeMap<&'static str, Vec<u8>>,
        sealed: bool,
    }

    impl Given {
        fn take(&mut self, grown: Grown) {
            let (payload, _) = grown.piece.encode();
            assert!(payload.len() <= 900 << 10, "{}", payload.len());
            for part in Piece::decode(&payload).unwrap().parts {
                let bytes = match part.content {
                    Content::Bytes(bytes) => bytes,
                    Content::Object(object) => {
                        let (name, bytes) = grown.object.clone().unwrap();
                        assert_eq!((name, bytes.len(), sum(&bytes)), (object.name, object.length, object.sum));
                        bytes
                    }
                };
                let file = self.files.entry(part.file.name()).or_default();
                if part.file.grows() {
                    assert_eq!(file.len() as u64, part.offset, "each byte once");
                } else {
                    file.clear();
                }
                file.extend_from_slice(&bytes);
            }
            for sealed in grown.piece.sealed.into_iter().flatten() {
                let file = &self.files[sealed.file.name()];
                assert_eq!((file.len() as u64, sum(file)), (sealed.length, sealed.sum), "{}", sealed.file.name());
                self.sealed = true;
            }
        }
    }

    /// The files of a recording.
    struct Folder(TempFolder);

    impl Folder {
        fn new(meta: usize) -> Self {
            let folder = Self(TempFolder::new());
            folder.add("meta.json", meta);
            for file in ["stdout", "stderr", "stdin", "times"] {
                folder.add(file, 0);
            }
            folder
        }

        fn add(&self, file: &str, count: usize) {
            let mut to = File::options().create(true).append(true).open(self.0.join(file)).unwrap();
            let from = to.metadata().unwrap().len();
            let byte = |n: u64| u8::try_from((n * n / 7) % 251).unwrap();
            to.write_all(&(from..from + count as u64).map(byte).collect::<Vec<u8>>()).unwrap();
        }

        fn growth(&self, sent: Offsets) -> Growth {
            Growth::from(self.0.to_owned(), "batch/recording".to_owned(), sent, MOST)
        }

        fn files(&self) -> BTreeMap<String, Vec<u8>> {
            let entries = std::fs::read_dir(&self.0).unwrap().map(Result::unwrap);
            entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
        }

        fn assert_given(&self, given: Given) {
            assert!(given.sealed);
            let files: BTreeMap<String, Vec<u8>> =
                given.files.into_iter().map(|(name, file)| (name.to_owned(), file)).collect();
            assert!(files == self.files());
        }
    }

    fn seal(growth: &mut Growth, given: &mut Given) -> usize {
        let mut pieces = 0;
        while !given.sealed {
            given.take(growth.rest().unwrap());
            pieces += 1;
        }
        pieces
    }

    #[test]
    fn pieces_add_up_to_the_files_and_a_short_recording_is_one() {
        let folder = Folder::new(300);
        folder.add("stdout", 5_000);
        folder.add("times", 40);
        folder.add("end.json", 200);
        let (mut growth, mut given) = (folder.growth(Offsets::default()), Given::default());
        assert_eq!(seal(&mut growth, &mut given), 1);
        folder.assert_given(given);
    }

    #[test]
    fn what_comes_while_it_grows_is_read_once_and_large_amounts_are_objects() {
        let folder = Folder::new(300);
        let (mut growth, mut given, mut objects) = (folder.growth(Offsets::default()), Given::default(), 0);
        for (file, count) in
            [("stdout", 10), ("stderr", 700_000), ("stdout", 9 << 20), ("times", 600_000), ("stdout", 10 << 20)]
        {
            folder.add(file, count);
            while let Some(grown) = growth.more().unwrap() {
                objects += usize::from(grown.object.is_some());
                given.take(grown);
            }
        }
        assert!(growth.more().unwrap().is_none() && objects == 3, "{objects}");
        folder.add("decisions", 10);
        folder.add("stdout", 100);
        assert_eq!(seal(&mut growth, &mut given), 1);
        folder.assert_given(given);
    }

    #[test]
    fn another_process_goes_on_where_the_first_was() {
        let folder = Folder::new(300);
        let (mut first, mut given) = (folder.growth(Offsets::default()), Given::default());
        folder.add("stdout", 1_200_000);
        given.take(first.more().unwrap().unwrap());
        let sent = first.offsets();
        // This one was read and never sent.
        first.more().unwrap().unwrap();
        folder.add("stderr", 50);
        let mut second = folder.growth(sent);
        seal(&mut second, &mut given);
        folder.assert_given(given);
        // What is said of a file that has less than that is not believed.
        let mut given = Given::default();
        seal(&mut folder.growth([u64::MAX, 0, 0, 0, 0]), &mut given);
        folder.assert_given(given);
    }

    #[test]
    fn a_large_description_of_a_run_travels_too() {
        let folder = Folder::new(700_000);
        folder.add("stdout", 600_000);
        folder.add("end.json", 200);
        let (mut growth, mut given) = (folder.growth(Offsets::default()), Given::default());
        given.take(growth.more().unwrap().unwrap());
        seal(&mut growth, &mut given);
        folder.assert_given(given);
    }

    #[test]
    fn a_link_that_leads_out_of_the_recording_is_not_sent() {
        for file in ["stdout", "meta.json"] {
            let folder = Folder::new(300);
            let secret = folder.0.join("../secret");
            std::fs::write(&secret, "secret").unwrap();
            std::fs::remove_file(folder.0.join(file)).unwrap();
            std::os::unix::fs::symlink(&secret, folder.0.join(file)).unwrap();
            let refused = folder.growth(Offsets::default()).rest().unwrap_err();
            std::fs::remove_file(&secret).unwrap();
            assert!(refused.to_string().contains("leads out of the folder"), "{file}: {refused}");
        }
    }

    #[test]
    fn a_recording_that_is_not_there_has_nothing() {
        let folder = Folder::new(1);
        let mut growth = Growth::from(folder.0.join("elsewhere"), String::new(), Offsets::default(), MOST);
        assert!(!growth.is_there() && growth.more().unwrap().is_none());
    }
}
