//! Signals by name and number. The numbers are those of the system that this program is built for.

/// Numbers that differ between systems, on Linux.
#[cfg(any(target_os = "linux", target_os = "android"))]
const DIFFERENT: [(i32, &str); 4] = [(7, "SIGBUS"), (10, "SIGUSR1"), (12, "SIGUSR2"), (31, "SIGSYS")];
/// Numbers that differ between systems, on macOS and the BSDs.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const DIFFERENT: [(i32, &str); 4] = [(10, "SIGBUS"), (12, "SIGSYS"), (30, "SIGUSR1"), (31, "SIGUSR2")];

const NAMES: &[(i32, &str)] = &[
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
];

fn all() -> impl Iterator<Item = &'static (i32, &'static str)> {
    NAMES.iter().chain(&DIFFERENT)
}

/// Returns a signal's name: `SIGTERM`, or `signal 63` for one without a name.
pub fn signal_name(number: i32) -> String {
    let known = all().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

/// Parses a signal as people write it: `TERM`, `SIGTERM`, `sigterm` or `15`. Returns its name.
pub fn parse_signal(text: &str) -> Option<&'static str> {
    let upper = text.to_uppercase();
    let named = |name: &str| name == upper || name.strip_prefix("SIG") == Some(upper.as_str());
    all().find(|(number, name)| named(name) || number.to_string() == text).map(|(_, name)| *name)
}
