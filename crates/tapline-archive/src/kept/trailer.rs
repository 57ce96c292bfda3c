//! What a copy says about its original, at its end. It is a frame that every reader of zstd skips, so a copy is also a
//! plain `.zst` file, and nothing else has to be kept in agreement with it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::places::Found;

/// The first bytes of a frame to skip.
const SKIPPED: u32 = 0x184D_2A5A;
/// The last bytes of a copy.
const MARK: &[u8; 8] = b"tapline1";
/// The numbers and the mark, behind the path.
const FIXED: usize = 5 * 8 + 8;

/// What a copy says about its original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) original: PathBuf,
    /// The length of what was copied, not compressed.
    pub(super) len: u64,
    /// A hash of what was copied.
    pub(super) hash: u64,
    /// The length of the original, which can be compressed itself.
    pub(super) original_len: u64,
    /// When the original was changed last, in nanoseconds since 1970.
    pub(super) original_mtime: i64,
}

impl Trailer {
    /// Reads the trailer of a copy.
    pub(super) fn read(copy: &Path) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it is not a whole copy");
        let mut file = File::open(copy)?;
        let end = file.metadata()?.len();
        let fixed_at = end.checked_sub(FIXED as u64).ok_or_else(wrong)?;
        file.seek(SeekFrom::Start(fixed_at))?;
        let mut fixed = [0; FIXED];
        file.read_exact(&mut fixed)?;
        let (numbers, mark) = fixed.split_at(FIXED - MARK.len());
        if mark != MARK {
            return Err(wrong());
        }
        let number = |at: usize| u64::from_le_bytes(numbers[at * 8..at * 8 + 8].try_into().unwrap_or_default());
        let path_len = number(0);
        let path_at = fixed_at.checked_sub(path_len).ok_or_else(wrong)?;
        file.seek(SeekFrom::Start(path_at))?;
        let mut path = Vec::new();
        file.take(path_len).read_to_end(&mut path)?;
        Ok(Self {
            original: OsString::from_vec(path).into(),
            len: number(1),
            hash: number(2),
            original_len: number(3),
            original_mtime: number(4).cast_signed(),
        })
    }

    /// Writes it to the end of a copy.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let path = self.original.as_os_str().as_bytes();
        let length = u32::try_from(path.len() + FIXED).map_err(io::Error::other)?;
        let mut frame = Vec::new();
        frame.extend_from_slice(&SKIPPED.to_le_bytes());
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(path);
        let numbers = [path.len() as u64, self.len, self.hash, self.original_len, self.original_mtime.cast_unsigned()];
        for number in numbers {
            frame.extend_from_slice(&number.to_le_bytes());
        }
        frame.extend_from_slice(MARK);
        to.write_all(&frame)
    }

    /// Returns whether a file is still what was copied.
    pub(super) fn is_of(&self, found: &Found) -> bool {
        let same = (self.original_len, self.original_mtime) == (found.len, found.mtime);
        same && self.original == std::path::absolute(&found.path).unwrap_or_else(|_| found.path.clone())
    }
}
