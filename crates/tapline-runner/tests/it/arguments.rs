//! Options to arguments, and what is refused by name.

use tapline_runner::{Agent, Input};

use crate::fake::{fake, program};

async fn args(agent: Agent) -> String {
    let said = agent.env("FAKE", "echo").bin(program()).ask().await.unwrap().to_string();
    said.strip_prefix("args: ").unwrap().split(" stdin: ").next().unwrap().to_owned()
}

async fn refused(agent: Agent) -> String {
    let error = agent.bin(program()).env("FAKE", "echo").start().await.unwrap_err();
    assert_eq!(error.exit_code(), 2);
    error.to_string()
}

#[tokio::test]
async fn claude_gets_every_value_with_its_flag() {
    let agent = Agent::claude()
        .prompt("p")
        .model("opus")
        .resume("id")
        .fork()
        .allowed_tools(["Read", "Bash(git log:*)"])
        .disallowed_tools(["WebSearch"])
        .permission_mode("plan")
        .max_turns(3_u64)
        .max_budget_usd(0.5)
        .json_schema(r#"{"type":"object"}"#)
        .mcp_config("servers.json")
        .add_dir("/tmp")
        .system_prompt("-s")
        .append_system_prompt("--verbose")
        .partial()
        .arg("--effort")
        .arg("high");
    assert_eq!(
        args(agent).await,
        "-p|--output-format=stream-json|--verbose|--model=opus|--resume=id|--permission-mode=plan|--system-prompt=-s|\
         --append-system-prompt=--verbose|--allowedTools=Read|--allowedTools=Bash(git log:*)|--disallowedTools=WebSearch|\
         --mcp-config=servers.json|--add-dir=/tmp|--max-turns=3|--max-budget-usd=0.5|--json-schema={ type : object }|\
         --fork-session|--include-partial-messages|--effort|high|"
    );
}

#[tokio::test]
async fn codex_reads_its_prompt_from_stdin() {
    let plain = Agent::codex().prompt("p").arg("-i").arg("a.png");
    assert_eq!(args_of_codex(plain).await, "exec|-i|a.png|--json|-|");
    let resumed = Agent::codex().prompt("p").resume("id").model("gpt-5");
    assert_eq!(args_of_codex(resumed).await, "exec|--json|--model=gpt-5|resume|id|-|");
    assert_eq!(args_of_codex(Agent::codex().prompt("p").continue_last()).await, "exec|--json|resume|--last|-|");
    assert_eq!(args_of_codex(Agent::codex().prompt("p").resume("id").fork()).await, "exec|--json|fork|id|-|");
}

/// The fake speaks Claude; a fold for Codex reads none of it, but its lines are there.
async fn args_of_codex(agent: Agent) -> String {
    let mut run = agent.env("FAKE", "echo").bin(program()).start().await.unwrap();
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
    for (agent, flag) in [
        (codex().allowed_tools(["Read"]), "--allowed-tools"),
        (codex().disallowed_tools(["Read"]), "--disallowed-tools"),
        (codex().permission_mode("plan"), "--permission-mode"),
        (codex().max_turns(1_u64), "--max-turns"),
        (codex().max_budget_usd(1.0), "--max-budget-usd"),
        (codex().mcp_config("x"), "--mcp-config"),
        (codex().system_prompt("x"), "--system-prompt"),
        (codex().append_system_prompt("x"), "--append-system-prompt"),
        (codex().partial(), "--partial"),
        (codex().arg("--json"), "--json"),
        (codex().fork(), "--fork"),
        (codex().continue_last().fork(), "--fork --continue"),
    ] {
        let said = refused(agent).await;
        assert!(said.starts_with(flag), "{said}");
    }
}

#[tokio::test]
async fn what_would_break_the_stream_is_refused_by_name() {
    for arg in ["--output-format", "--output-format=text", "--input-format=stream-json", "--replay-user-messages", "--bg"] {
        let said = refused(fake("echo").arg(arg)).await;
        assert!(said.starts_with(arg.split('=').next().unwrap()), "{said}");
    }
    let mut paired = fake("messages").arg("--input-format").arg("stream-json").arg("--replay-user-messages");
    paired.input = Input::Messages { prompt: None, lines: Box::pin(tokio::io::empty()) };
    paired.start().await.unwrap().finish().await;
    for (agent, flag) in [
        (fake("ok").fork(), "--fork"),
        (fake("ok").resume("-x"), "--resume"),
        (fake("ok").resume(""), "--resume"),
        (fake("ok").json_schema("{"), "--json-schema"),
        (fake("ok").json_schema("[]"), "--json-schema"),
        (fake("ok").json_schema(r#"{"type":"thing"}"#), "--json-schema"),
    ] {
        let said = refused(agent).await;
        assert!(said.starts_with(flag), "{said}");
    }
}
