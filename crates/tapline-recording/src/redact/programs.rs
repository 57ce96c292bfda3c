//! Programs that take a password behind a short flag: whether one stands before it. Each byte is looked at once, however many
//! such flags there are.

/// A program stands no further before its flag.
const FAR: usize = 512;
/// No name of one is longer.
const NAME: usize = 16;

/// Those that take `-u USER:PASSWORD`.
pub(super) const USERS: &[&str] = &["curl", "wget", "http"];
/// Those that take `-p PASSWORD`.
pub(super) const PASSWORDS: &[&str] = &["sshpass", "mysql", "mariadb", "docker login", "podman login", "registry login"];

/// The last of some programs that was seen.
#[derive(Debug)]
pub(super) struct Programs {
    names: &'static [&'static str],
    looked: usize,
    last: Option<usize>,
}

impl Programs {
    pub(super) fn new(names: &'static [&'static str]) -> Self {
        Self { names, looked: 0, last: None }
    }

    /// Where the last one before this place stands.
    pub(super) fn before(&mut self, text: &[u8], at: usize) -> Option<usize> {
        if let Some(new) = text.get(self.looked.saturating_sub(NAME).max(at.saturating_sub(FAR))..at) {
            let found = self.names.iter().filter_map(|name| memchr::memmem::rfind(new, name.as_bytes())).max();
            self.last = found.map(|found| at - new.len() + found).or(self.last);
            self.looked = at;
        }
        self.last.filter(|last| (*last..=last + FAR).contains(&at))
    }

    /// The same, in the same line.
    pub(super) fn before_in_line(&mut self, text: &[u8], at: usize) -> Option<usize> {
        self.before(text, at).filter(|last| memchr::memchr(b'\n', &text[*last..at]).is_none())
    }
}
