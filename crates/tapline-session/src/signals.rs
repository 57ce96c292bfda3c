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

/// Says how a command ended whose shell reports this exit code, if a signal ended it: `killed, SIGKILL`. Other codes above 128
/// are left out: programs have meanings of their own for them, such as git for 129.
pub(crate) fn ended_by(code: i32) -> Option<String> {
    let name = signal_name(code.checked_sub(128)?);
    let how = match name.as_str() {
        "SIGINT" => "interrupted",
        "SIGILL" | "SIGBUS" | "SIGFPE" | "SIGSEGV" => "crashed",
        "SIGABRT" => "aborted",
        "SIGKILL" => "killed",
        "SIGTERM" => "terminated",
        _ => return None,
    };
    Some(format!("{how}, {name}"))
}

/// Parses a signal as people write it: `TERM`, `SIGTERM`, `sigterm` or `15`. Returns its name.
pub fn parse_signal(text: &str) -> Option<&'static str> {
    let upper = text.to_uppercase();
    let named = |name: &str| name == upper || name.strip_prefix("SIG") == Some(upper.as_str());
    all().find(|(number, name)| named(name) || number.to_string() == text).map(|(_, name)| *name)
}
