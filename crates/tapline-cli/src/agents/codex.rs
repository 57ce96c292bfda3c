//! What the commands know about Codex.

use std::ffi::OsString;

use super::Habits;

pub(super) const HABITS: Habits = Habits {
    headless: "codex exec",
    key: "CODEX_API_KEY",
    streams: "`codex exec --json`",
    supported: "0.44",
    tested: ("0.166.0", "0.166.0"),
    listens: false,
    repeats: &[],
    writes_partial: false,
    has_modes: false,
    behind,
    resume: |id| ["codex", "resume", id].map(str::to_owned).into(),
    after,
    advice: Some(advice),
};

/// As 0.166.0 says it.
fn after(error: &str) -> Option<&'static str> {
    let outside = error.contains("Not inside a trusted directory");
    outside.then_some("Codex works only inside a git repository, unless you add: -- --skip-git-repo-check")
}

/// Joins them as 0.166.0 does.
fn behind(prompt: &[u8], piped: &[u8]) -> Vec<u8> {
    let gap: &[u8] = if piped.ends_with(b"\n") { b"" } else { b"\n" };
    let blank = piped.trim_ascii().is_empty();
    if blank { prompt.to_vec() } else { [prompt, b"\n\n<stdin>\n", piped, gap, b"</stdin>"].concat() }
}

/// Returns which flag would allow more. Codex's sandbox decides what it may do (tried with 0.166.0).
fn advice(reasons: &[&str], extra: &[OsString]) -> String {
    let given: Vec<_> = extra.iter().map(|arg| arg.to_string_lossy()).collect();
    let may_write = given.iter().any(|arg| ["workspace-write", "danger-full-access"].iter().any(|mode| arg.contains(mode)));
    let says = |text: &str| reasons.iter().any(|reason| reason.contains(text));
    let mut parts = Vec::new();
    if says("outside of the project") {
        let sandbox = if may_write { "" } else { " with -- -s workspace-write" };
        parts.push(format!("to let Codex write in another folder: --add-dir DIR{sandbox}"));
    }
    if says("rejected: ") {
        parts.push("no flag allows a command that Codex's own rules forbid: name another way in the prompt".to_owned());
    }
    let asked = says("approval policy is");
    if asked {
        parts.push("`codex exec` has nobody to ask for more than its sandbox allows".to_owned());
    }
    if !may_write && (parts.is_empty() || asked || says("read-only")) {
        parts.push("to let Codex change files in its folder: -- -s workspace-write".to_owned());
    } else if parts.is_empty() || asked {
        parts.push("to let Codex work without a sandbox (in a container of its own): -- -s danger-full-access".to_owned());
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_piped_stands_behind_the_prompt_as_codex_joins_them() {
        let joined = |piped: &str| String::from_utf8(behind(b"my prompt", piped.as_bytes())).unwrap_or_default();
        assert_eq!(joined("PIPED\nTEXT\n"), "my prompt\n\n<stdin>\nPIPED\nTEXT\n</stdin>");
        assert_eq!(joined("PIPED"), "my prompt\n\n<stdin>\nPIPED\n</stdin>");
        assert_eq!(joined("  \n"), "my prompt");
        assert_eq!(joined(""), "my prompt");
    }

    #[test]
    fn a_flag_that_is_given_is_not_advised() {
        let told = |reason: &str, extra: &[&str]| advice(&[reason], &extra.iter().map(OsString::from).collect::<Vec<_>>());
        let read_only = "a patch: writing is blocked by read-only sandbox; rejected by user approval settings";
        assert_eq!(told(read_only, &[]), "to let Codex change files in its folder: -- -s workspace-write");
        let outside = "a patch: writing outside of the project; rejected by user approval settings";
        assert_eq!(told(outside, &["-s", "workspace-write"]), "to let Codex write in another folder: --add-dir DIR");
        let escalated = "a command: approval policy is Never; reject command";
        assert!(told(escalated, &["--sandbox=workspace-write"]).ends_with("-- -s danger-full-access"));
        let forbidden = "a command: `rm -rf x` rejected: rm -f style commands are not permitted";
        assert!(told(forbidden, &[]).starts_with("no flag allows"), "{}", told(forbidden, &[]));
        assert!(!told(forbidden, &[]).contains("-- -s"));
        assert!(told("command_execution", &[]).contains("-- -s workspace-write"), "declined");
    }
}
