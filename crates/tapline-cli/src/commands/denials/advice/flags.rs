//! The value of `--allowed-tools` for a call. The agent has its own way of reading these rules, so only what was tried
//! is suggested, and a command is never widened to its whole tool.

use tapline_session::permission::PendingCall;

/// Words that start or continue more than a plain command.
const RESERVED: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function", "time",
    "coproc", "in", // Behind these the agent asks all the same.
    "cd", "pushd", "popd",
];

/// Returns the agent's own rules that allow this call and, for a command, nothing else. `None` if there are none.
pub(super) fn rules(tool: &str, call: Option<&PendingCall>) -> Option<Vec<String>> {
    if !is_named(tool) {
        return None;
    }
    if !runs_commands(tool, call) {
        return Some(vec![tool.to_owned()]);
    }
    let parts = parts(call?.command.as_ref().filter(|_| tool == "Bash")?)?;
    Some(parts.iter().map(|part| format!("Bash({part})")).collect())
}

/// Returns whether this is read as the name of one tool, and not as several, a server's, or a rule.
fn is_named(tool: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_server = tool.strip_prefix("mcp__").is_some_and(|rest| !rest.contains("__"));
    !tool.is_empty() && tool.chars().all(plain) && !is_server
}

pub(super) fn runs_commands(tool: &str, call: Option<&PendingCall>) -> bool {
    matches!(tool, "Bash" | "Monitor" | "PowerShell") || call.is_some_and(|call| call.command.is_some() || call.lost_command)
}

/// Returns the commands of a list or pipe, if each consists only of plain words.
fn parts(command: &str) -> Option<Vec<String>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-./=@+%:".contains(c);
    let command = command.replace("&&", ";").replace("||", ";");
    let mut parts: Vec<String> = Vec::new();
    for part in command.split([';', '|']).map(str::trim) {
        let name = part.split(' ').next().filter(|name| !name.is_empty())?;
        if !part.chars().all(plain) || name.contains('=') || RESERVED.contains(&name) {
            return None;
        }
        if !parts.iter().any(|known| known == part) {
            parts.push(part.to_owned());
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_of(command: &str) -> Option<String> {
        let call = PendingCall { tool: "Bash".to_owned(), command: Some(command.to_owned()), ..PendingCall::default() };
        rules("Bash", Some(&call)).map(|rules| rules.join(","))
    }

    #[test]
    fn plain_commands_are_named_and_nothing_is_widened() {
        for (command, expected) in [
            ("git status", "Bash(git status)"),
            (" ls -l ", "Bash(ls -l)"),
            ("curl http://127.0.0.1:1/x", "Bash(curl http://127.0.0.1:1/x)"),
            ("ls | wc -l", "Bash(ls),Bash(wc -l)"),
            ("npm test && git push", "Bash(npm test),Bash(git push)"),
            ("ls; ls || make", "Bash(ls),Bash(make)"),
        ] {
            assert_eq!(rules_of(command).as_deref(), Some(expected), "{command}");
        }
        for command in [
            "",
            " ",
            ";",
            "ls;",
            "ls;;ls",
            "ls & rm x",
            "ls |& wc",
            "git commit -m 'x'",
            "rm *",
            "ls > f",
            "echo $X",
            "ls\nrm x",
            "a=1 make",
            "if true; then ls; fi",
            "time ls",
            "echo a,Bash",
            "ls)",
            "cd sub && ls",
            "ls\tx",
            "ls \\; rm",
        ] {
            assert_eq!(rules_of(command), None, "{command}");
        }
    }

    #[test]
    fn a_tool_is_named_only_where_its_name_is_read_as_one() {
        for tool in ["Write", "WebFetch", "mcp__srv__a-tool"] {
            assert_eq!(rules(tool, None), Some(vec![tool.to_owned()]));
        }
        for tool in ["", "x,Bash", "my tool", "a tool", "*", "Bash(ls)", "mcp__srv", "mcp__*", "Bash", "Monitor", "PowerShell"]
        {
            assert_eq!(rules(tool, None), None, "{tool}");
        }
        let call = PendingCall { tool: "mcp__srv__run".to_owned(), command: Some("ls".to_owned()), ..PendingCall::default() };
        assert_eq!(rules("mcp__srv__run", Some(&call)), None, "it would run any command");
    }
}
