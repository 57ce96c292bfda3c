//! Copies one file: compressed into a part beside the copy, read back, and then put in its place. An earlier copy stays
//! until then, and for good if the file no longer begins with what it holds.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::trailer::Trailer;
use super::{PART, aside, private_folder};
use crate::packed;

/// How much is read and hashed at once.
const BLOCK: usize = 128 << 10;
/// How well copies are compressed: zstd's own default.
const LEVEL: i32 = 3;

/// What was done.
#[derive(Debug)]
pub(super) enum Copied {
    Current,
    New(u64),
    Renewed(u64),
    Healed(u64),
}

/// Copies an open file to its place. `heals`: the copy that is there is damaged, and was made of the file as it is.
pub(super) fn copy(file: File, original: &Path, place: &Path, heals: bool) -> io::Result<Copied> {
    let meta = file.metadata()?;
    let mut reader: Box<dyn Read> =
        if packed::is_packed(original) { Box::new(zstd::Decoder::new(file)?) } else { Box::new(file) };
    let mut earlier = Earlier::open(place);
    let part = Part::create(place)?;
    let mut encoder = zstd::Encoder::new(BufWriter::with_capacity(BLOCK, part.file.try_clone()?), LEVEL)?;
    encoder.include_checksum(true)?;
    let read = blocks(&mut reader, |block| {
        earlier.compare(block);
        encoder.write_all(block)
    })?;
    let mut to = encoder.finish()?;
    let trailer = Trailer {
        original: std::path::absolute(original)?,
        len: read.len,
        hash: read.hash,
        original_len: meta.len(),
        // What is written from now on is noticed next time.
        original_mtime: meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()),
    };
    trailer.write(&mut to)?;
    to.flush()?;
    part.file.sync_data()?;
    let mut written = part.file.try_clone()?;
    written.seek(SeekFrom::Start(0))?;
    if blocks(&mut zstd::Decoder::new(written)?, |_| Ok(()))? != read {
        return Err(io::Error::other("the copy is not what was read: the disk or the memory is faulty"));
    }
    let is_new = !place.exists();
    if !is_new && !heals && !earlier.is_beginning() {
        fs::rename(place, aside(place))?;
    }
    part.put(place)?;
    let len = read.len;
    Ok(if is_new {
        Copied::New(len)
    } else if heals {
        Copied::Healed(len)
    } else {
        Copied::Renewed(len)
    })
}

/// Reads all of a copy. Fails if it is not what was copied.
pub(super) fn check(copy: &Path, trailer: &Trailer) -> io::Result<()> {
    let read = blocks(&mut zstd::Decoder::new(File::open(copy)?)?, |_| Ok(()))?;
    is_what_was_copied(read, trailer)
}

fn is_what_was_copied(read: Sum, trailer: &Trailer) -> io::Result<()> {
    if read == (Sum { len: trailer.len, hash: trailer.hash }) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it is not what was copied"))
}

/// Puts what was copied back in the place of its original, packed if that was. Fails if a file is there.
pub(super) fn restore(copy: &Path, trailer: &Trailer) -> io::Result<()> {
    let place = &trailer.original;
    if let Some(folder) = place.parent() {
        private_folder(folder)?;
    }
    let part = Part::create(place)?;
    let mut to = BufWriter::with_capacity(BLOCK, part.file.try_clone()?);
    let mut copy = zstd::Decoder::new(File::open(copy)?)?;
    let read = if packed::is_packed(place) {
        let mut encoder = zstd::Encoder::new(&mut to, LEVEL)?;
        let read = blocks(&mut copy, |block| encoder.write_all(block))?;
        encoder.finish()?;
        read
    } else {
        blocks(&mut copy, |block| to.write_all(block))?
    };
    is_what_was_copied(read, trailer)?;
    to.flush()?;
    part.file.sync_data()?;
    part.put_new(place)
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    len: u64,
    hash: u64,
}

/// Reads to the end, in blocks of one size, so that the hash is the same however the bytes arrive.
fn blocks(reader: &mut impl Read, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Sum> {
    let mut hasher = foldhash::quality::FixedState::with_seed(2).build_hasher();
    let mut block = Vec::with_capacity(BLOCK);
    let mut len = 0;
    loop {
        block.clear();
        reader.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
        if block.is_empty() {
            return Ok(Sum { len, hash: hasher.finish() });
        }
        hasher.write(&block);
        len += block.len() as u64;
        each(&block)?;
    }
}

/// The earlier copy, which is compared with what is copied now.
struct Earlier {
    copy: Option<zstd::Decoder<'static, io::BufReader<File>>>,
    buffer: Vec<u8>,
    same: bool,
}

impl Earlier {
    fn open(place: &Path) -> Self {
        let copy = File::open(place).and_then(zstd::Decoder::new).ok();
        Self { copy, buffer: Vec::new(), same: true }
    }

    /// Compares the next bytes, as far as the copy has any.
    fn compare(&mut self, block: &[u8]) {
        let Some(copy) = self.copy.as_mut().filter(|_| self.same) else { return };
        self.buffer.clear();
        let read = copy.by_ref().take(block.len() as u64).read_to_end(&mut self.buffer);
        // A damaged copy is not thrown away either.
        self.same = read.is_ok() && block.starts_with(&self.buffer);
    }

    /// Returns whether what was copied begins with all that the copy holds.
    fn is_beginning(&mut self) -> bool {
        let rest = |copy: &mut zstd::Decoder<'static, io::BufReader<File>>| copy.read(&mut [0]).is_ok_and(|bytes| bytes == 0);
        self.same && self.copy.as_mut().is_some_and(rest)
    }
}

/// A file that is being written, beside its place. It is removed if it does not get there. If the system has files
/// without names, it gets one only when everything is written, so not even SIGKILL leaves it behind.
struct Part {
    path: PathBuf,
    file: File,
    is_named: bool,
}

impl Part {
    fn create(place: &Path) -> io::Result<Self> {
        // It does not contain the other name, which may already have the greatest length.
        let path = place.with_file_name(format!(".tapline-{}{PART}", tapline_recording::recording_name()));
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        if let Some(file) = place.parent().and_then(|folder| unnamed(options.clone(), folder)) {
            return Ok(Self { path, file, is_named: false });
        }
        let file = options.create_new(true).open(&path)?;
        Ok(Self { path, file, is_named: true })
    }

    /// Puts it in its place.
    fn put(self, place: &Path) -> io::Result<()> {
        self.name()?;
        fs::rename(&self.path, place)
    }

    /// Puts it in its place, if nothing is there.
    fn put_new(self, place: &Path) -> io::Result<()> {
        self.name()?;
        fs::hard_link(&self.path, place)
    }

    fn name(&self) -> io::Result<()> {
        if !self.is_named {
            use rustix::fs::{AtFlags, CWD, linkat};
            linkat(CWD, own_link(&self.file), CWD, &self.path, AtFlags::SYMLINK_FOLLOW)?;
        }
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates a file without a name, if the system can do that and name it later.
#[cfg(target_os = "linux")]
fn unnamed(mut options: fs::OpenOptions, folder: &Path) -> Option<File> {
    let file = options.custom_flags(rustix::fs::OFlags::TMPFILE.bits().cast_signed()).open(folder).ok()?;
    fs::symlink_metadata(own_link(&file)).is_ok().then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: fs::OpenOptions, _: &Path) -> Option<File> {
    None
}

/// Returns the kernel's own link to an open file.
fn own_link(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
