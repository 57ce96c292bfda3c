//! Ways to say `rm`: a rule that denies it finds them, whatever they are wrapped in. `fixtures/cases/rm.jsonl` lists them; what is
//! missed is marked there, with the reason.

use serde_json::Value;
use tapline_session::permission::{PendingCall, Permissions, Ruling};
use tapline_testkit::{fixture, root};

/// Kind, command, whether the sandbox can run it, why it is missed.
pub(crate) struct Way {
    pub(crate) kind: String,
    pub(crate) command: String,
    pub(crate) sandbox: bool,
    pub(crate) missed: Option<String>,
}

/// The ways of both lists.
pub(crate) fn ways() -> Vec<Way> {
    ["cases/rm.jsonl", "cases/ways.jsonl"].into_iter().flat_map(ways_of).collect()
}

fn ways_of(file: &str) -> Vec<Way> {
    let text = std::fs::read_to_string(fixture(file)).unwrap();
    let way = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        Way {
            kind: text("kind").unwrap(),
            command: text("command").unwrap(),
            sandbox: value["sandbox"] != Value::Bool(false),
            missed: text("missed"),
        }
    };
    text.lines().map(way).collect()
}

pub(crate) fn ruling(rules: &Permissions, command: &str) -> Ruling {
    let input = serde_json::json!({ "command": command });
    rules.decide(&PendingCall::of("Bash", Some(&input.into()), Some("/home/dev/project"))).ruling
}

#[test]
fn a_denied_command_is_found_in_every_way_to_say_it() {
    let rules: Permissions = "[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n[[allow]]\ntool = \"Bash\"\n".parse().unwrap();
    let ways = ways();
    let mut wrong = Vec::new();
    for way in &ways {
        let ruling = ruling(&rules, &way.command);
        let expected = match way.missed.as_deref() {
            None => Ruling::Deny,
            Some(why) if why.starts_with("asked") => Ruling::Ask,
            Some(_) => Ruling::Allow,
        };
        if ruling != expected {
            wrong.push(format!("{}: {:?}: {ruling:?}", way.kind, way.command));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ways.len(), wrong.join("\n"));
    let missed = ways.iter().filter(|way| way.missed.is_some()).count();
    assert!(ways.len() >= 1400 && missed * 100 <= ways.len() * 3, "{missed} of {} are missed", ways.len());
}

/// The figures in the documentation are those of the list; those of the agent's own matcher are measured by `scripts/e2e --all`.
#[test]
fn the_documentation_tells_how_many_ways_there_are_and_how_many_are_denied() {
    let docs = std::fs::read_to_string(root().join("docs/PERMISSIONS.md")).unwrap();
    let ways = ways_of("cases/rm.jsonl");
    let (all, denied) = (ways.len(), ways.iter().filter(|way| way.missed.is_none()).count());
    let more = ways_of("cases/ways.jsonl").len();
    for told in [
        format!("`fixtures/cases/rm.jsonl` lists {all} ways to say `rm`, and `ways.jsonl` another {more}"),
        format!("Of the {all} ways to say `rm` in `fixtures/cases/rm.jsonl`"),
        format!("a rule `rm *` denies {denied}, including all of those"),
    ] {
        assert!(docs.contains(&told), "docs/PERMISSIONS.md does not say: {told}");
    }
}

/// What only speaks of a command does not run it.
#[test]
fn what_is_only_spoken_of_is_not_denied() {
    let rules: Permissions = "[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n[[allow]]\ntool = \"Bash\"\n".parse().unwrap();
    for command in [
        "echo 'rm x'",
        "echo \"rm x\"",
        "git rm x",
        "git commit -m 'rm x; rm y'",
        "git commit -m \"$(cat <<'EOF'\nrm x\n\n- it's gone\nEOF\n)\"",
        "grep -rn 'rm -rf' src",
        "grep -n \"$(printf '\\t')rm x\" f",
        "cat > clean.sh <<'EOF'\n#!/bin/sh\nrm x\nEOF",
        "docker run --rm image ls",
        "npm run rm",
        "timeout 5 git rm x",
        "sudo apt rm x",
        "ls rm",
        "printf '%s\\n' 'rm x'",
        "for f in rm; do echo $f; done",
        "case rm in rm) ls;; esac",
        "cd rm && ls",
        "echo x | xargs git rm",
        "find . -name rm -exec ls {} +",
        "bash -c 'echo \"rm x\"'",
        "sed -i 's/rm x/ls/' f",
        "jq '.a | .b' f.json",
        "awk '{print $1, \"rm x\"}' f",
        "python3 -c 'print(\"rm x\")'",
        "# rm x\nls",
        "a=rm; echo $a",
        "rmdir x",
        "echo \"it's $((1 + 2))\" && ls",
        "[[ $a =~ ^(x|y)+$ ]] && ls",
        "ls *.{rs,toml} 2>/dev/null | head -5",
        "for i in {1..3}; do echo \"$i\"; done",
        "diff <(sort a) <(sort b)",
        "export A=1 && cargo test -- --nocapture 2>&1 | tail -20",
        "git log --format='%h %s' -5 && git -c user.name='a b' commit -m 'c d'",
        "while IFS= read -r line; do echo \"$line\"; done < f",
        "if [ -f \"$a\" ]; then echo \"${a##*/}\"; fi",
        "test -d x || mkdir -p x",
        "python3 - <<'EOF'\nprint('it is')\nEOF",
        "f() { local a=$1; echo \"${a:-none}\"; }; f 1",
    ] {
        assert_eq!(ruling(&rules, command), Ruling::Allow, "{command}");
    }
}
