//! Sessions: what else goes in and is asked: pictures, every hook, elicitations, sessions that are gone on with.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tapline_protocol::claude::control::HookReply;
use tapline_runner::{Delivery, ElicitationReply, HookEvent, Message, Permission};

use crate::session_control::agent;
use crate::stage::{Stage, newest};

#[tokio::test(flavor = "multi_thread")]
async fn pictures_and_blocks_reach_the_model() {
    let stage = Stage::new(&newest(), "turn = [{ text = \"A dot.\" }]");
    // The smallest PNG there is: one grey dot.
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\nIDATx\x9cc\xf8\x0f\0\x01\x01\x01\0\x1b\xb6\xee\x56\0\0\0\0IEND\xaeB`\x82";
    let mut session = agent(&stage).session().await.unwrap();
    let message = Message::text("What is it?").image("image/png", png).block(json!({"type": "text", "text": "Look closely."}));
    assert_eq!(session.turn(message).await.unwrap().answer, "A dot.");
    session.finish().await;
    let requests = stage.sim.requests();
    let body = &requests.iter().find(|request| request.body.contains("What is it?")).unwrap().body;
    assert!(body.contains("iVBORw0KGgo") && body.contains("image/png") && body.contains("Look closely."), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_written_back_is_acknowledged() {
    let stage = Stage::new(&newest(), "turn = [{ text = \"Yes.\" }]");
    let session = agent(&stage).arg("--replay-user-messages").session().await.unwrap();
    let mut sent = session.send("really?").unwrap();
    assert_ne!(sent.acknowledged().await.unwrap(), Delivery::Cancelled);
    let report = session.finish().await;
    assert_eq!(report.answer.as_deref(), Some("Yes."));
    assert!(report.prompts.iter().any(|prompt| prompt == "really?"), "{:?}", report.prompts);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_hook_can_be_told() {
    let stage = Stage::new(
        &newest(),
        "[[turn]]\ntool = [{ name = \"Bash\", input = { command = \"touch x\", description = \"Make\" } }]\n[[turn]]\ntext = \"Done.\"\n",
    );
    let told = Arc::new(Mutex::new(BTreeSet::new()));
    let mut built = agent(&stage).on_permission(|_| async { Permission::allow() });
    for event in HookEvent::ALL {
        let told = Arc::clone(&told);
        built = built.hook(event.clone(), move |question| {
            told.lock().unwrap().insert(question.input.hook_event_name.clone().unwrap_or_default());
            async { HookReply::pass() }
        });
    }
    let mut session = built.session().await.unwrap();
    assert_eq!(session.initialized().hooks_applied.as_ref().map(ToString::to_string).as_deref(), Some("true"));
    assert_eq!(session.turn("do it").await.unwrap().answer, "Done.");
    session.finish().await;
    let told = told.lock().unwrap();
    for name in ["UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Stop"] {
        assert!(told.contains(name), "{name} is not among {told:?}");
    }
}

/// An MCP server of somebody else's asks the person something, and gets the answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_elicitation_is_answered() {
    let server = r#"
import sys, json
def say(message): print(json.dumps(dict(jsonrpc="2.0", **message)), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        say({"id": m["id"], "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "std", "version": "1"}}})
    elif m.get("method") == "tools/list":
        say({"id": m["id"], "result": {"tools": [{"name": "hi", "inputSchema": {"type": "object"}}]}})
    elif m.get("method") == "tools/call":
        call = m["id"]
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        say({"id": "e1", "method": "elicitation/create", "params": {"message": "Your name?", "requestedSchema": schema}})
    elif m.get("id") == "e1":
        said = m["result"]
        say({"id": call, "result": {"content": [{"type": "text", "text": said["action"] + " " + said.get("content", {}).get("name", "-")}]}})
"#;
    for (reply, said) in [
        (ElicitationReply::Accept { content: json!({"name": "Eve"}).into() }, "accept Eve"),
        (ElicitationReply::Decline, "decline -"),
    ] {
        let scenario = format!(
            "[[turn]]\ntool = [{{ name = \"mcp__std__hi\", input = {{}} }}]\n[[turn]]\nexpect = {{ last = \"{said}\" }}\ntext = \"Hello.\"\n"
        );
        let stage = Stage::new(&newest(), &scenario);
        std::fs::write(stage.folder.join("server.py"), server).unwrap();
        let config = json!({"mcpServers": {"std": {"command": "python3", "args": [stage.folder.join("server.py")]}}});
        let mut session = agent(&stage)
            .mcp_config(config.to_string())
            .allowed_tools(["mcp__std__hi"])
            .on_elicitation(move |question| {
                assert_eq!(question.message.as_deref(), Some("Your name?"));
                let reply = reply.clone();
                async move { reply }
            })
            .session()
            .await
            .unwrap();
        assert_eq!(session.turn("greet me").await.unwrap().answer, "Hello.");
        session.finish().await;
        stage.is_as_written();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_gone_on_with_copied_and_found_again() {
    let stage = Stage::new(
        &newest(),
        "[[turn]]\nwhen = { count = 0 }\ntext = \"First.\"\n[[turn]]\nwhen = { count = 1 }\ntext = \"Second.\"\nrepeat = 2\n[[turn]]\nexpect = { count = 2 }\ntext = \"Third.\"\n",
    );
    let mut session = agent(&stage).session().await.unwrap();
    session.turn("one").await.unwrap();
    let id = session.id().unwrap().to_owned();
    session.finish().await;
    let goes_on = |agent: tapline_runner::Agent| async move {
        let mut session = agent.session().await.unwrap();
        let answer = session.turn("two").await.unwrap().answer;
        let id = session.id().unwrap().to_owned();
        session.finish().await;
        (answer, id)
    };
    let (answer, copy) = goes_on(agent(&stage).resume(&id).fork()).await;
    assert_eq!(answer, "Second.");
    assert_ne!(copy, id, "a copy has its own");
    let (answer, same) = goes_on(agent(&stage).resume(&id)).await;
    assert_eq!((answer.as_str(), &same), ("Second.", &id));
    // The last one of the folder: that one.
    let mut session = agent(&stage).continue_last().session().await.unwrap();
    assert_eq!(session.turn("three").await.unwrap().answer, "Third.");
    assert_eq!(session.id(), Some(id.as_str()));
    session.finish().await;
    // One that is not there: the words are the agent's.
    let failure = agent(&stage).resume("00000000-0000-4000-8000-000000000000").session().await.unwrap_err();
    assert!(failure.to_string().contains("No conversation found"), "{failure}");
}
