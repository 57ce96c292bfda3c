//! Folders full of files: listed, copied and looked at.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Returns all files below a folder, sorted. A folder that is not there has none.
pub fn files_below(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Copies a folder with everything in it.
pub fn copy_folder(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    fs::create_dir_all(&to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.as_ref().join(entry.unwrap().file_name()));
        if from.is_dir() { copy_folder(from, to) } else { fs::copy(from, to).map(drop).unwrap() }
    }
}

/// Appends to a file, or creates it.
pub fn append(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    fs::OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(bytes.as_ref()).unwrap();
}

/// Returns who may do what with a file: `0o600`.
pub fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempFolder;

    #[test]
    fn a_copy_has_the_same_files() {
        let folder = TempFolder::new();
        folder.write("from/a", "1");
        folder.write("from/b/c", "2");
        append(folder.join("from/b/c"), "3");
        copy_folder(folder.join("from"), folder.join("to"));
        assert_eq!(files_below(folder.join("to")), [folder.join("to/a"), folder.join("to/b/c")]);
        assert_eq!(fs::read(folder.join("to/b/c")).unwrap(), b"23");
        assert!(files_below(folder.join("none")).is_empty());
    }
}
