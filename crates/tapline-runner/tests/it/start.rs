//! What an agent is started with, and why it is not.

use std::time::Duration;

use tapline_runner::{Agent, AgentInput, Failure, StartError};
use tapline_testkit::agent::misbehaving;
use tapline_testkit::{HANG, TempFolder, rerun};

use crate::fake_agent::fake;

async fn answer(agent: Agent) -> String {
    agent.ask().await.unwrap().to_string()
}

#[tokio::test]
async fn a_prompt_is_never_a_flag() {
    let said = answer(fake("echo").prompt("--dangerously-skip-permissions")).await;
    assert!(said.starts_with("args: -p|--output-format=stream-json|--verbose| stdin: --dangerously"), "{said}");
}

#[tokio::test]
async fn prompts_of_any_size() {
    for size in [0, 1, 65_536, 65_537, 5_000_000] {
        assert_eq!(answer(fake("count").prompt("x".repeat(size))).await, size.to_string());
    }
}

#[tokio::test]
async fn an_agent_that_reads_nothing_is_not_waited_on() {
    let report = fake("lines").env("LINES_WANTED", "1").prompt("x".repeat(5_000_000)).start().await.unwrap().finish().await;
    assert!(report.verdict.clean);
}

#[tokio::test]
async fn messages_are_passed_on_as_they_come() {
    let (mut writer, reader) = tokio::io::duplex(64);
    let mut agent = fake("messages").linger(HANG);
    agent.input = AgentInput::Messages { prompt: Some(b"first".to_vec()), lines: Box::pin(reader) };
    let mut run = agent.start().await.unwrap();
    let mut results = 0;
    while results < 1 {
        results += usize::from(run.next().await.unwrap().envelope.kind.as_deref() == Some("result"));
    }
    tokio::io::AsyncWriteExt::write_all(&mut writer, b"{\"type\":\"user\"}\n").await.unwrap();
    while results < 2 {
        results += usize::from(run.next().await.unwrap().envelope.kind.as_deref() == Some("result"));
    }
    drop(writer);
    let report = run.finish().await;
    assert_eq!(report.turns.len(), 2);
    assert_eq!(report.verdict.exit.code, Some(0), "it ended by itself");
}

/// A variable that this process has only because the test has set it.
const INHERITED: &str = "TAPLINE_TEST_INHERITED";

#[tokio::test]
async fn the_environment() {
    // In a process of its own, which has the variable.
    if std::env::var_os(INHERITED).is_none() {
        assert!(rerun(module_path!(), "the_environment").env(INHERITED, "1").status().unwrap().success());
        return;
    }
    let said = answer(fake("env")).await;
    assert!(said.contains("TAPLINE_RUN=") && said.contains("TAPLINE_TEST_INHERITED="), "{said}");
    let said = answer(fake("env").clean_env()).await;
    assert!(said.contains("FAKE=env") && said.contains("PATH=") && !said.contains("TAPLINE_TEST_INHERITED="), "{said}");
    let mut agent = fake("env").clean_env();
    agent.environment.set.push((INHERITED.into(), None));
    assert!(answer(agent).await.contains("TAPLINE_TEST_INHERITED="), "inherited by name");
}

/// How long the agent waits for its background tasks by itself.
const WAITS: &str = "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS";

#[tokio::test]
async fn a_limit_for_background_tasks_counts_more_than_an_inherited_variable() {
    // In a process of its own, which has the variable.
    if std::env::var_os(WAITS).is_none_or(|value| value != "77") {
        let mut again = rerun(module_path!(), "a_limit_for_background_tasks_counts_more_than_an_inherited_variable");
        assert!(again.env(WAITS, "77").status().unwrap().success());
        return;
    }
    let limited = |seconds| fake("env").background_timeout(Duration::from_secs(seconds));
    let mut by_name = limited(5);
    by_name.environment.set.push((WAITS.into(), None));
    for (agent, wanted) in [
        (fake("env"), "77"),
        (limited(5), "5000"),
        (limited(0), "1"),
        (limited(600), "600000"),
        (limited(u64::MAX), "0"),
        (limited(5).env(WAITS, "88"), "88"),
        (by_name, "77"),
    ] {
        let said = answer(agent).await;
        assert!(said.contains(&format!("{WAITS}={wanted} ")), "{wanted}: {said}");
    }
}

#[tokio::test]
async fn what_is_not_there() {
    let error = Agent::claude().bin("/no/such/claude").start().await.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.exit_code()), ("claude: not found: /no/such/claude", 127));
    let error = Agent::codex().bin("no-such-codex").start().await.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.exit_code()), ("codex: not found: no-such-codex", 127));
    let error = fake("ok").cwd("/no/such/folder").start().await.unwrap_err();
    assert!(matches!(error, StartError::Cwd { .. }) && error.exit_code() == 2, "{error}");
    let Err(Failure::NotStarted(_)) = Agent::claude().bin("/no/such/claude").ask().await else { panic!() };
}

#[tokio::test]
async fn what_cannot_be_executed() {
    let folder = TempFolder::new();
    let file = folder.join("claude");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    let error = Agent::claude().bin(&file).start().await.unwrap_err();
    assert_eq!(error.exit_code(), 126, "{error}");
    assert!(error.to_string().contains("not executable"), "{error}");
    folder.program("claude", "#!/no/such/interpreter\n");
    let record = folder.join("recording");
    let error = Agent::claude().bin(&file).record(&record).start().await.unwrap_err();
    assert_eq!(error.exit_code(), 126, "{error}");
    assert!(!record.exists(), "nothing half-written");
    for text in ["", "no #! line\n", "\u{7f}ELF, but of no machine there is"] {
        folder.program("claude", text);
        let error = Agent::claude().bin(&file).start().await.unwrap_err();
        assert_eq!(error.exit_code(), 126, "{text}: {error}");
    }
    let error = Agent::claude().bin(&*folder).start().await.unwrap_err();
    assert_eq!(error.exit_code(), 126, "{error}");
}

/// Whoever writes a program and starts it at once may find it busy: a child that another thread is starting has the open file, too.
#[tokio::test]
async fn a_program_that_is_still_being_written_is_tried_again() {
    let folder = TempFolder::new();
    let file = folder.join("claude");
    // It may be run, as the original.
    std::fs::copy(misbehaving(), &file).unwrap();
    let held = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    let run = tokio::spawn(fake("ok").bin(&file).start());
    // So long that it is tried meanwhile, unless the machine is slow. Then it is not busy at all.
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(held);
    assert!(run.await.unwrap().unwrap().finish().await.verdict.clean);
}

#[tokio::test]
async fn a_recording_that_is_there_is_not_written_over() {
    let folder = TempFolder::new();
    let error = fake("ok").record(&*folder).start().await.unwrap_err();
    assert!(matches!(error, StartError::Recording(_)) && error.exit_code() == 2, "{error}");
}

#[tokio::test]
async fn a_failure_has_the_report() {
    let Err(Failure::Failed(report)) = fake("auth").ask().await else { panic!() };
    assert_eq!(report.verdict.category, Some(tapline_session::Category::Auth));
    let shown = fake("auth").ask().await.unwrap_err().to_string();
    assert_eq!(shown, "failure (auth): API Error: 401 Invalid API key");
}

#[test]
fn the_program_is_looked_for_on_path() {
    let folder = TempFolder::new();
    std::os::unix::fs::symlink(misbehaving(), folder.join("claude")).unwrap();
    let path = std::env::join_paths(["/no/such", folder.to_str().unwrap()]).unwrap();
    let found = tapline_runner::locate(tapline_protocol::Agent::Claude, None, Some(&path)).unwrap();
    assert_eq!(found, folder.join("claude"));
}
