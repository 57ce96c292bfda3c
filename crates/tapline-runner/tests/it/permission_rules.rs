//! Rules hold against what runs: against every call, asked about or not, and whatever hooks of others make of it.

use serde_json::json;
use tapline_protocol::claude::control::HookReply;
use tapline_runner::{Agent, HookEvent, Permission, PermissionQuestion, Update};
use tapline_session::Outcome;
use tapline_sim::ReplayOptions;

use crate::answers::{MAY_I, PROMPT, RESULT, asked, asked_once};
use crate::scripted_agent::Scripted;

/// What a `PreToolUse` hook was answered.
fn said(answer: &serde_json::Value) -> &str {
    answer["response"]["hookSpecificOutput"]["permissionDecision"].as_str().unwrap_or("-")
}

/// The agent runs much that it never asks about: the rules are held against every call.
#[tokio::test]
async fn what_is_denied_is_denied_unasked() {
    let rules = "deny = [{ tool = \"Read\", path = \"/**/.env\" }]\nask = [{ tool = \"Read\", path = \"/etc/**\", reason = \"look twice\" }]\nallow = [{ tool = \"*\" }]";
    let held = |path: &str| {
        let input = json!({"hook_event_name": "PreToolUse", "cwd": "/work", "tool_name": "Read", "tool_use_id": "t1", "tool_input": {"file_path": path}});
        json!({"subtype": "hook_callback", "callback_id": "rules", "input": input}).to_string()
    };
    let requests = [held("/work/a/../.env"), held("/etc/passwd"), held("/work/src")];
    let requests: Vec<_> = requests.iter().map(String::as_str).collect();
    let (answers, _) = asked(&requests, |agent| agent.permissions(toml::from_str(rules).unwrap())).await;
    assert_eq!(answers.iter().map(said).collect::<Vec<_>>(), ["deny", "deny", "-"]);
    let why = &answers[1]["response"]["hookSpecificOutput"]["permissionDecisionReason"];
    assert_eq!(why, "look twice, and there is nobody to ask");
    // Where somebody is, the agent asks.
    let yes = |_| async { Permission::allow() };
    let rules = toml::from_str(rules).unwrap();
    let (answers, _) = asked(&requests, |agent| agent.permissions(rules).on_permission(yes)).await;
    assert_eq!(answers.iter().map(said).collect::<Vec<_>>(), ["deny", "ask", "-"]);
}

/// Whoever rewrites a call, what is denied stays denied.
#[tokio::test]
async fn what_is_rewritten_is_held_to_the_rules() {
    let rules = "deny = [{ tool = \"Bash\", command = \"rm *\", reason = \"nothing goes\" }]";
    let worse = || json!({"command": "rm x"});
    let agent = |agent: Agent| agent.permissions(rules.parse().unwrap());
    let (answer, _) =
        asked_once(MAY_I, |built| agent(built).on_permission(move |_| async move { Permission::allow_with(worse()) })).await;
    assert_eq!(
        (&answer["response"]["behavior"], &answer["response"]["message"]),
        (&json!("deny"), &json!("denied by deny[0]: nothing goes"))
    );
    let input = json!({"hook_event_name": "PreToolUse", "cwd": "/work", "tool_name": "Bash", "tool_input": {"command": "ls"}});
    let hook = json!({"subtype": "hook_callback", "callback_id": "hook_0", "input": input}).to_string();
    let rewrites = move |_| async move { HookReply::allow_tool_with(&worse().into()) };
    let (answer, _) = asked_once(&hook, |built| agent(built).hook(HookEvent::PreToolUse, rewrites)).await;
    assert_eq!(answer["response"]["hookSpecificOutput"]["permissionDecision"], "deny");
}

const RULES: &str = "deny = [{ tool = \"Bash\", command = \"rm *\", reason = \"nothing goes\" }]\nask = [{ tool = \"Bash\", command = \"git push*\" }]\nallow = [{ tool = \"Bash\", command = \"ls*\" }]";

/// A line of the agent's: a hook of somebody else's begins, or answers this.
fn hook(id: &str, output: Option<&serde_json::Value>) -> String {
    let mut event = json!({"type": "system", "subtype": "hook_started", "hook_id": id, "hook_name": "PreToolUse:Bash", "hook_event": "PreToolUse"});
    if let Some(output) = output {
        event["subtype"] = "hook_response".into();
        event["output"] = output.as_str().map_or_else(|| output.to_string(), str::to_owned).into();
    }
    format!("< {event}\n")
}

/// The rules are held against a call.
fn before(id: &str, command: &str) -> String {
    asks(id, "PreToolUse", command)
}

fn asks(id: &str, event: &str, command: &str) -> String {
    let input = json!({"hook_event_name": event, "cwd": "/work", "tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": command}});
    let request = json!({"subtype": "hook_callback", "callback_id": "rules", "input": input, "tool_use_id": "t1"});
    format!("< {}\n", json!({"type": "control_request", "request_id": id, "request": request}))
}

fn answer_to(id: &str) -> String {
    format!("> {{\"type\":\"control_response\",\"response\":{{\"subtype\":\"success\",\"request_id\":\"{id}\"}}}}\n")
}

fn rewrites(command: &str) -> serde_json::Value {
    json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"command": command}}})
}

/// Plays these lines to a session with the rules; what it answered, how it ended, what it told, what it decided.
async fn played(lines: &[String], answers: impl FnOnce(Agent) -> Agent) -> Played {
    let scripted = Scripted::new(&[PROMPT, &lines.concat(), RESULT].concat(), ReplayOptions::default());
    let mut session = answers(scripted.claude().permissions(RULES.parse().unwrap())).session().await.unwrap();
    let mut turning = session.turn("go");
    let mut told = Vec::new();
    while let Some(update) = turning.next().await {
        if let Update::Trouble(text) = update {
            told.push(text);
        }
    }
    let _ = turning.await;
    let report = session.finish().await;
    let said = scripted.said();
    let answers = said.iter().filter(|line| line["type"] == "control_response").map(|line| line["response"].clone()).collect();
    let decisions = std::fs::read_to_string(scripted.folder.join("session/decisions")).unwrap_or_default();
    let decisions = decisions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Played { answers, outcome: report.verdict.outcome, told, decisions }
}

struct Played {
    answers: Vec<serde_json::Value>,
    outcome: Outcome,
    told: Vec<String>,
    decisions: Vec<serde_json::Value>,
}

impl Played {
    /// What the call was answered before it ran.
    fn said(&self) -> &str {
        said(&self.answers[0])
    }
}

/// A hook answers `allow` with other input, before or after ours is asked: the call is decided by what it would run.
#[tokio::test]
async fn a_hook_of_others_that_rewrites_a_call_is_seen_before_it_runs() {
    for (from, to, wanted) in [
        ("ls", "rm x", "deny"),
        ("make", "rm x", "deny"),
        ("ls", "git push", "ask"),
        ("ls", "ls -la", "-"),
        // Nobody is there to ask about it, and no rule allows it: the agent says what it would run.
        ("ls", "make", "ask"),
    ] {
        let early = [hook("h1", None), hook("h1", Some(&rewrites(to))), before("q1", from), answer_to("q1")];
        let late = [hook("h1", None), before("q1", from), hook("h1", Some(&rewrites(to))), answer_to("q1")];
        // With another beside it that says nothing, and ends last.
        let slow = [
            hook("h0", None),
            hook("h1", None),
            before("q1", from),
            hook("h1", Some(&rewrites(to))),
            hook("h0", Some(&json!(""))),
            answer_to("q1"),
        ];
        for lines in [early.to_vec(), late.to_vec(), slow.to_vec()] {
            let played = played(&lines, |agent| agent).await;
            assert_eq!((played.said(), played.outcome), (wanted, Outcome::Success), "{from} → {to}: {lines:?}");
        }
    }
    // A key that is there twice, or written with escapes, is the same key to the agent.
    let twice = r#"{"hookSpecificOutput":{"updatedInput":{"command":"ls"},"updated\u0049nput":{"command":"rm x"}}}"#;
    let broken = r#"{"hookSpecificOutput":{"updatedInput":{"command":"\ud83d rm x"}}}"#;
    for output in [twice, broken] {
        let lines = [hook("h1", None), hook("h1", Some(&json!(output))), before("q1", "ls"), answer_to("q1")];
        assert_eq!(played(&lines, |agent| agent).await.said(), "deny", "{output}");
    }
}

/// A hook that ran for an earlier call says nothing about the next one.
#[tokio::test]
async fn a_rewrite_of_one_call_is_none_of_another() {
    let lines = [
        hook("h1", None),
        before("q1", "ls"),
        hook("h1", Some(&rewrites("rm x"))),
        answer_to("q1"),
        hook("h2", None),
        before("q2", "ls"),
        hook("h2", Some(&json!(""))),
        answer_to("q2"),
    ];
    let played = played(&lines, |agent| agent).await;
    assert_eq!(played.answers.iter().map(said).collect::<Vec<_>>(), ["deny", "-"]);
}

/// Where a rewrite is seen only afterwards, the run is stopped at once, and says why.
#[tokio::test]
async fn what_ran_although_rules_deny_it_stops_the_run() {
    for (event, from, ran) in
        [("PostToolUse", "ls", "rm x"), ("PostToolUseFailure", "make", "rm x"), ("PostToolUse", "make", "git push origin")]
    {
        let lines = [before("q1", from), answer_to("q1"), asks("q2", event, ran), answer_to("q2")];
        let played = played(&lines, |agent| agent).await;
        assert_eq!(played.outcome, Outcome::Failure, "{ran}");
        let told = played.told.join("\n");
        assert!(told.contains("Bash ran something that"), "{told}");
    }
    // What was denied and ran all the same.
    let lines = [before("q1", "rm x"), answer_to("q1"), asks("q2", "PostToolUse", "rm x"), answer_to("q2")];
    assert_eq!(played(&lines, |agent| agent).await.outcome, Outcome::Failure);
    // What was to be asked about, and was not.
    let lines = [before("q1", "git push"), answer_to("q1"), asks("q2", "PostToolUse", "git push"), answer_to("q2")];
    let unasked = played(&lines, |agent| agent.on_permission(|_| async { Permission::allow() })).await;
    assert_eq!((unasked.said(), unasked.outcome), ("ask", Outcome::Failure));
    let lines = [before("q1", "ls"), answer_to("q1"), asks("q2", "PostToolUse", "ls -la"), answer_to("q2")];
    assert_eq!(played(&lines, |agent| agent).await.outcome, Outcome::Success);
}

/// Where somebody else's hook would answer a question, it is asked before the agent asks.
#[tokio::test]
async fn a_permission_request_hook_takes_no_question() {
    let other = r#"< {"type":"system","subtype":"hook_started","hook_id":"p0","hook_name":"PermissionRequest:Bash","hook_event":"PermissionRequest"}
"#;
    let asked_about = |question: PermissionQuestion| async move {
        if question.input.text_of("command").as_deref() == Some("make") {
            Permission::allow()
        } else {
            Permission::deny("not today")
        }
    };
    for (command, wanted) in [("git push", "deny"), ("make", "allow"), ("rm x", "deny"), ("ls", "-")] {
        let lines = [other.to_owned(), before("q1", command), answer_to("q1")];
        let played = played(&lines, |agent| agent.on_permission(asked_about)).await;
        assert_eq!(played.said(), wanted, "{command}");
    }
}

/// Every decision is kept once, whoever took it.
#[tokio::test]
async fn every_decision_is_kept_also_one_that_was_taken_elsewhere_or_withdrawn() {
    let call = |id: &str| {
        let block = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": id}});
        format!("< {}\n", json!({"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [block]}}))
    };
    let result = |id: &str, text: &str, is_error: bool, meta: serde_json::Value| {
        let block = json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error});
        let mut line = json!({"type": "user", "message": {"role": "user", "content": [block]}});
        if meta != json!(null) {
            line["tool_result_meta"] = json!([{"id": id, "permission_decision": meta}]);
        }
        format!("< {line}\n")
    };
    let may_i = |question: &str, id: &str| {
        let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": id}, "tool_use_id": id});
        format!("< {}\n", json!({"type": "control_request", "request_id": question, "request": request}))
    };
    let cancel = |question: &str| format!("< {}\n", json!({"type": "control_cancel_request", "request_id": question}));
    let by = |decision: &str, source: &str| json!({"decision": decision, "source": source});
    let lines = [
        // The agent's own settings, and somebody's hook.
        call("own"),
        result("own", "fine", false, json!(null)),
        call("settings"),
        result("settings", "no", true, by("reject", "config")),
        call("hooked"),
        result("hooked", "fine", false, by("accept", "hook")),
        call("held"),
        result("held", "no", true, by("reject", "hook")),
        // What is wrong in itself is not decided.
        call("wrong"),
        result("wrong", "<tool_use_error>no such field</tool_use_error>", true, json!(null)),
        // Asked here.
        call("ls"),
        may_i("q1", "ls"),
        answer_to("q1"),
        result("ls", "fine", false, by("accept", "user_temporary")),
        // Asked, and answered by a hook before anybody did here.
        call("make"),
        may_i("q2", "make"),
        cancel("q2"),
        result("make", "fine", false, by("accept", "hook")),
        // Asked, and taken back.
        call("wait"),
        may_i("q3", "wait"),
        cancel("q3"),
    ];
    let played = played(&lines, |agent| agent.on_permission(|_| std::future::pending::<Permission>())).await;
    let kept: Vec<_> = played
        .decisions
        .iter()
        .map(|line| ["tool_use_id", "ruling", "by"].map(|key| line[key].as_str().unwrap_or("-").to_owned()).join(" "))
        .collect();
    let wanted = [
        "own allow agent",
        "settings deny agent",
        "hooked allow hook",
        "held deny hook",
        "ls allow rule",
        "make allow hook",
        "wait deny withdrawn",
    ];
    assert_eq!(kept, wanted);
    assert!(played.told.iter().any(|told| told.contains("before tapline answered")), "{:?}", played.told);
}
