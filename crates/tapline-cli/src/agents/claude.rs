//! What the commands know about Claude Code.

use super::Habits;

pub(super) const HABITS: Habits = Habits {
    headless: "claude -p",
    key: "ANTHROPIC_API_KEY",
    streams: "`claude -p --output-format stream-json` (or json)",
    supported: "1.0",
    tested: ("1.0.128", "2.1.325"),
    listens: true,
    repeats: &["--replay-user-messages"],
    writes_partial: true,
    has_modes: true,
    behind,
    resume: |id| ["claude", "--resume", id].map(str::to_owned).into(),
    after: |_| None,
    advice: None,
};

/// Joins them as 1.0.128 and 2.1.325 do.
fn behind(prompt: &[u8], piped: &[u8]) -> Vec<u8> {
    if piped.is_empty() { prompt.to_vec() } else { [prompt, b"\n", piped].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_piped_stands_behind_the_prompt_as_claude_joins_them() {
        let joined = |piped: &str| String::from_utf8(behind(b"my prompt", piped.as_bytes())).unwrap_or_default();
        assert_eq!(joined("PIPED\nTEXT\n"), "my prompt\nPIPED\nTEXT\n");
        assert_eq!(joined("PIPED"), "my prompt\nPIPED");
        assert_eq!(joined("  \n"), "my prompt\n  \n");
        assert_eq!(joined(""), "my prompt");
    }
}
