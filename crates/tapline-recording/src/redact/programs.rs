//! Programs that take a password behind a short flag. Common flags are looked for, and then whether such a program stands before
//! one, where each byte is looked at once; of programs with rarer names the flags are looked for behind the name.

use super::scan::Scan;

/// A program stands no further before its flag.
const FAR: usize = 512;
/// No name of one is longer.
const NAME: usize = 16;

/// Those that take `-u USER:PASSWORD`.
pub(super) const USERS: &[&str] = &["curl", "wget", "http"];
/// Those that take `-p PASSWORD`.
pub(super) const PASSWORDS: &[&str] = &["sshpass", "mysql", "mariadb", "docker login", "podman login", "registry login"];

/// What `--from-literal` belongs to: only a secret's values are secrets.
pub(super) const LITERALS: &[&str] = &["secret generic", "configmap", "create cm"];

/// A program that takes a password behind a flag which others use for something else.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) flags: &'static [&'static str],
}

/// Those that are looked for by their own names, because their flags are too common.
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "redis-cli", flags: &["-a", "--pass"] },
    Command { name: "valkey-cli", flags: &["-a", "--pass"] },
    Command { name: "openssl", flags: &["-k", "-K"] },
    Command { name: "ldapsearch", flags: &["-w"] },
    Command { name: "ldapmodify", flags: &["-w"] },
    Command { name: "ldapadd", flags: &["-w"] },
    Command { name: "sqlcmd", flags: &["-P"] },
    Command { name: "mosquitto_pub", flags: &["-P"] },
    Command { name: "mosquitto_sub", flags: &["-P"] },
];

/// A command's flags stand no further behind its name.
const REACH: usize = 256;

impl Scan<'_> {
    /// `redis-cli -h HOST -a PASSWORD`. Returns from where on more text could change that.
    pub(super) fn command(&mut self, command: &Command, end: usize) -> usize {
        let bytes = self.bytes;
        let (mut at, mut words, mut is_called) = (end, 0, false);
        // A sentence about a program has no flags near its name.
        while at < bytes.len().min(end + REACH) && (is_called || words < 2) {
            let blanks = bytes[at..].iter().take(REACH).take_while(|byte| matches!(byte, b' ' | b'\t' | b'\\')).count();
            // A line goes on behind a backslash.
            let goes_on = bytes[at..at + blanks].ends_with(b"\\") && bytes.get(at + blanks) == Some(&b'\n');
            at += blanks + usize::from(goes_on);
            let length = bytes[at..].iter().take(REACH).take_while(|byte| !byte.is_ascii_whitespace()).count();
            let word = &bytes[at..at + length];
            if blanks == 0 || word.is_empty() && !goes_on || word == command.name.as_bytes() {
                break;
            }
            at += length;
            words += usize::from(!goes_on);
            is_called |= word.starts_with(b"-");
            if command.flags.iter().any(|flag| flag.as_bytes() == word) {
                let value = at + self.blanks(at);
                self.flag_value(value);
            }
            if matches!(word, [b'|' | b';' | b'&', ..]) || word.ends_with(b";") {
                break;
            }
        }
        self.touched |= at >= bytes.len();
        end
    }

    /// `kubectl create secret generic db --from-literal=pw=PASSWORD`
    pub(super) fn literal(&mut self, start: usize, end: usize) -> usize {
        let is_secret = |place: usize| self.text[place..].starts_with("secret");
        if !self.literals.before(self.bytes, start).is_some_and(is_secret) {
            return end;
        }
        let from = end + self.bytes[end..].iter().take(4).take_while(|byte| matches!(byte, b' ' | b'=' | b'"' | b'\'')).count();
        let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let at = from + self.bytes[from..].iter().take(REACH).take_while(|byte| is_key(byte)).count();
        if self.byte(at) == Some(b'=') {
            match self.bytes[from - 1] {
                quote @ (b'"' | b'\'') => {
                    let to = self.closing(at + 1, quote, 0);
                    self.hide(at + 1..to);
                }
                _ => self.flag_value(at + 1),
            }
        }
        end
    }
}

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
