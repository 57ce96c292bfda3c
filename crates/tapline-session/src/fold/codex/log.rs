//! What Codex was not allowed to do. Codex leaves rejected calls out of its stream (seen in 0.166.0); its log on stderr
//! has them.

use crate::fold::rejected::Rejected;

/// The rejected calls in Codex's log so far.
#[derive(Debug, Default)]
pub(super) struct Log {
    calls: Vec<Rejected>,
    /// How many of them steps have reported.
    in_steps: usize,
    /// Whether stderr was read during the run, so at the end it has nothing new.
    heard: bool,
}

impl Log {
    /// Takes whole lines of stderr. A flood of rejected calls is cut off.
    pub(super) fn hear(&mut self, stderr: &str) {
        self.heard = true;
        let room = LISTED - self.calls.len();
        self.calls.extend(stderr.lines().filter_map(of_line).take(room));
    }

    /// Returns the calls that no step has reported yet, and marks them as reported.
    pub(super) fn news(&mut self) -> &[Rejected] {
        let from = std::mem::replace(&mut self.in_steps, self.calls.len());
        &self.calls[from..]
    }

    /// Returns all calls, and how many of them steps have reported. If stderr was not read during the run, it is read
    /// now.
    pub(super) fn finish(mut self, stderr: Option<&str>) -> (Vec<Rejected>, usize) {
        if let Some(stderr) = stderr.filter(|_| !self.heard) {
            self.hear(stderr);
        }
        (self.calls, self.in_steps)
    }
}

const LISTED: usize = 1_000;

/// Reads a line such as `2026-11-16T02:10:23Z ERROR codex_core::tools::router: error=patch rejected: writing is blocked
/// by read-only sandbox; …`.
fn of_line(line: &str) -> Option<Rejected> {
    let (level, said) = line.split_once("codex_core::")?;
    if !level.contains("ERROR") {
        return None;
    }
    let of = |what, why: &str| Some(Rejected { what, why: why.trim().to_owned() });
    if let Some((_, why)) = said.split_once("patch rejected: ") {
        return of("a patch", why);
    }
    // A command that the rules of Codex forbid: `exec_command failed: CreateProcess { message: "Rejected(\"… rejected:
    // why\")" }`
    if let Some((_, quoted)) = said.split_once("Rejected(") {
        let why = quoted.trim_end_matches([' ', '}', '"', ')', '\\']).trim_start_matches(['\\', '"']);
        return of("a command", why);
    }
    let policy = said.find("approval policy is ").filter(|_| said.contains("reject command"));
    policy.or_else(|| said.find("rejected by user")).and_then(|at| of("a command", &said[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_codex_logs_of_a_rejected_call() {
        let log = "\
2026-11-16T02:10:23.5Z ERROR codex_core::tools::router: error=patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings
2026-11-16T02:10:25.9Z ERROR codex_core::tools::router: error=approval policy is Never; reject command — you cannot ask for escalated permissions
2026-11-16T02:10:53.4Z ERROR codex_core::tools::router: error=exec_command failed: CreateProcess { message: \"Rejected(\\\"`/bin/bash -lc 'rm -rf x'` rejected: rm -f style commands are not permitted\\\")\" }
2026-11-16T02:10:54.0Z ERROR codex_core::tools::router: error=unsupported call: no_such_tool
2026-11-16T02:10:54.0Z ERROR codex_core::tools::router: error=failed to parse function arguments: missing field `cmd`
2026-11-16T02:10:54.0Z  WARN codex_core::config: patch rejected: no
patch rejected: said by somebody else
";
        let told = Log::default().finish(Some(log)).0;
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "a patch: writing is blocked by read-only sandbox; rejected by user approval settings",
                "a command: approval policy is Never; reject command — you cannot ask for escalated permissions",
                "a command: `/bin/bash -lc 'rm -rf x'` rejected: rm -f style commands are not permitted",
            ]
        );
    }
}
