//! Permission rules, item by item: what is allowed does no more than its rule says, what cannot be read is never allowed, and rules hold
//! wherever the agent goes and whatever a tool is called.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};
use tapline_session::permission::{PendingCall, Permissions, Ruling};
use tapline_testkit::root;

fn rules(text: &str) -> Permissions {
    text.parse().unwrap()
}

fn ruling(rules: &Permissions, tool: &str, input: Value) -> Ruling {
    rules.decide(&PendingCall::of(tool, Some(&input.into()), Some("/proj")).at_home(Some("/proj"))).ruling
}

fn bash(rules: &Permissions, command: &str) -> Ruling {
    ruling(rules, "Bash", json!({ "command": command }))
}

fn allowing(commands: &str) -> Permissions {
    rules(&format!("[[allow]]\ntool = \"Bash\"\ncommand = {commands}\n"))
}

#[test]
fn a_list_is_allowed_if_every_command_in_it_is() {
    let rules = allowing(r#"["cargo test", "cd *", "git *", "tail *", "timeout *", "xargs *", "find *", "A=1 cargo test"]"#);
    for command in [
        "cd sub && cargo test",
        "cargo test 2>&1 | tail -20",
        "git status; git diff\ngit log",
        "git log $(git rev-parse HEAD)",
        "git log \"$(git rev-parse \"$(git branch)\")\"",
        "git log >/dev/null 2>&1",
        "timeout 5 cargo test",
        "git ls-files | xargs git log",
        "find . -name '*.rs' -exec git log {} +",
        "A=1 cargo test",
        "git log --format='%h %s'",
        "/bin/bash -lc 'cd sub && cargo test'",
    ] {
        assert_eq!(bash(&rules, command), Ruling::Allow, "{command}");
    }
    for command in [
        "cargo test && ls",
        "cd sub && cargo build",
        "git log $(rm x)",
        "git log \"$(git log; rm x)\"",
        "git log > out",
        "git log < in",
        "git log >> /dev/null/../x",
        "git log &",
        "cargo test &> f",
        "timeout 5 rm x",
        "timeout 5 timeout 5 rm x",
        "timeout $x rm x",
        "git ls-files | xargs rm",
        "find . -exec rm {} +",
        "find $HOME -exec rm {} ;",
        "find . -exec sh -c 'rm x' ;",
        "PATH=. cargo test",
        "LD_PRELOAD=./x.so git status",
        "GIT_PAGER='rm x' git log",
        "B=2 A=1 cargo test",
        "x=1",
        "x=1; git log",
        "(git log)",
        "{ git log; }",
        "if git log; then git log; fi",
        "! git log",
        "time git log",
        "$git log",
        "git log <<< x",
        "git log <(git log)",
        "git log ${x:-a}",
        "git log $((1))",
        "git log $x[1]",
        "git log *(e:'rm x':)",
        "\"git log\"",
        "git\\ log",
        "bash -c 'git log' x",
        "bash -c 'cargo test; rm x'",
    ] {
        assert_eq!(bash(&rules, command), Ruling::Ask, "{command}");
    }
    // A star at the front is for names, not for what is set before them.
    assert_eq!(bash(&allowing("\"* --version\""), "LD_PRELOAD=x git --version"), Ruling::Ask);
    assert_eq!(bash(&allowing("\"* --version\""), "git --version"), Ruling::Allow);
    // Each part may have a rule of its own; the decision names them all.
    let two = rules_of_two();
    let call = PendingCall::of("Bash", Some(&json!({"command": "ls && git log"}).into()), Some("/proj"));
    assert_eq!(two.decide(&call).rule.as_deref(), Some("allow[0], allow[1]"));
}

fn rules_of_two() -> Permissions {
    rules("[[allow]]\ntool = \"Bash\"\ncommand = \"ls\"\n[[allow]]\ntool = \"Bash\"\ncommand = \"git *\"\n")
}

#[test]
fn an_allow_for_a_file_means_that_of_the_folder_where_the_agent_was_started() {
    let allow = allowing(r#"["./test.sh", "scripts/*", "bash test.sh", "git status", "cd *", "env *", "/opt/x"]"#);
    let at = |command: &str, cwd: &str| {
        allow
            .decide(&PendingCall::of("Bash", Some(&json!({ "command": command }).into()), Some(cwd)).at_home(Some("/proj")))
            .ruling
    };
    for command in ["./test.sh", "scripts/build", "bash test.sh", "git status", "/opt/x", "./test.sh && git status"] {
        assert_eq!(at(command, "/proj"), Ruling::Allow, "{command}");
    }
    for command in ["./test.sh", "scripts/build", "bash test.sh"] {
        assert_eq!(at(command, "/proj/sub"), Ruling::Ask, "{command} elsewhere");
        assert_eq!(at(&format!("cd sub && {command}"), "/proj"), Ruling::Ask, "{command} behind cd");
        assert_eq!(at(&format!("cd sub\n{command}"), "/proj"), Ruling::Ask, "{command} behind cd");
    }
    assert_eq!(at("env -C sub ./test.sh", "/proj"), Ruling::Ask);
    assert_eq!(bash(&allowing("\"bash *\""), "bash rm x"), Ruling::Ask, "a bare name is also looked for among programs");
    assert_eq!(bash(&allowing("\"bash *\""), "bash scripts/x"), Ruling::Allow);
    assert_eq!(at("git status", "/proj/sub"), Ruling::Allow, "a bare name is allowed anywhere");
    assert_eq!(at("cd sub && git status", "/proj"), Ruling::Allow);
    assert_eq!(at("/opt/x", "/proj/sub"), Ruling::Allow);
    // What is denied is denied everywhere.
    let deny = rules("[[allow]]\ntool = \"Bash\"\n[[deny]]\ntool = \"Bash\"\ncommand = \"./test.sh\"\n");
    for (command, cwd) in [("./test.sh", "/proj/sub"), ("cd sub && ./test.sh", "/proj"), ("bash ./test.sh", "/proj")] {
        let call = PendingCall::of("Bash", Some(&json!({ "command": command }).into()), Some(cwd)).at_home(Some("/proj"));
        assert_eq!(deny.decide(&call).ruling, Ruling::Deny, "{command}");
    }
}

#[test]
fn what_is_defined_in_a_command_does_not_pass_for_what_is_allowed() {
    let rules = allowing(r#"["git *", "alias *", "alias git=rm", "hash *", "source x", "set -e"]"#);
    for command in [
        "git() { rm x; }; git status",
        "function git { rm x; }\ngit status",
        "alias git=rm\ngit status",
        "shopt -s expand_aliases; alias git=rm\ngit status",
        "hash -p /bin/rm git; git status",
        "source x; git status",
        "enable -n git; git status",
    ] {
        assert_eq!(bash(&rules, command), Ruling::Ask, "{command}");
    }
    assert_eq!(bash(&rules, "alias git=rm"), Ruling::Allow, "to the letter, and alone");
}

#[test]
fn builtins_that_evaluate_are_never_covered_by_a_star() {
    let builtins = "test [ printf read unset let declare typeset local export readonly eval source . trap command builtin exec enable bind complete \
                    compgen hash alias set shopt mapfile readarray wait getopts jobs history fc print zmodload emulate autoload vared";
    for builtin in builtins.split(' ') {
        let star = allowing(&format!("[\"{builtin} *\", \"*\"]"));
        assert_eq!(bash(&star, &format!("{builtin} x")), Ruling::Ask, "{builtin}");
        assert_eq!(bash(&star, &format!("'{builtin}' x")), Ruling::Ask, "{builtin} in quotes");
        assert_eq!(bash(&star, &format!("timeout 5 true && {builtin} x")), Ruling::Ask, "{builtin} in a list");
    }
    assert_eq!(bash(&allowing("\"test *\""), "test -v 'a[$(rm x)]'"), Ruling::Ask);
    assert_eq!(bash(&allowing("\"test -f x\""), "test -f x"), Ruling::Allow, "to the letter it is");
    assert_eq!(bash(&allowing("\"test -f x\""), "test -f y"), Ruling::Ask);
    assert_eq!(bash(&allowing("\"echo *\""), "echo x"), Ruling::Allow, "it evaluates nothing");
}

#[test]
fn rules_for_commands_cover_every_tool_that_runs_one() {
    let rules = rules("[[allow]]\ntool = \"Bash\"\ncommand = \"git *\"\n[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n");
    for tool in ["Bash", "Monitor", "command_execution", "PowerShell", "mcp__box__run", "mcp__workspace__bash"] {
        assert_eq!(ruling(&rules, tool, json!({"command": "ls; rm x"})), Ruling::Deny, "{tool}");
    }
    for tool in ["Bash", "Monitor", "command_execution"] {
        assert_eq!(ruling(&rules, tool, json!({"command": "git log"})), Ruling::Allow, "{tool}");
    }
    // What another tool makes of a command is not known.
    for tool in ["mcp__box__run", "PowerShell"] {
        assert_eq!(ruling(&rules, tool, json!({"command": "git log"})), Ruling::Ask, "{tool}");
    }
    let shell = self::rules("[[deny]]\ntool = \"Bash\"\n[[allow]]\ntool = \"*\"\n");
    assert_eq!(ruling(&shell, "Monitor", json!({"command": "ls"})), Ruling::Deny);
    let power = self::rules("[[allow]]\ntool = \"PowerShell\"\ncommand = \"git *\"\n");
    assert_eq!(ruling(&power, "PowerShell", json!({"command": "git log -5"})), Ruling::Allow);
    for command in
        ["git log; rm x", "git log @(rm x)", "git log {rm x}", "git log $(rm x)", "git log `; rm x", "git log | % {rm $_}"]
    {
        assert_eq!(ruling(&power, "PowerShell", json!({ "command": command })), Ruling::Ask, "{command}");
    }
}

/// What other tools run may be anywhere in their input, also in JSON that is written as text.
#[test]
fn a_denied_command_is_found_anywhere_in_the_input_of_another_tool() {
    let rules = rules("[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n[[allow]]\ntool = \"*\"\n");
    for input in [
        json!({"args": {"command": "rm x"}}),
        json!({"steps": [{"run": "ls"}, {"run": "ls && rm x"}]}),
        json!({"commands": ["ls", "rm x"]}),
        json!({"argv": ["rm", "x"]}),
        json!({"command": ["rm", "x"]}),
        json!({"command": "rm", "args": ["x"]}),
        json!({"program": "/bin/sh", "args": ["-c", "rm x"]}),
        json!({"command": "ls", "cmd": "rm x"}),
        json!({"shell_command": "rm x"}),
        json!({"commandLine": "rm x"}),
        json!({"input": "rm x\n"}),
        json!({"request": "{\"command\":\"rm x\"}"}),
        json!({"request": "{\"a\":[{\"cmd\":\"{\\\"run\\\":\\\"rm x\\\"}\"}]}"}),
        json!({"payload": "[{\"script\":\"ls; rm x\"}]"}),
        json!({"jobs": {"build": {"steps": [{"name": "a", "run": "sudo rm x"}]}}}),
    ] {
        assert_eq!(ruling(&rules, "mcp__box__run", input.clone()), Ruling::Deny, "{input}");
    }
    for input in [
        json!({"text": "rm x"}),
        json!({"body": "{\"text\":\"rm x\"}"}),
        json!({"command": "ls", "args": ["rm"]}),
        json!({"steps": [{"run": "git rm x"}]}),
    ] {
        assert_eq!(ruling(&rules, "mcp__box__run", input.clone()), Ruling::Allow, "{input}");
    }
    // The agent's own tools have a command at one place only.
    assert_eq!(ruling(&rules, "Write", json!({"file_path": "x", "content": "{\"command\":\"rm x\"}"})), Ruling::Allow);
}

#[test]
fn names_of_tools_include_their_aliases() {
    for (named, called) in [
        ("Task", "Agent"),
        ("Agent", "Task"),
        ("KillShell", "TaskStop"),
        ("KillBash", "KillShell"),
        ("BashOutput", "TaskOutput"),
        ("Edit", "MultiEdit"),
        ("Eval", "REPL"),
    ] {
        let rules = rules(&format!("[[deny]]\ntool = \"{named}\"\n[[allow]]\ntool = \"*\"\n"));
        assert_eq!(ruling(&rules, called, json!({})), Ruling::Deny, "{named} is {called}");
        assert_eq!(ruling(&rules, "Read", json!({"file_path": "x"})), Ruling::Allow);
    }
}

#[test]
fn broad_path_rules_leave_out_what_runs_code_unless_it_is_named() {
    let broad = rules("[[allow]]\ntool = \"*\"\npath = \"**\"\n");
    let path = |rules: &Permissions, tool: &str, path: &str| ruling(rules, tool, json!({ "file_path": path }));
    for file in [
        ".git/config",
        ".git/hooks/pre-commit",
        "sub/.git/config",
        ".git",
        ".GIT/config",
        ".git./config",
        ".g\u{200c}it/config",
        "GIT~1/config",
        ".claude/settings.json",
        ".mcp.json",
        ".bashrc",
        ".zshenv",
        ".vscode/tasks.json",
        ".envrc",
        ".config/fish/config.fish",
        ".cargo/config.toml",
        "src/../.git/config",
    ] {
        for tool in ["Write", "Edit", "MultiEdit", "NotebookEdit", "mcp__fs__write"] {
            assert_eq!(path(&broad, tool, file), Ruling::Ask, "{tool} {file}");
        }
        assert_eq!(path(&broad, "Read", file), Ruling::Allow, "to read {file}");
        let anywhere = rules("[[allow]]\ntool = \"Write\"\n");
        assert_eq!(path(&anywhere, "Write", file), Ruling::Ask, "a rule without a path is the broadest: {file}");
    }
    for file in [
        "src/main.rs",
        "package.json",
        "Makefile",
        ".gitignore",
        ".github/workflows/ci.yml",
        "git/config",
        ".config/nextest.toml",
        "x.git",
    ] {
        assert_eq!(path(&broad, "Write", file), Ruling::Allow, "{file}");
    }
    for (pattern, file) in [
        (".git/**", ".git/config"),
        (".git/config", ".git/config"),
        ("**/.vscode/*", "a/.vscode/tasks.json"),
        (".config/fish/**", ".config/fish/x"),
    ] {
        let named = rules(&format!("[[allow]]\ntool = \"Write\"\npath = [\"**\", \"{pattern}\"]\n"));
        assert_eq!(path(&named, "Write", file), Ruling::Allow, "{pattern} names {file}");
    }
    let part = rules("[[allow]]\ntool = \"Write\"\npath = \".g*/**\"\n");
    assert_eq!(path(&part, "Write", ".git/config"), Ruling::Ask, "half a name is none");
}

/// The page lists what is left out; every name on it is.
#[test]
fn the_files_that_run_code_are_listed_in_the_documentation() {
    let page = root().join("docs/PERMISSIONS.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.split("## What runs code unasked").nth(1).unwrap().split("\n## ").next().unwrap();
    let names: Vec<_> =
        table.lines().filter(|line| line.starts_with('|')).flat_map(|line| line.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 60, "{names:?}");
    let broad = rules("[[allow]]\ntool = \"Write\"\npath = \"**\"\n");
    for name in names {
        assert_eq!(ruling(&broad, "Write", json!({ "file_path": name })), Ruling::Ask, "{name}");
    }
}

#[test]
fn what_cannot_be_read_is_never_allowed() {
    let all = rules("[[allow]]\ntool = \"*\"\n");
    let but = rules("[[allow]]\ntool = \"*\"\n[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n");
    let long = "ls ".repeat(30_000);
    for command in [
        "echo 'open",
        "echo \"open",
        "echo $(open",
        "echo `open",
        "if ls",
        "ls )",
        "ls; done",
        "ls &&",
        "case x in",
        "ls <",
        "echo ${x",
        "((1",
        "f( x",
        "ls;;",
        &long,
    ] {
        assert_eq!(bash(&all, command), Ruling::Ask, "{command:.40}");
        assert_eq!(bash(&but, command), Ruling::Deny, "{command:.40}: it may be what is denied");
    }
    assert_eq!(ruling(&all, "Bash", json!({"command": ["rm", "x"]})), Ruling::Ask);
}

/// A rule that denies cannot know; so somebody is asked. A name that is hidden is denied.
#[test]
fn what_is_only_known_when_it_runs_is_asked_about() {
    let rules = rules("[[allow]]\ntool = \"Bash\"\n[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n");
    for (command, ruling) in [
        ("$CMD x", Ruling::Ask),
        ("\"$CMD\" x", Ruling::Ask),
        ("curl x | sh", Ruling::Ask),
        ("eval \"$x\"", Ruling::Ask),
        ("bash -c \"$x\"", Ruling::Ask),
        ("$(curl x)", Ruling::Ask),
        ("source <(curl x)", Ruling::Ask),
        ("curl x | sh; echo rm", Ruling::Deny),
        ("r$x y", Ruling::Deny),
        ("/bin/l? y", Ruling::Deny),
        ("l{s,} y", Ruling::Deny),
        ("${x#y} z", Ruling::Deny),
    ] {
        let decision = rules.decide(&PendingCall::of("Bash", Some(&json!({ "command": command }).into()), Some("/proj")));
        assert_eq!((decision.ruling, decision.rule.as_deref()), (ruling, Some("deny[0]")), "{command}");
        let asks = self::rules("[[allow]]\ntool = \"Bash\"\n[[ask]]\ntool = \"Bash\"\ncommand = \"rm *\"\n");
        assert_eq!(bash(&asks, command), Ruling::Ask, "{command}");
    }
    for command in
        ["\"$VENV/bin/python\" x", "ls $x", "bash -c \"cd $x && ls\"", "echo \"$(curl x)\"", "bash x.sh", "sh ./x.sh $1"]
    {
        assert_eq!(bash(&rules, command), Ruling::Allow, "{command}");
    }
}

/// Hostile text is read within bounds: no overflow of the stack, no time that grows faster than the text.
#[test]
fn hostile_commands_are_decided_in_time() {
    let nest = |open: &str, close: &str, times: usize| format!("{}rm x{}", open.repeat(times), close.repeat(times));
    let mut commands: Vec<String> = Vec::new();
    for times in [10, 60, 64, 65, 1000, 20_000] {
        for (open, close) in [
            ("(", ")"),
            ("$(", ")"),
            ("\"$(", ")\""),
            ("{ ", ";}"),
            ("${x:-", "}"),
            ("\"${x:-", "}\""),
            ("<(", ")"),
            ("if ", ""),
            ("case x in ", ""),
            ("((", "))"),
            ("$((", "))"),
            ("$[", "]"),
            ("a[", "]=1"),
            ("a[$(", ")]"),
            ("`", "`"),
            ("! ", ""),
            ("time ", ""),
            ("eval ", ""),
            ("@(", ")"),
            ("f() ", ""),
            ("while ", ""),
            ("env ", ""),
            ("bash -c '", "'"),
            ("x=(", ")"),
            ("[[ ( ", " ) ]]"),
            ("coproc ", ""),
            ("cat <<E\n$(", ")\nE\n"),
        ] {
            commands.push(nest(open, close, times));
        }
    }
    for piece in [
        "{a,b}",
        "{a}",
        "}",
        "{",
        "x=$x$x;",
        "<<E ",
        "a[ ;",
        "\\\n",
        "$((",
        "$x",
        "f(){ f;f;};f;",
        "for a in b;do ",
        "'",
        "\"",
        "* ",
        "? ",
        "a&&",
        "a|",
        "#",
        "{x..z}",
        "$'\\x",
        "((a) ",
    ] {
        commands.push(piece.repeat(60_000 / piece.len()));
    }
    commands.push(format!("x={}; {}", "a ".repeat(10_000), "$x;".repeat(10_000)));
    commands.push(format!("x={}; y=${{x//a/{}}}; $y", "a".repeat(20_000), "b".repeat(20_000)));
    commands.push(format!("echo {} | xargs -I a {}", "b".repeat(20_000), "a".repeat(20_000)));
    commands.push(format!("IFS={}; x={}; $x", "c".repeat(20_000), "d".repeat(20_000)));
    commands.push(format!("f() {{ {}; }}; {}", "f1; f1; f1".repeat(10), "f; ".repeat(10_000)));
    let mut bomb = String::from("f0() { rm x; }; ");
    for level in 1..30 {
        write!(bomb, "f{level}() {{ f{0}; f{0}; }}; ", level - 1).unwrap();
    }
    commands.push(bomb + "f29");
    let rules =
        rules("[[allow]]\ntool = \"Bash\"\ncommand = [\"git *\", \"ls *\"]\n[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n");
    // A thread of a library may have no more than this.
    let small = std::thread::Builder::new().stack_size(2 << 20);
    let decided = small
        .spawn(move || commands.iter().map(|command| bash(&rules, command)).filter(|ruling| *ruling == Ruling::Allow).count());
    assert_eq!(decided.unwrap().join().unwrap(), 0);
}

/// Four `**` and a deep path took 18 seconds.
#[test]
fn many_stars_and_a_deep_path_take_no_time() {
    let pattern = "**/a/".repeat(50);
    let rules = rules(&format!("[[allow]]\ntool = \"Read\"\npath = [\"/{pattern}x\", \"/{}\"]\n", "*a".repeat(100)));
    let deep = format!("/{}y", "a/".repeat(2000));
    assert_eq!(ruling(&rules, "Read", json!({ "file_path": deep })), Ruling::Ask);
    assert_eq!(ruling(&rules, "Read", json!({ "file_path": format!("/{}", "a".repeat(4000)) })), Ruling::Allow);
    let fits = format!("/{}x", "a/".repeat(2000));
    assert_eq!(ruling(&rules, "Read", json!({ "file_path": fits })), Ruling::Allow);
}

/// What `**` and `*` mean, tried one by one.
fn fits(pattern: &[&str], path: &[&str]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        Some((&"**", rest)) => (0..=path.len()).any(|skipped| fits(rest, &path[skipped..])),
        Some((first, rest)) => {
            path.split_first().is_some_and(|(name, inner)| (*first == "*" || first == name) && fits(rest, inner))
        }
    }
}

proptest! {
    #[test]
    fn patterns_of_paths_mean_what_they_say(
        pattern in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "**"]), 1..7),
        path in prop::collection::vec(prop::sample::select(vec!["a", "b"]), 1..8),
    ) {
        let rules = rules(&format!("[[allow]]\ntool = \"Read\"\npath = \"/{}\"\n", pattern.join("/")));
        let allowed = ruling(&rules, "Read", json!({ "file_path": format!("/{}", path.join("/")) })) == Ruling::Allow;
        prop_assert_eq!(allowed, fits(&pattern, &path));
    }

    #[test]
    fn any_text_is_decided(text in "[a-z $(){}<>|&;'\"`\\\\\n#!=\\[\\]*?~,.-]{0,80}") {
        let rules = rules("[[allow]]\ntool = \"Bash\"\ncommand = \"ls *\"\n[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n");
        bash(&rules, &text);
    }
}

/// What a program runs by an option, or a word of its own, needs a rule, too: `git *` is for git.
#[test]
fn what_runs_by_an_option_of_an_allowed_program_needs_a_rule_of_its_own() {
    let rules: Permissions = "[[allow]]\ntool = \"Bash\"\ncommand = [\"git *\", \"tar *\", \"rsync *\", \"vim *\", \"sed *\", \"echo *\", \"make -j2\"]\n".parse().unwrap();
    let ruling = |text: &str| {
        let input = serde_json::json!({ "command": text });
        rules.decide(&PendingCall::of("Bash", Some(&input.into()), Some("/work"))).ruling
    };
    for more in [
        "git bisect run rm x",
        "git bisect run ./x",
        "git bisect run git log",
        "git submodule foreach git pull",
        "git rebase --exec 'make -j2' HEAD~2",
        "git bisect run $CMD",
        "git $(echo bisect run rm x)",
        "git {bisect,run,rm,x}",
        "git submodule foreach 'rm x'",
        "git submodule foreach --recursive rm x",
        "git rebase -x 'rm x' HEAD~2",
        "git rebase --exec=rm HEAD~2",
        "git rebase --exec=\"$CMD\" HEAD~2",
        "git -c core.fsmonitor=./x status",
        "git -c alias.x='!rm y' x",
        "git -c core.pager='less; rm x' log",
        "git clone --upload-pack 'rm x' a b",
        "git difftool -x 'rm x'",
        "tar xf a --to-command='rm x'",
        "tar xf a --checkpoint=1 --checkpoint-action=exec='rm x'",
        "rsync -e 'rm x' a b",
        "vim -c '!rm x'",
        "sed '1e rm x' f",
    ] {
        assert_eq!(ruling(more), Ruling::Ask, "{more}");
    }
    for plain in [
        "git -c user.name='A B' commit -m 'run all: foreach'",
        "git -c core.pager=cat log",
        "git commit -m \"$(echo a)\"",
        "git cherry-pick -x HEAD~1",
        "git clean -x -d",
        "git log --format='%h %s' --since='2 days'",
        "git switch -c new",
        "git show $HEAD",
        "git add src/{a,b}.rs",
        "git log --format={a,b}",
        "tar xf a",
        "sed s/a/b/ f",
    ] {
        assert_eq!(ruling(plain), Ruling::Allow, "{plain}");
    }
}
