//! What an agent asks: answered by whoever is there, at once where nobody is, and with no where a callback fails.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tapline_protocol::claude::control::HookReply;
use tapline_runner::{Agent, ElicitationReply, HookEvent, Permission, PermissionQuestion, Raised, Tool, ToolServer, Update};
use tapline_session::permission::Permissions;
use tapline_sim::ReplayOptions;
use tapline_testkit::HANG;

use crate::fake_agent::{fake, id_of, left_of};
use crate::scripted_agent::Scripted;

pub(crate) const PROMPT: &str = r#"
> {"type":"user","message":{"role":"user","content":"go"},"uuid":"3c5b1f2e-0000-4000-8000-000000000001"}
< {"type":"system","subtype":"init","session_id":"s","model":"m","cwd":"/work"}
"#;
pub(crate) const RESULT: &str =
    r#"< {"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","num_turns":1}"#;

/// The agent asks these, waits for each answer, and ends its turn; the answers, and what was told besides.
pub(crate) async fn asked(requests: &[&str], answers: impl FnOnce(Agent) -> Agent) -> (Vec<serde_json::Value>, Vec<String>) {
    let mut lines = PROMPT.to_owned();
    for (at, request) in requests.iter().enumerate() {
        let _ = writeln!(lines, "< {{\"type\":\"control_request\",\"request_id\":\"q{at}\",\"request\":{request}}}");
        let answer = format!("{{\"subtype\":\"success\",\"request_id\":\"q{at}\"}}");
        let _ = writeln!(lines, "> {{\"type\":\"control_response\",\"response\":{answer}}}");
    }
    let scripted = Scripted::new(&(lines + RESULT), ReplayOptions::default());
    let mut session = answers(scripted.claude()).session().await.unwrap();
    let mut turning = session.turn("go");
    let mut told = Vec::new();
    while let Some(update) = turning.next().await {
        if let Update::Trouble(text) = update {
            told.push(text);
        }
    }
    assert_eq!(turning.await.unwrap().answer, "done");
    session.finish().await;
    let said = scripted.said();
    let answers: Vec<_> =
        said.iter().filter(|line| line["type"] == "control_response").map(|line| line["response"].clone()).collect();
    let ids: Vec<_> = answers.iter().map(|answer| answer["request_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, (0..requests.len()).map(|at| format!("q{at}")).collect::<Vec<_>>(), "{said:?}");
    (answers, told)
}

/// The same for one.
pub(crate) async fn asked_once(request: &str, answers: impl FnOnce(Agent) -> Agent) -> (serde_json::Value, Vec<String>) {
    let (mut all, told) = asked(&[request], answers).await;
    (all.remove(0), told)
}

pub(crate) const MAY_I: &str = r#"{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"t1"}"#;

#[tokio::test]
async fn an_unknown_request_is_answered_with_an_error_at_once() {
    for (request, words) in [
        (r#"{"subtype":"brand_new"}"#, "Unsupported control request subtype: brand_new"),
        (r#""no object""#, "Unsupported control request subtype: "),
        (r#"{"no":"subtype"}"#, "Unsupported control request subtype: "),
        (r#"{"subtype":"hook_callback","callback_id":"hook_7"}"#, "there is no hook `hook_7`"),
        (r#"{"subtype":"mcp_message","server_name":"no"}"#, "there is no MCP server `no`"),
        (r#"{"subtype":"elicitation","message":"name?"}"#, "there is nobody to answer the elicitation"),
        (MAY_I, "Unsupported control request subtype: can_use_tool"),
    ] {
        let (answer, _) = asked_once(request, |agent| agent).await;
        assert_eq!((answer["subtype"].as_str(), answer["error"].as_str()), (Some("error"), Some(words)), "{request}");
    }
}

fn at_once(_: PermissionQuestion) -> std::future::Ready<Permission> {
    panic!("at once")
}

#[tokio::test]
async fn a_hook_has_a_limit_of_its_own() {
    let hook = |place: u32| {
        json!({"subtype": "hook_callback", "callback_id": format!("hook_{place}"),
               "input": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}, "tool_use_id": "t1"})
        .to_string()
    };
    let (answers, told) = asked(&[&hook(0), &hook(1)], |agent| {
        agent
            .hook_for(HookEvent::PreToolUse, "Bash", |_| std::future::pending())
            .hook_within(Duration::from_millis(50))
            .hook(HookEvent::PreToolUse, |_| async { HookReply::deny_tool("not that") })
    })
    .await;
    let reason = |at: usize| answers[at]["response"]["hookSpecificOutput"]["permissionDecisionReason"].as_str();
    assert_eq!((reason(0), reason(1)), (Some("the PreToolUse hook gave no answer within 50ms"), Some("not that")));
    assert_eq!(told, ["the PreToolUse hook gave no answer within 50ms"]);
}

#[tokio::test]
async fn whoever_panics_or_takes_too_long_denies_and_says_so() {
    let panics = |_: PermissionQuestion| async { panic!("oh no") };
    let (answer, told) = asked_once(MAY_I, |agent| agent.on_permission(panics)).await;
    assert_eq!(answer["response"]["behavior"], "deny");
    assert_eq!(answer["response"]["message"], "the permission callback panicked: oh no");
    assert_eq!(told, ["the permission callback panicked: oh no"]);
    // In another language nothing panics.
    let raises = |_: PermissionQuestion| async { std::panic::resume_unwind(Box::new(Raised("was cancelled".to_owned()))) };
    let (answer, told) = asked_once(MAY_I, |agent| agent.on_permission(raises)).await;
    assert_eq!(
        (answer["response"]["behavior"].as_str(), told),
        (Some("deny"), vec!["the permission callback was cancelled".to_owned()])
    );
    // Before there is anything to wait for, too.
    let (answer, _) = asked_once(MAY_I, |agent| agent.on_permission(at_once)).await;
    assert_eq!(answer["response"]["behavior"], "deny");

    let limit = Duration::from_millis(50);
    let (answer, told) = asked_once(MAY_I, |agent| agent.on_permission(|_| std::future::pending()).answer_within(limit)).await;
    assert_eq!(answer["response"]["behavior"], "deny");
    assert_eq!(told, ["the permission callback gave no answer within 50ms"]);

    let hook = r#"{"subtype":"hook_callback","callback_id":"hook_0","input":{"hook_event_name":"PreToolUse"}}"#;
    let (answer, told) = asked_once(hook, |agent| agent.hook(HookEvent::PreToolUse, |_| async { panic!("hooked") })).await;
    assert_eq!(answer["response"]["hookSpecificOutput"]["permissionDecision"], "deny");
    assert_eq!(told, ["the PreToolUse hook panicked: hooked"]);
    // A block of `Stop` would make the agent go on.
    let (answer, _) = asked_once(hook, |agent| agent.hook(HookEvent::Stop, |_| async { panic!("hooked") })).await;
    assert_eq!(answer["error"], "the Stop hook panicked: hooked");

    let elicitation = r#"{"subtype":"elicitation","message":"name?"}"#;
    let (answer, _) = asked_once(elicitation, |agent| agent.on_elicitation(|_| async { panic!("asked") })).await;
    assert_eq!(answer["response"]["action"], "decline");
}

#[tokio::test]
async fn hooks_elicitations_and_dialogs() {
    let hook = r#"{"subtype":"hook_callback","callback_id":"hook_1","tool_use_id":"t9","input":{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm"},"new_key":7}}"#;
    let (answer, _) = asked_once(hook, |agent| {
        let agent = agent.hook(HookEvent::Stop, |_| async { HookReply::default() });
        agent.hook_for(HookEvent::PreToolUse, "Bash", |question| async move {
            assert_eq!(question.tool_use_id.as_deref(), Some("t9"));
            assert_eq!(question.all.get("new_key").unwrap().as_str(), "7");
            HookReply::deny_tool(format!("no {}", question.input.tool_name.unwrap()))
        })
    })
    .await;
    let output = json!({"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no Bash"});
    assert_eq!(answer["response"], json!({"hookSpecificOutput": output}));

    let elicitation = r#"{"subtype":"elicitation","mcp_server_name":"db","message":"name?"}"#;
    let (answer, _) = asked_once(elicitation, |agent| {
        agent.on_elicitation(|question| async move {
            ElicitationReply::Accept { content: json!({"said": question.message}).into() }
        })
    })
    .await;
    assert_eq!(answer["response"], json!({"action": "accept", "content": {"said": "name?"}}));

    let dialog = r#"{"subtype":"request_user_dialog","dialog_kind":"pick","payload":{"from":[1,2]}}"#;
    let (answer, _) = asked_once(dialog, |agent| agent.on_dialog("pick", |_| async { json!({"picked": 2}).into() })).await;
    assert_eq!(answer["response"], json!({"picked": 2}));
}

#[tokio::test]
async fn what_is_declared_at_the_start() {
    let scripted = Scripted::new("", ReplayOptions::default());
    let reply = |_| async { HookReply::default() };
    let session = scripted
        .claude()
        .hook(HookEvent::Stop, reply)
        .hook_for(HookEvent::PreToolUse, "Bash|Write", reply)
        .hook(HookEvent::Other("NewEvent".to_owned()), reply)
        .on_dialog("pick", |_| async { json!({}).into() })
        .session()
        .await
        .unwrap();
    session.finish().await;
    let hooks = json!({
        "NewEvent": [{"hookCallbackIds": ["hook_2"]}],
        "PreToolUse": [{"matcher": "Bash|Write", "hookCallbackIds": ["hook_1"], "onFailure": "block"}],
        "Stop": [{"hookCallbackIds": ["hook_0"]}],
    });
    let wanted = json!({"subtype": "initialize", "hooks": hooks, "supportedDialogKinds": ["pick"]});
    assert_eq!(scripted.said()[0]["request"], wanted);
}

#[tokio::test]
async fn an_undeclared_dialog_is_left_to_others() {
    let dialog = r#"< {"type":"control_request","request_id":"q1","request":{"subtype":"request_user_dialog","dialog_kind":"other"}}
"#;
    let scripted = Scripted::new(&[PROMPT, dialog, RESULT].concat(), ReplayOptions::default());
    let mut session = scripted.claude().on_dialog("pick", |_| async { json!({}).into() }).session().await.unwrap();
    assert_eq!(session.turn("go").await.unwrap().answer, "done");
    session.finish().await;
    assert!(scripted.said().iter().all(|line| line["type"] != "control_response"));
}

/// What a tool server answers to one message.
async fn served(message: serde_json::Value) -> serde_json::Value {
    #[derive(serde::Deserialize)]
    struct Greet {
        name: String,
    }
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let server = ToolServer::new("house")
        .tool(Tool::new("greet", "Greets", schema.clone(), |Greet { name }| async move { format!("Hello {name}") }))
        .tool(Tool::new("fail", "Fails", schema.clone(), |_: Greet| async { Err::<String, _>("it is locked") }))
        .tool(Tool::new("panic", "Panics", schema, |_: Greet| async { panic!("fire") as String }));
    let request = json!({"subtype": "mcp_message", "server_name": "house", "message": message}).to_string();
    asked_once(&request, |agent| agent.tools(server)).await.0["response"]["mcp_response"].clone()
}

#[tokio::test]
async fn a_function_is_a_tool() {
    let about =
        served(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2099-01-01"}})).await;
    assert_eq!(about["result"]["protocolVersion"], "2099-01-01");
    assert_eq!(about["result"]["serverInfo"]["name"], "house");
    let tools = served(json!({"jsonrpc": "2.0", "id": "x", "method": "tools/list"})).await;
    assert_eq!(tools["id"], "x");
    assert_eq!(tools["result"]["tools"][0]["inputSchema"]["required"], json!(["name"]));
    let call = |name: &str, arguments: serde_json::Value| json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
    let said = |answer: &serde_json::Value| {
        let result = &answer["result"];
        (result["isError"].as_bool().unwrap(), result["content"][0]["text"].as_str().unwrap().to_owned())
    };
    let greeted = served(call("greet", json!({"name": "\u{1f600}"}))).await;
    assert_eq!((greeted["id"].as_u64(), said(&greeted)), (Some(7), (false, "Hello \u{1f600}".to_owned())));
    let (wrong, words) = said(&served(call("greet", json!({"name": 5}))).await);
    assert!(wrong && words.starts_with("the arguments do not fit"), "{words}");
    assert_eq!(said(&served(call("fail", json!({"name": "x"}))).await), (true, "it is locked".to_owned()));
    assert_eq!(said(&served(call("panic", json!({"name": "x"}))).await), (true, "the tool `panic` panicked: fire".to_owned()));
    assert_eq!(served(call("nobody", json!({}))).await["error"]["code"], -32602);
    assert_eq!(served(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/list"})).await["error"]["code"], -32601);
    assert_eq!(served(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await["result"], json!({}));
}

#[tokio::test]
async fn rules_decide_then_somebody_then_nobody() {
    let rules = |text: &str| toml::from_str::<Permissions>(text).unwrap();
    let behavior = |answer: &serde_json::Value| answer["response"]["behavior"].as_str().unwrap().to_owned();
    let never = |_: PermissionQuestion| async { panic!("not asked") };
    let allow = "allow = [{ tool = \"Bash\", command = \"ls\" }]";
    let (answer, told) = asked_once(MAY_I, |agent| agent.permissions(rules(allow)).on_permission(never)).await;
    assert_eq!((behavior(&answer).as_str(), told.len()), ("allow", 0));
    assert_eq!(answer["response"]["updatedInput"], json!({"command": "ls"}));
    let deny = "deny = [{ tool = \"Bash\", reason = \"no shells here\" }]";
    let (answer, _) = asked_once(MAY_I, |agent| agent.permissions(rules(deny)).on_permission(never)).await;
    assert_eq!(
        (behavior(&answer).as_str(), answer["response"]["message"].as_str()),
        ("deny", Some("denied by deny[0]: no shells here"))
    );
    let yes = |question: PermissionQuestion| async move {
        assert_eq!(question.decision.reason.as_deref(), Some("look twice"));
        Permission::allow()
    };
    let ask = "allow = [{ tool = \"*\" }]\nask = [{ tool = \"Bash\", reason = \"look twice\" }]";
    let (answer, _) = asked_once(MAY_I, |agent| agent.permissions(rules(ask)).on_permission(yes)).await;
    assert_eq!(behavior(&answer), "allow");
    let (answer, _) = asked_once(MAY_I, |agent| agent.permissions(rules(ask))).await;
    assert_eq!(answer["response"]["message"], "look twice, and there is nobody to ask");
    let unexplained = "ask = [{ tool = \"Bash\" }]";
    let (answer, _) = asked_once(MAY_I, |agent| agent.permissions(rules(unexplained))).await;
    assert_eq!(answer["response"]["message"], "ask[0] requires asking a person, and there is nobody to ask");
    let (answer, _) = asked_once(MAY_I, |agent| agent.permissions(Permissions::default())).await;
    assert_eq!(answer["response"]["message"], "no permission rule allows it, and there is nobody to ask");
}

/// A call that is taken back is dropped where it waits; a question that is asked twice has one answer.
#[tokio::test]
async fn what_is_taken_back_and_what_is_asked_twice() {
    let call = |id: &str, method: &str, more: &str| {
        format!(
            "< {{\"type\":\"control_request\",\"request_id\":\"{id}\",\"request\":{{\"subtype\":\"mcp_message\",\"server_name\":\"house\",\"message\":{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",{more}}}}}}}\n"
        )
    };
    let answer = |id: &str| {
        format!("> {{\"type\":\"control_response\",\"response\":{{\"subtype\":\"success\",\"request_id\":\"{id}\"}}}}\n")
    };
    let asked = format!("< {{\"type\":\"control_request\",\"request_id\":\"q9\",\"request\":{MAY_I}}}\n");
    let lines = [
        PROMPT,
        &call("q1", "tools/call", "\"id\":7,\"params\":{\"name\":\"wait\",\"arguments\":{}}"),
        &call("q2", "notifications/cancelled", "\"params\":{\"requestId\":7}"),
        &answer("q1"),
        &answer("q2"),
        &asked,
        &asked,
        &answer("q9"),
        RESULT,
    ];
    let scripted = Scripted::new(&lines.concat(), ReplayOptions::default());
    let wait = Tool::new("wait", "Waits", json!({"type": "object"}), |_: serde_json::Value| std::future::pending::<String>());
    let asked_twice = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&asked_twice);
    let agent = scripted.claude().tools(ToolServer::new("house").tool(wait)).on_permission(move |_| {
        let told = Arc::clone(&told);
        async move {
            told.notified().await;
            Permission::allow()
        }
    });
    let mut session = agent.session().await.unwrap();
    let mut turning = session.turn("go");
    let mut times = 0;
    while let Some(update) = turning.next().await {
        times += usize::from(matches!(&update, Update::Record(seen) if seen.record.text().contains("\"q9\"")));
        if times == 2 {
            asked_twice.notify_one();
        }
    }
    assert_eq!(turning.await.unwrap().answer, "done");
    session.finish().await;
    let said = scripted.said();
    let answers: Vec<_> = said.iter().filter(|line| line["type"] == "control_response").map(|line| &line["response"]).collect();
    let of = |id: &str| answers.iter().filter(|answer| answer["request_id"] == id).collect::<Vec<_>>();
    assert_eq!(of("q1")[0]["error"], "the call was cancelled");
    assert_eq!((of("q1").len(), of("q2").len(), of("q9").len()), (1, 1, 1), "{answers:?}");
    assert_eq!(of("q9")[0]["response"]["behavior"], "allow");
}

#[tokio::test]
async fn a_name_that_was_used_before_has_no_turn() {
    let scripted = Scripted::new(&[PROMPT, RESULT].concat(), ReplayOptions::default());
    let mut session = scripted.claude().session().await.unwrap();
    let message = tapline_runner::Message::text("go").uuid("3c5b1f2e-0000-4000-8000-000000000007");
    assert_eq!(session.turn(message.clone()).await.unwrap().message, "3c5b1f2e-0000-4000-8000-000000000007");
    let error = session.turn(message).await.unwrap_err().to_string();
    assert!(error.starts_with("the message got no turn"), "{error}");
    session.finish().await;
    assert_eq!(scripted.said().iter().filter(|line| line["type"] == "user").count(), 1);
}

/// A rule lets the agent ask. Only a person can answer.
#[tokio::test]
async fn what_the_agent_asks_a_person_is_answered_by_one_and_not_by_a_rule() {
    let questions = json!([{"question": "Which?", "multiSelect": true, "options": [{"label": "A"}, {"label": "B"}]}]);
    let request =
        json!({"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {"questions": questions}}).to_string();
    let choose = |question: PermissionQuestion| async move {
        let inquiries = question.inquiries();
        assert!(inquiries[0].several && inquiries[0].options[1].label == "B");
        question.answered(&[("Which?".to_owned(), vec!["B".to_owned(), "my own".to_owned()])])
    };
    for tool in ["AskUserQuestion", "*"] {
        let rules = toml::from_str::<Permissions>(&format!("allow = [{{ tool = \"{tool}\" }}]")).unwrap();
        let (answer, _) = asked_once(&request, |agent| agent.permissions(rules).on_permission(choose)).await;
        let input = &answer["response"]["updatedInput"];
        assert_eq!((&input["answers"], &input["questions"]), (&json!({"Which?": "B, my own"}), &questions), "{tool}: {answer}");
    }
}

/// Two hundred sessions at once, fifty questions each, all open at the same time: every answer reaches its own question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_sessions_are_asked_fifty_questions_each() {
    let sessions = (0..200).map(|_| {
        tokio::spawn(async {
            // Nothing here ends by a clock, however slow two hundred shells are.
            let agent = fake("ask").timeout(5 * HANG).request_timeout(5 * HANG).answer_within(5 * HANG).linger(5 * HANG);
            let id = id_of(&agent);
            let agent = agent.on_permission(|question| async move {
                // Some take longer than others.
                let number = question.request.tool_use_id.as_deref().and_then(|id| id.strip_prefix("t-")?.parse::<u64>().ok());
                tokio::time::sleep(Duration::from_millis(number.unwrap_or(0) * 5 % 7)).await;
                Permission::allow()
            });
            let mut session = agent.again().session().await.unwrap();
            let mut turning = session.turn("go");
            let mut settled = 0;
            while let Some(update) = turning.next().await {
                settled += usize::from(matches!(update, Update::Settled(_)));
            }
            turning.await.unwrap();
            let report = session.finish().await;
            assert_eq!(left_of(&id), Vec::<String>::new());
            (settled, report.answer)
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        assert_eq!(session.await.unwrap(), (50, Some("50 right".to_owned())));
    }
}
