//! Sessions: the real Claude Code, driven from Rust in both directions.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tapline_protocol::claude::control::HookReply;
use tapline_runner::{
    Agent, Delivery, HookEvent, Message, Permission, PermissionQuestion, Priority, Session, SessionError, Tool, ToolServer,
    TurnReport, Update,
};
use tapline_session::permission::Ruling;
use tapline_session::{Category, Outcome, What};
use tapline_testkit::{HANG, TempFolder};

use crate::stage::{Stage, newest};

/// The newest program, asked by this scenario, with nothing of this environment.
pub(crate) fn agent(stage: &Stage) -> Agent {
    let agent = Agent::claude().bin(&stage.program.path).clean_env().cwd(stage.work()).timeout(5 * HANG);
    agent.envs(stage.sim.environment()).env("CLAUDE_CODE_MAX_RETRIES", "1")
}

fn stage(scenario: &str) -> Stage {
    Stage::new(&newest(), scenario)
}

pub(crate) fn adder() -> ToolServer {
    #[derive(serde::Deserialize)]
    struct Add {
        a: f64,
        b: f64,
    }
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]});
    ToolServer::new("calc").tool(Tool::new("add", "Add numbers", schema, |Add { a, b }| async move { (a + b).to_string() }))
}

fn failed(turn: Result<TurnReport, SessionError>) -> Box<TurnReport> {
    match turn {
        Err(SessionError::Interrupted(turn) | SessionError::Failed(turn)) => turn,
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
    let model = session.set_model("claude-sonnet-5").await.unwrap();
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
async fn interrupted_at(stage: &Stage, mut session: Session, prompt: &str, when: When) -> Box<TurnReport> {
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
            let told = CountsDrops(Arc::clone(&told));
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
struct CountsDrops(Arc<AtomicU32>);

impl Drop for CountsDrops {
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

/// What is denied is denied, also where the agent would not ask; what is kept of it is found again.
#[test]
fn rules_are_held_against_every_call() {
    for program in crate::stage::claudes() {
        let scenario = "[[turn]]\ntool = [{ name = \"Read\", input = { file_path = \"WORK/.env\" } }]\n[[turn]]\nexpect = { last = \"secrets stay\" }\n\
             tool = [{ name = \"Bash\", input = { command = \"touch made\", description = \"Make\" } }]\n\
             [[turn]]\ntool = [{ name = \"Write\", input = { file_path = \"WORK/new\", content = \"x\" } }]\n[[turn]]\nexpect = { last = \"there is nobody to ask\" }\ntext = \"Done.\"\n";
        let folder = TempFolder::new();
        let stage = Stage::new(&program, &scenario.replace("WORK", folder.to_str().unwrap()));
        std::fs::write(folder.join(".env"), "KEY=1\n").unwrap();
        let rules = stage.folder.join("rules.toml");
        std::fs::write(&rules, "allow = [{ tool = \"Bash\", command = \"touch *\" }]\ndeny = [{ tool = \"*\", path = \"**/.env\", reason = \"secrets stay secret\" }]\n").unwrap();
        let outcome = stage.run(&["do it", "--cwd", folder.to_str().unwrap(), "--permissions", rules.to_str().unwrap()]);
        assert_eq!(outcome.verdict(), "success/-", "{}", program.version);
        assert!(folder.join("made").exists() && !folder.join("new").exists(), "{}", program.version);
        let checked = std::process::Command::new(crate::stage::TAPLINE)
            .args(["check", "--permissions"])
            .arg(&rules)
            .arg(&outcome.recording)
            .output()
            .unwrap();
        let text = String::from_utf8(checked.stdout).unwrap();
        assert!(text.contains("(deny[0]: secrets stay secret"), "{text}");
        // The oldest does not say which call it asks about.
        if program.is_at_least("2.0") {
            for told in [
                "the rules deny it (deny[0]: secrets stay secret), and it was denied in the run (by deny[0])",
                "the rules allow it (allow[0]), and it ran (allowed by allow[0])",
                "no rule matches it, so the agent decides, and it was denied in the run (there was nobody to ask)",
            ] {
                assert!(text.contains(told), "{told}: {text}");
            }
        }
        stage.is_as_written();
    }
}

/// Wherever the agent goes, and whatever its settings say, a rule is where it was written.
#[tokio::test(flavor = "multi_thread")]
async fn rules_stay_where_they_are() {
    let read = "[[turn]]\ntool = [{ name = \"Read\", input = { file_path = \"WORK/secrets/key\" } }]\n[[turn]]\nexpect = { last = \"stays secret\" }\ntext = \"Denied.\"\n";
    let folder = TempFolder::new();
    std::fs::create_dir(folder.join("src")).unwrap();
    folder.write("secrets/key", "the key\n");
    let scenario = (bash("cd src") + read).replace("WORK", folder.to_str().unwrap());
    for settings in ["{}", r#"{"env":{"CLAUDE_CODE_SIMPLE":"1"}}"#, r#"{"disableAllHooks":true}"#] {
        let stage = stage(&scenario);
        let home = stage.sim.environment().into_iter().find(|(name, _)| name == "HOME").unwrap().1;
        let config = std::path::Path::new(&home).join(".claude");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("settings.json"), settings).unwrap();
        let rules = "allow = [{ tool = \"Bash\", command = \"cd *\" }]\ndeny = [{ tool = \"Read\", path = \"secrets/**\", reason = \"it stays secret\" }]";
        let agent = agent(&stage).cwd(&folder).env("CLAUDE_CODE_SIMPLE", "1").permissions(rules.parse().unwrap());
        let mut session = agent.session().await.unwrap();
        assert_eq!(session.turn("look").await.unwrap().answer, "Denied.", "{settings}");
        session.finish().await;
        stage.is_as_written();
    }
}

/// No hook lets through what a rule denies.
#[tokio::test(flavor = "multi_thread")]
async fn deny_wins_over_a_hook_that_allows() {
    let stage = stage(&(bash("touch never") + "[[turn]]\nexpect = { last = \"not here\" }\ntext = \"Denied.\"\n"));
    let mut session = agent(&stage)
        .permissions("deny = [{ tool = \"Bash\", reason = \"not here\" }]".parse().unwrap())
        .hook(HookEvent::PreToolUse, |_| async { HookReply::allow_tool() })
        .session()
        .await
        .unwrap();
    assert_eq!(session.turn("do it").await.unwrap().answer, "Denied.");
    assert!(session.id().is_some());
    assert!(!stage.work().join("never").exists());
    session.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_takes_too_long_is_interrupted() {
    let stage = stage(&format!("{WENT_ON}[[turn]]\ntext = \"Slowly.\"\ndelay_ms = 30000\n"));
    let mut session = agent(&stage).session().await.unwrap();
    let error = session.turn("be slow").timeout(Duration::from_millis(300)).await.unwrap_err();
    let SessionError::Interrupted(turn) = error else { panic!("{error}") };
    assert_eq!((turn.end.category, turn.end.message.as_deref()), (Some(Category::Timeout), Some("timeout")));
    assert_eq!(session.turn("go on").await.unwrap().answer, "Went on.");
    session.finish().await;
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
