//! Runs of every kind: the streams of the fixtures, as agents wrote them, and streams that are made here of what fixtures have not.

use std::path::PathBuf;

use serde_json::{Value, json};
use tapline_testkit::files::files_below;
use tapline_testkit::{Home, agent, fixture, fixtures};

/// A run.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) agent: &'static str,
    pub(crate) prompt: &'static str,
    stream: Stream,
    ending: Ending,
    /// Further arguments of `run`.
    args: &'static [&'static str],
}

enum Stream {
    File(PathBuf),
    Lines(String),
}

/// How the agent's process ends.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Code(u8),
    /// It hangs until a clock stops it.
    Hangs,
}

/// Facts that a surface cannot have, and why.
const EXEMPT: &[(&str, &str, &[&str])] = &[
    // `codex exec` names no model, so that the index has no price, and its calls are in no message that the index could count.
    ("codex", "sessions", &["cost", "time"]),
    ("codex", "statusline", &["cost today"]),
    ("codex", "stats", &["calls", "errors", "denials", "cost"]),
    ("codex", "export", &["calls", "errors", "denials", "cost"]),
];

impl Case {
    /// The script of its agent.
    pub(crate) fn script(&self, home: &Home) -> String {
        let file = match &self.stream {
            Stream::File(path) => path.clone(),
            Stream::Lines(lines) => home.write("stream.jsonl", lines),
        };
        let end = match self.ending {
            Ending::Code(code) => format!("exit {code}\n"),
            Ending::Hangs => "exec sleep 100000\n".to_owned(),
        };
        agent::shows(file) + &end
    }

    pub(crate) fn is_timed_out(&self) -> bool {
        self.ending == Ending::Hangs
    }

    /// The limits that `run` and `batch` have.
    pub(crate) fn limits(&self) -> Vec<&'static str> {
        if self.is_timed_out() { vec!["--timeout", "2s"] } else { Vec::new() }
    }

    pub(crate) fn args(&self) -> Vec<&'static str> {
        [&self.limits(), self.args].concat()
    }

    /// The facts that this surface cannot have of it.
    pub(crate) fn exempt(&self, surface: &str) -> &'static [&'static str] {
        let found = EXEMPT.iter().find(|(case, name, _)| self.name.contains(case) && *name == surface);
        found.map_or(&[], |(_, _, facts)| facts)
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = files_below(fixtures()).into_iter().filter_map(of_fixture).collect();
    cases.extend(made());
    cases
}

/// What agents wrote: not the transcripts, nor what is written by hand or is no stream of lines.
fn of_fixture(path: PathBuf) -> Option<Case> {
    let name = path.strip_prefix(fixtures()).unwrap().with_extension("").to_str().unwrap().to_owned();
    let parts = name.split('/').count();
    let is_one = path.extension().is_some_and(|extension| extension == "jsonl")
        && (parts == 2 && (name.starts_with("claude-") || name.starts_with("codex-")) && !name.ends_with("jsonverbose")
            || parts == 3 && name.starts_with("transcripts/"));
    let agent = if name.contains("codex") { "codex" } else { "claude" };
    // This one has prompts that the agent repeats.
    let prompt = if name.ends_with("multi") { "first question" } else { "do it" };
    let ending = Ending::Code(u8::from(name.ends_with("/auth") || name.ends_with("/rate")));
    is_one.then_some(Case { name, agent, prompt, stream: Stream::File(path), ending, args: &[] })
}

fn init() -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s", "model": "claude-opus-5-5", "cwd": "/home/dev/shop", "tools": ["Bash"]})
}

fn usage() -> Value {
    json!({"input_tokens": 1_000, "output_tokens": 100, "cache_read_input_tokens": 5_000, "cache_creation_input_tokens": 300,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200}})
}

fn message(id: &str, block: &Value) -> Value {
    json!({"type": "assistant", "session_id": "s", "message":
        {"id": id, "role": "assistant", "model": "claude-opus-5-5", "content": [block], "usage": usage()}})
}

fn text(id: &str, text: &str) -> Value {
    message(id, &json!({"type": "text", "text": text}))
}

fn call(id: &str) -> Value {
    message(
        &format!("m-{id}"),
        &json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": format!("make {id}")}}),
    )
}

fn answer(id: &str, text: &str, is_error: bool, meta: &Value) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error});
    let mut line = json!({"type": "user", "session_id": "s", "message": {"role": "user", "content": [block]}});
    if !meta.is_null() {
        line["tool_result_meta"] = json!([{"id": id, "non_execution_kind": "rejected", "permission_decision": meta}]);
    }
    line
}

/// The end of a turn after this many requests of this size, all of them told.
fn result(requests: u32, more: &Value) -> Value {
    let model = json!({"inputTokens": 1_000 * requests, "outputTokens": 100 * requests, "cacheReadInputTokens": 5_000 * requests,
        "cacheCreationInputTokens": 300 * requests, "costUSD": 0.01 * f64::from(requests)});
    let mut line = json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s", "result": "Done.", "num_turns": requests,
        "duration_ms": 1_500, "total_cost_usd": 0.01 * f64::from(requests), "usage": {"input_tokens": 1_000 * requests,
        "output_tokens": 100 * requests, "cache_read_input_tokens": 5_000 * requests, "cache_creation_input_tokens": 300 * requests},
        "modelUsage": {"claude-opus-5-5": model}, "permission_denials": []});
    line.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    line
}

fn case(name: &str, lines: &[Value], ending: Ending) -> Case {
    let stream = lines.iter().flat_map(|line| [line.to_string(), "\n".to_owned()]).collect();
    Case { name: format!("made/{name}"), agent: "claude", prompt: "do it", stream: Stream::Lines(stream), ending, args: &[] }
}

fn made() -> Vec<Case> {
    let none = json!(null);
    let denied = |by: &str, meta: &Value, text: &str| {
        let lines = [init(), call("a"), answer("a", text, true, meta), text_of_end(), result(2, &none)];
        case(&format!("denied-by-{by}"), &lines, Ending::Code(0))
    };
    let by = |source: &str, kind: &str| json!({"decision": "reject", "source": source, "reason_type": kind});
    let words = "Permission to use Bash with command make a has been denied.";
    let aborted =
        json!({"subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_streaming", "result": null});
    let limited = json!({"is_error": true, "api_error_status": 429, "result": "API Error: Request rejected (429)"});
    let rejected = json!({"type": "rate_limit_event", "session_id": "s", "rate_limit_info":
        {"status": "rejected", "resetsAt": 4_102_444_800_u64, "rateLimitType": "five_hour"}});
    let task = |subtype: &str, more: Value| {
        let mut line = json!({"type": "system", "subtype": subtype, "session_id": "s", "task_id": "t1", "tool_use_id": "a"});
        line.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        line
    };
    let killed = [
        init(),
        call("a"),
        task("task_started", json!({"task_type": "local_bash", "description": "long"})),
        answer("a", "Command running in background with ID: t1", false, &none),
        text_of_end(),
        result(2, &none),
        task("task_notification", json!({"status": "killed", "summary": "long was killed"})),
    ];
    vec![
        denied("rule", &by("rule", "rule"), words),
        denied("mode", &by("mode", "mode"), "Claude requested permissions to use Bash, but you haven't granted it yet."),
        denied("user", &by("user_reject", "other"), "The user doesn't want to proceed with this tool use."),
        denied("hook", &by("hook", "hook"), "PreToolUse:Bash hook error: [guard]: no"),
        denied("hook-in-words", &none, "Bash operation blocked by hook:\n- no"),
        denied("rule-in-words", &none, words),
        denied("own-rule", &none, "denied by deny[0]: no make"),
        case("interrupted", &[init(), call("a"), result(0, &aborted)], Ending::Code(0)),
        case("limited", &[init(), rejected, result(0, &limited)], Ending::Code(1)),
        case("timed-out", &[init(), call("a"), answer("a", "ok", false, &none), text("m2", "Still here.")], Ending::Hangs),
        case("no-result", &[init(), call("a"), answer("a", "ok", false, &none)], Ending::Code(3)),
        case("lost-task", &killed, Ending::Code(0)),
        case("open-call", &[init(), call("a"), text_of_end(), result(2, &none)], Ending::Code(0)),
        case(
            "failed-call",
            &[init(), call("a"), answer("a", "Exit code 1", true, &none), text_of_end(), result(2, &none)],
            Ending::Code(0),
        ),
        case("exit-code", &[init(), text_of_end(), result(1, &none)], Ending::Code(7)),
    ]
}

fn text_of_end() -> Value {
    text("m9", "Done.")
}

/// The fixtures are where they are expected.
#[test]
fn there_are_streams_of_both_agents() {
    assert!(fixture("claude-2.1.325/text.jsonl").exists() && fixture("codex-0.166.0/tools.jsonl").exists());
    assert!(["claude", "codex"].iter().all(|agent| cases().iter().filter(|case| case.agent == *agent).count() > 10));
}
