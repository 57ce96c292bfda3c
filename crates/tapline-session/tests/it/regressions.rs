//! Corners that a review found: each was wrong once.

use crate::read_stream::tell_plainly;

fn get(stream: &str, path: &str) -> Option<String> {
    tapline_session::get(&tell_plainly(stream.as_bytes()).report.to_json(), path).ok()
}

fn said(text: &str, uuid: &str) -> String {
    format!(
        "{{\"type\":\"assistant\",\"uuid\":\"{uuid}\",\"message\":{{\"id\":\"m\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n"
    )
}

#[test]
fn content_within_content_has_an_end() {
    let depth = 20_000;
    let stream = format!(
        "{{\"type\":\"assistant\",\"message\":{{\"content\":{}\"x\"{}}}}}\n",
        "[{\"type\":\"tool_result\",\"content\":".repeat(depth),
        "}]".repeat(depth)
    );
    assert_eq!(tell_plainly(stream.as_bytes()).report.stream.lines.objects, 1);
}

#[test]
fn texts_that_differ_in_the_middle_differ() {
    let (one, two) = ("#".repeat(300) + "ONE" + &"#".repeat(300), "#".repeat(300) + "TWO" + &"#".repeat(300));
    let text = get(&(said(&one, "same") + &said(&two, "same")), "text").unwrap();
    assert!(text.contains("ONE") && text.contains("TWO"));
    let result = |cost: &str| {
        format!("{{\"type\":\"result\",\"a\":\"{0}\",\"total_cost_usd\":{cost},\"b\":\"{0}\"}}\n", "#".repeat(300))
    };
    assert_eq!(get(&(result("0.01") + &result("0.02")), "ledger.cost_usd").as_deref(), Some("0.02"));
}

#[test]
fn a_document_keeps_its_conversation() {
    let messages = r#"[{"type":"user","content":"q1"},{"type":"assistant","content":[{"type":"text","text":"one"}]},{"type":"user","content":"q2"},{"type":"assistant","content":[{"type":"text","text":"two"}]}]"#;
    for kind in ["", "\"type\":\"result\","] {
        let document = format!("{{{kind}\"uuid\":\"u\",\"result\":\"hi\",\"messages\":{messages}}}");
        assert_eq!(get(&document, "text").as_deref(), Some("one\ntwo"));
        assert_eq!(get(&document, "prompts[]").as_deref(), Some("q1\nq2"));
    }
}

#[test]
fn what_is_withdrawn_is_not_the_answer() {
    let stream = said("good", "u1")
        + &said("BAD", "u2")
        + "{\"type\":\"system\",\"subtype\":\"model_refusal_fallback\",\"retracted_message_uuids\":[\"u2\"]}\n";
    assert_eq!(get(&stream, "answer").as_deref(), Some("good"));
    assert_eq!(get(&stream, "last_text").as_deref(), Some("good"));
    assert_eq!(get(&(stream + "{\"type\":\"result\",\"subtype\":\"success\"}\n"), "answer").as_deref(), Some("good"));
}

#[test]
fn a_key_of_the_agents_own_is_found_where_it_stands_in_its_json() {
    let stream = std::fs::read(tapline_testkit::fixture("claude-2.1.325/subagent.jsonl")).unwrap();
    let report = tell_plainly(&stream).report.to_json();
    let own = serde_json::from_str::<serde_json::Value>(&report).unwrap()["turns"][0]["own"].take();
    let own = own.as_object().unwrap();
    assert!(["ttft_ms", "queued_turn_count", "subagent_stats", "fast_mode_state"].iter().all(|key| own.contains_key(*key)));
    for key in own.keys() {
        let path = format!("turns[-1].{key}");
        assert_eq!(tapline_session::check_path(&path), Ok(()));
        let below = tapline_session::get(&report, &format!("turns[-1].own.{key}"));
        assert!(below.is_ok(), "{path}: {below:?}");
        assert_eq!(tapline_session::get(&report, &path), below, "{path}");
    }
}

#[test]
fn a_command_in_the_background_that_is_stopped_and_so_failed_is_not_clean() {
    let line = |rest: &str| format!("{{\"type\":\"system\",\"session_id\":\"s\",\"task_id\":\"k\",{rest}}}\n");
    let stream = |ends: &[&str]| {
        let call = r#"{"type":"assistant","session_id":"s","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"sleep 60","run_in_background":true}}]}}"#;
        let started = line(r#""subtype":"task_started","tool_use_id":"t","description":"Serve","is_backgrounded":true"#);
        let answer = r#"{"type":"user","session_id":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"It runs."}]}}"#;
        let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.","num_turns":2}"#;
        let ends: String = ends.iter().map(|end| line(end)).collect();
        format!("{call}\n{started}{answer}\n{result}\n{ends}")
    };
    let stopped = r#""subtype":"task_notification","tool_use_id":"t","status":"stopped""#;
    let failed = r#""subtype":"task_updated","patch":{"status":"failed"}"#;
    for (ends, status, clean) in [
        (&[stopped, failed][..], "stopped", "false"),
        (&[failed, stopped], "stopped", "false"),
        // One that fails by itself has ended.
        (&[failed], "failed", "true"),
    ] {
        assert_eq!(get(&stream(ends), "tasks[0].status").as_deref(), Some(status), "{ends:?}");
        assert_eq!(get(&stream(ends), "verdict.clean").as_deref(), Some(clean), "{ends:?}");
    }
}

#[test]
fn counts_do_not_overflow() {
    let most = u64::MAX;
    let result = |index: u64| {
        format!(
            "{{\"type\":\"result\",\"result_index\":{index},\"num_turns\":{most},\"modelUsage\":{{\"a\":{{\"webSearchRequests\":{most}}},\"b\":{{\"webSearchRequests\":{most}}}}}}}\n"
        )
    };
    // So many cannot be true, and do not count.
    assert_eq!(get(&(result(most) + &result(3)), "ledger.web_searches").as_deref(), Some("0"));
    let item =
        format!("{{\"type\":\"item.completed\",\"item\":{{\"type\":\"error\",\"message\":\"{most} events were dropped\"}}}}\n");
    assert_eq!(
        get(&("{\"type\":\"thread.started\"}\n".to_owned() + &item + &item), "codex.dropped_events"),
        Some(most.to_string())
    );
}

#[test]
fn many_of_anything_take_no_longer_than_they_must() {
    let count = 20_000;
    let lines = |line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let streams = [
        lines(&|n| {
            format!("{{\"type\":\"system\",\"subtype\":\"task_started\",\"task_id\":\"{n}\",\"tool_use_id\":\"{n}\"}}\n")
        }),
        lines(&|n| format!("{{\"type\":\"system\",\"subtype\":\"hook_started\",\"hook_id\":\"{n}\"}}\n")),
        lines(&|n| format!("{{\"type\":\"keep_alive\",\"session_id\":\"{n}\"}}\n")),
        lines(&|n| format!("{{\"type\":\"tool_use\",\"id\":\"{n}\",\"name\":\"T{n}\",\"input\":{{}}}}\n")),
        format!(
            "{{\"type\":\"item.completed\",\"item\":{{\"id\":\"i\",{}\"type\":\"x\"}}}}\n",
            lines(&|n| format!("\"k{n}\":1,"))
        ),
        format!("{{\"type\":\"result\",\"usage\":{{{}\"z\":1}}}}\n", lines(&|n| format!("\"k{n}\":1,"))),
    ];
    for stream in streams {
        assert!(tell_plainly(stream.as_bytes()).report.stream.bytes > 100_000);
    }
}

#[test]
fn a_sub_agent_of_codex_that_gets_more_work_ends_again() {
    let mut stream = "{\"type\":\"thread.started\",\"thread_id\":\"s\"}\n".to_owned();
    let calls = [("spawn_agent", "running"), ("wait", "completed"), ("send_input", "running"), ("wait", "errored")];
    for (number, (tool, status)) in calls.into_iter().enumerate() {
        let states = format!("{{\"t\":{{\"status\":\"{status}\"}}}}");
        let item = format!("\"id\":\"i{number}\",\"type\":\"collab_tool_call\",\"tool\":\"{tool}\",\"agents_states\":{states}");
        stream.extend(["{\"type\":\"item.completed\",\"item\":{", &item, ",\"status\":\"completed\"}}\n"]);
    }
    let told = tell_plainly(stream.as_bytes());
    let states: Vec<_> = told
        .steps
        .iter()
        .flatten()
        .filter_map(|step| match &step.what {
            tapline_session::step::What::Task(task) => Some((task.status.as_str(), task.terminal)),
            _ => None,
        })
        .collect();
    assert_eq!(states, [("running", false), ("completed", true), ("running", false), ("failed", true)]);
}

#[test]
fn a_thread_of_codex_that_had_sub_agents_is_not_exact() {
    let used = r#"{"type":"turn.completed","usage":{"input_tokens":40,"cached_input_tokens":10,"output_tokens":5}}"#;
    let begins = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n{\"type\":\"turn.started\"}\n";
    assert_eq!(get(&format!("{begins}{used}\n"), "ledger.exact").as_deref(), Some("true"));
    // It does not write that it starts one, only that it waits.
    for (tool, status) in
        [("spawn_agent", "completed"), ("wait", "in_progress"), ("wait", "completed"), ("close_agent", "failed")]
    {
        let kind = if status == "in_progress" { "started" } else { "completed" };
        let item = format!("\"id\":\"i\",\"type\":\"collab_tool_call\",\"tool\":\"{tool}\",\"status\":\"{status}\"");
        let stream = format!("{begins}{{\"type\":\"item.{kind}\",\"item\":{{{item}}}}}\n{used}\n");
        assert_eq!(get(&stream, "ledger.exact").as_deref(), Some("false"), "{tool} {status}");
        assert_eq!(get(&(stream + used), "ledger.tokens.input").as_deref(), Some("30"), "{tool} {status}");
    }
}

#[test]
fn what_sub_agents_say_does_not_make_an_answer_new() {
    let of_main = |n: usize, text: &str| said(text, &format!("main{n}")).replace("\"m\"", &format!("\"m{n}\""));
    let of_agent = |n: usize| {
        said(&format!("part {n}"), &format!("agent{n}"))
            .replace("\"m\"", &format!("\"a{n}\""))
            .replace("\"type\":\"assistant\"", "\"type\":\"assistant\",\"parent_tool_use_id\":\"t\"")
    };
    let result = |uuid: &str| {
        format!(
            "{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"uuid\":\"{uuid}\",\"num_turns\":1,\"result\":\"The answer.\"}}\n"
        )
    };
    let agents: String = (0..200).map(of_agent).collect();
    let stream = of_main(1, "The answer. ") + &agents + &of_main(2, "More comes.") + &result("r1") + &result("r2");
    let mut fold = tapline_session::Fold::default().with_few_texts();
    let repeats: Vec<bool> = tapline_protocol::Reader::new(stream.as_bytes())
        .flat_map(|record| fold.apply(&record.unwrap()))
        .filter_map(|step| if let tapline_session::What::Turn(turn) = step.what { Some(turn.repeats_text) } else { None })
        .collect();
    assert_eq!(repeats, [true, false], "the first result repeats a text, and no second one does");
}
