//! Options to arguments, and what is refused by its name in the library.

use tapline_runner::{Agent, AgentInput, Instead, Refusal, RunOption, SettingSource, StartError, SubAgent, ToolServer};
use tapline_session::permission::Permissions;
use tapline_testkit::agent::misbehaving;

use crate::fake_agent::fake;

async fn args(agent: Agent) -> String {
    let said = agent.env("FAKE", "echo").bin(misbehaving()).ask().await.unwrap().to_string();
    said.strip_prefix("args: ").unwrap().split(" stdin: ").next().unwrap().to_owned()
}

async fn refused(agent: Agent) -> Refusal {
    let error = agent.bin(misbehaving()).env("FAKE", "echo").start().await.unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let StartError::Refused(refusal) = error else { panic!("{error}") };
    refusal
}

#[tokio::test]
async fn claude_gets_every_value_with_its_flag() {
    let agent = Agent::claude()
        .prompt("p")
        .model("opus")
        .fallback_model("sonnet,haiku")
        .effort("high")
        .resume("id")
        .fork()
        .allowed_tools(["Read", "Bash(git log:*)"])
        .disallowed_tools(["WebSearch"])
        .permission_mode("plan")
        .max_turns(3_u64)
        .max_budget_usd(0.5)
        .json_schema(r#"{"type":"object"}"#)
        .mcp_config("servers.json")
        .sub_agent("reviewer", SubAgent::new("Reviews", "You review.").tools(["Read"]).model("haiku").with("maxTurns", 3))
        .setting_sources([SettingSource::User, SettingSource::Local])
        .plugin_dir("/p/one")
        .plugin_dir("/p/two.zip")
        .add_dir("/tmp")
        .system_prompt("-s")
        .append_system_prompt("--verbose")
        .partial()
        .arg("--betas")
        .arg("x");
    assert_eq!(
        args(agent).await,
        "-p|--output-format=stream-json|--verbose|--model=opus|--fallback-model=sonnet,haiku|--effort=high|--resume=id|--permission-mode=plan|--system-prompt=-s|\
         --append-system-prompt=--verbose|--allowedTools=Read|--allowedTools=Bash(git log:*)|--disallowedTools=WebSearch|\
         --mcp-config=servers.json|\
         --agents={ reviewer :{ description : Reviews , prompt : You review. , tools :[ Read ], model : haiku , maxTurns :3}}|\
         --setting-sources=user,local|--plugin-dir=/p/one|--plugin-dir=/p/two.zip|--add-dir=/tmp|--max-turns=3|--max-budget-usd=0.5|--json-schema={ type : object }|\
         --fork-session|--include-partial-messages|--betas|x|"
    );
}

#[tokio::test]
async fn codex_reads_its_prompt_from_stdin() {
    let plain = Agent::codex().prompt("p").arg("-i").arg("a.png");
    assert_eq!(args_of_codex(plain).await, "exec|-i|a.png|--json|-|");
    let resumed = Agent::codex().prompt("p").resume("id").model("gpt-5");
    assert_eq!(args_of_codex(resumed).await, "exec|--json|--model=gpt-5|resume|id|-|");
    let thinks = Agent::codex().prompt("p").effort("high");
    assert_eq!(args_of_codex(thinks).await, "exec|--json|-c|model_reasoning_effort= high |-|");
    assert_eq!(args_of_codex(Agent::codex().prompt("p").continue_last()).await, "exec|--json|resume|--last|-|");
    assert_eq!(args_of_codex(Agent::codex().prompt("p").resume("id").fork()).await, "exec|--json|fork|id|-|");
}

/// The fake speaks Claude; a fold for Codex reads none of it, but its lines are there.
async fn args_of_codex(agent: Agent) -> String {
    let mut run = agent.env("FAKE", "echo").bin(misbehaving()).start().await.unwrap();
    let mut said = String::new();
    while let Some(record) = run.next().await {
        if let Some((_, behind)) = record.text().split_once("args: ") {
            said = behind.split(" stdin: ").next().unwrap().to_owned();
        }
    }
    said
}

#[tokio::test]
async fn what_codex_lacks_is_refused_by_name() {
    let codex = || Agent::codex().prompt("p");
    for (agent, option) in vec![
        (codex().allowed_tools(["Read"]), "allowed_tools"),
        (codex().disallowed_tools(["Read"]), "disallowed_tools"),
        (codex().permission_mode("plan"), "permission_mode"),
        (codex().max_turns(1_u64), "max_turns"),
        (codex().max_budget_usd(1.0), "max_budget_usd"),
        (codex().mcp_config("x"), "mcp_config"),
        (codex().fallback_model("x"), "fallback_model"),
        (codex().sub_agent("x", SubAgent::new("d", "p")), "agents"),
        (codex().setting_sources([]), "setting_sources"),
        (codex().plugin_dir("x"), "plugin_dir"),
        (codex().system_prompt("x"), "system_prompt"),
        (codex().append_system_prompt("x"), "append_system_prompt"),
        (codex().partial(), "partial"),
        (codex().arg("--json"), "the argument `--json`"),
        (codex().fork(), "fork"),
        (codex().continue_last().fork(), "fork"),
        (codex().permissions(Permissions::default()), "permissions"),
        (codex().tools(ToolServer::new("calc")), "dialogue"),
    ] {
        let said = refused(agent).await.to_string();
        assert!(said.starts_with(&format!("{option}: ")), "{said}");
    }
}

#[tokio::test]
async fn a_refusal_says_which_option_why_and_what_to_use_instead() {
    let refusal = refused(fake("ok").fork()).await;
    assert_eq!(refusal.option, RunOption::Fork);
    assert_eq!(refusal.instead, [Instead::Option(RunOption::Resume), Instead::Option(RunOption::ContinueLast)]);
    assert_eq!(refusal.to_string(), "fork: it needs a session to copy; use resume or continue_last");
    let flags = refusal.with_names(|option| format!("--{}", option.name()), |_| "another".to_owned());
    assert_eq!(flags, "--fork: it needs a session to copy; use another or another");
    let codex = |agent: Agent| async { refused(agent.prompt("p")).await.to_string() };
    assert_eq!(codex(Agent::codex().max_turns(1_u64)).await, "max_turns: codex has no such option; use timeout");
    assert_eq!(codex(Agent::codex().system_prompt("x")).await, "system_prompt: codex has no such option; use claude");
    let said = "allowed_tools: codex has no such option, but a sandbox; use the argument `-s read-only`";
    assert_eq!(codex(Agent::codex().allowed_tools(["Read"])).await, said);
    let long = fake("ok").arg("x".repeat(200_000)).start().await.unwrap_err();
    assert!(matches!(long, StartError::TooLong { agent: "claude", .. }) && long.exit_code() == 2, "{long}");
}

#[tokio::test]
async fn what_would_break_the_stream_is_refused_by_name() {
    for arg in ["--output-format", "--output-format=text", "--input-format=stream-json", "--replay-user-messages", "--bg"] {
        let refusal = refused(fake("echo").arg(arg)).await;
        let flag = arg.split('=').next().unwrap();
        assert_eq!(refusal.option, RunOption::Argument(flag.into()));
        assert!(refusal.to_string().starts_with(&format!("the argument `{flag}`: ")), "{refusal}");
    }
    let mut paired = fake("messages").arg("--input-format").arg("stream-json").arg("--replay-user-messages");
    paired.input = AgentInput::Messages { prompt: None, lines: Box::pin(tokio::io::empty()) };
    let _ = paired.start().await.unwrap().finish().await;
    for (agent, option) in [
        (fake("ok").resume("-x"), RunOption::Resume),
        (fake("ok").resume(""), RunOption::Resume),
        (fake("ok").json_schema("{"), RunOption::JsonSchema),
        (fake("ok").json_schema("[]"), RunOption::JsonSchema),
        (fake("ok").json_schema(r#"{"type":"thing"}"#), RunOption::JsonSchema),
        (fake("ok").permissions(Permissions::default()).permission_mode("dontAsk"), RunOption::PermissionMode),
        (
            fake("ok")
                .permissions(Permissions::default())
                .sub_agent("x", SubAgent::new("d", "p").with("permissionMode", "bypassPermissions")),
            RunOption::Agents,
        ),
        (fake("ok").permissions(Permissions::default()).arg("--bare"), RunOption::Argument("--bare".into())),
        (fake("ok").permissions(Permissions::default()).arg("--settings={}"), RunOption::Argument("--settings".into())),
    ] {
        assert_eq!(refused(agent).await.option, option);
    }
}

/// None is not the same as no word of it.
#[tokio::test]
async fn no_source_of_settings_is_passed_on_as_none() {
    let said = args(Agent::claude().prompt("p").setting_sources([])).await;
    assert!(said.ends_with("|--setting-sources=|"), "{said}");
    assert_eq!("local".parse(), Ok(SettingSource::Local));
    let wrong = "team".parse::<SettingSource>().unwrap_err().to_string();
    assert_eq!(wrong, "`team` is not a source of settings: use user, project or local");
}

/// What this library does not know of a sub-agent is passed on as it came.
#[test]
fn a_sub_agent_is_read_and_written_whole() {
    let text = r#"{"description":"d","prompt":"p","tools":["Read"],"disallowedTools":["Bash"],"model":"haiku","skills":["x"]}"#;
    let read: SubAgent = serde_json::from_str(text).unwrap();
    assert_eq!(
        read,
        SubAgent::new("d", "p").tools(["Read"]).disallowed_tools(["Bash"]).model("haiku").with("skills", vec!["x"])
    );
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}
