//! Which argument of `codex` is the prompt.

use crate::transcripts::positional;

/// Its options without a value, as of 0.166.0.
const FLAGS: &[&str] = &[
    "--all",
    "--approve-for-me",
    "--dangerously-bypass-approvals-and-sandbox",
    "--dangerously-bypass-hook-trust",
    "--ephemeral",
    "--experimental-json",
    "--full-auto",
    "--ignore-rules",
    "--ignore-user-config",
    "--json",
    "--last",
    "--oss",
    "--search",
    "--skip-git-repo-check",
    "--strict-config",
    "--worktree",
    "--yolo",
];

/// The prompt of `codex exec`, `codex exec resume ID` and the like. `-` stands for its input.
pub(super) fn prompt_in(args: &[String]) -> Option<usize> {
    let found = positional(args, FLAGS, &["-i", "--image"]);
    let word = |at: &usize| args[*at].as_str();
    let (_, rest) = found.split_first().filter(|(first, _)| ["exec", "e"].contains(&word(first)))?;
    let before = match rest.first().map(word) {
        Some("resume" | "fork") if !args.iter().any(|arg| arg == "--last") => 2,
        Some("resume" | "fork" | "review") => 1,
        _ => 0,
    };
    rest.get(before).copied().filter(|at| word(at) != "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_is_what_is_no_option_and_no_value() {
        let prompt = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            prompt_in(&args).map(|at| args[at].clone())
        };
        for args in [
            &["exec", "fix it"][..],
            &["-c", "model=o3", "e", "--json", "-s", "read-only", "fix it"],
            &["exec", "fix it", "-i", "a.png", "b.png"],
            &["exec", "resume", "id", "fix it"],
            &["exec", "resume", "--last", "fix it"],
            &["exec", "review", "fix it"],
            &["exec", "-mo3", "--", "fix it"],
        ] {
            assert_eq!(prompt(args).as_deref(), Some("fix it"), "{args:?}");
        }
        for args in
            [&["fix it"][..], &["exec", "--json", "-"], &["exec", "-m", "o3"], &["exec", "resume", "id"], &["exec"], &[]]
        {
            assert_eq!(prompt(args), None, "{args:?}");
        }
    }
}
