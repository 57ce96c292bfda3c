//! Files that zstd may have packed: old sessions of agents that do so, and kept copies. Their names end in `.zst`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tapline_recording::Beneath;

const ENDING: &str = "zst";

/// Returns whether a file is packed, by its name.
pub(crate) fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == ENDING)
}

/// Returns the name that a file has when it is not packed.
pub(crate) fn unpacked_name(path: &Path) -> PathBuf {
    if is_packed(path) { path.with_extension("") } else { path.to_owned() }
}

/// Returns a file beside a packed one, which is packed as well, or beside one that is not.
pub(crate) fn beside(path: &Path, name: &str) -> PathBuf {
    path.with_file_name(if is_packed(path) { format!("{name}.{ENDING}") } else { name.to_owned() })
}

/// Returns the folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> io::Result<Beneath> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Beneath::open(folder.unwrap_or(Path::new(".")))
}

/// Reads an open file, as it was before it was packed.
pub(crate) fn unpacked(file: File, path: &Path) -> io::Result<Box<dyn Read + Send>> {
    Ok(if is_packed(path) { Box::new(zstd::Decoder::new(file)?) } else { Box::new(file) })
}

/// Files that are not text, by their first bytes. Every line of them would be garbage.
pub(crate) fn not_text(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("compressed with zstd: give it as a file, or unpack it first (unzstd)"),
        [0x1f, 0x8b, 0x08, ..] => Some("compressed with gzip: unpack it first (gunzip)"),
        [0xff, 0xfe, _, 0, ..] | [0xfe, 0xff, 0, _, ..] => {
            Some("UTF-16, not UTF-8: convert it first (iconv -f UTF-16 -t UTF-8)")
        }
        _ => None,
    }
}
