//! Which argument of `claude` is the prompt.

use crate::transcripts::positional;

/// Its options without a value, from 1.0.128 to 2.1.326.
const FLAGS: &[&str] = &[
    "-p",
    "--print",
    "-c",
    "--continue",
    "--allow-dangerously-skip-permissions",
    "--ax-screen-reader",
    "--bare",
    "--brief",
    "--chrome",
    "--dangerously-skip-permissions",
    "--disable-slash-commands",
    "--exclude-dynamic-system-prompt-sections",
    "--fork-session",
    "--forward-subagent-text",
    "--ide",
    "--include-hook-events",
    "--include-partial-messages",
    "--mcp-debug",
    "--no-chrome",
    "--no-session-persistence",
    "--replay-user-messages",
    "--restricted",
    "--safe-mode",
    "--strict-mcp-config",
    "--verbose",
];

/// Its options with any number of values.
const LISTS: &[&str] = &[
    "--add-dir",
    "--allowed-tools",
    "--allowedTools",
    "--betas",
    "--disallowed-tools",
    "--disallowedTools",
    "--file",
    "--mcp-config",
    "--tools",
];

/// The prompt of a run that prints.
pub(super) fn prompt_in(args: &[String]) -> Option<usize> {
    let prints = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "-p" || arg == "--print");
    positional(args, FLAGS, LISTS).into_iter().next().filter(|_| prints)
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
            &["-p", "fix it"][..],
            &["fix it", "--print"],
            &["-p", "--output-format", "stream-json", "--verbose", "fix it"],
            &["-p", "--model=opus", "fix it", "--allowedTools", "Bash", "Read"],
            &["-p", "--append-system-prompt", "- be brief", "fix it"],
            &["--debug", "-p", "fix it"],
            &["--add-dir", "a", "b", "--print", "--", "fix it"],
            &["-p", "--resume", "id", "fix it"],
        ] {
            assert_eq!(prompt(args).as_deref(), Some("fix it"), "{args:?}");
        }
        for args in
            [&["fix it"][..], &["-p"], &["-p", "--model", "opus"], &["-p", "--tools", "Bash", "Read"], &["--", "-p"], &[]]
        {
            assert_eq!(prompt(args), None, "{args:?}");
        }
    }
}
