//! Many small things: what they cost grows with their number, not with its square. What does not would take hours here.

use std::time::{Duration, Instant};

use tapline_session::render::{Outputs, RenderAs, Status, TerminalOptions};
use tapline_session::step::{Step, What};
use tapline_testkit::rounds;

use crate::read_stream::{PLAIN, show, tell_plainly};

#[test]
fn partial_messages_of_one_character_each_take_linear_time() {
    let start = r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1"}}}"#;
    let mut stream = start.to_owned() + "\n";
    let pieces = 200_000;
    for _ in 0..pieces {
        stream += r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}}"#;
        stream += "\n";
    }
    let told = tell_plainly(stream.as_bytes());
    for (width, live) in [(None, false), (Some(80), false), (Some(80), true)] {
        let options = TerminalOptions { width, live, partial: true, ..PLAIN };
        let shown = show(&told, RenderAs::Terminal(options));
        assert!(shown.matches('x').count() >= pieces, "all of it is typed");
    }
}

#[test]
fn a_page_of_malformed_lines_stays_small() {
    let stream = "x\n".repeat(200_000);
    let told = tell_plainly(stream.as_bytes());
    let page = show(&told, RenderAs::Html);
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
    assert!(page.contains("… 199000 more odd lines"), "{}", &page[page.len() - 2_000..]);
}

/// The same line so often, each with its number in the place of `#`.
fn many(count: usize, line: &str) -> String {
    (0..count).fold(String::new(), |text, number| text + &line.replace('#', &number.to_string()) + "\n")
}

fn pieces(delta: &str) -> String {
    r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":DELTA}}"#.replace("DELTA", delta)
}

fn said(by: &str, block: &str) -> String {
    let message = r#"{"type":"TYPE","parent_tool_use_id":null,"message":{"id":"m#","role":"TYPE","content":[BLOCK]}}"#;
    message.replace("TYPE", by).replace("BLOCK", block)
}

fn updated(item: &str) -> String {
    r#"{"type":"item.updated","item":ITEM}"#.replace("ITEM", item)
}

/// A turn's end in a session of its own.
const RESULT: &str = r#"{"type":"result","subtype":"success","result":"x","session_id":"SESSION","total_cost_usd":0.1,"usage":{"input_tokens":2,"output_tokens":3},"modelUsage":{"m#":{"inputTokens":2,"outputTokens":3,"costUSD":0.1}}}"#;
/// A turn of Codex's in a thread of its own.
const CODEX_TURN: &str = concat!(
    r#"{"type":"thread.started","thread_id":"t#"}"#,
    "\n",
    r#"{"type":"turn.started"}"#,
    "\n",
    r#"{"type":"turn.completed","usage":{"input_tokens":5,"cached_input_tokens":1,"output_tokens":2}}"#
);

/// Reads a stream, and shows it in every way there is.
fn show_all(stream: &str) {
    let told = tell_plainly(stream.as_bytes());
    let terminal = TerminalOptions { width: Some(80), live: true, thinking: true, partial: true, ..PLAIN };
    let written = [RenderAs::Markdown, RenderAs::Html, RenderAs::Transcript, RenderAs::Steps];
    for format in [RenderAs::Terminal(terminal), RenderAs::Lines(terminal)].into_iter().chain(written) {
        show(&told, format);
    }
    let mut outputs = Outputs::with_messages();
    for (record, steps) in told.records.iter().zip(&told.steps) {
        outputs.accept(Some(record), steps);
    }
    let mut status = Status::default();
    for step in told.steps.iter().flatten() {
        status.accept(step, Duration::ZERO);
    }
    assert!(status.line(Duration::ZERO).len() < 200);
}

/// How long this thread has worked. Whoever else works on this machine does not count, where the system tells.
fn worked(since: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = told.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    nanos.map_or_else(|| since.elapsed(), Duration::from_nanos)
}

#[test]
fn ten_times_as_many_small_things_take_about_ten_times_the_work_in_every_renderer() {
    let call = r#"{"type":"tool_use","id":"t#","name":"Bash","input":{"command":"ls"}}"#;
    let answer = r#"{"type":"tool_result","tool_use_id":"t#","content":"x"}"#;
    let output = r#"{"id":"i","type":"command_execution","command":"ls","aggregated_output":"x","status":"in_progress"}"#;
    let since = Instant::now();
    for (name, lines) in [
        ("text in pieces", vec![pieces(r#"{"type":"text_delta","text":"x"}"#)]),
        ("thinking in pieces", vec![pieces(r#"{"type":"thinking_delta","thinking":"x"}"#)]),
        ("input in pieces", vec![pieces(r#"{"type":"input_json_delta","partial_json":"x"}"#)]),
        ("texts", vec![said("assistant", r#"{"type":"text","text":"x"}"#)]),
        ("calls, then their answers", vec![said("assistant", call), said("user", answer)]),
        ("a message of Codex'", vec![updated(r#"{"id":"i","type":"agent_message","text":"x"}"#)]),
        ("a command of Codex'", vec![updated(output)]),
        ("results of ever new sessions", vec![RESULT.replace("SESSION", "s#")]),
        (
            "sessions that come back",
            vec![RESULT.replace("SESSION", "s#"), RESULT.replace("SESSION", "s#").replace("0.1", "0.2")],
        ),
        ("threads of Codex'", vec![CODEX_TURN.to_owned()]),
        ("lists of Codex'", vec![updated(r#"{"id":"i#","type":"todo_list","items":[{"text":"x","completed":false}]}"#)]),
    ] {
        let [few, ten_times] = [rounds(500, 1_500), rounds(5_000, 15_000)].map(|count| {
            let stream: String = lines.iter().map(|line| many(count, line)).collect();
            let before = worked(since);
            show_all(&stream);
            worked(since).saturating_sub(before)
        });
        // What grows with the square takes a hundred times as much.
        assert!(ten_times < few * 40 + Duration::from_millis(rounds(50, 200)), "{name}: {few:?}, then {ten_times:?}");
    }
}

#[test]
fn many_calls_that_run_at_once_take_linear_time_in_the_status_line() {
    let call = said("assistant", r#"{"type":"tool_use","id":"t#","name":"Bash","input":{"command":"ls"}}"#);
    let told = tell_plainly(many(1, &call).as_bytes());
    let mut status = Status::default();
    for _ in 0..20_000 {
        for step in told.steps.iter().flatten() {
            status.accept(step, Duration::ZERO);
        }
    }
    assert!(status.line(Duration::ZERO).contains("(and 255 more)"), "{}", status.line(Duration::ZERO));
}

#[test]
fn nothing_is_lost_where_a_conversation_goes_on_under_an_id_that_was_there_before() {
    let result = |session: &str, total: &str| RESULT.replace("SESSION", session).replace("0.1", total) + "\n";
    let reset = r#"{"type":"conversation_reset","trigger":"clear"}"#.to_owned() + "\n";
    let told = tell_plainly((result("a", "1.0") + &result("b", "0.5") + &reset + &result("a", "0.7")).as_bytes());
    let last =
        told.steps.iter().flatten().rev().find_map(|step| if let What::Turn(turn) = &step.what { Some(turn) } else { None });
    assert_eq!(told.summary.ledger.cost_usd, Some(1.7));
    assert_eq!(last.unwrap().so_far.ledger.cost_usd, Some(1.7));
}

#[test]
fn a_turn_tells_the_totals_of_all_sessions_without_their_models() {
    // Joined streams, a session that comes back, one whose totals start anew, threads of Codex's.
    let claude: String =
        ["s0", "s1", "s0", "s2", "s2", "s0"].iter().map(|name| RESULT.replace("SESSION", name) + "\n").collect();
    let numbered =
        claude.lines().enumerate().map(|(at, line)| line.replace("m#", &format!("m{at}")) + "\n").collect::<String>();
    let anew = numbered.replacen("0.1,", "0.3,", 1);
    for (stream, models) in [(numbered, 3), (anew, 4), (many(3, CODEX_TURN), 0)] {
        let told = tell_plainly(stream.as_bytes());
        let turn = |step: &Step| if let What::Turn(turn) = &step.what { Some(turn.so_far.ledger.clone()) } else { None };
        let turns: Vec<_> = told.steps.iter().flatten().filter_map(turn).collect();
        assert!(turns.len() >= 3 && turns.iter().all(|ledger| ledger.by_model.is_empty()));
        let mut whole = told.summary.ledger;
        assert_eq!(whole.by_model.len(), models, "the summary has the models: {whole:?}");
        whole.by_model.clear();
        assert_eq!(turns.last(), Some(&whole));
    }
}

/// How many tools a session has is up to the agent; what is kept of them is up to the policy.
#[test]
fn a_policy_takes_a_session_of_very_many_tools_in_linear_time() {
    let tools = (0..400_000).map(|at| format!("\"t{at}\"")).collect::<Vec<_>>().join(",");
    let stream = format!("{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"tools\":[{tools}]}}\n");
    let told = tell_plainly(stream.as_bytes());
    let policy = "[calls]\nforbid = [\"t399999\", \"Bsh\"]\n".parse().unwrap();
    let mut checker = tapline_session::policy::PolicyChecker::new(policy);
    for _ in 0..3 {
        told.steps.iter().flatten().for_each(|step| assert_eq!(checker.accept(step).len(), 0));
    }
    let doubts = checker.doubts();
    assert!(doubts.len() == 1 && doubts[0].contains("`Bsh`"), "the session has the other: {doubts:?}");
}
