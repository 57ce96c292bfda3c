//! Programs that take a password after a short flag. Common flags are searched for first, and then such a program
//! before them, reading each byte once. For programs with rarer names, the flags are searched for after the name.

/// How far before its flag a program may be.
const FAR: usize = 512;
/// The longest name of a program.
const NAME: usize = 16;

/// Programs that take `-u USER:PASSWORD`.
pub(super) const USERS: &[&str] = &["curl", "wget", "http"];
/// Programs that take `-p PASSWORD`.
pub(super) const PASSWORDS: &[&str] = &["sshpass", "mysql", "mariadb", "docker login", "podman login", "registry login"];

/// The subcommands that take `--from-literal`. Only the values of a secret are secrets.
pub(super) const LITERALS: &[&str] = &["secret generic", "configmap", "create cm"];

/// A program that takes a password after a flag that other programs use for something else.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) flags: &'static [&'static str],
}

/// Programs that are searched for by name, because their flags are too common.
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

/// The last of these programs that was seen.
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

    /// Returns the position of the last program before this position.
    pub(super) fn before(&mut self, text: &[u8], at: usize) -> Option<usize> {
        if let Some(new) = text.get(self.looked.saturating_sub(NAME).max(at.saturating_sub(FAR))..at) {
            let found = self.names.iter().filter_map(|name| memchr::memmem::rfind(new, name.as_bytes())).max();
            self.last = found.map(|found| at - new.len() + found).or(self.last);
            self.looked = at;
        }
        self.last.filter(|last| (*last..=last + FAR).contains(&at))
    }

    /// Returns the position of the last program before this position on the same line.
    pub(super) fn before_in_line(&mut self, text: &[u8], at: usize) -> Option<usize> {
        self.before(text, at).filter(|last| memchr::memchr(b'\n', &text[*last..at]).is_none())
    }
}
