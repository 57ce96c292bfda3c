//! What is told after a denied call would really permit it: each suggestion is put where it says, and the run is made again.

use tapline_testkit::TempFolder;

use crate::first_run::rejecting_codex;
use crate::tapline::{Ran, tapline, tapline_on};

/// An agent that asks for these calls (name and input) one after another, and does what it is told.
pub(crate) fn agent(folder: &TempFolder, calls: &[(&str, &str)]) -> String {
    let ask = |at: usize| {
        match calls.get(at) {
        Some((tool, input)) => format!(
            "say '{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"tool_use\",\"id\":\"t{at}\",\"name\":\"{tool}\",\"input\":{input}}}]}}}}'
say '{{\"type\":\"control_request\",\"request_id\":\"q{at}\",\"request\":{{\"subtype\":\"can_use_tool\",\"tool_name\":\"{tool}\",\"input\":{input},\"tool_use_id\":\"t{at}\"}}}}'"
        ),
        None => "say '{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"done\",\"session_id\":\"s\",\"num_turns\":1}'\nexit".to_owned(),
    }
    };
    let answers: Vec<String> = (0..calls.len())
        .map(|at| {
            let denied = format!("say '{{\"type\":\"system\",\"subtype\":\"permission_denied\",\"tool_name\":\"{}\",\"tool_use_id\":\"t{at}\"}}'", calls[at].0);
            let answer = |is_error: bool| format!("say '{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t{at}\",\"is_error\":{is_error},\"content\":\"so\"}}]}}}}'");
            format!("*'\"request_id\":\"q{at}\"'*) case $line in *'\"behavior\":\"allow\"'*) {} ;; *) {}\n{} ;; esac\n{} ;;\n", answer(false), denied, answer(true), ask(at + 1))
        })
        .collect();
    let script = format!(
        r#"say() {{ printf '%s\n' "$1"; }}
while IFS= read -r line; do
case $line in
*'"subtype":"initialize"'*) say '{{"type":"control_response","response":{{"subtype":"success","request_id":"'"$(printf %s "$line" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')"'","response":{{}}}}}}' ;;
*'"type":"user"'*) say '{{"type":"system","subtype":"init","session_id":"s","permissionMode":"default"}}'
{} ;;
{}esac
done
"#,
        ask(0),
        answers.concat()
    );
    folder.script("agent", &script)
}

fn run(agent: &str, folder: &TempFolder, rules: &str) -> Ran {
    let rules = folder.file("rules.toml", rules);
    tapline(&[
        "run",
        "go",
        "--no-record",
        "--bin",
        agent,
        "--cwd",
        &folder.path(""),
        "--permissions",
        &rules,
        "--format",
        "text",
    ])
}

/// The lines of advice: what it says first, and what is to be copied, as it stands there.
fn advice(ran: &Ran) -> (&str, String) {
    let mut lines = ran.err.lines().filter(|line| !line.starts_with("tapline: denied: "));
    let said = lines.next().unwrap().strip_prefix("tapline: ").unwrap();
    (said, lines.take_while(|line| !line.starts_with("tapline: ")).collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_rule_that_is_suggested_after_a_denial_allows_the_call() {
    let folder = TempFolder::new();
    let read = format!("{{\"file_path\":\"{}\"}}", folder.path("a.txt"));
    let agent =
        agent(&folder, &[("Bash", r#"{"command":"git status"}"#), ("Bash", r#"{"command":"ls \"a b\""}"#), ("Read", &read)]);
    let (bash, file) = (r#"tool = "Bash", command = ["git status", "ls \"a b\""]"#, r#"tool = "Read", path = "a.txt""#);
    for before in ["", "deny = [{ tool = \"Write\" }]\n", "[[deny]]\ntool = \"Write\"\n"] {
        let ran = run(&agent, &folder, before);
        assert_eq!(ran.err.matches("no permission rule allows it, and there is nobody to ask").count(), 3, "{}", ran.err);
        let list = format!("allow = [{{ {bash} }}, {{ {file} }}]");
        let (said, copied) = advice(&ran);
        assert!(said.ends_with("rules.toml:") && said.contains("add at the top of") && copied == list, "{}", ran.err);
        assert_eq!(run(&agent, &folder, &format!("{list}\n{before}")).err, "", "{before}");
    }
    let before = "[[allow]]\ntool = \"Glob\"\n";
    let ran = run(&agent, &folder, before);
    let (said, copied) = advice(&ran);
    assert!(said.starts_with("to allow this, add at the end of") && copied.starts_with("[[allow]]\ntool = "), "{}", ran.err);
    assert_eq!(run(&agent, &folder, &format!("{before}{copied}\n")).err, "", "{copied}");
    let ran = run(&agent, &folder, "allow = [{ tool = \"Glob\" }]\n");
    let (_, copied) = advice(&ran);
    assert_eq!(run(&agent, &folder, &format!("allow = [{{ tool = \"Glob\" }}, {copied}]\n")).err, "", "{copied}");
}

#[test]
fn a_rule_that_wants_a_person_is_named_where_nobody_is_there() {
    let folder = TempFolder::new();
    let agent = agent(&folder, &[("Bash", r#"{"command":"git push"}"#)]);
    let ran = run(&agent, &folder, "ask = [{ tool = \"Bash\", command = \"git push*\" }]\n");
    assert!(
        ran.err.contains("denied: Bash `git push`: ask[0] requires asking a person, and there is nobody to ask\n"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("what ask[0] prevents") && ran.err.contains("tapline chat asks you"), "{}", ran.err);
    assert!(!ran.err.contains("allow = ["), "no rule beside it would help: {}", ran.err);
    let ran = run(&agent, &folder, "deny = [{ tool = \"Bash\", reason = \"no\" }]\n");
    assert!(ran.err.contains("denied: Bash `git push`: no (deny[0])\n"), "{}", ran.err);
    assert!(ran.err.contains("what deny[0] prevents is allowed only by changing that rule in"), "{}", ran.err);
}

#[test]
fn what_no_rule_can_allow_is_named_with_the_reason_beside_what_one_can() {
    let folder = TempFolder::new();
    let calls = [
        ("Bash", r#"{"command":"ls > f"}"#),
        ("Bash", r#"{"command":"git status"}"#),
        ("Bash", r#"{"command":"$CMD x"}"#),
        ("Read", r#"{"file_path":"~/x"}"#),
    ];
    let agent = agent(&folder, &calls);
    let ran = run(&agent, &folder, "");
    for said in [
        "tapline: no rule can allow Bash `ls > f`: it is redirected (`> f`); a rule allows only `> /dev/null` and `2>&1`\n",
        "tapline: no rule can allow Bash `$CMD x`: the name of a command must be written out, and `$CMD` is not\n",
        "tapline: no rule can allow Read `~/x`: ",
        "rules.toml:\nallow = [{ tool = \"Bash\", command = \"git status\" }]\n",
        "tapline chat asks you",
    ] {
        assert_eq!(ran.err.matches(said).count(), 1, "{said}: {}", ran.err);
    }
}

/// An agent without rules that was denied these calls, with the reason that it gives for each.
pub(crate) fn denied<T: std::fmt::Display>(folder: &TempFolder, calls: &[(&str, T, &str)]) -> String {
    let mut lines = vec![r#"{"type":"system","subtype":"init","session_id":"s","cwd":"/home/dev/project"}"#.to_owned()];
    for (at, (tool, input, why)) in calls.iter().enumerate() {
        lines.push(format!(r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"t{at}","name":"{tool}","input":{input}}}]}}}}"#));
        lines.push(format!(
            r#"{{"type":"system","subtype":"permission_denied","tool_name":"{tool}","tool_use_id":"t{at}","message":"{why}"}}"#
        ));
    }
    lines.push(r#"{"type":"result","subtype":"success","result":"done","session_id":"s","num_turns":1}"#.to_owned());
    let stream = folder.file("stream.jsonl", &(lines.join("\n") + "\n"));
    folder.script("agent", &format!("cat {stream}"))
}

#[test]
fn where_no_flag_helps_a_rule_is_suggested_and_what_was_given_is_not_suggested_again() {
    let folder = TempFolder::new();
    let sensitive = "Claude requested permissions to edit /home/dev/project/.git/config which is a sensitive file.";
    let plain = "Claude requested permissions to write to /home/dev/project/a, but you haven't granted it yet.";
    let guarded = "Claude requested permissions to write to /home/dev/project/.claude/x, but you haven't granted it yet.";
    let write = |name: &str| format!("{{\"file_path\":\"/home/dev/project/{name}\"}}");
    let (git, claude, file) = (write(".git/config"), write(".claude/x"), write("a"));
    let told = |calls: &[(&str, &str, &str)], args: &[&str]| {
        let agent = denied(&folder, calls);
        tapline(&[&["run", "go", "--no-record", "--format", "text", "--bin", &agent], args].concat()).err
    };
    for (call, rule) in [
        (("Edit", &*git, sensitive), r#"allow = [{ tool = "Edit", path = ".git/config" }]"#),
        (
            ("Bash", r#"{"command":"touch .git/config"}"#, sensitive),
            r#"allow = [{ tool = "Bash", command = "touch .git/config" }]"#,
        ),
        (("Write", &*claude, guarded), r#"allow = [{ tool = "Write", path = ".claude/x" }]"#),
        (("Bash", r#"{"command":"touch .claude/x"}"#, guarded), r#"allow = [{ tool = "Bash", command = "touch .claude/x" }]"#),
    ] {
        let err = told(&[call], &[]);
        assert!(err.contains(&format!("add --permissions rules.toml\n{rule}\n")) && !err.contains("to allow this: "), "{err}");
    }
    let both = told(&[("Write", &file, plain), ("Edit", &git, sensitive)], &[]);
    assert!(both.contains(r#"to allow this: --allowed-tools "Write""#), "{both}");
    assert!(
        both.contains("no flag allows the rest") && both.contains("\nallow = [{ tool = \"Edit\", path = \".git/config\" }]\n"),
        "{both}"
    );
    let again = told(&[("Write", &file, plain)], &["--allowed-tools", "Read,Write"]);
    assert!(
        !again.contains("--allowed-tools \"Write\"") && again.contains("\nallow = [{ tool = \"Write\", path = \"a\" }]\n"),
        "{again}"
    );
    let never = told(&[("Bash", r#"{"command":"ls > .git/config"}"#, sensitive)], &[]);
    assert!(never.contains("no flag and no rule can allow Bash `ls > .git/config`: it is redirected"), "{never}");
    let whole = told(&[("Bash", r#"{"command":"echo 'a'"}"#, "This command requires approval")], &["--allowed-tools", "Bash"]);
    assert!(
        whole.contains("no flag allows this: ") && !whole.contains("every command"),
        "it was given, and did not help: {whole}"
    );
    // What the agent wrote stays on the line that says who speaks.
    let spoof = told(&[("Bash", r#"{"command":"echo ${a:-\ntapline: all is well}"}"#, sensitive)], &[]);
    assert!(spoof.contains("no flag and no rule can allow Bash") && !spoof.contains("\ntapline: all is well"), "{spoof}");
    let accepted = told(&[("Write", &file, plain)], &["--permission-mode", "acceptEdits"]);
    assert!(
        !accepted.contains("or --permission-mode acceptEdits") && accepted.contains("--permissions rules.toml\n"),
        "{accepted}"
    );
    let forbidden = told(&[("Bash", r#"{"command":"ls"}"#, "Permission to use Bash with command ls has been denied.")], &[]);
    assert!(forbidden.contains("Bash `ls`: the agent's settings, or --disallowed-tools, deny it"), "{forbidden}");
    assert!(!forbidden.contains("to allow this"), "{forbidden}");
}

/// A chat by a script tells at its end what was denied and what would allow it, in the words of `run`, in every format.
#[test]
fn a_chat_by_a_script_tells_denials_and_fails_on_them_as_a_run_does() {
    let folder = TempFolder::new();
    let agent = agent(&folder, &[("Bash", r#"{"command":"git status"}"#), ("Bash", r#"{"command":"ls > f"}"#)]);
    let ran = run(&agent, &folder, "");
    let told: Vec<&str> = ran.err.lines().collect();
    assert!(
        told.len() == 7 && told[6].contains("--fail-on denied") && told[0].starts_with("tapline: denied: Bash `git status`: "),
        "{}",
        ran.err
    );
    let rules = folder.path("rules.toml");
    let chat = |more: &[&str]| {
        let args = ["chat", "--no-record", "--bin", &agent, "--cwd", &folder.path(""), "--permissions", &rules];
        tapline_on(b"go\n", &[&args, more].concat())
    };
    for format in ["text", "view", "stream-json"] {
        let chatted = chat(&["--format", format]);
        assert_eq!(chatted.code, 0, "{format}: {}", chatted.err);
        let lines: Vec<&str> = chatted.err.lines().take(told.len()).collect();
        assert_eq!(lines, told, "{format}");
    }
    let script = folder.file("script.txt", "go\n");
    let args =
        ["chat", "--script", &script, "--no-record", "--bin", &agent, "--cwd", &folder.path(""), "--permissions", &rules];
    let job = crate::tapline::command(&args).args(["--format", "view"]).env("CI", "1").output().unwrap();
    let log = String::from_utf8(job.stderr).unwrap();
    assert!(log.contains("tapline: 2 calls denied, as shown above\n") && !log.contains("denied: Bash"), "{log}");
    let failed = chat(&["--format", "text", "--fail-on", "denied"]);
    assert_eq!((failed.code, failed.out.as_str()), (1, "done\n"), "{}", failed.err);
    assert!(failed.err.ends_with("tapline: exit code 1, because calls were denied (--fail-on)\n"), "{}", failed.err);
    assert_eq!(chat(&["--format", "text", "--fail-on", "max-tokens"]).code, 0);
    assert_eq!(chat(&["--fail-on", "denyed"]).code, 2, "a code that there is not");
    folder.file("rules.toml", "allow = [{ tool = \"Bash\" }]\n");
    let allowed = chat(&["--format", "text", "--fail-on", "denied"]);
    assert_eq!((allowed.code, allowed.err.as_str()), (0, ""));
}

/// Codex is a run a turn: what it rejects in any of them is told at the end.
#[test]
fn a_chat_with_codex_tells_what_it_rejected_in_any_turn() {
    let folder = TempFolder::new();
    let bin = rejecting_codex(&folder);
    let chat = |more: &[&str]| {
        let args = ["chat", "--no-record", "--agent", "codex", "--bin", &bin, "--format", "text"];
        tapline_on(b"one\ntwo\n", &[&args, more].concat())
    };
    let told = chat(&[]);
    assert_eq!((told.code, told.err.matches("denied: a patch (2 times): ").count()), (0, 1), "{}", told.err);
    assert_eq!(told.err.matches("-- -s workspace-write").count(), 1, "{}", told.err);
    assert_eq!(chat(&["--fail-on", "denied"]).code, 1);
}

/// What a run without rules says after these calls were denied.
fn told_of(folder: &TempFolder, calls: &[(&str, &str)], args: &[&str]) -> String {
    let asks = "This command requires approval";
    let agent = denied(folder, &calls.iter().map(|(tool, input)| (*tool, *input, asks)).collect::<Vec<_>>());
    tapline(&[&["run", "go", "--no-record", "--format", "text", "--bin", &agent], args].concat()).err
}

/// `--allowed-tools` is never given more than what was denied, without a word about it.
#[test]
fn no_flag_is_advised_that_allows_more_than_what_was_denied() {
    let folder = TempFolder::new();
    for (command, flag) in [
        ("git status", "Bash(git status)"),
        ("ls | wc", "Bash(ls),Bash(wc)"),
        ("npm test && git push", "Bash(git push),Bash(npm test)"),
        ("curl http://127.0.0.1:1/x", "Bash(curl http://127.0.0.1:1/x)"),
    ] {
        let told = told_of(&folder, &[("Bash", &format!("{{\"command\":\"{command}\"}}"))], &[]);
        assert!(told.contains(&format!("to allow this: --allowed-tools \"{flag}\"\n")), "{command}: {told}");
    }
    let rule = told_of(&folder, &[("Bash", r#"{"command":"git commit -m 'x'"}"#)], &[]);
    let said = "no flag allows just this (Bash allows every command). A rule does: save the next line as rules.toml and add --permissions rules.toml\n\
                allow = [{ tool = \"Bash\", command = \"git commit -m 'x'\" }]\n";
    assert!(rule.contains(said) && !rule.contains("--allowed-tools"), "{rule}");
    for (tool, input, said) in [
        (
            "Bash",
            r#"{"command":"rm *"}"#,
            "no flag narrower than Bash (every command) and no rule can allow Bash `rm *`: it has a `*`",
        ),
        (
            "Bash",
            r#"{"command":"ls > f"}"#,
            "no flag narrower than Bash (every command) and no rule can allow Bash `ls > f`: it is redirected",
        ),
        ("Bash", r#"{"command":" "}"#, "its command is empty"),
        ("Bash", "{}", "it names no command"),
        ("x,Bash", "{}", "no flag and no rule can allow x,Bash"),
        ("mcp__srv", "{}", "`mcp__srv` is read as the name of an MCP server"),
        ("my tool", "{}", "`my tool` is read as several names"),
    ] {
        let told = told_of(&folder, &[(tool, input)], &[]);
        assert!(told.contains(said), "{tool} {input}: {told}");
        assert!(!told.contains("--allowed-tools") && !told.contains("allow = ["), "{tool} {input}: {told}");
    }
    let whole = told_of(&folder, &[("WebFetch", "{}"), ("Write", r#"{"file_path":"/home/dev/project/a"}"#)], &[]);
    assert!(whole.contains("; the flag allows every call of WebFetch, Write\n"), "{whole}");
    // What was given and did not help is not advised again.
    let again = told_of(&folder, &[("Bash", r#"{"command":"ls | wc"}"#)], &["--allowed-tools", "Bash(ls),Bash(wc)"]);
    assert!(again.contains("no flag allows this") && again.contains("command = [\"ls\", \"wc\"]"), "{again}");
}

/// A call is known however many have failed before it.
#[test]
fn the_last_calls_are_known_after_very_many_that_failed() {
    let folder = TempFolder::new();
    let mut lines = vec![r#"{"type":"system","subtype":"init","session_id":"s","cwd":"/home/dev/project"}"#.to_owned()];
    for at in 0..600 {
        lines.push(format!(r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"f{at}","name":"Bash","input":{{"command":"make {at}"}}}}]}}}}"#));
        lines.push(format!(r#"{{"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"f{at}","is_error":true,"content":"Exit code 2"}}]}}}}"#));
    }
    lines.push(r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"git status"}}]}}"#.to_owned());
    lines.push(r#"{"type":"system","subtype":"permission_denied","tool_name":"Bash","tool_use_id":"t"}"#.to_owned());
    lines.push(r#"{"type":"result","subtype":"success","result":"done","session_id":"s","num_turns":1}"#.to_owned());
    let told = told_by(&folder, &lines);
    assert!(told.contains("--allowed-tools \"Bash(git status)\"\n"), "{told}");
}

/// What a run says whose agent writes these lines.
fn told_by(folder: &TempFolder, lines: &[String]) -> String {
    let stream = folder.file("stream.jsonl", &(lines.join("\n") + "\n"));
    let agent = folder.script("agent", &format!("cat {stream}"));
    tapline(&["run", "go", "--no-record", "--format", "text", "--bin", &agent]).err
}

#[test]
fn advice_and_reasons_stay_short_however_long_a_call_is() {
    let folder = TempFolder::new();
    let long = "a".repeat(1_500_000);
    for (tool, input) in [
        ("Bash", format!("{{\"command\":\"echo {long}\"}}")),
        ("Bash", format!("{{\"command\":\"echo '{long}'\"}}")),
        ("Bash", format!("{{\"command\":\"echo {long} > f\"}}")),
        ("WebFetch", format!("{{\"url\":\"{long}\"}}")),
        (&*long, "{}".to_owned()),
    ] {
        let told = told_of(&folder, &[(tool, &input)], &[]);
        assert!(told.len() < 6_000 && told.contains("tapline: denied: "), "{} bytes: {:.2000}", told.len(), told);
    }
    let both = told_of(&folder, &[("Bash", &format!("{{\"command\":\"echo {long}\"}}")), ("Bash", r#"{"command":"ls"}"#)], &[]);
    assert!(both.contains("--allowed-tools \"Bash(ls)\" and 1 more, too long to show"), "{both:.3000}");
    // The reason has room beside the longest title.
    let wide = told_of(&folder, &[("Bash", &format!("{{\"command\":\"ls {} > f\"}}", "b".repeat(400)))], &[]);
    assert!(wide.contains("…: it is redirected (`> f`)"), "{wide}");
    assert!(wide.contains("…: This command requires approval\n"), "{wide}");
}

/// Only the answer says why a call was denied, before or after the agent says that it was.
#[test]
fn the_reason_in_a_failed_answer_is_a_reason() {
    let folder = TempFolder::new();
    let call =
        r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}"#;
    let answer = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":"Permission to use Bash has been denied."}]}}"#;
    let event = r#"{"type":"system","subtype":"permission_denied","tool_name":"Bash","tool_use_id":"t"}"#;
    let end = |denials: &str| {
        format!(
            r#"{{"type":"result","subtype":"success","result":"done","session_id":"s","num_turns":1,"permission_denials":[{denials}]}}"#
        )
    };
    let listed = r#"{"tool_name":"Bash","tool_use_id":"t","tool_input":{"command":"ls"}}"#;
    for lines in [vec![call, answer, event], vec![call, event, answer], vec![call, answer]] {
        let lines: Vec<String> = lines.into_iter().map(str::to_owned).chain([end(listed)]).collect();
        let told = told_by(&folder, &lines);
        assert!(told.contains("denied: Bash `ls`: Permission to use Bash has been denied."), "{told}");
        assert!(
            told.contains("the agent's settings, or --disallowed-tools, deny it") && !told.contains("to allow this"),
            "{told}"
        );
    }
}

#[test]
fn doubts_of_a_policy_are_told_where_no_session_starts() {
    let folder = TempFolder::new();
    let policy = folder.file("policy.toml", "[calls]\nforbid = [\"Bsh\"]\n");
    let agent = folder.script("agent", "echo broken >&2\nexit 1");
    let ran = tapline(&["run", "go", "--no-record", "--format", "text", "--bin", &agent, "--policy", &policy]);
    assert_eq!(ran.err.matches("calls.forbid: no tool named `Bsh` is known: did you mean `Bash`?").count(), 1, "{}", ran.err);
}
