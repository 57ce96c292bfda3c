//! Holds what ran against what the rules had said: what they allowed runs nothing else; what they deny is not missed.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use tapline_session::permission::{PendingCall, Permissions, Ruling};

use super::commands::{Chance, command};
use super::sandbox::{Ran, run_each};

/// Rules that allow much: each `*` is a chance to do more than it says.
pub(crate) const ALLOW: &str = r#"
[[allow]]
tool = "Bash"
command = ["git *", "ls", "ls *", "cargo test", "./test.sh", "cd *", "echo *", "true"]

[[allow]]
tool = "Bash"
command = ["cat *", "test *", "[ *", "printf *", "timeout *", "env *", "xargs *", "find *", "bash *", "sh *", "nice *", "nohup *", "setsid *",
    "export *", "declare *", "read *", "command *", "eval *", "trap *", "exec *", "let *", "unset *", "stdbuf *", ": *", ":"]
"#;
pub(crate) const DENY: &str = "[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n[[allow]]\ntool = \"Bash\"\n";

/// How it went.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Commands that the rules were held against.
    pub(crate) made: usize,
    /// Of these, allowed ones, each counted once: all were run.
    pub(crate) allowed: usize,
    /// Others that were run.
    pub(crate) others: usize,
    /// Commands that ran `rm`, and of these, denied and asked ones.
    pub(crate) ran_rm: usize,
    pub(crate) denied: usize,
    pub(crate) asked: usize,
    /// Allowed, and did more than the rule says.
    pub(crate) more: Vec<String>,
    /// Ran `rm` where it is denied, and was not found.
    pub(crate) missed: Vec<String>,
    /// Denied, and did not run it: it may have been in a branch that was not taken.
    pub(crate) too_much: usize,
}

pub(crate) fn ruling(rules: &Permissions, command: &str) -> Ruling {
    let input = serde_json::json!({ "command": command });
    rules.decide(&PendingCall::of("Bash", Some(&input.into()), Some("/project"))).ruling
}

/// Makes commands from a seed on, runs all that are allowed and this many others, unless they were seen before.
pub(crate) fn hold(seed: u64, made: usize, others: usize, known: &mut HashSet<u64>) -> Tally {
    let (allow, deny): (Permissions, Permissions) = (ALLOW.parse().expect("rules"), DENY.parse().expect("rules"));
    let mut tally = Tally { made, ..Tally::default() };
    let mut chance = Chance::new(seed);
    let mut chosen = Vec::new();
    for _ in 0..made {
        let command = command(&mut chance);
        if command.contains('\0') {
            continue;
        }
        let allowed = ruling(&allow, &command) == Ruling::Allow;
        if !allowed && tally.others >= others {
            // Not run, but read all the same.
            ruling(&deny, &command);
        } else if known.insert(hash(&command)) {
            tally.allowed += usize::from(allowed);
            tally.others += usize::from(!allowed);
            chosen.push((command, allowed));
        }
    }
    let mut commands = chosen.iter();
    let texts: Vec<_> = chosen.iter().map(|(command, _)| command.as_str()).collect();
    run_each(&texts, |ran| {
        let Some((command, allowed)) = commands.next() else { return };
        if *allowed && !ran.iter().all(|ran| is_allowed(ran) || is_given_to_bash(ran, command)) {
            tally.more.push(format!("{command:?} ran {ran:?}"));
        }
        let rm = ran.iter().any(|ran| ran.words.first().is_some_and(|name| name.rsplit('/').next() == Some("rm")));
        let ruling = ruling(&deny, command);
        tally.ran_rm += usize::from(rm);
        match (rm, ruling) {
            (true, Ruling::Deny) => tally.denied += 1,
            (true, Ruling::Ask) => tally.asked += 1,
            (true, Ruling::Allow) => tally.missed.push(format!("{command:?}")),
            (false, Ruling::Deny) => tally.too_much += 1,
            (false, _) => {}
        }
    });
    tally
}

fn hash(command: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    command.hash(&mut hasher);
    hasher.finish()
}

/// What the rules above say, in words of their own.
fn is_allowed(ran: &Ran) -> bool {
    let words: Vec<_> = ran.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["./test.sh"] => ran.folder == "/project",
        ["/bin/git" | "/usr/bin/git" | "/bin/ls" | "/usr/bin/ls", ..] | ["/bin/cargo" | "/usr/bin/cargo", "test"] => true,
        _ => false,
    }
}

/// `bash *` allows `bash sub/test.sh`: a file, with a slash, of the folder where the agent was started.
fn is_given_to_bash(ran: &Ran, command: &str) -> bool {
    let split = command.split(|c: char| c.is_whitespace() || matches!(c, '|' | ';')).filter(|word| !word.is_empty());
    let words: Vec<_> = split.map(|word| word.replace(['\'', '"', '\\'], "")).collect();
    let file = ran.words.first().filter(|name| name.contains('/') && ran.folder == "/project");
    let at = file.and_then(|file| words.iter().position(|word| word == file));
    // Options, those that take a file with it, and redirections may stand between them.
    let is_redirection = |word: &str| word.contains(['<', '>']);
    let is_of_an_option = |at: usize| {
        let before = words[..at].iter().rev().find(|word| !is_redirection(word));
        before.is_some_and(|word| matches!(&**word, "--init-file" | "--rcfile" | "-init-file" | "-rcfile"))
    };
    let is_word = |at: &usize| !words[*at].starts_with('-') && !is_redirection(&words[*at]) && !is_of_an_option(*at);
    let before = at.filter(|at| !is_of_an_option(*at)).and_then(|at| (0..at).rev().find(is_word));
    before.is_some_and(|at| matches!(&*words[at], "bash" | "sh"))
}

#[test]
fn a_file_that_is_given_to_bash_is_told_from_what_bash_finds_by_itself() {
    let ran = |folder: &str| Ran { folder: folder.into(), words: vec!["sub/test.sh".into(), "x".into()] };
    for command in [
        "bash sub/test.sh x",
        "sh -e 'sub/test.sh' x",
        "bash --rcfile f sub/test.sh x",
        "bash --rcfile 2>&1 PATH=/bin sub/test.sh x",
    ] {
        assert!(is_given_to_bash(&ran("/project"), command), "{command}");
        assert!(!is_given_to_bash(&ran("/project/sub"), command), "{command}");
    }
    for command in ["bash x sub/test.sh x", "env sub/test.sh x", "bash --rcfile sub/test.sh x"] {
        assert!(!is_given_to_bash(&ran("/project"), command), "{command}");
    }
}
