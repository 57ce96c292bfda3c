//! Sessions: the real Claude Code, driven from Rust in both directions.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tapline_protocol::claude::control::HookReply;
use tapline_runner::{
    Agent, Delivery, HookEvent, Message, Permission, PermissionQuestion, Priority, Session, SessionError, Tool, ToolServer,
    Turn, Update,
};
use tapline_session::permission::Ruling;
use tapline_session::{Outcome, What};

use crate::stage::{Stage, newest};

/// The newest program, asked by this scenario, with nothing of this environment.
pub(crate) fn agent(stage: &Stage) -> Agent {
    let agent = Agent::claude().bin(&stage.program.path).clean_env().cwd(stage.work()).timeout(Duration::from_secs(60));
    stage
        .sim
        .environment()
        .into_iter()
        .fold(agent, |agent, (name, value)| agent.env(name, value))
        .env("CLAUDE_CODE_MAX_RETRIES", "1")
}

fn stage(scenario: &str) -> Stage {
    Stage::new(&newest(), scenario)
}

fn adder() -> ToolServer {
    #[derive(serde::Deserialize)]
    struct Add {
        a: f64,
        b: f64,
    }
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]});
    ToolServer::new("calc").tool(Tool::new("add", "Add numbers", schema, |Add { a, b }| async move { (a + b).to_string() }))
}

fn failed(turn: Result<Turn, SessionError>) -> Box<Turn> {
    match turn {
        Err(SessionError::Failed(turn)) => turn,
        other => panic!("{other:?}"),
    }
}

const BOTH_WAYS: &str = r#"
[[turn]]
text = "Bash then write."
tool = [{ name = "Bash", input = { command = "touch x && echo made", description = "touch" } }]
[[turn]]
tool = [{ name = "Write", input = { file_path = "out2.txt", content = "Hello" } }]
[[turn]]
expect = { last = "no writes today" }
tool = [{ name = "mcp__calc__add", input = { a = 2, b = 3 } }]
[[turn]]
expect = { last = "5" }
text = "Done: 5."
[[turn]]
when = { last = "go slow" }
text = "One two three four five six seven eight nine ten."
chunk = 4
pace_ms = 500
"#;

/// Everything that `control-both-ways.tee` shows.
#[tokio::test(flavor = "multi_thread")]
async fn everything_of_control_both_ways_from_rust() {
    let stage = stage(BOTH_WAYS);
    let hooked = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (hooks, questions) = (Arc::clone(&hooked), Arc::clone(&asked));
    let recording = stage.folder.join("session");
    let mut session = agent(&stage)
        .partial()
        .record(&recording)
        .tools(adder())
        .hook_for(HookEvent::PreToolUse, "Bash", move |question| {
            hooks.lock().unwrap().push(question.input.tool_name.clone());
            async { HookReply::default() }
        })
        .on_permission(move |question: PermissionQuestion| {
            questions.lock().unwrap().push(question.tool.clone());
            async move { if question.tool == "Write" { Permission::deny("no writes today") } else { Permission::allow() } }
        })
        .session()
        .await
        .unwrap();
    assert_eq!(session.initialized().claude_code_version.as_deref(), Some("2.1.325"));

    let turn = session.turn("do it").await.unwrap();
    assert_eq!(turn.answer, "Done: 5.");
    assert_eq!(turn.calls().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["Bash", "Write", "mcp__calc__add"]);
    assert_eq!(*hooked.lock().unwrap(), [Some("Bash".to_owned())]);
    assert_eq!(*asked.lock().unwrap(), ["Bash", "Write", "mcp__calc__add"]);
    assert!(stage.work().join("x").exists() && !stage.work().join("out2.txt").exists());

    assert_eq!(session.set_permission_mode("acceptEdits").await.unwrap().mode.as_deref(), Some("acceptEdits"));
    let model = session.set_model(Some("claude-sonnet-5".to_owned())).await.unwrap();
    assert_eq!(model.model.as_deref(), Some("claude-sonnet-5"));
    let servers = session.mcp_status().await.unwrap().mcp_servers;
    assert_eq!((servers.len(), servers[0].status.as_deref()), (1, Some("connected")));
    assert_eq!(servers[0].tools[0].name.as_deref(), Some("add"));

    let control = session.control();
    let mut turning = session.turn("go slow");
    let mut seen = String::new();
    while let Some(update) = turning.next().await {
        let Update::Record(record) = update else { continue };
        for step in record.steps {
            if let What::Session(info) = &step.what {
                assert_eq!(info.setup.model.as_deref(), Some("claude-sonnet-5"));
            }
            if let What::Partial(tapline_session::step::Partial::Delta { text, .. }) = step.what {
                if seen.is_empty() {
                    assert!(control.interrupt().await.unwrap().still_queued.is_empty());
                }
                seen += &text;
            }
        }
    }
    let turn = failed(turning.await);
    assert!(turn.is_aborted(), "{turn:?}");
    let report = session.finish().await;
    assert_eq!(report.verdict.outcome, Outcome::Interrupted, "{:?}", report.verdict);
    assert_eq!(report.turns.len(), 2);

    // What was decided is in the recording.
    let decisions = std::fs::read_to_string(recording.join("decisions")).unwrap();
    let decisions: Vec<serde_json::Value> = decisions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rulings: Vec<_> =
        decisions.iter().map(|line| (line["tool"].as_str().unwrap(), line["ruling"].as_str().unwrap())).collect();
    assert_eq!(rulings, [("Bash", "allow"), ("Write", "deny"), ("mcp__calc__add", "allow")]);
    assert_eq!(decisions[1]["reason"], "no writes today");
}

fn bash(command: &str) -> String {
    format!("[[turn]]\ntool = [{{ name = \"Bash\", input = {{ command = {command:?}, description = \"Run it\" }} }}]\n")
}

/// A turn that is interrupted as soon as this is seen, or this file is there; the next one works.
async fn interrupted_at(stage: &Stage, mut session: Session, prompt: &str, when: When) -> Box<Turn> {
    let control = session.control();
    let mut turning = session.turn(prompt);
    let mut told = false;
    loop {
        let update = tokio::time::timeout(Duration::from_millis(10), turning.next()).await;
        let now = match (&when, &update) {
            (When::Seen(seen), Ok(Some(update))) => seen(update),
            (When::There(name), _) => stage.work().join(name).exists(),
            _ => false,
        };
        if now && !std::mem::replace(&mut told, true) {
            control.interrupt().await.unwrap();
        }
        if matches!(update, Ok(None)) {
            break;
        }
    }
    assert!(told, "it was never seen");
    let turn = failed(turning.await);
    assert!(turn.is_aborted(), "{turn:?}");
    assert_eq!(session.turn("go on").await.unwrap().answer, "Went on.", "the next turn works");
    let report = session.finish().await;
    assert_eq!(report.verdict.outcome, Outcome::Success, "{:?}", report.verdict);
    stage.is_as_written();
    turn
}

enum When {
    Seen(fn(&Update) -> bool),
    There(&'static str),
}

const WENT_ON: &str = "[[turn]]\nwhen = { last = \"go on\" }\ntext = \"Went on.\"\n";

fn is_step(update: &Update, is: impl Fn(&What) -> bool) -> bool {
    matches!(update, Update::Record(seen) if seen.steps.iter().any(|step| is(&step.what)))
}

fn is_delta(update: &Update, wanted: tapline_session::step::DeltaKind) -> bool {
    use tapline_session::step::Partial;
    is_step(update, |what| matches!(what, What::Partial(Partial::Delta { kind, .. }) if *kind == wanted))
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_in_the_middle_of_each_phase() {
    use tapline_session::step::DeltaKind;

    let slow = "chunk = 2\npace_ms = 300\n";
    let thinking =
        stage(&format!("[[turn]]\nthinking = \"A long, long thought about this.\"\ntext = \"Never.\"\n{slow}{WENT_ON}"));
    let session = agent(&thinking).partial().session().await.unwrap();
    interrupted_at(&thinking, session, "think", When::Seen(|update| is_delta(update, DeltaKind::Thinking))).await;

    let text = stage(&format!("[[turn]]\ntext = \"A long, long answer to this.\"\n{slow}{WENT_ON}"));
    let session = agent(&text).partial().session().await.unwrap();
    let turn = interrupted_at(&text, session, "talk", When::Seen(|update| is_delta(update, DeltaKind::Text))).await;
    assert_eq!(turn.end.terminal_reason.as_deref(), Some("aborted_streaming"));

    let tool = stage(&(bash("touch begun; sleep 30") + WENT_ON));
    let session = agent(&tool).permission_mode("bypassPermissions").env("IS_SANDBOX", "1").session().await.unwrap();
    let turn = interrupted_at(&tool, session, "run", When::There("begun")).await;
    assert_eq!(turn.end.terminal_reason.as_deref(), Some("aborted_tools"));

    let question = stage(&(bash("touch never") + WENT_ON));
    let dropped = Arc::new(AtomicU32::new(0));
    let told = Arc::clone(&dropped);
    let session = agent(&question)
        .on_permission(move |_| {
            let told = Told(Arc::clone(&told));
            async move {
                let _told = told;
                std::future::pending().await
            }
        })
        .session()
        .await
        .unwrap();
    let asked: fn(&Update) -> bool = |update| is_step(update, |what| matches!(what, What::Question(_)));
    interrupted_at(&question, session, "ask", When::Seen(asked)).await;
    assert_eq!(dropped.load(Ordering::SeqCst), 1, "whoever was asked is told that nobody wants to know any more");
    assert!(!question.work().join("never").exists());
}

/// Says when it is dropped.
struct Told(Arc<AtomicU32>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permission_is_given_denied_and_rewritten() {
    let scenario =
        [bash("touch one"), bash("touch two"), bash("touch three"), "[[turn]]\ntext = \"Done.\"\n".to_owned()].concat();
    let stage = stage(&scenario);
    let mut session = agent(&stage)
        .on_permission(|question: PermissionQuestion| async move {
            match question.input.text_of("command").as_deref() {
                Some("touch one") => Permission::allow(),
                Some("touch two") => Permission::deny("not two"),
                _ => Permission::allow_with(json!({"command": "touch other", "description": "Run it"})),
            }
        })
        .session()
        .await
        .unwrap();
    let mut turning = session.turn("do it");
    let mut settled = Vec::new();
    while let Some(update) = turning.next().await {
        if let Update::Settled(one) = update {
            settled.push((one.ruling, one.rewritten));
        }
    }
    let turn = turning.await.unwrap();
    assert_eq!(settled, [(Ruling::Allow, false), (Ruling::Deny, false), (Ruling::Allow, true)]);
    assert_eq!(turn.end.permission_denials.len(), 1);
    let there = ["one", "two", "three", "other"].map(|name| stage.work().join(name).exists());
    assert_eq!(there, [true, false, false, true]);
    session.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_task_outlives_its_turn_and_can_still_ask() {
    let stage = stage(
        r#"
[[turn]]
tool = [{ name = "Agent", input = { description = "Look", prompt = "Make a file.", subagent_type = "general-purpose" } }]
[[turn]]
when = { agent = "sub", prompt = "Make a file", count = 0 }
delay_ms = 1500
tool = [{ name = "Bash", input = { command = "touch late", description = "Late" } }]
[[turn]]
when = { agent = "sub", prompt = "Make a file", count = 1 }
text = "Made."
[[turn]]
when = { last = "task-notification" }
text = "It was made."
[[turn]]
text = "Started."
"#,
    );
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let mut session = agent(&stage)
        .on_permission(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Permission::allow() }
        })
        .session()
        .await
        .unwrap();
    let turn = session.turn("start it").await.unwrap();
    assert_eq!(turn.answer, "Started.");
    assert_eq!(asked.load(Ordering::SeqCst), 0, "the turn is over before the task asks");
    let report = session.finish().await;
    assert_eq!(asked.load(Ordering::SeqCst), 1, "its question was answered: stdin stayed open");
    assert!(stage.work().join("late").exists());
    assert_eq!(report.answer.as_deref(), Some("It was made."));
    assert_eq!((report.verdict.outcome, report.turns.len()), (Outcome::Success, 2), "{:?}", report.verdict);
    stage.is_as_written();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_answers_is_one_prompt_and_ends_by_itself() {
    let stage = stage(
        "[[turn]]\ntool = [{ name = \"mcp__calc__add\", input = { a = 20, b = 22 } }]\n[[turn]]\nexpect = { last = \"42\" }\ntext = \"42.\"\n",
    );
    let answer =
        agent(&stage).prompt("add").tools(adder()).on_permission(|_| async { Permission::allow() }).ask().await.unwrap();
    assert_eq!(answer.text, "42.");
    stage.is_as_written();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_acknowledged_queued_folded_in_and_taken_back() {
    let stage = stage(&format!(
        "[[turn]]\nwhen = {{ last = \"one\" }}\ntext = \"First, slowly, word by word.\"\nchunk = 4\npace_ms = 100\n\
         [[turn]]\nwhen = {{ last = \"two\" }}\ntext = \"Second.\"\n{WENT_ON}"
    ));
    let mut session = agent(&stage).partial().session().await.unwrap();
    let mut first = session.send("one").unwrap();
    assert!(matches!(first.acknowledged().await.unwrap(), Delivery::Queued | Delivery::Started));
    let second = session.send(Message::text("two").priority(Priority::Later)).unwrap();
    let mut third = session.send(Message::text("three").priority(Priority::Later)).unwrap();
    third.acknowledged().await.unwrap();
    assert_eq!(session.cancel_message(third.uuid()).await.unwrap().cancelled, Some(true));
    let mut over = Vec::new();
    while over.len() < 3 {
        if let Some(Update::Over(one)) = session.next_update().await {
            over.push((one.messages.clone(), one.turn.map(|turn| turn.result.unwrap_or_default())));
        }
    }
    let said = |sent: &tapline_runner::Sent, text: Option<&str>| (vec![sent.uuid().to_owned()], text.map(str::to_owned));
    over.sort();
    let mut wanted =
        vec![said(&first, Some("First, slowly, word by word.")), said(&second, Some("Second.")), said(&third, None)];
    wanted.sort();
    assert_eq!(over, wanted);
    assert_eq!(session.turn("go on").await.unwrap().answer, "Went on.");
    assert_eq!(session.finish().await.turns.len(), 3);
}

/// What every version can do: questions, a tool of ours, an interrupt.
#[tokio::test(flavor = "multi_thread")]
async fn versions_are_driven_alike() {
    for program in crate::stage::claudes() {
        let scenario = "[[turn]]\nwhen = { last = \"add\" }\ntool = [{ name = \"mcp__calc__add\", input = { a = 2, b = 3 } }]\n\
             [[turn]]\nwhen = { last = \"go on\" }\ntext = \"Went on.\"\n\
             [[turn]]\nwhen = { last = \"slowly\" }\ntext = \"One two three four five six seven eight nine ten.\"\nchunk = 4\npace_ms = 300\n\
             [[turn]]\ntext = \"It is 5.\"\n";
        let stage = Stage::new(&program, scenario);
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let mut session = agent(&stage)
            .partial()
            .tools(adder())
            .on_permission(move |question| {
                assert_eq!(question.tool, "mcp__calc__add");
                count.fetch_add(1, Ordering::SeqCst);
                async { Permission::allow() }
            })
            .session()
            .await
            .unwrap();
        let version = &program.version;
        let turn = session.turn("add").await.unwrap();
        assert_eq!((turn.answer.as_str(), asked.load(Ordering::SeqCst)), ("It is 5.", 1), "{version}");
        let control = session.control();
        let mut turning = session.turn("slowly");
        let mut told = false;
        while let Some(update) = turning.next().await {
            if !told && is_delta(&update, tapline_session::step::DeltaKind::Text) {
                told = true;
                control.interrupt().await.unwrap();
            }
        }
        assert!(failed(turning.await).end.failed, "{version}");
        assert_eq!(session.turn("go on").await.unwrap().answer, "Went on.", "{version}");
        let report = session.finish().await;
        assert_eq!(report.verdict.outcome, Outcome::Success, "{version}: {:?}", report.verdict);
    }
}

/// Every request that answers without an account, called and decoded; those that refuse do so in words.
#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_called_and_decoded() {
    let stage = stage(
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
    let written = Message::text("write");
    let message = written.name().to_owned();
    session.turn(written).await.unwrap();
    assert!(stage.work().join("new.txt").exists());

    // What it is and has.
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

    // Files.
    let file = session.read_file("a.txt").await.unwrap();
    assert_eq!((file.contents.as_deref(), file.requested_path.as_deref()), (Some("hello\n"), Some("a.txt")));
    assert_eq!(refused(session.read_file("nofile").await), "read_file: the agent refused: read denied: nofile");
    assert!(session.file_suggestions("a").await.unwrap().cwd.is_some());
    session.seed_read_state(stage.work().join("a.txt").display().to_string(), 1).await.unwrap();
    let dry = session.rewind_files_dry_run(&message).await.unwrap();
    assert_eq!((dry.can_rewind, dry.files_changed.len(), dry.deletions), (Some(true), 1, Some(1)), "{dry:?}");
    assert_eq!(session.rewind_files(&message).await.unwrap().can_rewind, Some(true));
    assert!(!stage.work().join("new.txt").exists(), "it is as it was");

    // Servers.
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

    // What it is told.
    assert_eq!(session.set_permission_mode("plan").await.unwrap().mode.as_deref(), Some("plan"));
    session.set_permission_mode("default").await.unwrap();
    assert!(refused(session.set_permission_mode("nonsense").await).starts_with("set_permission_mode: "));
    assert!(session.set_model(Some("haiku".to_owned())).await.unwrap().model.is_some());
    session.set_model(None).await.unwrap();
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

    // What runs.
    let turn = session.turn("serve").await.unwrap();
    let tasks =
        turn.steps.iter().filter_map(|step| if let What::Task(task) = &step.what { Some(task.id.clone()) } else { None });
    let task = tasks.last().unwrap();
    let output = session.task_output(&task).await.unwrap();
    assert_eq!(output.output.as_deref().map(str::trim), Some("begun"), "{output:?}");
    assert!(refused(session.task_output("nobody").await).starts_with("get_task_output: "));
    session.background_tasks(None).await.unwrap();
    session.stop_task(&task).await.unwrap();
    assert_eq!(session.cancel_message("nobody").await.unwrap().cancelled, Some(false));
    assert!(session.interrupt().await.unwrap().still_queued.is_empty());
    assert!(session.interrupt_all().await.unwrap().still_queued.is_empty());
    // One that this version has no method for, and one that nobody knows.
    assert!(session.request_raw("get_status", json!({})).await.unwrap().get("sections").is_some());
    let unknown = refused(session.request_raw("brand_new", json!({})).await);
    assert_eq!(unknown, "brand_new: the agent refused: Unsupported control request subtype: brand_new");
    session.finish().await;
}

fn refused<T: std::fmt::Debug>(answer: Result<T, SessionError>) -> String {
    answer.unwrap_err().to_string()
}
