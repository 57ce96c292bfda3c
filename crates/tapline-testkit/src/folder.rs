//! A temporary folder: private to its user, and gone after its test.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A folder of a test's own. It is removed when it is dropped, also if the test fails. If `TAPLINE_KEEP` is set, it stays, and its
/// path is printed.
///
/// It can be used as a [`Path`].
#[derive(Debug)]
pub struct TempFolder {
    path: PathBuf,
    _removed_on_drop: TempDir,
}

impl Default for TempFolder {
    fn default() -> Self {
        Self::new()
    }
}

impl TempFolder {
    /// Makes an empty folder.
    #[expect(clippy::print_stderr, reason = "a test prints to stderr")]
    pub fn new() -> Self {
        let keep = std::env::var_os("TAPLINE_KEEP").is_some_and(|keep| !keep.is_empty());
        let mut builder = tempfile::Builder::new();
        let private = fs::Permissions::from_mode(0o700);
        let folder = builder.prefix("tapline-test-").permissions(private).disable_cleanup(keep).tempdir().unwrap();
        // A link on the way would make one file two in what tests compare.
        let path = folder.path().canonicalize().unwrap();
        if keep {
            eprintln!("TAPLINE_KEEP: {} is kept", path.display());
        }
        Self { path, _removed_on_drop: folder }
    }

    /// Returns the path of `name` in the folder as text, for command lines and job files. As a path it is `folder.join(name)`.
    pub fn path(&self, name: &str) -> String {
        self.join(name).into_os_string().into_string().unwrap()
    }

    /// Writes a file, and makes the folders that it is in. Returns its path as text.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        self.write(name, contents);
        self.path(name)
    }

    /// Writes a file, and makes the folders that it is in.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        path
    }

    /// Writes a program for `/bin/sh`. Returns its path as text.
    pub fn script(&self, name: &str, script: &str) -> String {
        self.program(name, &format!("#!/bin/sh\n{script}\n"))
    }

    /// Writes a program, with its `#!` line. Returns its path as text.
    pub fn program(&self, name: &str, text: &str) -> String {
        let path = self.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Not written by this process: another thread could fork meanwhile, and nobody can start a file that somebody has open for
        // writing.
        let mut writer = Command::new("/bin/sh");
        writer.args(["-c", "rm -f \"$1\" && cat >\"$1\" && chmod 755 \"$1\"", "sh"]).arg(&path);
        let mut writer = writer.stdin(Stdio::piped()).spawn().unwrap();
        writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success(), "{}", path.display());
        self.path(name)
    }
}

impl Deref for TempFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<OsStr> for TempFolder {
    fn as_ref(&self) -> &OsStr {
        self.path.as_os_str()
    }
}

impl AsRef<Path> for TempFolder {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::mode;

    #[test]
    fn a_folder_is_private_and_gone_afterwards_also_if_the_test_fails() {
        // Whoever keeps folders looks at what another test left.
        if std::env::var_os("TAPLINE_KEEP").is_some() {
            return;
        }
        let folder = TempFolder::new();
        let (path, other) = (folder.to_owned(), TempFolder::new());
        assert_eq!(mode(&path), 0o700);
        assert_ne!(path, *other);
        folder.write("a/b", "text");
        let failed = std::thread::spawn(move || {
            let _folder = folder;
            panic!("as a test that fails");
        });
        assert!(failed.join().is_err());
        assert!(!path.exists());
    }

    #[test]
    fn a_program_can_be_started_at_once_whatever_other_threads_start() {
        let folder = TempFolder::new();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let folder = &folder;
                scope.spawn(move || {
                    for number in 0..10 {
                        let program = folder.program(&format!("bin/{thread}"), &format!("#!/bin/sh\necho {number}\n"));
                        assert_eq!(Command::new(program).output().unwrap().stdout, format!("{number}\n").into_bytes());
                    }
                });
            }
        });
    }
}
