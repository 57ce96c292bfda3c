//! What readers of a stream or a recording are shown, and what they are told first.

use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, agent, fixture};

use crate::tapline::{command, ran, tapline, tapline_on};

/// Streams of agents that tapline does not know: of other names, without types, and with a first line that could be Claude's.
const OTHERS: [&str; 4] = [
    "{\"type\":\"init\",\"session_id\":\"s\"}\n{\"type\":\"message\",\"role\":\"user\"}\n{\"type\":\"message\",\"delta\":true}\n{\"type\":\"result\",\"status\":\"success\"}\n",
    "{\"role\":\"meta\",\"version\":\"2\"}\n{\"role\":\"assistant\",\"content\":\"Done.\"}\n",
    "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"tools\":[]}\n{\"type\":\"tool_call\",\"id\":\"c\"}\n{\"type\":\"completion\",\"finalText\":\"Done.\"}\n",
    "> {\"method\":\"initialize\"}\n< {\"result\":{}}\n",
];
const NOBODYS: &str = "no known agent (claude, codex) wrote this stream\n";

#[test]
fn a_kept_recording_is_found_by_last_and_by_the_start_of_its_session() {
    let folder = TempFolder::new();
    let home = folder.path("home");
    let with_home = |args: &[&str]| ran(command(args).env("TAPLINE_HOME", &home).output().unwrap());
    let none = with_home(&["view", "last"]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("there is no file `last`") && none.err.contains("no recording"), "{}", none.err);
    let done =
        ran(command(&["run", "go", "--bin", &misbehaving(), "--format", "quiet"]).env("TAPLINE_HOME", &home).output().unwrap());
    assert_eq!(done.code, 0, "{}", done.err);
    let session = with_home(&["inspect", "last", "--get", "session.id"]).out;
    assert!(session.len() > 8, "{session}");
    for id in ["last", &session[..8]] {
        assert_eq!(with_home(&["inspect", id, "--get", "session.id"]).out, session, "{id}");
        assert_eq!(with_home(&["view", id]).code, 0, "{id}");
        assert_eq!(with_home(&["check", id]).code, 0, "{id}");
        assert_eq!(with_home(&["convert", "--to", "text", id]).code, 0, "{id}");
    }
    let unknown = with_home(&["inspect", "nothing-like-it"]);
    assert!(unknown.code == 2 && unknown.err.contains("starts with `nothing-like-it`"), "{}", unknown.err);
}

#[test]
fn a_foreign_result_is_no_success_even_where_the_agent_is_named() {
    let folder = TempFolder::new();
    let stream = concat!(
        r#"{"type":"init","timestamp":"2026-11-15T00:00:00Z","session_id":"s","model":"m"}"#,
        "\n",
        r#"{"type":"result","timestamp":"2026-11-15T00:00:01Z","status":"success","stats":{"total_tokens":1}}"#,
        "\n",
    );
    let file = folder.file("foreign.jsonl", stream);
    let bin = folder.script("agent", &agent::shows(&file));
    let done = tapline(&["run", "go", "--bin", &bin, "--no-record", "--get", "verdict.outcome"]);
    assert_eq!((done.code, done.out.trim()), (4, "incomplete"), "{}", done.err);
    let policy = folder.file("policy.toml", "[calls]\nforbid = \"Bash\"\n");
    for stream in [&*file, "/dev/null"] {
        let checked = tapline(&["check", "--policy", &policy, stream]);
        assert_eq!(checked.code, 3, "{stream}: {}", checked.out);
        assert!(checked.out.contains("tapline cannot tell what was done"), "{stream}: {}", checked.out);
    }
}

#[test]
fn a_stream_of_an_agent_that_is_not_known_is_called_so_first_and_once() {
    let folder = TempFolder::new();
    for (at, stream) in OTHERS.iter().enumerate() {
        let path = folder.file(&format!("{at}.jsonl"), stream);
        for args in [&["view"][..], &["inspect"], &["inspect", "--json"], &["check"], &["convert", "--to", "markdown"]] {
            let ran = tapline(&[args, &[&path]].concat());
            assert_eq!((ran.code, ran.err), (0, format!("tapline: {path}: {NOBODYS}")), "{args:?}");
        }
        // On a pipe, too, where a line is no agent's; what is no JSON may be followed by what is.
        let piped = tapline_on(stream.as_bytes(), &["view"]);
        assert_eq!(piped.err.matches(NOBODYS).count(), usize::from(stream.starts_with('{')), "{}", piped.err);
    }
    // Of an agent that is known nothing of the kind is said, nor of what is known to be no stream.
    let mut streams = tapline_testkit::streams();
    streams.truncate(20);
    for path in streams {
        let ran = tapline(&["view", path.to_str().unwrap()]);
        assert!(!ran.err.contains("no known agent"), "{}: {}", path.display(), ran.err);
    }
    // A line of somebody else's before the agent's own.
    let mixed = [b"{\"level\":\"info\"}\n".to_vec(), std::fs::read(fixture("claude-2.1.325/text.jsonl")).unwrap()].concat();
    let ran = tapline(&["view", &folder.file("mixed.jsonl", std::str::from_utf8(&mixed).unwrap())]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "it is Claude's: {}", ran.out);
}

#[test]
fn types_of_an_agent_that_is_not_known_are_one_warning_that_counts_them() {
    let warnings = |stream: &str| {
        let report: serde_json::Value =
            serde_json::from_str(&tapline_on(stream.as_bytes(), &["inspect", "--json"]).out).unwrap();
        let warnings = report["verdict"]["warnings"].as_array().unwrap().clone();
        let unknown: Vec<_> = warnings.into_iter().filter(|warning| warning["code"] == "unknown-type").collect();
        (unknown, report["stream"]["unknown_types"].clone())
    };
    let (unknown, types) = warnings(OTHERS[0]);
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert_eq!(unknown[0]["message"], "4 lines of 3 types that tapline does not know; the text is kept");
    assert_eq!((&unknown[0]["line"], types.as_array().unwrap().len()), (&1.into(), 3), "the types are still listed");
    // Of an agent that is known each new type is told.
    let known = "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"apiKeySource\":\"none\",\"tools\":[]}\n{\"type\":\"one_more\"}\n{\"type\":\"another\"}\n";
    assert_eq!(warnings(known).0.len(), 2);
}

#[test]
fn an_api_error_without_a_name_is_called_one() {
    let stream = "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"apiKeySource\":\"none\",\"tools\":[]}\n{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"API Error: 500\"}]},\"error\":\"unknown\",\"session_id\":\"s\"}\n{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"result\":\"API Error: 500\",\"session_id\":\"s\"}\n";
    for args in [&["view"][..], &["convert", "--to", "markdown"], &["convert", "--to", "html"]] {
        let shown = tapline_on(stream.as_bytes(), args).out;
        assert!(shown.contains("API error") && !shown.contains("unknown"), "{args:?}: {shown}");
    }
    let codes = tapline_on(stream.as_bytes(), &["inspect", "--get", "assistant_errors[]"]).out;
    assert_eq!(codes, "unknown\n", "the report has the agent's word");
}

#[test]
fn the_prompt_of_a_run_with_a_context_is_shown() {
    let folder = TempFolder::new();
    let (context, record) = (folder.file("context", "line\n".repeat(70)), folder.path("recording"));
    let start = ["run", "look around\nand tell", "--context", &context, "--bin", &misbehaving(), "--record", &record];
    let run = ran(command(&start).env("FAKE", "ok").output().unwrap());
    assert!(run.code == 0 && !run.err.contains("no known agent"), "a context may be anything: {}", run.err);
    let view = tapline(&["view", &record]).out;
    assert!(view.contains("› look around\n  and tell\n  (after 70 lines of an earlier run, from --context)\n"), "{view}");
    let inspect = tapline(&["inspect", &record]).out;
    assert!(inspect.contains("prompt      look around (and 1 more line)\n"), "{inspect}");
    assert!(inspect.contains("(after 70 lines of an earlier run, from --context)"), "{inspect}");
    let prompts = tapline(&["inspect", "--get", "prompts[]", &record]).out;
    let sent = format!("<earlier-run>\n{}</earlier-run>\n\nlook around\nand tell\n", "line\n".repeat(70));
    assert_eq!(prompts, sent, "as it was sent");
}

#[test]
fn a_path_of_the_agents_own_json_is_told_where_a_report_has_it() {
    for (path, meant) in [
        ("result", "answer"),
        ("total_cost_usd", "ledger.cost_usd"),
        ("is_error", "verdict.outcome"),
        ("session_id", "session.id"),
        ("strctured.verdict", "structured.verdict"),
        ("tools.call[0].name", "tools.calls[0].name"),
    ] {
        let refused = tapline_on(b"", &["inspect", "--get", path]);
        assert_eq!(refused.code, 2, "{path}");
        assert!(refused.err.contains(&format!("did you mean `{meant}`?")), "{path}: {}", refused.err);
    }
}

#[test]
fn in_actions_a_file_has_the_answer_of_a_run_to_the_byte() {
    let folder = TempFolder::new();
    let answer = "::error::no command here\n##[group]nor here";
    let lines = [
        serde_json::json!({"type": "system", "subtype": "init", "session_id": "s", "apiKeySource": "none", "tools": []}),
        serde_json::json!({"type": "result", "subtype": "success", "is_error": false, "result": answer, "num_turns": 1, "session_id": "s"}),
    ];
    let agent = folder.script("agent", &agent::says(&format!("{}\n{}", lines[0], lines[1])));
    let path = folder.path("answer");
    let run = || {
        let mut run = command(&["run", "go", "--bin", &agent, "--no-record", "--format", "text"]);
        run.env("GITHUB_ACTIONS", "true");
        run
    };
    assert!(run().stdout(std::fs::File::create(&path).unwrap()).status().unwrap().success());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{answer}\n"));
    // A pipe may be the log.
    assert_eq!(ran(run().output().unwrap()).out, ": :error::no command here\n## [group]nor here\n");
}
