//! What is told after a denied call would really permit it: each suggestion is put where it says, and the run is made again.

use crate::tapline::{Folder, Ran, tapline};

/// An agent that asks for these calls (name and input) one after another, and does what it is told.
fn agent(folder: &Folder, calls: &[(&str, &str)]) -> String {
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
            let answer = |is_error: bool| format!("say '{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t{at}\",\"is_error\":{is_error},\"content\":\"so\"}}]}}}}'");
            format!("*'\"request_id\":\"q{at}\"'*) case $line in *'\"behavior\":\"allow\"'*) {} ;; *) {} ;; esac\n{} ;;\n", answer(false), answer(true), ask(at + 1))
        })
        .collect();
    let script = format!(
        r#"#!/bin/sh
say() {{ printf '%s\n' "$1"; }}
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
    let path = folder.file("agent", &script);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn run(agent: &str, folder: &Folder, rules: &str) -> Ran {
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

/// The lines of advice, without who says it.
fn advice(ran: &Ran) -> Vec<&str> {
    ran.err
        .lines()
        .map(|line| line.strip_prefix("tapline: ").unwrap_or(line))
        .filter(|line| !line.starts_with("denied: "))
        .collect()
}

#[test]
fn the_rule_that_is_suggested_after_a_denial_allows_the_call() {
    let folder = Folder::new("advice");
    let read = format!("{{\"file_path\":\"{}\"}}", folder.path("a.txt"));
    let agent =
        agent(&folder, &[("Bash", r#"{"command":"git status"}"#), ("Bash", r#"{"command":"ls \"a b\""}"#), ("Read", &read)]);
    let (bash, file) = (r#"tool = "Bash", command = ["git status", "ls \"a b\""]"#, r#"tool = "Read", path = "a.txt""#);
    for before in ["", "deny = [{ tool = \"Write\" }]\n", "[[deny]]\ntool = \"Write\"\n"] {
        let ran = run(&agent, &folder, before);
        assert_eq!(ran.err.matches("no permission rule allows it, and nobody is there to ask").count(), 3, "{}", ran.err);
        let list = format!("allow = [{{ {bash} }}, {{ {file} }}]");
        assert!(advice(&ran)[0].ends_with(&format!("rules.toml: {list}")) && ran.err.contains("at the top of"), "{}", ran.err);
        assert_eq!(run(&agent, &folder, &format!("{list}\n{before}")).err, "", "{before}");
    }
    let before = "[[allow]]\ntool = \"Glob\"\n";
    let ran = run(&agent, &folder, before);
    let said = advice(&ran);
    assert!(said[0].starts_with("to allow this, add at the end of"), "{said:?}");
    assert_eq!(run(&agent, &folder, &format!("{before}{}\n", said[1..].join("\n"))).err, "", "{said:?}");
    let ran = run(&agent, &folder, "allow = [{ tool = \"Glob\" }]\n");
    let said = advice(&ran)[0].split_once("rules.toml: ").unwrap().1;
    assert_eq!(run(&agent, &folder, &format!("allow = [{{ tool = \"Glob\" }}, {said}]\n")).err, "", "{said}");
}

#[test]
fn a_rule_that_wants_a_person_is_named_where_nobody_is_there() {
    let folder = Folder::new("advice-ask");
    let agent = agent(&folder, &[("Bash", r#"{"command":"git push"}"#)]);
    let ran = run(&agent, &folder, "ask = [{ tool = \"Bash\", command = \"git push*\" }]\n");
    assert!(
        ran.err.contains("denied: Bash `git push`: ask[0] wants a person to be asked, and nobody is there\n"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("what ask[0] holds back") && ran.err.contains("tapline chat asks you"), "{}", ran.err);
    assert!(!ran.err.contains("allow = ["), "no rule beside it would help: {}", ran.err);
    let ran = run(&agent, &folder, "deny = [{ tool = \"Bash\", reason = \"no\" }]\n");
    assert!(ran.err.contains("denied: Bash `git push`: no (deny[0])\n"), "{}", ran.err);
    assert!(ran.err.contains("what deny[0] holds back is allowed only by changing that rule in"), "{}", ran.err);
}

#[test]
fn nothing_is_suggested_where_no_rule_can_allow_it() {
    let folder = Folder::new("advice-none");
    let agent = agent(&folder, &[("Bash", r#"{"command":"ls > f"}"#)]);
    let ran = run(&agent, &folder, "");
    assert!(ran.err.contains("no rule in") && ran.err.contains("can allow this as it stands"), "{}", ran.err);
}
