//! The current file that a tool would write, and where it is.

use std::path::Path;

use tapline_session::render::Current;

/// Larger files are not shown.
const LARGEST: u64 = 4 << 20;

/// The current state of a file.
pub(super) enum File {
    Absent,
    Text(String),
    NotShown,
}

impl File {
    pub(super) fn current(&self) -> Current<'_> {
        match self {
            Self::Absent => Current::Absent,
            Self::Text(text) => Current::Text(text),
            Self::NotShown => Current::NotShown,
        }
    }
}

pub(super) fn read(path: &Path) -> File {
    let small = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return File::Absent,
        // A pipe or a device has no end.
        meta => meta.is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST),
    };
    let text = small.then(|| std::fs::read_to_string(path).ok()).flatten();
    text.map_or(File::NotShown, File::Text)
}

/// Returns the path of a file with all links resolved, even if it does not exist yet.
pub(super) fn place(path: &Path) -> String {
    let there = path.canonicalize().or_else(|_| {
        let folder = path.parent().unwrap_or(Path::new("/")).canonicalize()?;
        Ok::<_, std::io::Error>(folder.join(path.file_name().unwrap_or_default()))
    });
    there.unwrap_or_else(|_| path.to_owned()).display().to_string()
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    #[test]
    fn a_file_is_absent_text_or_not_to_be_shown() {
        let folder = TempFolder::new();
        folder.write("text", "hello");
        folder.write("binary", b"\xff\x00");
        let made = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()));
        let current = |name: &str| match read(&folder.join(name)) {
            File::Absent => "absent".to_owned(),
            File::Text(text) => text,
            File::NotShown => "not shown".to_owned(),
        };
        let names = ["nothing", "text", "binary", "pipe", "."];
        assert_eq!(names.map(current), ["absent", "hello", "not shown", "not shown", "not shown"]);
    }
}
