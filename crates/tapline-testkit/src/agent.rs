//! Programs that stand in for a coding agent. Two are files in `agents/`; the others are made of what they say:
//! `folder.script("agent", &agent::says(lines))`.

use std::path::Path;

fn program(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("agents").join(name);
    path.into_os_string().into_string().unwrap()
}

/// Returns the path of an agent that misbehaves on demand: the variable `FAKE` says how.
pub fn misbehaving() -> String {
    program("misbehaving")
}

/// Returns the path of an agent that does what the last line of its prompt says, and notes in the folder `TRACES` what it wrote.
pub fn by_prompt() -> String {
    program("by-prompt")
}

/// Returns the script of an agent that reads its prompt, and then writes these lines.
pub fn says(lines: &str) -> String {
    format!("cat >/dev/null\n{}", writes(lines))
}

/// Returns the script of an agent that reads its prompt, and then writes a file as it is.
pub fn shows(file: impl AsRef<Path>) -> String {
    format!("cat >/dev/null\ncat '{}'\n", file.as_ref().display())
}

/// Returns the script of an agent that can be talked with: it answers the first request, reads a message, writes these lines, and
/// stays until its input ends.
pub fn answers(lines: &str) -> String {
    format!("{GREETS}{}cat >/dev/null\n", writes(lines))
}

/// The beginning of a script: answers the first request of its host, and reads a message.
pub const GREETS: &str = r#"read -r line; id=${line#*'"request_id":"'}; id=${id%%'"'*}
printf '%s\n' '{"type":"control_response","response":{"subtype":"success","request_id":"'"$id"'","response":{}}}'
read -r prompt
"#;

/// A part of a script that writes these lines.
fn writes(lines: &str) -> String {
    assert!(!lines.contains(END), "{lines}");
    format!("cat <<'{END}'\n{}\n{END}\n", lines.trim_end_matches('\n'))
}

/// No agent says this.
const END: &str = "END-OF-WHAT-THE-AGENT-SAYS";

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::TempFolder;

    fn heard(program: &str, prompt: &str) -> String {
        let mut agent = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        agent.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
        String::from_utf8(agent.wait_with_output().unwrap().stdout).unwrap()
    }

    #[test]
    fn an_agent_says_what_it_was_made_of() {
        let folder = TempFolder::new();
        let lines = "{\"a\":\"$HOME `x` 'y' \\n\"}\n{\"b\":1}\n";
        let said = folder.script("says", &says(lines));
        assert_eq!(heard(&said, "go"), lines);
        let shown = folder.script("shows", &shows(folder.write("with blank", "no line end")));
        assert_eq!(heard(&shown, "go"), "no line end");
        let answered = folder.script("answers", &answers(lines));
        let heard = heard(&answered, "{\"request_id\":\"r-1\"}\ngo\n");
        let (greeting, rest) = heard.split_once('\n').unwrap();
        assert!(greeting.contains("\"request_id\":\"r-1\"") && rest == lines, "{heard}");
    }

    #[test]
    fn the_agents_in_files_can_be_started() {
        for program in [misbehaving(), by_prompt()] {
            let output = Command::new(program).arg("--help").output().unwrap();
            assert!(output.status.success() && output.stdout.starts_with(b"Usage: "), "{output:?}");
        }
    }
}
