//! Recipes that people wrote for the real programs: they run unchanged on what tapline prints. And what such texts get wrong about
//! the real programs (docs/MIGRATING.md says it).

use std::process::Output;

use serde_json::{Value, json};

use crate::stage::{Stage, TAPLINE, claudes, newest};

const SCENARIO: &str = r#"
usage = { input_tokens = 12, output_tokens = 42 }
[[turn]]
text = "Let me look."
tool = [{ name = "Bash", input = { command = "echo hello", description = "Say hello" } }]
[[turn]]
text = "All done."
"#;

/// A shell in the agent's folder, with `tapline` and `claude` on its PATH.
fn shell(stage: &Stage, script: &str) -> Output {
    let bin = stage.folder.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for (name, target) in [("tapline", std::path::Path::new(TAPLINE)), ("claude", stage.program.path.as_path())] {
        let _ = std::os::unix::fs::symlink(target, bin.join(name));
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    stage.command("bash").args(["-c", script]).env("PATH", path).output().unwrap()
}

fn said(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_recipes_run_unchanged() {
    for program in claudes() {
        let stage = Stage::new(&program, SCENARIO);
        let version = &program.version;
        let script = r#"tapline run "Query" --messages --record kept --permission-mode bypassPermissions > output.json"#;
        said(shell(&stage, script));
        // The same value by tapline's own path.
        let get = |path: &str| said(shell(&stage, &format!("tapline inspect kept --get '{path}'")));
        let recipe = |jq: &str| said(shell(&stage, &format!("cat output.json | {jq}")));
        for (jq, path) in [
            ("jq -r '.session_id'", "session.id"),
            ("jq -r '.result'", "answer"),
            // `ledger.cost_usd` is the same, rounded to 1e-10 dollars.
            ("jq '.total_cost_usd'", "turns[-1].total_cost_usd"),
            ("jq '.is_error'", "turns[-1].is_error"),
            ("jq '.usage.input_tokens'", "turns[-1].usage.input_tokens"),
            ("jq '.usage.output_tokens'", "turns[-1].usage.output_tokens"),
        ] {
            assert_eq!(recipe(jq), get(path), "{version}: {jq}");
        }
        assert_eq!(recipe("jq -r '.result'"), "All done.\n", "{version}");
        assert_eq!(recipe("jq '.usage.input_tokens, .usage.output_tokens'").lines().count(), 2, "{version}");
        let texts = recipe(r#"jq -r '.messages[] | select(.type=="assistant") | .content[0].text'"#);
        assert_eq!(texts, "Let me look.\nAll done.\n", "{version}");
        assert_eq!(texts, get("text"), "{version}");
        let calls = recipe(
            r#"jq '.messages[] | select(.type=="assistant") | .content[] | select(.type=="tool_use")' | jq -r '.name, .input.command'"#,
        );
        assert_eq!(calls, "Bash\necho hello\n", "{version}");
        assert_eq!(recipe("jq -r '.messages[0].content'"), "Query\n", "{version}");
        stage.is_as_written();
    }
}

#[test]
fn the_recipe_for_errors_runs_unchanged_with_a_result_and_without() {
    let recipe = r#"
output=$(tapline run "Query" --format json --no-record --timeout TIME --grace 1s)
exit_code=$?
is_error=$(echo "$output" | jq '.is_error')
if [ "$is_error" == "true" ]; then
  error_msg=$(echo "$output" | jq -r '.error.message')
  echo "$exit_code Error: $error_msg"
fi
"#;
    let slow = Stage::new(&newest(), "[[turn]]\ntext = \"Slow.\"\ndelay_ms = 60000\n");
    assert_eq!(said(shell(&slow, &recipe.replace("TIME", "4s"))), "124 Error: timeout\n");
    let refused = "[[turn]]\ntext = \"Never.\"\nfault = [{ kind = \"error\", status = 401, times = \"forever\" }]\n";
    let refused = said(shell(&Stage::new(&newest(), refused), &recipe.replace("TIME", "10m")));
    assert!(refused.starts_with("1 Error: Invalid API key"), "{refused}");
}

#[test]
fn the_loop_over_a_stream_is_a_loop_over_steps() {
    for program in claudes() {
        let stage = Stage::new(&program, SCENARIO);
        let script = r#"
tapline run "Query" --format steps --no-record --permission-mode bypassPermissions | while IFS= read -r line; do
  case "$(echo "$line" | jq -r '.step // "report"')" in
    session) echo "Session: $(echo "$line" | jq -r '.id')" ;;
    text) echo "Claude: $(echo "$line" | jq -r '.text')" ;;
    call) echo "Tool: $(echo "$line" | jq -r '.name')" ;;
    report) echo "Done! Cost: \$$(echo "$line" | jq -r '.ledger.cost_usd > 0')" ;;
  esac
done
"#;
        let said = said(shell(&stage, script));
        let (session, rest) = said.split_once('\n').unwrap();
        assert!(session.len() > "Session: ".len() && session.starts_with("Session: "), "{}: {said}", program.version);
        assert_eq!(rest, "Claude: Let me look.\nTool: Bash\nClaude: All done.\nDone! Cost: $true\n", "{}", program.version);
    }
}

#[test]
fn a_question_that_nobody_can_answer_is_interactive() {
    let scenario = r#"
[[turn]]
tool = [{ name = "AskUserQuestion", input = { questions = [
  { question = "Which one?", header = "Which", multiSelect = false, options = [{ label = "A", description = "a" }, { label = "B", description = "b" }] },
] } }]
[[turn]]
text = "I go on without an answer."
"#;
    let run = Stage::new(&newest(), scenario).run(&["Decide"]);
    assert_eq!((run.code, run.verdict().as_str()), (0, "success/interactive"), "{run:?}");
    assert_eq!(run.report["verdict"]["clean"], false);
}

#[test]
fn what_the_documents_get_wrong() {
    let stage = Stage::new(&newest(), SCENARIO);
    for (wrong, why) in [
        ("claude -p Query --output-format stream-json", "requires --verbose"),
        ("claude -p Query --no-such-option", "unknown option"),
        ("claude -p Query --input-format stream-json", "requires output-format=stream-json"),
    ] {
        let ended = shell(&stage, wrong);
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{wrong}: {stderr}");
        assert!(stderr.contains(why), "{wrong}: {stderr}");
    }
    let document = said(shell(&stage, "claude -p Query --output-format json --permission-mode bypassPermissions"));
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((document.get("messages"), document.get("error")), (None, None), "{document}");

    let stage = Stage::new(&newest(), SCENARIO);
    let run = stage.run(&["Query", "--partial", "--permission-mode", "bypassPermissions"]);
    for kind in ["tool_use", "tool_result", "rate_limit_event"] {
        assert_eq!(run.lines(kind), Vec::<Value>::new(), "no such event");
    }
    let restricted = Stage::new(&newest(), SCENARIO).run(&["Query", "--allowed-tools", "Read"]);
    let tools = restricted.report["session"]["tools"].as_array().unwrap();
    assert!(tools.contains(&json!("Bash")), "what is not allowed is listed, too: {tools:?}");
    let user = run.lines("user").remove(0);
    assert_eq!((user["message"].get("id"), user["message"].get("type")), (None, None), "{user}");
    assert!(run.lines("assistant").iter().all(|line| line["message"]["stop_reason"].is_null()), "only the result says");
    assert_eq!(run.lines("result")[0]["stop_reason"], "end_turn");
    let tags: Vec<_> = run
        .stdout()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| line["event"]["type"].as_str().or(line["type"].as_str()).unwrap().to_owned())
        .collect();
    let first = |tag: &str| tags.iter().position(|it| it == tag).unwrap();
    assert!(first("assistant") < first("content_block_stop"), "{tags:?}");

    let hooked = Stage::new(&newest(), SCENARIO);
    let settings = json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo started"}]}]}});
    std::fs::write(hooked.work().join("settings.json"), settings.to_string()).unwrap();
    let run = hooked.run(&["Query", "--permission-mode", "bypassPermissions", "--", "--settings", "settings.json"]);
    let first: Value = serde_json::from_str(run.stdout().lines().next().unwrap()).unwrap();
    assert_eq!(first["subtype"], "hook_started", "{first}");
    assert!(run.report["session"]["model"].is_string(), "and the session is known");
}

#[test]
fn an_agent_that_reads_another_agents_output_does_not_hear_its_own_prompt() {
    let pipe = |stage: &Stage, script: &str| {
        said(shell(stage, script));
        let requests = stage.sim.requests();
        requests.iter().rev().find(|request| request.facts.is_some()).unwrap().body.clone()
    };
    let scenario = format!("{SCENARIO}[[turn]]\ntext = \"Summary.\"\n[[turn]]\ntext = \"More.\"\n");
    let first = "claude -p Analyze --output-format stream-json --verbose --permission-mode bypassPermissions";
    let by_hand =
        format!("{first} | claude -p Summarize --input-format stream-json --output-format stream-json --verbose > /dev/null");
    let asked = pipe(&Stage::new(&newest(), &scenario), &by_hand);
    // How much of the first run it is given differs from time to time.
    assert!(!asked.contains("Summarize"), "{asked}");
    let with_context = format!("{first} | tapline run Summarize --context - --no-record --format quiet");
    let asked = pipe(&Stage::new(&newest(), &scenario), &with_context);
    assert!(asked.contains("Summarize") && asked.contains("All done."), "{asked}");
}
