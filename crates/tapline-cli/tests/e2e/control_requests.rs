//! Every request that answers without an account, called and decoded on the real program; those that refuse do so in words.

use serde_json::json;
use tapline_runner::{Permission, Session, SessionError};
use tapline_session::What;

use crate::session_control::{adder, agent};
use crate::stage::{Stage, newest};

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_called_and_decoded() {
    let stage = Stage::new(
        &newest(),
        r#"
[[turn]]
when = { last = "write" }
tool = [{ name = "Write", input = { file_path = "new.txt", content = "one\n" } }]
[[turn]]
when = { last = "serve" }
tool = [{ name = "Bash", input = { command = "echo begun; sleep 100", description = "Serve", run_in_background = true } }]
[[turn]]
text = "Done."
repeat = "forever"
"#,
    );
    std::fs::write(stage.work().join("a.txt"), "hello\n").unwrap();
    let server = "import sys,json\nfor line in sys.stdin:\n m=json.loads(line)\n if 'id' in m:\n  r={'initialize':{'protocolVersion':'2025-06-18','capabilities':{'tools':{}},'serverInfo':{'name':'std','version':'1'}},'tools/list':{'tools':[{'name':'hi','inputSchema':{'type':'object'}}]}}.get(m['method'],{'content':[{'type':'text','text':'hi there'}]})\n  print(json.dumps({'jsonrpc':'2.0','id':m['id'],'result':r}),flush=True)\n";
    std::fs::write(stage.folder.join("server.py"), server).unwrap();
    let config = json!({"mcpServers": {"std": {"command": "python3", "args": [stage.folder.join("server.py")]}}});
    let mut session = agent(&stage)
        .permission_mode("acceptEdits")
        .mcp_config(config.to_string())
        .tools(adder())
        .env("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true")
        .on_permission(|_| async { Permission::allow() })
        .session()
        .await
        .unwrap();
    let about = session.initialized();
    assert!(
        about.pid.is_some() && !about.commands.is_empty() && !about.models.is_empty() && !about.agents.is_empty(),
        "{about:?}"
    );
    assert!(about.account.is_some() && !about.capabilities.is_empty());
    let message = session.turn("write").await.unwrap().message;
    assert!(stage.work().join("new.txt").exists());

    what_it_is_and_has(&session).await;
    files(&session, &stage, &message).await;
    servers(&session).await;
    what_it_is_told(&session).await;
    what_runs(&mut session).await;
    // One that this version has no method for, and one that nobody knows.
    assert!(session.request_raw("get_status", json!({})).await.unwrap().get("sections").is_some());
    let unknown = refused(session.request_raw("brand_new", json!({})).await);
    assert_eq!(unknown, "brand_new: the agent refused: Unsupported control request subtype: brand_new");
    session.finish().await;
}

async fn what_it_is_and_has(session: &Session) {
    assert_eq!(session.binary_version().await.unwrap().version.as_deref(), Some("2.1.325"));
    assert!(session.list_models().await.unwrap().models.iter().any(|model| model.value.as_deref() == Some("haiku")));
    assert!(session.settings().await.unwrap().effective.is_some());
    assert!(session.permission_rules().await.unwrap().state.is_some());
    assert!(session.hooks_listing().await.unwrap().event_catalog.is_some());
    let context = session.context_usage().await.unwrap();
    assert!(context.total_tokens.unwrap() > 0 && context.max_tokens.unwrap() > 0, "{context:?}");
    assert!(context.categories.iter().any(|category| category.tokens.unwrap_or(0) > 0 && category.name.is_some()));
    let usage = session.usage().await.unwrap().session.unwrap();
    assert!(usage.total_cost_usd.unwrap().as_f64() > 0.0 && usage.model_usage.is_some());
    assert!(session.session_cost().await.unwrap().text.unwrap().contains('$'));
}

async fn files(session: &Session, stage: &Stage, message: &str) {
    let file = session.read_file("a.txt").await.unwrap();
    assert_eq!((file.contents.as_deref(), file.requested_path.as_deref()), (Some("hello\n"), Some("a.txt")));
    assert_eq!(refused(session.read_file("nofile").await), "read_file: the agent refused: read denied: nofile");
    assert!(session.file_suggestions("a").await.unwrap().cwd.is_some());
    session.seed_read_state(stage.work().join("a.txt").display().to_string(), 1).await.unwrap();
    let dry = session.rewind_files_dry_run(message).await.unwrap();
    assert_eq!((dry.can_rewind, dry.files_changed.len(), dry.deletions), (Some(true), 1, Some(1)), "{dry:?}");
    assert_eq!(session.rewind_files(message).await.unwrap().can_rewind, Some(true));
    assert!(!stage.work().join("new.txt").exists(), "it is as it was");
}

async fn servers(session: &Session) {
    let servers = session.mcp_status().await.unwrap().mcp_servers;
    let names: Vec<_> =
        servers.iter().map(|server| (server.name.as_deref().unwrap(), server.status.as_deref().unwrap())).collect();
    assert!(names.contains(&("calc", "connected")) && names.contains(&("std", "connected")), "{names:?}");
    let said = session.mcp_call("mcp__std__hi", json!({})).await.unwrap();
    assert_eq!(said.content[0].text_of("text").as_deref(), Some("hi there"));
    assert!(refused(session.mcp_call("mcp__calc__add", json!({"a": 1, "b": 2})).await).starts_with("mcp_call: "));
    session.mcp_toggle("std", false).await.unwrap();
    session.mcp_toggle("std", true).await.unwrap();
    session.mcp_reconnect("std").await.unwrap();
    assert_eq!(refused(session.mcp_reconnect("nobody").await), "mcp_reconnect: the agent refused: Server not found: nobody");
    assert!(refused(session.mcp_read_resource("std", "file:///x").await).starts_with("mcp_read_resource: "));
    let set = session.mcp_set_servers(json!({"gone": {"command": "/nowhere"}})).await.unwrap();
    assert!(set.added.contains(&"gone".to_owned()) || set.errors.contains_key("gone"), "{set:?}");
}

async fn what_it_is_told(session: &Session) {
    assert_eq!(session.set_permission_mode("plan").await.unwrap().mode.as_deref(), Some("plan"));
    session.set_permission_mode("default").await.unwrap();
    assert!(refused(session.set_permission_mode("nonsense").await).starts_with("set_permission_mode: "));
    assert!(session.set_model("haiku").await.unwrap().model.is_some());
    session.reset_model().await.unwrap();
    session.set_max_thinking_tokens(Some(1_000)).await.unwrap();
    session.set_max_thinking_tokens(None).await.unwrap();
    session.rename_session("A test").await.unwrap();
    session.set_has_subscribers(Some(true)).await.unwrap();
    session.apply_flag_settings(json!({})).await.unwrap();
    assert!(refused(session.update_settings("localSettings", json!({"env": {}})).await).starts_with("update_settings: "));
    assert!(refused(session.set_color("red").await).starts_with("set_color: "));
    assert!(refused(session.register_repo_root("..").await).starts_with("register_repo_root: "));
    assert!(!session.reload_plugins().await.unwrap().commands.is_empty());
    assert!(!session.reload_skills().await.unwrap().skills.is_empty());
    assert!(!session.reload_output_styles().await.unwrap().available_output_styles.is_empty());
}

async fn what_runs(session: &mut Session) {
    let turn = session.turn("serve").await.unwrap();
    let mut tasks =
        turn.steps.iter().filter_map(|step| if let What::Task(task) = &step.what { Some(task.id.clone()) } else { None });
    let task = tasks.next_back().unwrap();
    let output = session.task_output(&task).await.unwrap();
    assert_eq!(output.output.as_deref().map(str::trim), Some("begun"), "{output:?}");
    assert!(refused(session.task_output("nobody").await).starts_with("get_task_output: "));
    session.background_tasks(None).await.unwrap();
    session.stop_task(&task).await.unwrap();
    assert_eq!(session.cancel_message("nobody").await.unwrap().cancelled, Some(false));
    assert!(session.interrupt().await.unwrap().still_queued.is_empty());
    assert!(session.interrupt_all().await.unwrap().still_queued.is_empty());
}

fn refused<T: std::fmt::Debug>(answer: Result<T, SessionError>) -> String {
    answer.unwrap_err().to_string()
}
