//! More than one prompt: resumed sessions, two prompts on one stdin.

use std::io::Write as _;
use std::process::Stdio;

use crate::stage::{Stage, TAPLINE, claudes, codex};

#[test]
fn a_session_goes_on() {
    for program in claudes() {
        let scenario = "[[turn]]\ntext = \"The word is plum.\"\n[[turn]]\nexpect = { last = \"the word\", prompt = \"Remember\", count = 1 }\ntext = \"Plum.\"\n";
        let stage = Stage::new(&program, scenario);
        let first = stage.run(&["Remember a word"]);
        let id = first.report["session"]["id"].as_str().unwrap().to_owned();
        let second = stage.run(&["What was the word?", "--resume", &id]);
        assert_eq!((second.code, second.verdict().as_str()), (0, "success/-"), "{} {second:?}", program.version);
        assert_eq!(second.report["session"]["id"], id.as_str(), "{}", program.version);
        assert_eq!(second.report["answer"], "Plum.");
        stage.is_as_written();
    }
}

#[test]
fn a_codex_thread_goes_on() {
    let stage = Stage::new(
        &codex(),
        "[[turn]]\ntext = \"The word is plum.\"\n[[turn]]\nexpect = { last = \"the word\", prompt = \"Remember\", count = 1 }\ntext = \"Plum.\"\n",
    );
    let first = stage.run(&["Remember a word"]);
    let id = first.report["session"]["id"].as_str().unwrap().to_owned();
    let second = stage.run(&["What was the word?", "--resume", &id]);
    assert_eq!((second.code, second.verdict().as_str()), (0, "success/-"), "{second:?}");
    assert_eq!((second.report["session"]["id"].as_str(), second.report["answer"].as_str()), (Some(id.as_str()), Some("Plum.")));
    stage.is_as_written();
}

#[test]
fn a_session_that_is_not_there() {
    for program in claudes() {
        let stage = Stage::new(&program, "turn = [{ text = \"x\" }]");
        let run = stage.run(&["Hello", "--resume", "00000000-0000-4000-8000-000000000000"]);
        assert_eq!(run.code, 1, "{}: {}", program.version, run.report["verdict"]);
        let message = run.report["verdict"]["error"].as_str().unwrap_or_default();
        assert!(message.contains("No conversation found"), "{}: {}", program.version, run.report["verdict"]);
    }
}

#[test]
fn two_prompts_on_one_stdin() {
    for program in claudes() {
        let scenario =
            "[[turn]]\nwhen = { last = \"first\" }\ntext = \"One.\"\n[[turn]]\nwhen = { last = \"second\" }\ntext = \"Two.\"\n";
        let stage = Stage::new(&program, scenario);
        let mut command = stage.command(TAPLINE);
        let recording = stage.folder.join("two");
        command
            .args(["run", "--format", "report", "--input", "stream-json", "--timeout", "60s", "--bin"])
            .arg(&stage.program.path);
        command.arg("--record").arg(&recording).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let say = |stdin: &mut std::process::ChildStdin, text: &str| {
            writeln!(stdin, "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}").unwrap();
        };
        say(&mut stdin, "the first");
        stage.asked(1);
        say(&mut stdin, "the second");
        stage.asked(2);
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{} {report}", program.version);
        let turns: Vec<&str> = report["turns"].as_array().unwrap().iter().filter_map(|turn| turn["result"].as_str()).collect();
        assert_eq!(turns, ["One.", "Two."], "{}: {}", program.version, report["turns"]);
        stage.is_as_written();
    }
}
