//! Permission rules that are written wrongly are told, in words that say what to write instead; and a rule that is suggested works.

use serde_json::{Value, json};
use tapline_session::permission::{PendingCall, Permissions, Ruling};
use tapline_testkit::fixtures;

fn wrong(text: &str) -> String {
    text.parse::<Permissions>().map(|rules| panic!("{text} was taken: {rules:?}")).unwrap_err().to_string()
}

#[test]
fn a_rule_that_can_never_match_is_refused_and_what_to_write_instead_is_said() {
    for (rule, said) in [
        (r#"tool = "bash""#, "did you mean `Bash`?"),
        (r#"tool = "READ""#, "did you mean `Read`?"),
        (r#"tool = ["Read", "webfetch"]"#, "did you mean `WebFetch`?"),
        (r#"tool = "bash*""#, "did you mean `Bash`?"),
        (r#"tool = "Bash(git status)""#, r#"write tool = "Bash" and command = "git status""#),
        (r#"tool = "bash(git log:*)""#, r#"write tool = "Bash" and command = "git log *""#),
        (r#"tool = "Bash(*)""#, r#"write tool = "Bash""#),
        (r#"tool = "Edit(src/**)""#, r#"write tool = "Edit" and path = "src/**""#),
        (r#"tool = "Read(//etc/**)""#, r#"write tool = "Read" and path = "/etc/**""#),
        (r#"tool = "WebFetch(domain:example.com)""#, r#"write tool = "WebFetch" alone"#),
        (r#"tool = "Bash, Read""#, r#"write tool = ["Bash", "Read"]"#),
        (r#"tool = " Bash""#, r#"write tool = "Bash""#),
        (r#"tool = "mcp__github""#, r#"write tool = "mcp__github__*""#),
        ("tool = \"Bash\"\npath = \"src/**\"", "write `command`"),
        ("tool = \"Monitor\"\npath = \"src/**\"", "never matches Monitor"),
        ("tool = \"Bash\"\ncommand = \"ls\"\npath = \"src/**\"", "never matches Bash"),
        ("tool = \"Read\"\ncommand = \"ls\"", "Read runs no command"),
        ("tool = [\"Write\", \"Edit\"]\ncommand = \"ls\"", "write `path`"),
        ("tool = \"WebSearch\"\ncommand = \"ls\"", "leave it out"),
        ("tool = \"WebFetch\"\npath = \"x\"", "leave it out"),
        ("tool = []", "is an empty list, but must be at least one name"),
        ("tool = \"Read\"\npath = \"~dev/x\"", "write the whole path"),
    ] {
        for list in ["allow", "deny", "ask"] {
            let error = wrong(&format!("[[{list}]]\ntool = \"Glob\"\n\n[[{list}]]\n{rule}\n"));
            assert!(error.contains(said), "{rule}: {error}");
            // Which of the rules it is: by its line, or by what it says.
            let told = ["line 5", "line 6", "(ls)", "(src/**)", "(x)"];
            let names_it = told.iter().any(|text| error.contains(text));
            assert!(names_it, "{rule}: {error}");
        }
    }
}

#[test]
fn what_is_no_list_of_rules_is_said_in_plain_words() {
    for (text, said) in [
        ("allow = [\"Bash\"]", "`allow[0]` is the text \"Bash\", but must be a rule, like [[allow]] with tool = \"Bash\""),
        ("allow = \"Bash\"", "`allow` is the text \"Bash\", but must be a list of rules, like [[allow]]"),
        ("[allow]\ntool = \"Bash\"", "`allow` is one table, but must be a list of rules: write [[allow]], in two brackets"),
        (
            "[[alow]]\ntool = \"Bash\"",
            "a permission file has no key `alow`: did you mean `allow`? Allowed here: `allow`, `deny`, `ask`",
        ),
        ("[[allow]]\ncommand = \"ls\"", "the rule allow[0] has no `tool`: every rule needs it, like tool = \"Bash\""),
        ("[[allow]]\ntool = 5", "`allow[0].tool` is 5, but must be a name or a list of names, like tool = \"Bash\""),
        ("[[allow]]\ntool = \"Bash\"\ncommand = [\"ls\", 5]", "`allow[0].command` contains 5, but may contain only names"),
        ("[[deny]]\ntool = \"Bash\"\nreason = 5", "`deny[0].reason` is 5, but must be a text, like reason = "),
        ("[[deny]]\ntool = \"Bash\"\ncomand = \"rm *\"", "the rule deny[0] has no key `comand`: did you mean `command`?"),
        ("[[deny]]\ntool = Bash", "line 2: `tool = Bash` is not TOML: string values must be quoted; it is written like"),
        ("{\"allow\": []}", "line 1: `{\"allow\": []}` is not TOML: "),
    ] {
        let error = wrong(text);
        let foreign = ["struct", "sequence", "invalid type", "unknown field", "missing field", "TOML parse error"];
        assert!(error.contains(said) && !foreign.iter().any(|word| error.contains(word)), "{text}: {error}");
    }
}

#[test]
fn what_is_most_likely_not_meant_is_doubted() {
    let doubts = |text: &str| text.parse::<Permissions>().unwrap().doubts();
    for (text, said) in [
        (
            "[[deny]]\ntool = [\"Read\", \"Bash\"]\npath = \"secrets/**\"",
            "deny[0]: a rule with `path` (secrets/**) never matches Bash",
        ),
        ("[[ask]]\ntool = [\"Read\", \"Bash\"]\ncommand = \"rm *\"", "ask[0]: Read runs no command"),
        ("[[deny]]\ntool = \"Wirte\"", "deny[0]: no tool named `Wirte` is known: did you mean `Write`?"),
        (
            "[[allow]]\ntool = \"Bash\"\ncommand = \"git:*\"",
            "allow[0]: `git:*` is how the agent writes its own rules; here, `git *`",
        ),
        ("[[allow]]\ntool = \"Bash\"\ncommand = \"git status && ls\"", "(`git status`, `ls`)"),
        ("[[allow]]\ntool = \"Bash\"\ncommand = \"cargo test > log\"", "`cargo test > log` allows nothing"),
        ("[[allow]]\ntool = \"Bash\"\ncommand = \"ls \"", "no command begins or ends with a space"),
        ("[[deny]]\ntool = \"Bash\"\ncommand = \"rm\"", "deny[0]: `rm` matches only the command without arguments; `rm *`"),
    ] {
        let doubts = doubts(text);
        assert!(doubts.len() == 1 && doubts[0].contains(said), "{text}: {doubts:?}");
    }
    for sound in [
        "[[allow]]\ntool = [\"Bash\", \"Read\", \"mcp__calc__add\", \"mcp__*\", \"*\"]",
        "[[allow]]\ntool = \"Bash\"\ncommand = [\"git *\", \"npm run test:*\", \"a=1 make\", \"git commit -m 'a && b'\", \"./test.sh\"]",
        "[[deny]]\ntool = \"*\"\npath = \"**/.env\"\n[[deny]]\ntool = \"*\"\ncommand = [\"rm *\", \"*curl*|*sh*\"]",
        "[[ask]]\ntool = \"command_execution\"\ncommand = \"git push*\"",
    ] {
        assert_eq!(doubts(sound), [""; 0], "{sound}");
    }
}

/// Every tool that a recorded session has can be named in a rule without a doubt.
#[test]
fn every_tool_of_the_fixtures_is_known() {
    let mut seen = 0;
    let folders = std::fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.filter(|path| path.is_dir()).flat_map(|path| std::fs::read_dir(path).unwrap());
    for file in files.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "jsonl")) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for line in lines.filter(|line| line["subtype"] == "init") {
            for tool in line["tools"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let rules: Permissions = format!("[[deny]]\ntool = {tool:?}\n").parse().unwrap();
                assert_eq!(rules.doubts(), [""; 0], "{}: {tool}", file.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

fn call(tool: &str, input: &Value) -> PendingCall {
    PendingCall::of(tool, Some(&input.clone().into()), Some("/home/dev/project"))
}

/// What is suggested, as a file of its own.
fn suggested(rules: &Permissions, call: &PendingCall) -> Option<String> {
    let suggestion = rules.suggest(call).ok()?;
    Some(format!("allow = [{{ {} }}]", suggestion.lines().join(", ")))
}

#[test]
fn the_narrowest_rule_that_would_allow_a_call_is_suggested_and_works() {
    let bash = |command: &str| call("Bash", &json!({ "command": command }));
    for (call, rule) in [
        (bash("git status"), r#"allow = [{ tool = "Bash", command = "git status" }]"#),
        (bash(" git log -1 "), r#"allow = [{ tool = "Bash", command = "git log -1" }]"#),
        (bash("cd sub && make \"a b\""), r#"allow = [{ tool = "Bash", command = ["cd sub", "make \"a b\""] }]"#),
        (bash("ls | wc -l 2>&1"), r#"allow = [{ tool = "Bash", command = ["ls", "wc -l"] }]"#),
        (bash("a=1 make"), r#"allow = [{ tool = "Bash", command = "a=1 make" }]"#),
        (bash("timeout 5 cargo test"), r#"allow = [{ tool = "Bash", command = "timeout 5 cargo test" }]"#),
        (bash("echo $(date)"), r#"allow = [{ tool = "Bash", command = ["echo $(date)", "date"] }]"#),
        (bash("/bin/bash -lc 'ls -l'"), r#"allow = [{ tool = "Bash", command = "ls -l" }]"#),
        (bash("grep 'a\\b' f"), r#"allow = [{ tool = "Bash", command = "grep 'a\\b' f" }]"#),
        (bash("./test.sh"), r#"allow = [{ tool = "Bash", command = "./test.sh" }]"#),
        (bash("echo 'é\u{202e}'"), r#"allow = [{ tool = "Bash", command = "echo 'é\U0000202E'" }]"#),
        (call("Monitor", &json!({"command": "ls"})), r#"allow = [{ tool = "Monitor", command = "ls" }]"#),
        (call("PowerShell", &json!({"command": "Get-Date"})), r#"allow = [{ tool = "PowerShell", command = "Get-Date" }]"#),
        (call("Read", &json!({"file_path": "src/a b.rs"})), r#"allow = [{ tool = "Read", path = "src/a b.rs" }]"#),
        (call("Edit", &json!({"file_path": "/home/dev/project/../x"})), r#"allow = [{ tool = "Edit", path = "/home/dev/x" }]"#),
        (call("Write", &json!({"file_path": ".git/config"})), r#"allow = [{ tool = "Write", path = ".git/config" }]"#),
        (call("Grep", &json!({"pattern": "x"})), r#"allow = [{ tool = "Grep", path = "/home/dev/project" }]"#),
        (call("WebFetch", &json!({"url": "https://example.com"})), r#"allow = [{ tool = "WebFetch" }]"#),
        (call("mcp__fs__read", &json!({"file": "a/b"})), r#"allow = [{ tool = "mcp__fs__read", path = "a/b" }]"#),
        (call("mcp__calc__add", &json!({"a": 1})), r#"allow = [{ tool = "mcp__calc__add" }]"#),
    ] {
        let text = suggested(&Permissions::default(), &call);
        assert_eq!(text.as_deref(), Some(rule), "{call:?}");
        let rules: Permissions = rule.parse().unwrap();
        assert_eq!((rules.decide(&call).ruling, rules.doubts()), (Ruling::Allow, vec![]), "{rule}");
    }
}

#[test]
fn nothing_is_suggested_that_would_not_work_and_why_is_said() {
    let bash = |command: &str| call("Bash", &json!({ "command": command }));
    let none = Permissions::default();
    for (command, said) in [
        ("ls > f", "it is redirected (`> f`); a rule allows only `> /dev/null` and `2>&1`"),
        ("cd sub && make 2> log.txt", "it is redirected (`> log.txt`)"),
        ("wc -l < f", "it is redirected (`< f`)"),
        ("echo $(ls > f)", "it is redirected (`> f`)"),
        ("/bin/bash -lc 'ls > f'", "it is redirected (`> f`)"),
        ("cat <<E\nE", "it has a here-document (`<<E`)"),
        ("$CMD x", "the name of a command must be written out, and `$CMD` is not"),
        ("if true; then ls; fi", "`if`, a loop"),
        ("(ls)", "brackets"),
        ("f() { ls; }; f", "it defines a function (`f`)"),
        ("ls &", "it has something that runs in the background (`&`)"),
        ("ls # all", "it has a comment (`#`)"),
        ("ls $'a'", "it has `$'…'`"),
        ("echo `date`", "it has backticks"),
        ("make &> log", "redirect"),
        ("echo ${a:-b}", "`${a:-b}` is more than text"),
        ("diff <(ls) f", "`<(ls)` is more than text"),
        ("a=$(date) make", "must be plain text, unlike `a=$(date)`"),
        ("test -f a; ls", "`test` evaluates its arguments"),
        ("ls; eval 'rm x'", "`eval` evaluates its arguments"),
        ("cd sub && ./test.sh", "`./test.sh` is allowed only in the folder where the agent was started"),
        ("ls \\\n-l", "a line continues with `\\`"),
        ("'", "it cannot be read"),
    ] {
        let why = none.suggest(&bash(command)).unwrap_err().to_string();
        assert!(why.contains(said), "{command}: {why}");
    }
    for (command, said) in [
        ("X=1", "it sets a variable and runs nothing with it (`X=1`)"),
        (" ", "its command is empty"),
        ("ls; X=1; wc", "it sets a variable and runs nothing with it (`X=1`)"),
    ] {
        let why = none.suggest(&bash(command)).unwrap_err().to_string();
        assert!(why.contains(said), "{command}: {why}");
    }
    let home = none.suggest(&call("Read", &json!({"file_path": "~/x"}))).unwrap_err().to_string();
    assert!(home.contains("needs the whole path"), "{home}");
    assert!(none.suggest(&call("Bash", &json!({"command": ["ls"]}))).unwrap_err().to_string().contains("not plain text"));
    let elsewhere = PendingCall { cwd: Some("/home/dev/project/sub".to_owned()), ..bash("./test.sh") };
    assert!(none.suggest(&elsewhere).is_err(), "it is another script");
    // Where a rule denies, or wants it asked, another that allows is no help.
    for rules in ["deny = [{ tool = \"Bash\", command = \"rm *\" }]", "ask = [{ tool = \"Bash\" }]"] {
        let rules: Permissions = rules.parse().unwrap();
        assert!(rules.suggest(&bash("rm x")).is_err() && rules.suggest(&bash("$CMD x")).is_err());
    }
    // What is allowed already is not said again.
    let rules: Permissions = "allow = [{ tool = \"Bash\", command = \"cd *\" }]".parse().unwrap();
    assert_eq!(suggested(&rules, &bash("cd sub && ls")).as_deref(), Some(r#"allow = [{ tool = "Bash", command = "ls" }]"#));
}

/// In a rule `*` stands for anything. A rule made of a call that has one would allow other calls, too.
#[test]
fn no_rule_is_suggested_that_would_allow_more_than_the_call() {
    let bash = |command: &str| call("Bash", &json!({ "command": command }));
    let none = Permissions::default();
    let star = "has a `*`, and in a rule that stands for anything";
    for (call, said) in [
        (bash("rm *"), star),
        (bash("rm -rf build/*"), star),
        (bash("ls; rm *.o"), star),
        (bash("grep 'a*' f"), star),
        (bash("find . -name \\*.rs"), star),
        (bash("/bin/bash -lc 'rm *'"), star),
        (bash("echo $(rm *)"), star),
        (bash("git '*'"), star),
        (call("Monitor", &json!({"command": "rm *"})), star),
        (call("Write", &json!({"file_path": "/home/dev/project/**"})), star),
        (call("Edit", &json!({"file_path": "src/*.rs"})), star),
        (call("mcp__fs__write", &json!({"file": "a/*"})), star),
        (call("*", &json!({})), star),
        (call("Ba*", &json!({"command": "ls"})), star),
        (call("mcp__*__x", &json!({})), star),
        (call("Bash", &json!({})), "it names no command, and a rule for Bash alone would allow every command"),
        (call("Bash", &json!({"command": null})), "it names no command"),
        (call("PowerShell", &json!({})), "it names no command"),
        (call("Monitor", &json!({"path": "a"})), "it names no command"),
        (call("Write", &json!({"content": "x"})), "it names no file, and a rule for Write alone would allow every file"),
        (call("Read", &json!({})), "it names no file"),
    ] {
        let why = none.suggest(&call).map(|rule| panic!("{call:?}: {rule:?}")).unwrap_err().to_string();
        assert!(why.contains(said), "{call:?}: {why}");
    }
    // What is allowed already is not part of the rule.
    let rules: Permissions = "allow = [{ tool = \"Bash\", command = \"echo *\" }]".parse().unwrap();
    let rule = suggested(&rules, &bash("echo *; ls"));
    assert_eq!(rule.as_deref(), Some(r#"allow = [{ tool = "Bash", command = "ls" }]"#));
    // A folder called `~` is no home.
    let rule = suggested(&none, &call("Read", &json!({"file_path": "./~/x"})));
    assert_eq!(rule.as_deref(), Some(r#"allow = [{ tool = "Read", path = "/home/dev/project/~/x" }]"#));
}

#[test]
fn a_reason_why_no_rule_allows_a_call_is_so() {
    let none = Permissions::default();
    for (tool, said) in [
        ("mcp__srv", "`mcp__srv` is read as the name of an MCP server"),
        ("my tool", "`my tool` is read as several names"),
        ("x,Bash", "`x,Bash` is read as several names"),
        ("Bash(ls)", "`Bash(ls)` is read as a rule of the agent's own"),
        ("bash", "`bash` is read as `Bash` in a different case"),
        ("", "its tool has no name"),
    ] {
        let why = none.suggest(&call(tool, &json!({}))).unwrap_err().to_string();
        assert!(why.contains(said) && !why.contains("prevents it"), "{tool}: {why}");
    }
    let rules: Permissions = "deny = [{ tool = \"Read\" }]\nask = [{ tool = \"Bash\" }]".parse().unwrap();
    for (call, said) in [
        (call("Read", &json!({"file_path": "a"})), "deny[0] prevents it"),
        (call("Bash", &json!({"command": "ls"})), "ask[0] prevents it"),
    ] {
        assert_eq!(rules.suggest(&call).unwrap_err().to_string(), said);
    }
}
