//! Bytes with a hash behind them: neither a database nor a file system notices a value that changed on the disk.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::facts::hash_of_bytes;

/// Adds a hash of the bytes and of what belongs to them.
pub(crate) fn sealed(mut bytes: Vec<u8>, of: u64) -> Vec<u8> {
    let hash = hash_of_bytes(&bytes) ^ of;
    bytes.extend(hash.to_le_bytes());
    bytes
}

/// Removes the hash again. Returns `None` if it does not fit these bytes.
pub(crate) fn unsealed(bytes: &[u8], of: u64) -> Option<&[u8]> {
    let (bytes, hash) = bytes.split_last_chunk()?;
    (u64::from_le_bytes(*hash) == hash_of_bytes(bytes) ^ of).then_some(bytes)
}

/// Returns a hash of what the text index knows about a file.
pub(crate) fn seal(path: &[u8], numbers: [i64; 4], agent: &str, context: &[u8]) -> i64 {
    let mut row = path.to_vec();
    row.extend(numbers.into_iter().flat_map(i64::to_le_bytes));
    row.extend(agent.as_bytes());
    row.extend(context);
    hash_of_bytes(&row).cast_signed()
}

/// Reads a sealed file. Returns `None` if it is not there, or not what was written.
pub(crate) fn read(file: &Path, of: u64) -> Option<Vec<u8>> {
    let mut bytes = fs::read(file).ok()?;
    let len = unsealed(&bytes, of)?.len();
    bytes.truncate(len);
    Some(bytes)
}

/// Writes a sealed, private file, in place of an earlier one. It need not last: if two processes do so at once, or the
/// machine stops meanwhile, the hash tells that it is damaged.
pub(crate) fn write(file: &Path, bytes: Vec<u8>, of: u64) -> io::Result<()> {
    let new = file.with_extension("new");
    let written = fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new);
    let written = written.and_then(|mut file| file.write_all(&sealed(bytes, of))).and_then(|()| fs::rename(&new, file));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
