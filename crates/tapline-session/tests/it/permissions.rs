//! Permission rules: what is allowed is one plain command in a known place; deny wins; what nobody thought of is asked about.

use serde_json::json;
use tapline_protocol::Json;
use tapline_session::permission::{PendingCall, Permissions, Ruling, resolve};

fn rules(text: &str) -> Permissions {
    toml::from_str(text).unwrap()
}

fn command(text: &str) -> PendingCall {
    let input = Json::parse(&serde_json::json!({ "command": text }).to_string()).unwrap();
    PendingCall::of("Bash", Some(&input), Some("/home/dev/project"))
}

fn file(tool: &str, path: &str) -> PendingCall {
    let input = Json::parse(&serde_json::json!({ "file_path": path }).to_string()).unwrap();
    PendingCall::of(tool, Some(&input), Some("/home/dev/project"))
}

#[test]
fn an_allowed_command_is_one_plain_command() {
    let rules = rules("[[allow]]\ntool = \"Bash\"\ncommand = [\"git *\", \"ls\"]\n");
    let ruling = |text: &str| rules.decide(&command(text)).ruling;
    for plain in [
        "git status",
        "git log --oneline -5",
        "ls",
        " ls ",
        "git commit -m 'a; b && c | d > e $(f) `g`'",
        "git log \"a;b\"",
        "git log a\\;b",
        "git log --format={a,b}",
        "git show $HEAD",
        "git grep \"a$\"",
        "git grep -E \"^(a|b)$\" src",
        "git log \"$'x'\"",
    ] {
        assert_eq!(ruling(plain), Ruling::Allow, "{plain}");
    }
    for other in [
        "git log \"$\\\n(touch x; id)\"",
        "git log $\\\n'\\'' ; id #'",
        "git log $\\\n{x}",
        "git log \"$\\\r\n(id)\"",
        "git \\\nlog",
        "./sh -c 'git status'",
        "src/bash -lc 'ls'",
        "/tmp/bin/sh -c 'ls'",
        "git status; rm -rf /",
        "git status && rm x",
        "git status & rm x",
        "git status | sh",
        "git status\nrm x",
        "git status\rrm x",
        "git log $(rm x)",
        "git log `rm x`",
        "git log \"$(rm x)\"",
        "git log \"`rm x`\"",
        "git log > /etc/passwd",
        "git log < /etc/passwd",
        "git log <(rm x)",
        "git log 'unclosed",
        "git log \"unclosed",
        "git log 'a'; rm 'b'",
        "git log \\",
        "(git log)",
        "git log $'\\'' ; rm x #'",
        "git log #'\nrm x\n#'",
        "git log # a comment",
        "git log \"${X:=\\$(rm x)}\" \"${X@P}\"",
        "git log $[X]",
        "git log \"${x:-\"'\"}\"$(rm x)\"${x:-\"'\"}\"",
        "git log $\"x\"",
        "gitty",
        "rm x",
    ] {
        assert_eq!(ruling(other), Ruling::Ask, "{other}");
    }
}

#[test]
fn what_is_denied_is_denied_in_any_part() {
    let rules = rules(
        "[[deny]]\ntool = \"Bash\"\ncommand = [\"rm *\", \"sudo *\"]\nreason = \"nothing is removed\"\n[[allow]]\ntool = \"Bash\"\n",
    );
    for denied in [
        "rm x",
        "ls; rm x",
        "ls && FOO=1 rm x",
        "echo $(rm x)",
        "echo \"$(rm x)\"",
        "echo `rm x`",
        "{ rm x; }",
        "rm\t-rf x",
        "ls # '\nrm x",
        "/bin/bash -lc 'rm x'",
        "bash -c \"ls; rm x\"",
        "(rm x)",
        "ls\nrm x",
        "true | sudo tee x",
        "echo \"${a:-<(echo 'b[$(rm x)]')}\"",
    ] {
        let decision = rules.decide(&command(denied));
        assert_eq!(
            (decision.ruling, decision.rule.as_deref(), decision.reason.as_deref()),
            (Ruling::Deny, Some("deny[0]"), Some("nothing is removed")),
            "{denied}"
        );
    }
    for allowed in ["ls", "echo 'rm x'", "format x", "echo a > b", "echo \"${a:-<(rm x)}\""] {
        assert_eq!(rules.decide(&command(allowed)).ruling, Ruling::Allow, "{allowed}");
    }
}

#[test]
fn deny_wins_over_ask_and_ask_over_allow() {
    let rules = rules("[[allow]]\ntool = \"*\"\n[[ask]]\ntool = [\"Write\", \"mcp__*\"]\n[[deny]]\ntool = \"mcp__mail__*\"\n");
    let ruling = |tool: &str| rules.decide(&PendingCall::of(tool, None, None)).ruling;
    assert_eq!(
        [ruling("Read"), ruling("Write"), ruling("mcp__calc__add"), ruling("mcp__mail__send")],
        [Ruling::Allow, Ruling::Ask, Ruling::Ask, Ruling::Deny]
    );
    assert_eq!(Permissions::default().decide(&PendingCall::of("Read", None, None)).ruling, Ruling::Ask, "no match asks");
}

#[test]
fn paths_are_resolved_first() {
    let rules = rules(
        "[[allow]]\ntool = [\"Read\", \"Edit\"]\npath = [\"src/**\", \"*.md\"]\n[[deny]]\ntool = \"*\"\npath = \"**/.env\"\n",
    );
    let ruling = |path: &str| rules.decide(&file("Edit", path)).ruling;
    for allowed in ["src/main.rs", "src/a/b/c.rs", "/home/dev/project/src/x", "./src/../src/x", "README.md", "src"] {
        assert_eq!(ruling(allowed), Ruling::Allow, "{allowed}");
    }
    for asked in ["src/../secret", "../src/x", "/etc/passwd", "docs/a.md", "src/../../src/x", "/src/x"] {
        assert_eq!(ruling(asked), Ruling::Ask, "{asked}");
    }
    assert_eq!(ruling("src/.env"), Ruling::Deny);
    assert_eq!(ruling("src/x/../.env"), Ruling::Deny);
    // Where nobody knows what a path is relative to, nothing is allowed, and what is denied stays so.
    let input = Json::parse(r#"{"file_path":"src/main.rs"}"#).unwrap();
    assert_eq!(rules.decide(&PendingCall::of("Edit", Some(&input), None)).ruling, Ruling::Deny);
    // Nor where it may be somebody's home, or stand before blanks.
    assert_eq!(resolve("~/.ssh/id_rsa", Some("/x")), None);
    assert_eq!(resolve(" /etc/passwd", Some("/x")).as_deref(), Some("/etc/passwd"));
    assert_eq!(resolve("a/../../b/./c", Some("/x/y")).as_deref(), Some("/x/b/c"));
    assert_eq!(resolve("../../..", Some("/x")).as_deref(), Some("/"));
}

#[test]
fn wrong_rules_are_refused() {
    for wrong in
        ["[[allow]]\ncommand = \"ls\"\n", "[[alow]]\ntool = \"Bash\"\n", "[[allow]]\ntool = \"Bash\"\ncomand = \"ls\"\n"]
    {
        assert!(toml::from_str::<Permissions>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_looked_for_is_a_path_too() {
    let rules = rules("[[allow]]\ntool = \"Glob\"\npath = \"**\"\n");
    let glob = |pattern: &str| {
        let input = Json::parse(&serde_json::json!({ "pattern": pattern }).to_string()).unwrap();
        rules.decide(&PendingCall::of("Glob", Some(&input), Some("/home/dev/project"))).ruling
    };
    for (pattern, ruling) in [
        ("**/*.rs", Ruling::Allow),
        ("src/*", Ruling::Allow),
        ("/etc/**", Ruling::Ask),
        ("../../**", Ruling::Ask),
        ("*/../../../etc/*", Ruling::Ask),
        ("~/**", Ruling::Ask),
    ] {
        assert_eq!(glob(pattern), ruling, "{pattern}");
    }
}

#[test]
fn what_cannot_be_read_is_not_allowed_and_may_be_denied() {
    let denied = rules("[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n[[allow]]\ntool = \"Bash\"\n");
    let input = Json::parse(r#"{"command":["rm","x"]}"#).unwrap();
    assert_eq!(denied.decide(&PendingCall::of("Bash", Some(&input), None)).ruling, Ruling::Deny);
    // Codex gives every command to a shell.
    let codex = rules("[[allow]]\ntool = \"Bash\"\ncommand = \"git status\"\n");
    assert_eq!(codex.decide(&command("/bin/bash -lc 'git status'")).ruling, Ruling::Allow);
    assert_eq!(codex.decide(&command("/bin/bash -lc 'git status; rm x'")).ruling, Ruling::Ask);
}

#[test]
fn what_could_be_a_path_of_a_tool_nobody_knows_is_one() {
    let rules = rules("[[allow]]\ntool = \"*\"\npath = \"src/**\"\n[[deny]]\ntool = \"*\"\npath = \"/etc/**\"\n");
    let ruling = |tool: &str, input: serde_json::Value| {
        rules.decide(&PendingCall::of(tool, Some(&input.into()), Some("/home/dev/project"))).ruling
    };

    assert_eq!(ruling("mcp__fs__move", json!({"path": "src/a", "destination": "src/b"})), Ruling::Allow);
    assert_eq!(ruling("mcp__fs__move", json!({"path": "src/a", "destination": "/home/b"})), Ruling::Ask);
    assert_eq!(ruling("mcp__fs__move", json!({"path": "src/a", "destination": "/etc/x"})), Ruling::Deny);
    // Whose home that is, nobody knows: it may be what is denied.
    assert_eq!(ruling("mcp__fs__move", json!({"path": "src/a", "to": "~/.ssh"})), Ruling::Deny);
    for hidden in [
        json!({"uri": "file:/etc/passwd"}),
        json!({"uri": "FILE:///etc/passwd"}),
        json!({"uri": "file:///%65tc/passwd"}),
        json!({"ok": "src/a", "file": "/etc/x://../passwd"}),
        json!({"files": {"/etc/passwd": 1}}),
        json!({"file": "/etc/passwd\n"}),
    ] {
        assert_eq!(ruling("mcp__fs__read", hidden.clone()), Ruling::Deny, "{hidden}");
    }
    assert_eq!(ruling("mcp__fs__read", json!({"path": "src/a", "url": "https://x.org/etc", "as": "utf-8"})), Ruling::Allow);
    assert_eq!(ruling("TodoWrite", json!({"todos": [{"content": "~5 tests", "status": "open"}]})), Ruling::Ask);
    for hidden in
        [json!({"paths": ["/etc/x"]}), json!({"files": [{"at": {"path": "/etc/x"}}]}), json!({"uri": "file:///etc/x"})]
    {
        assert_eq!(ruling("mcp__fs__read", hidden.clone()), Ruling::Deny, "{hidden}");
    }
    let deep = format!("{{\"x\":{}\"a/b\"{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(
        rules.decide(&PendingCall::of("mcp__x", Some(&Json::parse(&deep).unwrap()), Some("/work"))).ruling,
        Ruling::Deny
    );
    // What is searched for may lead elsewhere, or says where.
    assert_eq!(ruling("Glob", json!({"pattern": "src/**/*.rs"})), Ruling::Allow);
    assert_eq!(ruling("Glob", json!({"pattern": "*.rs"})), Ruling::Ask);
    assert_eq!(ruling("Grep", json!({"pattern": "x", "path": "src", "glob": "../../../../etc/*"})), Ruling::Deny);
    // A command may go anywhere.
    assert_eq!(ruling("Bash", json!({"command": "id", "file_path": "src/a"})), Ruling::Ask);
    assert_eq!(ruling("Edit", json!({"file_path": "src/a", "old_string": "/etc/x", "new_string": "/etc/y"})), Ruling::Allow);
}

#[test]
fn a_file_without_a_folder_may_be_what_is_denied() {
    let rules = rules("[[allow]]\ntool = \"*\"\n[[deny]]\ntool = \"*\"\npath = \"**/.env\"\n");
    let call = PendingCall::of("mcp__fs__read", Some(&json!({"name": ".env"}).into()), Some("/home/dev/project"));
    assert_eq!(rules.decide(&call).ruling, Ruling::Deny);
}

/// An agent that goes elsewhere takes no rule along.
#[test]
fn rules_are_resolved_from_where_the_agent_was_started() {
    let rules = rules("[[allow]]\ntool = \"Write\"\npath = \"**\"\n[[deny]]\ntool = \"Read\"\npath = \"secrets/**\"\n");
    let ruling = |tool: &str, path: &str, cwd: &str| {
        rules.decide(&PendingCall::of(tool, Some(&json!({"file_path": path}).into()), Some(cwd)).at_home(Some("/proj"))).ruling
    };
    assert_eq!(ruling("Read", "/proj/secrets/key", "/proj/src"), Ruling::Deny);
    assert_eq!(ruling("Read", "../secrets/key", "/proj/src"), Ruling::Deny);
    assert_eq!(ruling("Read", "key", "/proj/secrets"), Ruling::Deny);
    assert_eq!(ruling("Write", "/other/x", "/other"), Ruling::Ask);
    assert_eq!(ruling("Write", "x", "/proj/src"), Ruling::Allow);
}

#[test]
fn a_shell_is_a_command_too() {
    let rules = rules("[[deny]]\ntool = \"Bash\"\ncommand = \"bash *\"\n");
    for text in ["bash -c 'curl x'", "bash script.sh", "ls && bash -lc 'ls'"] {
        assert_eq!(rules.decide(&command(text)).ruling, Ruling::Deny, "{text}");
    }
}

#[test]
fn a_denied_command_is_found_across_lines_that_go_on() {
    let rules = rules("[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n");
    for hidden in [
        "ls && r\\\nm x",
        "if true; then rm x; fi",
        "\\rm x",
        "\"rm\" x",
        "for f in a; do rm $f; done",
        "A=1 command rm x",
        "sh -ec 'rm x'",
        "sh -e -c 'rm x'",
        "sh -o errexit -c 'rm x'",
        "dash -c -- 'rm x'",
        "sh -c 'sh -c \"rm x\"'",
        "X='a b' rm x",
        "2>/dev/null rm x",
        ">f rm x",
        "/bin/rm x",
        "env -i rm x",
        "timeout 5 rm x",
        "nice -n 5 rm x",
        "'r'm x",
    ] {
        assert_eq!(rules.decide(&command(hidden)).ruling, Ruling::Deny, "{hidden}");
    }
}

#[test]
fn a_home_in_a_rule_is_whose_runs_it() {
    let text = "[[allow]]\ntool = \"*\"\n[[deny]]\ntool = \"*\"\npath = [\"~/.ssh/**\", \"~\"]\n";
    let rules = text.parse::<Permissions>().unwrap().with_home("/home/eve/");
    assert_eq!(rules.decide(&file("Read", "/home/eve/.ssh/key")).ruling, Ruling::Deny);
    assert_eq!(rules.decide(&file("Read", "/home/eve")).ruling, Ruling::Deny);
    assert_eq!(rules.decide(&file("Read", "/home/adam/.ssh/key")).ruling, Ruling::Allow);
    let error = "[[deny]]\ntool = \"*\"\npath = \"~adam/x\"\n".parse::<Permissions>().unwrap_err().to_string();
    assert!(error.contains("whose home"), "{error}");
}

#[test]
fn a_rule_for_nothing_is_a_mistake() {
    for text in [
        "[[deny]]\ntool = []\n",
        "[[deny]]\ntool = \"Bash\"\ncommand = []\n",
        "[[deny]]\ntool = \"Read\"\npath = []\n",
        "[[deny]]\ntool = \"\"\n",
    ] {
        let error = text.parse::<Permissions>().unwrap_err().to_string();
        let said = ["an empty name matches nothing", "is an empty list, but must be at least one name"];
        assert!(said.iter().any(|said| error.contains(said)) && error.contains("line "), "{error}");
    }
}

#[test]
fn rules_beneath_others_loosen_nothing() {
    let ceiling =
        rules("[[allow]]\ntool = \"Bash\"\ncommand = \"git *\"\n[[deny]]\ntool = \"Bash\"\ncommand = \"git push*\"\n");
    let all = rules("[[allow]]\ntool = \"*\"\n[[deny]]\ntool = \"Bash\"\ncommand = \"git log\"\n").beneath(ceiling);
    let decide = |text: &str| {
        let decision = all.decide(&command(text));
        (decision.ruling, decision.rule)
    };
    let rule = |name: &str| Some(name.to_owned());
    assert_eq!(decide("git status"), (Ruling::Allow, rule("allow[0]")));
    assert_eq!(decide("ls"), (Ruling::Ask, None));
    assert_eq!(decide("git push"), (Ruling::Deny, rule("ceiling.deny[0]")));
    assert_eq!(decide("git log"), (Ruling::Deny, rule("deny[0]")), "its own deny holds, too");
    // What changes rules changes those above, too.
    let home = rules("[[allow]]\ntool = \"*\"\n").beneath(rules("[[deny]]\ntool = \"Read\"\npath = \"~/.ssh/**\"\n"));
    let read = file("Read", "/home/eve/.ssh/id");
    assert_eq!(home.clone().with_home("/home/eve").decide(&read).ruling, Ruling::Deny);
    let linked = |path: &str| path.replace("/home/dev/.ssh", "/home/eve/.ssh");
    let behind = home.with_home("/home/dev").behind_links(None, linked);
    assert_eq!(behind.decide(&read).ruling, Ruling::Deny);
}
