//! Signals by name and number, as POSIX systems have them.

const NAMES: &[(i32, &str)] = &[
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (31, "SIGSYS"),
];

/// A signal's name: `SIGTERM`, or `signal 63` for one that has none.
pub fn signal_name(number: i32) -> String {
    let known = NAMES.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

/// A signal as people write it, by its name: `TERM`, `SIGTERM`, `sigterm` or `15`.
pub fn parse_signal(text: &str) -> Option<&'static str> {
    let upper = text.to_uppercase();
    let named = |name: &str| name == upper || name.strip_prefix("SIG") == Some(upper.as_str());
    NAMES.iter().find(|(number, name)| named(name) || number.to_string() == text).map(|(_, name)| *name)
}
