//! A home of a test's own.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::Path;

use crate::TempFolder;

/// A user's home: nothing of the real user's is in it, and it is gone after its test. The folder `home` is `HOME`, and empty. The
/// folder `tapline` is `TAPLINE_HOME`, and made by tapline.
///
/// It can be used as a [`TempFolder`].
#[derive(Debug)]
pub struct Home(TempFolder);

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// Makes an empty home.
    pub fn new() -> Self {
        let folder = TempFolder::new();
        std::fs::create_dir(folder.join("home")).unwrap();
        Self(folder)
    }

    /// Returns the variables that lead a program here, in UTC.
    pub fn environment(&self) -> [(&'static str, OsString); 3] {
        [("HOME", self.path("home").into()), ("TAPLINE_HOME", self.path("tapline").into()), ("TZ", "UTC".into())]
    }
}

impl AsRef<Path> for Home {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Deref for Home {
    type Target = TempFolder;

    fn deref(&self) -> &TempFolder {
        &self.0
    }
}
