//! Codex at work: commands, changes of files, structured output, sub-agents, errors.

use serde_json::json;

use crate::stage::{Stage, codex};

const USAGE: &str = "usage = { input_tokens = 40, output_tokens = 20, cache_read_input_tokens = 60, reasoning_tokens = 5 }\n";

#[test]
fn commands() {
    let scenario = format!(
        "{USAGE}{}",
        r#"
[[turn]]
thinking = "**Looking**"
tool = [{ name = "exec_command", input = { cmd = "echo hello" } }, { name = "exec_command", input = { cmd = "exit 3" } }]
[[turn]]
expect = { last = "exited with code 3" }
text = "All done."
"#
    );
    let stage = Stage::new(&codex(), &scenario);
    let run = stage.run(&["Look"]);
    assert_eq!((run.code, run.verdict().as_str()), (0, "success/-"), "{run:?}");
    assert_eq!(run.report["answer"], "All done.");
    let mut statuses: Vec<&str> =
        run.report["tools"]["calls"].as_array().unwrap().iter().map(|call| call["status"].as_str().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["error", "ok"], "{}", run.report["tools"]);
    stage.same_tokens(&run);
    assert_eq!(run.report["ledger"]["tokens"]["reasoning"], 10);
    stage.is_as_written();
}

#[test]
fn a_file_is_changed() {
    let scenario = r#"
[[turn]]
tool = [{ name = "exec_command", input = { cmd = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\nEOF" } }]
[[turn]]
text = "Made."
"#;
    let stage = Stage::new(&codex(), scenario);
    let run = stage.run(&["Make a file", "--", "--dangerously-bypass-approvals-and-sandbox"]);
    assert_eq!(run.verdict(), "success/-", "{run:?}");
    assert_eq!(std::fs::read_to_string(stage.work().join("made.txt")).unwrap(), "made\n");
    assert!(run.stdout().contains("\"file_change\""));
}

#[test]
fn structured_output() {
    let stage = Stage::new(&codex(), "turn = [{ structured = { answer = 42 } }]");
    let schema =
        r#"{"type":"object","properties":{"answer":{"type":"number"}},"required":["answer"],"additionalProperties":false}"#;
    let run = stage.run(&["What is it?", "--json-schema", schema]);
    assert_eq!(run.verdict(), "success/-", "{run:?}");
    let answer: serde_json::Value = serde_json::from_str(run.report["answer"].as_str().unwrap()).unwrap();
    assert_eq!(answer, json!({ "answer": 42 }));
    let format = &serde_json::from_str::<serde_json::Value>(&stage.sim.requests()[0].body).unwrap()["text"]["format"];
    assert_eq!(format["type"], "json_schema", "the model was told: {format}");
}

#[test]
fn errors() {
    // Of a 500 it says that there is high demand.
    for (status, category) in [(401, "auth"), (429, "rate_limit"), (500, "server"), (503, "server"), (529, "overloaded")] {
        let stage = Stage::new(
            &codex(),
            &format!("[[turn]]\nfault = [{{ kind = \"error\", status = {status}, times = \"forever\" }}]\n"),
        );
        let run = stage.run(&["Hello"]);
        assert_eq!((run.code, run.verdict()), (1, format!("failure/{category}")), "{status}: {}", run.report["verdict"]);
    }
}

#[test]
fn a_cut_is_got_over() {
    let stage = Stage::new(&codex(), "[[turn]]\ntext = \"Here I am.\"\nfault = [{ kind = \"cut\", after = 2 }]\n");
    let run = stage.run(&["Hello"]);
    assert_eq!((run.code, run.verdict().as_str()), (0, "success/-"), "{run:?}");
    assert_eq!(run.report["answer"], "Here I am.");
}

#[test]
fn a_sub_agent() {
    let scenario = r#"
[[turn]]
tool = [{ name = "spawn_agent", namespace = "collaboration", input = { message = "Look around and tell.", task_name = "look", fork_turns = "none" } }]
[[turn]]
tool = [{ name = "wait_agent", namespace = "collaboration", input = { timeout_ms = 20000 } }]
[[turn]]
text = "It found nothing."
[[turn]]
when = { agent = "sub" }
text = "Nothing to see."
"#;
    let stage = Stage::new(&codex(), &format!("{USAGE}{scenario}"));
    let run = stage.run(&["Delegate"]);
    assert_eq!(run.verdict(), "success/-", "{run:?}");
    assert_eq!(run.report["answer"], "It found nothing.");
    // The stream has the tokens of the main agent alone.
    let ledger = &run.report["ledger"];
    assert!(ledger["tokens"]["input"].as_u64() < Some(stage.sim.tokens().input_tokens), "{ledger}");
    assert_eq!(ledger["exact"], false);
    stage.is_as_written();
}
