//! What scripts that read an agent by hand do, in one process: live events and the verdict, one JSON object however it ends, text
//! as it is written, only some of the lines, waits that the user sets.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, TestProcess, agent, fixture};

use crate::run::run_command;
use crate::tapline::{Ran, command, ran, tapline, tapline_on};

fn run(mode: &str, args: &[&str]) -> Ran {
    ran(run_command(mode, args).output().unwrap())
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// An agent that writes these lines.
fn agent(folder: &TempFolder, lines: &[&str]) -> String {
    folder.script("agent", &agent::says(&lines.join("\n")))
}

fn run_lines(lines: &[&str], args: &[&str]) -> Ran {
    let folder = TempFolder::new();
    tapline(&[&["run", "go", "--bin", &agent(&folder, lines), "--no-record", "--grace", "300ms"], args].concat())
}

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s1","model":"m","tools":[],"claude_code_version":"2.1.325"}"#;
const DONE: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s1","num_turns":3,"total_cost_usd":0.01,"usage":{"input_tokens":3,"output_tokens":4}}"#;

#[test]
fn steps_come_as_they_happen_and_the_report_is_last() {
    let steps = run("ok", &["--format", "steps"]);
    assert_eq!((steps.code, steps.err.as_str()), (0, ""));
    let mut lines: Vec<_> = steps.out.lines().map(parsed).collect();
    let report = lines.pop().unwrap();
    assert!(
        report.get("step").is_none() && report["verdict"]["outcome"] == "success" && report["answer"] == "done",
        "{report}"
    );
    let names: Vec<_> = lines.iter().map(|line| line["step"].as_str().unwrap()).collect();
    assert!(names.contains(&"prompt") && names.ends_with(&["session", "text", "turn"]), "{names:?}");
    let ids: Vec<_> = lines.iter().filter_map(|line| line["session_id"].as_str()).collect();
    assert_eq!(ids, ["fake-session"], "once, where it is first known");
    assert_eq!(lines.iter().find(|line| line["session_id"].is_string()).unwrap()["step"], "session");
    for (args, code, category) in [
        (&["--timeout", "300ms"][..], 124, "timeout"),
        (&["--bin", "/no/such/agent"], 127, "startup"),
        (&["--bin", "/etc/passwd"], 126, "startup"),
    ] {
        let steps = run_or_bin("hang", &[&["--format", "steps"], args].concat());
        assert_eq!(steps.code, code, "{args:?}: {}", steps.err);
        assert_eq!(parsed(steps.out.lines().last().unwrap())["verdict"]["category"], category);
    }
}

/// A run of the fake agent, unless another program is named.
fn run_or_bin(mode: &str, args: &[&str]) -> Ran {
    if args.contains(&"--bin") { tapline(&[&["run", "go", "--no-record"], args].concat()) } else { run(mode, args) }
}

#[test]
fn a_step_says_which_message_it_is_of() {
    let said = r#"{"type":"assistant","session_id":"s1","message":{"id":"m1","model":"opus","role":"assistant","stop_reason":"tool_use","usage":{"input_tokens":5,"output_tokens":1,"cache_read_input_tokens":7},"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"t1","name":"Bash","input":{}}]}}"#;
    let steps = run_lines(&[INIT, said, DONE], &["--format", "steps"]);
    let lines: Vec<_> = steps.out.lines().map(parsed).collect();
    for kind in ["text", "call"] {
        let step = lines.iter().find(|line| line["step"] == kind).unwrap();
        assert_eq!(
            (&step["message_id"], &step["model"], &step["stop_reason"]),
            (&json!("m1"), &json!("opus"), &json!("tool_use"))
        );
        assert_eq!(
            (&step["usage"]["input_tokens"], &step["usage"]["cache_read_input_tokens"]),
            (&json!(5), &json!(7)),
            "{step}"
        );
    }
    // The id is on the first line that has one, whatever that is.
    let bare = r#"{"type":"assistant","session_id":"s9","message":{"id":"m1","content":[{"type":"text","text":"x"}]}}"#;
    let steps = run_lines(&[bare, DONE], &["--format", "steps"]);
    let first = steps.out.lines().map(parsed).find(|line| line["session_id"].is_string()).unwrap();
    assert_eq!((&first["step"], &first["session_id"]), (&json!("text"), &json!("s9")));
}

#[test]
fn the_agent_works_in_the_folder_that_is_named() {
    let folder = TempFolder::new();
    let lines = format!(r#"printf '{{"type":"system","subtype":"init","cwd":"%s"}}\n' "$PWD"; printf '%s\n' '{DONE}'"#);
    let agent = folder.script("agent", &format!("cat >/dev/null\n{lines}"));
    let work = folder.path("work");
    std::fs::create_dir(&work).unwrap();
    let ended = tapline(&["run", "go", "--bin", &agent, "--no-record", "--cwd", &work, "--get", "session.cwd"]);
    assert_eq!((ended.code, ended.out), (0, work + "\n"), "{}", ended.err);
}

#[test]
fn the_session_id_is_printed_while_the_agent_works() {
    let mut child = TestProcess::from(
        run_command("hang", &["--get", "session.id", "--get", "answer"]).stdout(Stdio::piped()).spawn().unwrap(),
    );
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "fake-session\n");
    assert!(child.try_wait().unwrap().is_none(), "it still runs");
    let all = run("ok", &["--get", "session.id", "--get", "answer"]);
    assert_eq!((all.code, all.out.as_str()), (0, "fake-session\ndone\n"));
    let other = run("ok", &["--get", "answer", "--get", "session.id"]);
    assert_eq!(other.out, "done\nfake-session\n", "in the order that was asked for");
    assert_eq!(run("hang", &["--get", "session.id", "--timeout", "300ms"]).code, 124, "the verdict still counts");
}

#[test]
fn the_report_is_written_beside_any_format() {
    let folder = TempFolder::new();
    for format in ["lines", "text", "json", "stream-json", "steps", "report", "quiet"] {
        let path = folder.path(&format!("{format}.json"));
        let ended = run("ok", &["--format", format, "--report", &path]);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{format}");
        let report = parsed(&std::fs::read_to_string(&path).unwrap());
        assert_eq!((&report["verdict"]["outcome"], &report["text"]), (&json!("success"), &json!("done")), "{format}");
    }
    let path = folder.path("none.json");
    let ended = tapline(&["run", "go", "--no-record", "--bin", "/no/such", "--report", &path, "--get", "answer"]);
    assert_eq!(ended.code, 127);
    assert_eq!(parsed(&std::fs::read_to_string(&path).unwrap())["verdict"]["category"], "startup");
    let refused = run("ok", &["--report", "/no/such/folder/report.json"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "before anything is paid for");
    assert!(refused.err.contains("--report"), "{}", refused.err);
}

#[test]
fn json_is_one_object_however_it_ends() {
    let missing = ["--bin", "/no/such/agent"];
    let not_executable = ["--bin", "/etc/passwd"];
    for (mode, args, code, category, is_error) in [
        ("ok", &[][..], 0, Value::Null, false),
        ("no-result", &[], 4, json!("no_result"), true),
        ("nothing", &[], 4, json!("no_result"), true),
        ("hang", &["--timeout", "300ms"], 124, json!("timeout"), true),
        ("dies", &[], 1, json!("killed"), true),
        ("exits", &[], 1, json!("startup"), true),
        ("exits-late", &[], 1, json!("exit"), true),
        ("", &missing, 127, json!("startup"), true),
        ("", &not_executable, 126, json!("startup"), true),
        ("declined", &["--agent", "codex"], 0, Value::Null, false),
    ] {
        let ended = run_or_bin(mode, &[&["--format", "json"], args].concat());
        assert_eq!((ended.code, ended.out.lines().count()), (code, 1), "{mode} {args:?}: {} {}", ended.out, ended.err);
        let object = parsed(&ended.out);
        assert_eq!((&object["type"], &object["is_error"]), (&json!("result"), &json!(is_error)), "{mode} {args:?}: {object}");
        assert_eq!(object.get("category").unwrap_or(&Value::Null), &category, "{mode} {args:?}: {object}");
        assert_eq!(object["error"]["message"].is_string(), is_error, "{mode}: {object}");
    }
    // What the agent itself calls an error stays as it printed it, and says why in the same place as the others.
    let auth = parsed(&run("auth", &["--format", "json"]).out);
    assert_eq!((&auth["api_error_status"], &auth["category"], &auth["is_error"]), (&json!(401), &json!("auth"), &json!(true)));
    assert_eq!(auth["error"]["message"], auth["result"], "{auth}");
    let old =
        r#"{"type":"result","subtype":"error","is_error":true,"session_id":"s1","result":"","error":"Rate limit exceeded."}"#;
    let old = parsed(&run_lines(&[INIT, old], &["--format", "json"]).out);
    assert_eq!((&old["error"], &old["category"]), (&json!("Rate limit exceeded."), &json!("rate_limit")), "its own stays");
    let partial = parsed(&run("no-result", &["--format", "json"]).out);
    assert_eq!((&partial["result"], &partial["session_id"]), (&json!("done"), &json!("fake-session")));
    let codex = parsed(&run("declined", &["--agent", "codex", "--format", "json"]).out);
    assert_eq!((&codex["result"], &codex["usage"]["output_tokens"]), (&json!("I could not"), &json!(4)));
}

#[test]
fn messages_are_whole_and_have_the_prompt() {
    let piece = |block: &str| {
        format!(
            r#"{{"type":"assistant","session_id":"s1","message":{{"id":"m1","model":"opus","role":"assistant","content":[{block}]}}}}"#
        )
    };
    let (text, call) =
        (piece(r#"{"type":"text","text":"I look."}"#), piece(r#"{"type":"tool_use","id":"t1","name":"Read","input":{}}"#));
    let result = r#"{"type":"user","session_id":"s1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}}"#;
    let object = parsed(&run_lines(&[INIT, &text, &call, result, DONE], &["--messages"]).out);
    let messages = object["messages"].as_array().unwrap();
    assert_eq!(object["result"], "done");
    assert_eq!(messages[0], json!({"type": "user", "content": "go"}));
    assert_eq!(messages[1]["content"][0]["text"], "I look.");
    assert_eq!(messages[1]["content"][1]["name"], "Read", "one message, two blocks: {messages:?}");
    assert_eq!((&messages[1]["model"], &messages[2]["content"][0]["content"]), (&json!("opus"), &json!("x")));
    assert_eq!(messages.len(), 3);
    let codex = parsed(&run("declined", &["--agent", "codex", "--messages"]).out);
    let kinds: Vec<_> = codex["messages"].as_array().unwrap().iter().map(|message| &message["type"]).collect();
    assert_eq!(kinds, ["user", "assistant", "user", "assistant"], "{codex}");
    assert_eq!(codex["messages"][3]["content"][0], json!({"type": "text", "text": "I could not"}));
    let refused = run("ok", &["--messages", "--format", "text"]);
    assert!(refused.code == 2 && refused.err.contains("--format json"), "{}", refused.err);
    // A recording has the prompt, too.
    let folder = TempFolder::new();
    let record = folder.path("kept");
    let kept = command(&["run", "go", "--bin", &misbehaving(), "--record", &record, "--messages"]).output().unwrap();
    let of_recording = tapline(&["convert", "--to", "json", "--messages", &record]);
    assert_eq!(parsed(&of_recording.out)["messages"], parsed(&ran(kept).out)["messages"]);
}

#[test]
fn the_model_of_a_document_is_not_lost() {
    let document = r#"{"session_id":"s1","result":"x","is_error":false,"num_turns":1,"messages":[{"type":"user","content":"q"},{"type":"assistant","content":[{"type":"text","text":"x"}],"model":"claude-sonnet-4-5"}]}"#;
    let model = tapline_on(document.as_bytes(), &["inspect", "--get", "session.model"]);
    assert_eq!((model.code, model.out.as_str()), (0, "claude-sonnet-4-5\n"));
}

#[test]
fn what_may_be_missing_from_the_answer_is_told_in_every_format() {
    let asked = r#"{"type":"assistant","message":{"id":"m1","stop_reason":"end_turn","content":[{"type":"text","text":"Which one?"}]}}"#;
    let ended = r#"{"type":"result","subtype":"success","is_error":false,"result":"Which one?","num_turns":1,"stop_reason":"end_turn"}"#;
    let cut = r#"{"type":"result","subtype":"success","is_error":false,"result":"and then","num_turns":2,"stop_reason":"max_tokens"}"#;
    let started = r#"{"type":"result","subtype":"success","is_error":false,"result":"started","num_turns":1}"#;
    let launch = r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Task","input":{"run_in_background":true}}]}}"#;
    for format in ["text", "json", "stream-json", "steps", "report"] {
        for (lines, code) in
            [(&[asked, ended][..], "interactive-hang"), (&[cut], "max-tokens"), (&[launch, started], "background-task")]
        {
            let told = run_lines(lines, &["--format", format, "--linger", "100ms"]);
            assert!(told.code == 0 && told.err.contains(code), "{format} {code}: {}", told.err);
            let quiet = run_lines(lines, &["--format", "quiet", "--linger", "100ms"]);
            assert_eq!(quiet.err, "", "{code}");
        }
        let denied = run("denied", &["--format", format]);
        assert!(denied.err.contains("Bash") && denied.err.contains("make"), "{format}: {}", denied.err);
    }
    assert_eq!(run("ok", &["--format", "text"]).err, "", "nothing to tell");
}

#[test]
fn only_a_clean_run_passes_where_that_is_required() {
    let asked = r#"{"type":"result","subtype":"success","is_error":false,"result":"Which one?","num_turns":1,"stop_reason":"end_turn"}"#;
    let cut = r#"{"type":"result","subtype":"success","is_error":false,"result":"x","num_turns":2,"stop_reason":"max_tokens"}"#;
    let said = r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"Which one?"}]}}"#;
    for (lines, clean) in [(&[said, asked][..], false), (&[cut], true), (&[DONE], true)] {
        let ended = run_lines(lines, &["--require-clean", "--format", "quiet"]);
        assert_eq!(ended.code, i32::from(!clean), "{lines:?}: {}", ended.err);
        let stream = lines.join("\n");
        let inspected = tapline_on(stream.as_bytes(), &["inspect", "--require-clean", "--get", "verdict.clean"]);
        assert_eq!((inspected.code, inspected.out.trim()), (i32::from(!clean), if clean { "true" } else { "false" }));
    }
    let denied = run("denied", &["--require-clean", "--format", "text"]);
    assert!(denied.code == 1 && denied.err.contains("(--require-clean)"), "{}", denied.err);
    assert_eq!(run("auth", &["--require-clean", "--format", "quiet"]).code, 1);
    assert_eq!(run("no-result", &["--require-clean", "--format", "quiet"]).code, 4, "a failure keeps its own code");
}

fn delta(text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{text}}}}},"session_id":"s1"}}"#
    )
}

#[test]
fn text_is_typed_as_it_comes_and_nothing_else_is() {
    let start = r#"{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}},"session_id":"s1"}"#;
    let thought = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}},"session_id":"s1"}"#;
    let side = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"side"}},"parent_tool_use_id":"t1","session_id":"s1"}"#;
    let (look, do_, ne) = (delta("I look."), delta("do"), delta("ne"));
    let typed = run_lines(&[INIT, thought, start, &look, side, start, &do_, &ne, DONE], &["--format", "text", "--partial"]);
    assert_eq!((typed.code, typed.out.as_str(), typed.err.as_str()), (0, "I look.\n\ndone\n", ""));
    let untyped = run_lines(&[INIT, DONE], &["--format", "text", "--partial"]);
    assert_eq!(untyped.out, "done\n", "what did not come in parts is printed at the end");
    let other = run_lines(&[INIT, start, &look, DONE], &["--format", "text", "--partial"]);
    assert_eq!(other.out, "I look.\ndone\n", "and so is an answer that is not what was typed");
    let folder = TempFolder::new();
    let stays = folder.script("agent", &format!("printf '%s\\n' '{INIT}' '{start}' '{do_}'\nexec sleep 1000"));
    let args = ["run", "go", "--bin", &stays, "--no-record", "--format", "text", "--partial", "--grace", "300ms"];
    let mut child = TestProcess::from(command(&args).stdout(Stdio::piped()).spawn().unwrap());
    let mut two = [0; 2];
    std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut two).unwrap();
    assert_eq!(&two, b"do", "while the agent works");
}

#[test]
fn only_some_lines_or_steps_are_passed_on() {
    let path = fixture("claude-2.1.325/multi.jsonl");
    let folder = TempFolder::new();
    let agent = folder.script("agent", &agent::shows(&path));
    let run = |args: &[&str]| tapline(&[&["run", "go", "--bin", &agent, "--no-record"], args].concat());
    let all = std::fs::read_to_string(&path).unwrap();
    let wanted = |tags: &[&str]| -> String {
        let is = |line: &&str| {
            let line = parsed(line);
            let tag = format!("{}/{}", line["type"].as_str().unwrap(), line["subtype"].as_str().unwrap_or_default());
            tags.contains(&line["type"].as_str().unwrap()) || tags.contains(&tag.as_str())
        };
        all.split_inclusive('\n').filter(is).collect()
    };
    assert!(wanted(&["assistant", "result"]).lines().count() > 2);
    assert_eq!(run(&["--only", "assistant,result"]).out, wanted(&["assistant", "result"]), "the same bytes");
    assert_eq!(run(&["--only", "system/init"]).out, wanted(&["system/init"]));
    let steps = run(&["--only", "text,turn", "--format", "steps"]);
    let mut lines: Vec<_> = steps.out.lines().map(parsed).collect();
    assert!(lines.pop().unwrap()["verdict"].is_object(), "the report is always there");
    assert!(lines.len() > 2 && lines.iter().all(|line| line["step"] == "text" || line["step"] == "turn"), "{lines:?}");
    for (args, why) in [
        (&["--only", "txt", "--format", "steps"][..], "did you mean `text`?"),
        (&["--only", "text", "--format", "text"], "--format stream-json or --format steps"),
    ] {
        let refused = run(args);
        assert!(refused.code == 2 && refused.err.contains(why), "{args:?}: {}", refused.err);
    }
}

#[test]
fn the_waits_of_a_retry_can_be_set() {
    let again = run("no-result", &["--retry", "2", "--retry-delay", "0", "--get", "run.attempts"]);
    assert_eq!((again.code, again.out.as_str()), (4, "3\n"), "{}", again.err);
    let named = run("auth", &["--retry", "1", "--retry-delay", "0", "--retry-on", "auth", "--get", "run.attempts"]);
    assert_eq!(named.out, "2\n", "{}", named.err);
    let other = run("no-result", &["--retry", "1", "--retry-delay", "0", "--retry-on", "auth", "--get", "run.attempts"]);
    assert_eq!(other.out, "1\n", "{}", other.err);
    let refused = run("ok", &["--retry", "1", "--retry-on", "rate-limit"]);
    assert!(refused.code == 2 && refused.err.contains("did you mean `rate_limit`?"), "{}", refused.err);
    assert_eq!(run("ok", &["--retry-delay", "1s"]).code, 2, "without --retry it means nothing");
}

#[test]
fn an_agents_output_is_not_taken_for_messages() {
    let fake = misbehaving();
    // One that answers its prompt, so that the run itself succeeds; and one that has nothing to do.
    for (does, prompt, answer) in [("ok", &["Go on"][..], "done\n"), ("messages", &[], "")] {
        let args = ["run", "--bin", &fake, "--no-record", "--input", "stream-json", "--format", "text"];
        let mut child = command(&[&args[..], prompt].concat())
            .env("FAKE", does)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let stream = std::fs::read(fixture("claude-2.1.325/multi.jsonl")).unwrap();
        let writer = std::thread::spawn(move || drop(std::io::Write::write_all(&mut stdin, &stream)));
        let refused = ran(child.wait_with_output().unwrap());
        writer.join().unwrap();
        assert_eq!((refused.code, refused.out.as_str()), (2, answer), "{does}: {}", refused.err);
        assert!(refused.err.contains("stdin has the output of an agent"), "{does}: {}", refused.err);
        assert!(refused.err.contains("--context -"), "{does}: {}", refused.err);
    }
}
