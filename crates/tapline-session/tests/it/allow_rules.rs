//! What an allow covers where a command runs another, and what of it nobody can be sure of: found by a reviewer, row by row.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tapline_session::permission::{PendingCall, PermissionChecker, Permissions, Ruling};
use tapline_testkit::fixture;

use crate::read_stream::tell_plainly;

fn allowing(commands: &str) -> Permissions {
    let commands: Vec<_> = commands.split(", ").collect();
    format!("[[allow]]\ntool = \"Bash\"\ncommand = {commands:?}\n").parse().unwrap()
}

fn bash(rules: &Permissions, command: &str) -> Ruling {
    rules.decide(&PendingCall::of("Bash", Some(&json!({ "command": command }).into()), Some("/proj"))).ruling
}

/// Rules, and commands that do more than they say.
fn are_asked(rows: &[(&str, &str)]) {
    let more: Vec<_> = rows.iter().filter(|(rules, command)| bash(&allowing(rules), command) != Ruling::Ask).collect();
    assert!(more.is_empty(), "{more:#?}");
}

fn are_allowed(rows: &[(&str, &str)]) {
    let less: Vec<_> = rows.iter().filter(|(rules, command)| bash(&allowing(rules), command) != Ruling::Allow).collect();
    assert!(less.is_empty(), "{less:#?}");
}

#[test]
fn what_dash_reads_as_two_commands_is_not_one() {
    are_asked(&[
        ("echo *", "sh -c 'echo hi &>/dev/null rm -rf x'"),
        ("echo *", "sh -c 'echo hi &>>/dev/null rm -rf x'"),
        ("echo *", "echo hi &>/dev/null rm x"),
        ("echo *", "12>/dev/null echo hi"),
        ("echo *", "{a}>/dev/null echo hi"),
    ]);
}

#[test]
fn a_star_in_a_pattern_is_never_to_the_letter() {
    for name in ["test", "[", "env", "eval", "printf", "xargs", "bash", "timeout", "tar", "vim"] {
        let rule = format!("{name} *");
        are_asked(&[(&rule, &rule)]);
    }
    are_allowed(&[("ls *", "ls *"), ("git *", "git add *"), ("test -f x", "test -f x")]);
}

#[test]
fn no_option_that_is_not_known_hides_what_is_run() {
    are_asked(&[
        ("env *, git *", "env --unse git rm -rf x"),
        ("env *", "env --s='rm -rf x'"),
        ("env *, git *", "env -S 'git status'"),
        ("xargs *, git *", "xargs --arg git rm -rf"),
        ("/usr/bin/time *, git *", "/usr/bin/time --out git rm x"),
        ("sudo *, git *", "sudo --us git rm x"),
        ("sudo *, git *", "sudo --unknown git rm x"),
        ("sudo *, git *", "sudo -z git rm x"),
        ("timeout *, git *", "timeout -z 5 git rm x"),
        ("docker *, git *", "docker --context exec exec git rm x"),
        ("xargs *, git *, echo *", "echo rm | xargs -I git git -rf x"),
        ("xargs *, git log *, echo *", "echo rm | xargs -I log git log x"),
        ("find *, git*", "find . -exec git{} +"),
    ]);
    are_allowed(&[
        ("timeout *, cargo test", "timeout --signal KILL --foreground 5 cargo test"),
        ("timeout *, cargo test", "timeout --kill-after=5 -v 5 cargo test"),
        ("xargs *, git *", "git ls-files -z | xargs -0 --max-args 5 --no-run-if-empty git log"),
        ("xargs *, git log *", "git log x | xargs -I{} git log {}"),
        ("env *, git *", "env -i --unset X git status"),
        ("sudo *, git *", "sudo -n -u me git status"),
        ("setsid *, ls", "setsid -w ls"),
    ]);
}

#[test]
fn options_that_hold_a_command_are_looked_at() {
    are_asked(&[
        ("script *", "script -qc'rm -rf x' /dev/null"),
        ("script *", "script -q /dev/null rm x"),
        ("script *", "script --comm='rm x' f"),
        ("npx *", "npx -c 'rm x'"),
        ("npx *", "npx --call='rm x'"),
        ("fd *", "fd x --exec=rm"),
        ("fd *", "fd -Hx rm"),
        ("fd *", "fd -xrm"),
        ("fd *", "fd x --exec-batch rm"),
        ("bash *, cd *", "cd sub && bash --rcfile evil -i"),
        ("bash *, cd *", "cd sub && bash --rcfile ./evil -i"),
        ("bash *", "bash -rcfile ./evil -i"),
        ("fish *, ls", "fish -C 'rm x' -c ls"),
        ("su *", "su -s ./evil me"),
        ("git *", "git submodule foreach 'rm -rf x'"),
        ("git *", "git submodule foreach --recursive $x"),
        ("git *", "git bisect run rm x"),
        ("git *", "git rebase -x ./evil main"),
        ("git *", "git -c core.pager=./evil log"),
        ("git *", "git --exec-path=. status"),
        ("git *", "git fetch --upload-pack=./evil x"),
        ("git *", "git grep --open-files-in-pager=./evil x"),
        ("tar *", "tar xf a --to-command='rm x'"),
        ("tar *", "tar xf a --to-com='rm x'"),
        ("tar *", "tar xf a -I ./evil"),
        ("tar *", "tar cf a $x"),
        ("rsync *", "rsync -ave 'rm x' a b"),
        ("vim *", "vim -c '!rm x'"),
        ("sed *", "sed '1e rm x' f"),
        ("hyperfine *", "hyperfine 'rm x'"),
        ("hyperfine *, ls", "hyperfine ls"),
        ("script *, ls", "script -qc ls /dev/null"),
        ("fd *, git *", "fd -e rs -x git log"),
        ("sort *", "sort --compress-program=./evil f"),
    ]);
    are_allowed(&[
        ("npx *, eslint *", "npx eslint src"),
        ("fd *", "fd -e xml x"),
        ("bash *", "bash -e --norc scripts/x"),
        ("git *", "git log --format='%h %s' -5"),
        ("git *", "git commit -m 'for each run'"),
        ("git *", "git grep foreach"),
        ("git *", "git clean -x -n"),
        ("tar *", "tar xf a -C b"),
        ("sed *", "sed -n 's/a b/c d/p' f"),
        ("sed *", "sed ':a;N;$!ba;s/\\n/ /g' f"),
        ("awk *", "awk '/a|b/ {print}' src/*.txt \"$f\""),
        ("awk *", "awk -F'|' '$1 ~ /@/ || /x/ {print $2 \"|\" $1}' f"),
        ("git *", "git rebase \"$base\""),
        ("cargo *", "cargo +nightly fmt -p x"),
        ("ip *", "ip addr show"),
        ("git submodule foreach ls", "git submodule foreach ls"),
    ]);
}

/// `fixtures/cases/options.jsonl` lists options and words that make a program run another.
#[test]
fn no_star_covers_an_option_that_runs_a_program() {
    let text = std::fs::read_to_string(fixture("cases/options.jsonl")).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() >= 800);
    let rows: Vec<_> = rows.iter().map(|row| (row["allow"].as_str().unwrap(), row["command"].as_str().unwrap())).collect();
    are_asked(&rows);
    // A rule with just these words is for them.
    are_allowed(&[
        ("git rebase --exec ./test.sh main", "git rebase --exec ./test.sh main"),
        ("tar xf a --to-command=wc", "tar xf a --to-command=wc"),
        ("rg --pre ./x y", "rg --pre ./x y"),
    ]);
    are_asked(&[("git bisect run ./test.sh, cd *", "cd sub && git bisect run ./test.sh")]);
}

/// `fixtures/cases/everyday.jsonl` lists what coding agents run all day, and how it is decided.
#[test]
fn everyday_commands_are_seldom_asked_about() {
    let text = std::fs::read_to_string(fixture("cases/everyday.jsonl")).unwrap();
    let rules: Permissions = std::fs::read_to_string(fixture("cases/everyday.toml")).unwrap().parse().unwrap();
    let (mut wrong, mut allowed, mut all) = (Vec::new(), 0, 0);
    for row in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let command = row["command"].as_str().unwrap();
        let ruling = bash(&rules, command);
        let expected = if row["asked"] == true { Ruling::Ask } else { Ruling::Allow };
        all += 1;
        allowed += usize::from(ruling == Ruling::Allow);
        if ruling != expected {
            wrong.push(format!("{command:?}: {ruling:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(all >= 160 && allowed * 100 >= all * 79, "{allowed} of {all} are allowed");
}

#[test]
fn settings_behind_a_wrapper_are_settings() {
    are_asked(&[
        ("env *, git status", "env PATH=. git status"),
        ("env *, git status", "env -i - LD_PRELOAD=./e.so git status"),
        ("sudo *, git status", "sudo PATH=. git status"),
        ("strace *, git status", "strace -E PATH=. git status"),
        ("strace *, git status", "strace -EPATH=. git status"),
        ("systemd-run *, git status", "systemd-run --setenv=PATH=. git status"),
    ]);
    are_allowed(&[("env A=1 git status", "env A=1 git status")]);
}

#[test]
fn what_zsh_evaluates_is_not_covered() {
    are_asked(&[
        ("exit *", "exit 'a[$(rm x)]'"),
        ("return *", "return 'a[$(rm x)]'"),
        ("break *", "break 'a[$(rm x)]'"),
        ("continue *", "continue 'a[$(rm x)]'"),
        ("echo *", "echo $#x[1]"),
        ("echo *", "echo $+x[1]"),
        ("echo *", "echo \"$=x[1]\""),
        ("echo *", "echo $^^x[1]"),
    ]);
    are_allowed(&[("echo *", "echo \"$# a\" $?"), ("exit 1", "exit 1")]);
}

#[test]
fn a_folder_is_made_no_repository_by_writing_files() {
    let broad: Permissions = "[[allow]]\ntool = \"Write\"\npath = \"**\"\n".parse().unwrap();
    let write =
        |path: &str| broad.decide(&PendingCall::of("Write", Some(&json!({ "file_path": path }).into()), Some("/proj"))).ruling;
    for path in ["sub/HEAD", "HEAD", "sub/head"] {
        assert_eq!(write(path), Ruling::Ask, "{path}");
    }
    for path in ["sub/config", "components/head/index.tsx", "Head.tsx"] {
        assert_eq!(write(path), Ruling::Allow, "{path}");
    }
}

#[test]
fn a_tool_that_is_not_known_counts_as_writing() {
    let all: Permissions = "[[allow]]\ntool = \"mcp__fs__write\"\n".parse().unwrap();
    let write =
        |path: &str| all.decide(&PendingCall::of("mcp__fs__write", Some(&json!({ "path": path }).into()), Some("/w"))).ruling;
    assert_eq!(write("/w/.git/config"), Ruling::Ask);
    assert_eq!(write("/w/src/a.rs"), Ruling::Allow);
}

#[test]
fn what_stands_above_the_start_is_nothing_that_the_agent_chose() {
    let home = "/w/.claude/worktrees/a";
    let decide = |pattern: &str, path: &str| {
        let rules: Permissions = format!("[[allow]]\ntool = \"Write\"\npath = \"{pattern}\"\n").parse().unwrap();
        rules.decide(&PendingCall::of("Write", Some(&json!({ "file_path": path }).into()), Some(home))).ruling
    };
    for pattern in ["**".to_owned(), format!("{home}/**")] {
        assert_eq!(decide(&pattern, "src/a.rs"), Ruling::Allow, "{pattern}");
        assert_eq!(decide(&pattern, ".claude/settings.json"), Ruling::Ask, "{pattern}");
        assert_eq!(decide(&pattern, ".git/config"), Ruling::Ask, "{pattern}");
    }
    assert_eq!(decide("/w/**", "/w/.claude/settings.json"), Ruling::Ask);
    assert_eq!(decide("/w/**", "/w/.claude/worktrees/ab/x"), Ruling::Ask, "another folder");
}

/// One command took gigabytes, or the stack: each word is looked at in one command only, and levels of all kinds count together.
#[test]
fn long_and_deep_commands_are_decided_within_bounds() {
    let mut commands = Vec::new();
    for piece in ["-ok ", "-exec ", "-exec a ; "] {
        commands.push(format!("find {}", piece.repeat(60_000 / piece.len())));
    }
    for (start, piece) in [
        ("git ", "run "),
        ("git submodule ", "foreach "),
        ("git bisect ", "run "),
        ("jobs ", "-x "),
        ("fd ", "-x "),
        ("concurrently ", "a "),
        ("hyperfine ", "a "),
    ] {
        commands.push(format!("{start}{}", piece.repeat(60_000 / piece.len())));
    }
    commands.push(format!("printf '%{}s' {}", "-".repeat(30_000), "'' ".repeat(10_000)));
    for (open, close) in [("( ", " )"), ("if ", "; then :; fi"), (": $( ", " )"), ("case $( ", " ) in *) ;; esac")] {
        let mut text = String::new();
        for level in 0..20 {
            let next = level + 1;
            write!(text, "f{level}() {{ {}f{next}{}; }}; ", open.repeat(55), close.repeat(55)).unwrap();
        }
        commands.push(text + "f0");
    }
    let rules: Permissions =
        "[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n[[allow]]\ntool = \"Bash\"\ncommand = \"ls *\"\n".parse().unwrap();
    // A thread of a runtime has no more than this.
    let small = std::thread::Builder::new().stack_size(2 << 20);
    let decided = small.spawn(move || commands.iter().filter(|command| bash(&rules, command) == Ruling::Allow).count());
    assert_eq!(decided.unwrap().join().unwrap(), 0);
}

/// The agent's shell stays where a command went: a later `./test.sh` is another file.
#[test]
fn a_checked_run_is_not_at_home_behind_cd() {
    use Ruling::{Allow, Ask};
    let rules = "[[allow]]\ntool = \"Bash\"\ncommand = [\"cd *\", \"./test.sh\", \"git status\"]\n";
    let decided = |first: &str| {
        let start = json!({"type": "system", "subtype": "init", "session_id": "s", "cwd": "/proj", "tools": [], "model": "m"});
        let call = |id: &str, command: &str| {
            let content = json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}]);
            json!({"type": "assistant", "session_id": "s", "message": {"id": id, "role": "assistant", "content": content}})
        };
        let lines = [start, call("a", first), call("b", "./test.sh"), call("c", "git status")];
        let text = lines.map(|line| line.to_string()).join("\n");
        let mut checker = PermissionChecker::new(rules.parse().unwrap());
        let told = tell_plainly(text.as_bytes());
        let decided = told.steps.iter().flatten().filter_map(|step| checker.accept(step));
        decided.map(|decided| decided.decision.ruling).collect::<Vec<_>>()
    };
    assert_eq!(decided("cd sub"), [Allow, Ask, Allow]);
    assert_eq!(decided("cd sub && git status"), [Allow, Ask, Allow]);
    assert_eq!(decided("git status"), [Allow, Allow, Allow]);
    assert_eq!(decided("cd /proj && git status"), [Allow, Allow, Allow], "that is where it is");
    // Where nobody knows where it is, it is not at home.
    let rules: Permissions = rules.parse().unwrap();
    assert_eq!(rules.decide(&PendingCall::of("Bash", Some(&json!({"command": "./test.sh"}).into()), None)).ruling, Ask);
}
