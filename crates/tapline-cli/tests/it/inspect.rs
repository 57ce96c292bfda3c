//! `tapline inspect`.

use tapline_testkit::{TempFolder, fixture, streams};

use crate::tapline::{tapline, tapline_on};

fn tools() -> String {
    fixture("claude-2.1.325/tools.jsonl").to_str().unwrap().to_owned()
}

#[test]
fn one_value_raw() {
    let get = |path: &str| tapline(&["inspect", "--get", path, &tools()]).out;
    assert_eq!(get("session.id"), "00000000-0000-4000-8000-000000000001\n");
    assert_eq!(get("answer"), "All done: I listed files — naïve café ✓ 日本語 🎉.\n");
    assert_eq!(get("ledger.cost_usd"), "0.006992\n");
    assert_eq!(get("verdict.outcome"), "success\n");
    assert_eq!(get("tools.calls[].name"), "Bash\nRead\nBash\nWrite\n");
    assert_eq!(get("tools.calls[2].status"), "error\n");
    assert_eq!(get("turns[0].usage.output_tokens"), "160\n");
    assert_eq!(get("turns[-1].is_error"), "false\n");
    assert_eq!(get("tools.calls[-2].name"), "Bash\n");
    assert_eq!(get("ledger.tokens"), "{\"input\":48,\"output\":160,\"cache_read\":8000,\"cache_write\":400,\"reasoning\":0}\n");
}

#[test]
fn json_has_escapes_for_what_steers_a_terminal() {
    let result = "a\u{9b}2J\u{202e}b\u{7f}";
    let stream =
        format!("{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"num_turns\":1,\"result\":\"{result}\"}}\n");
    let ran = tapline_on(stream.as_bytes(), &["inspect", "--json"]);
    assert!(ran.out.contains("\"answer\":\"a\\u009b2J\\u202eb\\u007f\""), "{}", ran.out);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["answer"], result);
    assert!(!ran.out.contains(['\u{9b}', '\u{202e}', '\u{7f}']), "{:?}", ran.out);
}

#[test]
fn one_call_of_the_library_gives_the_same_report() {
    for path in streams() {
        let (of_library, ran) =
            (tapline_archive::report(&path).unwrap(), tapline(&["inspect", "--json", path.to_str().unwrap()]));
        assert_eq!(of_library.to_json(), ran.out.trim_end(), "{}", path.display());
        let read: tapline_session::Report = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(read.to_json(), of_library.to_json());
    }
}

#[test]
fn a_value_that_is_not_there() {
    let ran = tapline(&["inspect", "--get", "rate_limit.status", &tools()]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("no value at `rate_limit.status`: it does not exist"), "{}", ran.err);
    let ran = tapline(&["inspect", "--get", "session.idd", &tools()]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("there is no `idd`: did you mean `session.id`?"), "{}", ran.err);
    for wrong in ["turns[", "tools.calls[]name", "a..b", ""] {
        assert_eq!(tapline(&["inspect", "--get", wrong, &tools()]).code, 2, "{wrong}");
    }
    let failed = fixture("claude-2.1.325/rate.jsonl").to_str().unwrap().to_owned();
    let ran = tapline(&["inspect", "--get", "answer", &failed]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "a failed run has no answer");
    let none = fixture("claude-2.1.325/text.jsonl").to_str().unwrap().to_owned();
    let ran = tapline(&["inspect", "--get", "tools.calls[].name", &none]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "no calls, no lines");
}

#[test]
fn a_failed_run_says_why() {
    let out = tapline(&["inspect", fixture("claude-2.1.325/rate.jsonl").to_str().unwrap()]).out;
    assert!(
        out.starts_with("✗ failure (rate_limit) · 1 turn · 250 ms · $0.0000\n✗ API Error: Request rejected (429)"),
        "{out}"
    );
}

#[test]
fn the_exit_status_is_the_verdicts() {
    let code = |name: &str, more: &[&str]| {
        let path = fixture(name).to_str().unwrap().to_owned();
        tapline(&[&["inspect", "--exit-status", &path], more].concat()).code
    };
    assert_eq!(code("claude-2.1.325/tools.jsonl", &[]), 0);
    assert_eq!(code("claude-2.1.325/rate.jsonl", &[]), 1);
    assert_eq!(code("claude-2.1.325/maxturns.jsonl", &["--exit-code", "0"]), 1);
    assert_eq!(code("claude-2.1.325/sigterm.jsonl", &[]), 4);
    assert_eq!(code("claude-2.1.325/sigterm.jsonl", &["--timed-out"]), 124);
    assert_eq!(code("claude-2.1.325/sigterm.jsonl", &["--signal", "int"]), 130);
    assert_eq!(code("claude-2.1.325/tools.jsonl", &["--get", "answer"]), 0);
}

#[test]
fn the_summary_names_what_a_person_looks_for() {
    let stream = br#"{"type":"system","subtype":"init","session_id":"s1","model":"claude-opus-4-6","claude_code_version":"2.1.74","tools":["Bash","Read"],"agents":["Plan"],"skills":["debug"],"plugins":[{"name":"lsp"}],"mcp_servers":[{"name":"ok","status":"connected"},{"name":"Gmail","status":"needs-auth"}]}
{"type":"result","subtype":"success","result":"done","num_turns":1,"total_cost_usd":0.5}
"#;
    let out = tapline_on(stream, &["inspect"]).out;
    for part in [
        "claude-opus-4-6",
        "2.1.74",
        "2 tools",
        "1 agent",
        "1 skill",
        "1 plugin",
        "MCP server Gmail: needs-auth",
        "$0.50",
        "done",
        "s1",
    ] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
    assert!(!out.contains("server ok"));
    assert!(!out.contains('\u{1b}'), "no colour when piped");
    assert!(tapline_on(stream, &["inspect", "--color", "always"]).out.contains('\u{1b}'));
}

#[test]
fn the_summary_names_the_flags_that_show_the_rest() {
    let stream = format!(
        "{}{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"{}\"}}\n",
        "not JSON\n".repeat(12),
        "a line\\n".repeat(14)
    );
    let told = tapline_on(stream.as_bytes(), &["inspect"]).out;
    assert!(told.contains("… and 2 more warnings: --json lists all\n"), "{told}");
    assert!(told.contains("… 2 more lines: --get answer prints all\n"), "{told}");
    let prompts = tapline(&["inspect", fixture("claude-2.1.325/multi.jsonl").to_str().unwrap()]).out;
    assert!(prompts.contains("and 1 more prompt: --get 'prompts[]' prints all\n"), "{prompts}");
}

#[test]
fn documents_of_every_shape() {
    let format =
        |input: &str, more: &[&str]| tapline_on(input.as_bytes(), &[&["inspect", "--get", "format"], more].concat()).out;
    let result = r#"{"type":"result","subtype":"success","result":"x"}"#;
    assert_eq!(format(result, &[]), "json\n");
    assert_eq!(format(&format!("\n{result}\n"), &[]), "json\n");
    assert_eq!(format(result, &["--input-format", "stream-json"]), "stream-json\n");
    assert_eq!(format(&format!("[{result}]"), &[]), "json-verbose\n");
    assert_eq!(format(&format!("[\n  {result}\n]\n"), &[]), "json-verbose\n");
    assert_eq!(format(&format!("{{\"type\":\"keep_alive\"}}\n{result}\n"), &[]), "stream-json\n");
    assert_eq!(format("{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n", &[]), "exec-json\n");
    let pretty = "{\n  \"session_id\": \"s\",\n  \"is_error\": true,\n  \"error\": {\"message\": \"gone\", \"type\": \"E\"},\n  \"messages\": [{\"type\": \"user\", \"content\": \"q\"}]\n}\n";
    assert_eq!(format(pretty, &[]), "json\n");
    let get = |path: &str| tapline_on(pretty.as_bytes(), &["inspect", "--get", path]).out;
    assert_eq!((get("verdict.error"), get("prompts[]"), get("session.id")), ("gone\n".into(), "q\n".into(), "s\n".into()));
}

#[test]
fn what_the_stream_does_not_say_is_given() {
    let folder = TempFolder::new();
    let (stderr, last) = (folder.file("stderr", "bad flag\n"), folder.file("last", "from the file"));
    let get = |path: &str, args: &[&str]| tapline(&[&["inspect", "--get", path, "-"], args].concat()).out;
    assert_eq!(get("verdict.category", &["--exit-code", "1", "--stderr", &stderr]), "startup\n");
    assert_eq!(get("verdict.error", &["--exit-code", "1", "--stderr", &stderr]), "bad flag\n");
    assert_eq!(get("answer", &["--agent", "codex", "--last-message", &last]), "from the file\n");
    assert_eq!(get("verdict.exit.signal", &["--signal", "term"]), "SIGTERM\n");
}

#[test]
fn a_recording_is_read_like_a_file_and_says_how_it_ended() {
    let folder = TempFolder::new();
    folder.file("meta.json", "{\"schema\":1,\"started_at\":\"2026-11-15T00:00:00Z\",\"label\":\"nightly\"}");
    folder.file("stdout", "{\"type\":\"keep_alive\"}\n");
    folder.file("stderr", "it broke\n");
    folder.file("end.json", "{\"exit_code\":7,\"duration_ms\":1234}");
    let path = folder.path("");
    let get = |what: &str| tapline(&["inspect", "--get", what, &path]).out;
    assert_eq!((get("verdict.category"), get("verdict.error")), ("exit\n".into(), "it broke\n".into()));
    let run = format!(
        "{{\"started_at\":\"2026-11-15T00:00:00Z\",\"duration_ms\":1234,\"attempts\":1,\"label\":\"nightly\",\"recording\":\"{path}\"}}\n"
    );
    assert_eq!(get("run"), run);
    assert_eq!(tapline(&["convert", "--to", "stream-json", &path]).out, "{\"type\":\"keep_alive\"}\n");
    assert_eq!(tapline(&["view", "--exit-status", &path]).code, 1);
}

#[test]
fn bad_input_is_named() {
    let ran = tapline(&["inspect", "/no/such/stream.jsonl"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("cannot open /no/such/stream.jsonl"), "{}", ran.err);
    let ran = tapline(&["inspect", "/"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("is a folder"), "{}", ran.err);
    assert_eq!(tapline(&["inspect", "--line-limit", "0"]).code, 2);
    assert_eq!(tapline(&["inspect", "--stderr", "/no/such/file", &tools()]).code, 2);
    assert_eq!(tapline(&["inspect", "--get", "a", "--json"]).code, 2);
    assert_eq!(tapline(&["inspect", "--signal", "FOO", &tools()]).code, 2);
}

#[test]
fn a_line_above_the_limit_loses_nothing_behind_it() {
    let stream =
        format!("{{\"type\":\"assistant\",\"x\":\"{}\"}}\n{{\"type\":\"result\",\"result\":\"behind\"}}\n", "y".repeat(5_000));
    let ran = tapline_on(stream.as_bytes(), &["inspect", "--line-limit", "1000", "--get", "answer"]);
    assert_eq!(ran.out, "behind\n");
    let ran = tapline_on(stream.as_bytes(), &["inspect", "--line-limit", "1000", "--get", "stream.lines"]);
    assert_eq!(ran.out, "{\"total\":2,\"objects\":1,\"malformed\":1,\"non_object\":0,\"blank\":0,\"untyped\":0}\n");
    let same = tapline_on(stream.as_bytes(), &["convert", "--line-limit", "1000", "--to", "stream-json"]);
    assert_eq!(same.out, stream);
}

#[test]
fn whose_stream_it_is_says_the_caller_then_the_recording_then_the_stream() {
    let lines = std::fs::read_to_string(tools()).unwrap();
    let read = |meta: &str, args: &[&str]| {
        let folder = TempFolder::new();
        folder.file("meta.json", meta);
        folder.file("stdout", &lines);
        let path = folder.path("");
        let args = [&["inspect", "--get", "agent", "--get", "verdict.outcome"][..], args, &[&path]].concat();
        let ran = tapline(&args);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out.replace('\n', " ")
    };
    assert_eq!(read("{}", &[]), "claude success ", "the stream");
    assert_eq!(read(r#"{"agent":"claude"}"#, &[]), "claude success ");
    assert_eq!(read(r#"{"agent":"codex"}"#, &[]), "codex incomplete ", "the recording");
    assert_eq!(read(r#"{"agent":"somebody"}"#, &[]), "claude success ", "an agent that is not known says nothing");
    assert_eq!(read(r#"{"agent":"codex"}"#, &["--agent", "claude"]), "claude success ", "the caller");
    assert_eq!(read(r#"{"agent":"codex"}"#, &["--input-format", "stream-json"]), "claude success ", "the format is an agent's");
    assert_eq!(read("{}", &["--agent", "codex"]), "codex incomplete ");
    assert_eq!(read("{}", &["--input-format", "exec-json"]), "codex incomplete ");
}
