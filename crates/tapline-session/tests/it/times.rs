//! Time is a value: it comes with the record, steps and reports have what follows from it, and views show it when asked.

use serde_json::{Value, json};
use tapline_protocol::{Agent, Decoder, Moment, Record};
use tapline_session::render::{RenderAs, Style, TerminalOptions, Times};
use tapline_session::{Collector, Ending, Fold, Host, Run, StreamFormat};
use tapline_testkit::fixture;

use crate::read_stream::{PLAIN, ReadStream, screen, show, tell_plainly};

const START: Moment = Moment::from_millis(1_700_000_000_000);

fn at(ms: u64) -> Moment {
    Moment::from_millis(START.as_millis() + ms)
}

/// Reads lines that arrived so many milliseconds after the start; no time is none.
fn timed(agent: Agent, lines: &[(Option<u64>, &str)]) -> ReadStream {
    let (mut decoder, mut fold) = (Decoder::default().for_agent(Some(agent)), Fold::for_agent(Some(agent)));
    let (mut collector, mut records, mut steps) = (Collector::default(), Vec::new(), Vec::new());
    for (ms, line) in lines {
        for record in decoder.push(format!("{line}\n").as_bytes()) {
            let record = Record { arrived: ms.map(at), ..record };
            let told = fold.apply(&record);
            for step in &told {
                collector.accept(step);
            }
            records.push(record);
            steps.push(told);
        }
    }
    let (ending, format) = (Ending::default(), StreamFormat::StreamJson);
    let summary = fold.finish(&ending);
    let report = collector.report(summary.clone(), format, Run::default(), &ending);
    ReadStream { records, steps, summary, report }
}

fn claude(lines: &[(u64, &str)]) -> ReadStream {
    timed(Agent::Claude, &lines.iter().map(|(ms, line)| (Some(*ms), *line)).collect::<Vec<_>>())
}

fn report(told: &ReadStream) -> Value {
    serde_json::from_str(&told.report.to_json()).unwrap()
}

/// The steps of this kind, as `convert --to steps` writes them.
fn steps(told: &ReadStream, kind: &str) -> Vec<Value> {
    let written = show(told, RenderAs::Steps);
    let steps = written.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    steps.filter(|step| step["step"] == kind).collect()
}

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;
const BASH: &str = r#"{"type":"assistant","session_id":"s","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cargo test"}}]}}"#;
const BASH_FAILS: &str = r#"{"type":"user","session_id":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"Exit code 1"}]}}"#;
const TASK: &str = r#"{"type":"assistant","session_id":"s","message":{"id":"m2","content":[{"type":"tool_use","id":"t2","name":"Task","input":{"description":"look"}}]}}"#;
const TASK_STARTS: &str =
    r#"{"type":"system","subtype":"task_started","session_id":"s","task_id":"k","tool_use_id":"t2","description":"look"}"#;
const TASK_ENDS: &str =
    r#"{"type":"system","subtype":"task_notification","session_id":"s","task_id":"k","tool_use_id":"t2","status":"completed"}"#;
const TASK_DONE: &str = r#"{"type":"user","session_id":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"found"}]}}"#;
const TEXT: &str =
    r#"{"type":"assistant","session_id":"s","message":{"id":"m3","content":[{"type":"text","text":"Two lines\nof text."}]}}"#;
const RESULT: &str =
    r#"{"type":"result","subtype":"success","result":"done","session_id":"s","num_turns":3,"duration_ms":700}"#;

const RUN: &[(u64, &str)] = &[
    (900, INIT),
    (1_250, BASH),
    (13_650, BASH_FAILS),
    (14_000, TASK),
    (14_010, TASK_STARTS),
    (80_500, TASK_ENDS),
    (80_600, TASK_DONE),
    (81_000, TEXT),
    (81_040, RESULT),
];

#[test]
fn calls_turns_and_sub_agents_have_durations() {
    let told = claude(RUN);
    let report = report(&told);
    let calls = report["tools"]["calls"].as_array().unwrap();
    assert_eq!(calls.iter().map(|call| &call["duration_ms"]).collect::<Vec<_>>(), [&json!(12_400), &json!(66_600)]);
    assert_eq!(report["tasks"][0]["duration_ms"], json!(66_490));
    // What the agent counts itself stays beside what was seen.
    assert_eq!((&report["turns"][0]["duration_ms"], &report["turns"][0]["elapsed_ms"]), (&json!(700), &json!(80_140)));
    let answers = steps(&told, "answer");
    assert_eq!(answers[0]["duration_ms"], json!(12_400));
    assert_eq!(answers[0]["arrived_ms"], json!(START.as_millis() + 13_650));
    assert_eq!(steps(&told, "task").last().unwrap()["duration_ms"], json!(66_490));
    assert_eq!(steps(&told, "turn")[0]["elapsed_ms"], json!(80_140));
}

#[test]
fn an_item_of_codex_is_a_call_with_a_duration() {
    let started =
        r#"{"type":"item.started","item":{"id":"i1","type":"command_execution","command":"ls","status":"in_progress"}}"#;
    let completed = r#"{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"ls","exit_code":0,"status":"completed"}}"#;
    let search = r#"{"type":"item.completed","item":{"id":"i2","type":"web_search","query":"q"}}"#;
    let lines = [
        (Some(100), r#"{"type":"thread.started","thread_id":"x"}"#),
        (Some(150), r#"{"type":"turn.started"}"#),
        (Some(200), started),
        (Some(2_700), completed),
        (Some(3_000), search),
        (Some(4_150), r#"{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}"#),
    ];
    let report = report(&timed(Agent::Codex, &lines));
    let calls = &report["tools"]["calls"];
    assert_eq!(calls[0]["duration_ms"], json!(2_500));
    // It was told of only once, when it had ended: nobody knows when it began.
    assert_eq!((calls[1]["name"].as_str(), calls[1].get("duration_ms")), (Some("web_search"), None));
    assert_eq!((&report["turns"][0]["duration_ms"], &report["turns"][0]["elapsed_ms"]), (&Value::Null, &json!(4_000)));
}

#[test]
fn a_turn_begins_with_its_prompt_and_not_with_what_follows_the_turn_before() {
    let state = r#"{"type":"system","subtype":"session_state_changed","session_id":"s","state":"idle"}"#;
    let (mut decoder, mut fold) = (Decoder::default(), Fold::for_agent(Some(Agent::Claude)));
    let mut host = Host::with_messages();
    let mut elapsed = Vec::new();
    let prompt = b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"go\"}}\n";
    let mut hear = |ms: u64, line: &str, fold: &mut Fold| {
        for record in decoder.push(format!("{line}\n").as_bytes()) {
            for step in fold.apply(&Record { arrived: Some(at(ms)), ..record }) {
                if let tapline_session::What::Turn(turn) = step.what {
                    elapsed.push(turn.elapsed_ms);
                }
            }
        }
    };
    host.push(prompt, Some(at(100)), &mut fold);
    hear(600, INIT, &mut fold);
    hear(1_100, RESULT, &mut fold);
    hear(1_101, state, &mut fold);
    // A person thinks for an hour.
    let steps = host.push(prompt, Some(at(3_600_000)), &mut fold);
    assert_eq!(steps[0].arrived, Some(at(3_600_000)));
    hear(3_600_400, INIT, &mut fold);
    hear(3_600_900, &RESULT.replace("done", "again"), &mut fold);
    assert_eq!(elapsed, [Some(1_000), Some(900)]);
}

#[test]
fn a_prompt_that_is_text_was_sent_when_its_last_byte_was() {
    let (mut fold, mut host) = (Fold::default(), Host::with_text());
    assert!(host.push(b"fix ", Some(at(10)), &mut fold).is_empty());
    assert!(host.push(b"it", Some(at(25)), &mut fold).is_empty());
    assert_eq!(host.close(&mut fold)[0].arrived, Some(at(25)));
}

#[test]
fn what_is_not_known_is_absent() {
    // No times at all, only one end, ends in the wrong order, a result before its call, a call and its result in one record.
    let both = r#"{"type":"result","subtype":"success","result":"done","session_id":"s","messages":[
        {"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}},
        {"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a"}]}}]}"#
        .replace('\n', "");
    let cases: &[&[(Option<u64>, &str)]] = &[
        &[(None, INIT), (None, BASH), (None, BASH_FAILS), (None, TASK_STARTS), (None, TASK_ENDS), (None, RESULT)],
        &[(None, BASH), (Some(5), BASH_FAILS), (None, TASK_STARTS), (Some(6), TASK_ENDS), (Some(7), RESULT)],
        &[(Some(9), BASH), (Some(5), BASH_FAILS), (Some(9), TASK_STARTS), (Some(5), TASK_ENDS), (Some(1), RESULT)],
        &[(Some(1), BASH_FAILS), (Some(1), BASH), (None, RESULT)],
        &[(Some(1), &both)],
    ];
    for lines in cases {
        let told = timed(Agent::Claude, lines);
        let report = report(&told);
        assert_eq!(report["tools"]["calls"].as_array().unwrap().len(), 1, "{lines:?}");
        assert_eq!(report["tools"]["calls"][0].get("duration_ms"), None, "{lines:?}");
        assert_eq!(report["turns"][0].get("elapsed_ms"), None, "{lines:?}");
        for task in report["tasks"].as_array().unwrap() {
            assert_eq!(task.get("duration_ms"), None, "{lines:?}");
        }
        let written = show(&told, RenderAs::Steps);
        assert!(!written.contains("elapsed_ms") && !written.contains("\"duration_ms\":0"), "{written}");
    }
    // A result that came before its call keeps its own time.
    let early = timed(Agent::Claude, cases[3]);
    assert_eq!(steps(&early, "answer")[0]["line"], json!(1));
}

#[test]
fn a_view_shows_times_and_durations_when_asked() {
    let told = claude(RUN);
    let options = TerminalOptions { times: Times::Since(START), ..PLAIN };
    let shown = show(&told, RenderAs::Terminal(options));
    let expected = "    0.9s  ● session started · resume id s
            m

    1.3s  ▸ running: `cargo test`
   13.7s  ✗ ran: `cargo test`                                                        12.4s
              Exit code 1
   14.0s  ▸ delegating: look
          ◌ task running: look
 1m20.5s  ✓ task completed: look                                                   1m06.5s
 1m20.6s  ✓ delegated: look                                                        1m06.6s

 1m21.0s  Two lines
          of text.

          done

          ✓ success · 1 turn · 700 ms · took 1m20.1s
";
    assert_eq!(shown, expected);
    // Without being asked it shows none, and from the first step on if nobody knows when the run started.
    assert_eq!(show(&told, RenderAs::Terminal(PLAIN)), show(&claude_without_times(), RenderAs::Terminal(PLAIN)));
    let since_first = show(&told, RenderAs::Terminal(TerminalOptions { times: Times::SinceFirst, ..PLAIN }));
    assert!(since_first.starts_with("    0.0s  ● session"), "{since_first}");
}

#[test]
fn after_ten_hours_the_column_of_times_is_as_wide_as_before() {
    const HOUR: u64 = 3_600_000;
    let late: Vec<_> = RUN.iter().map(|(at, line)| (at + 47 * HOUR, *line)).collect();
    let times = TerminalOptions { times: Times::Since(START), ..PLAIN };
    let shown = show(&claude(&late), RenderAs::Terminal(times));
    assert!(shown.starts_with("  47h00m  ● session started"), "{shown}");
}

fn claude_without_times() -> ReadStream {
    timed(Agent::Claude, &RUN.iter().map(|(_, line)| (None, *line)).collect::<Vec<_>>())
}

#[test]
fn times_take_no_more_columns_than_the_terminal_has() {
    let told = claude(RUN);
    for width in [24, 40, 80, 120] {
        for live in [false, true] {
            let times = Times::Since(START);
            let shown = show(&told, RenderAs::Terminal(TerminalOptions { times, width: Some(width), live, ..PLAIN }));
            for line in shown.split('\n').map(|line| line.rsplit("\u{1b}[J").next().unwrap()) {
                // The verdict and the session's id are never cut.
                let is_cut = !line.contains("success") && !line.contains("session started");
                assert!(!is_cut || tapline_session::text::width(line) <= width, "{width}: {line:?}");
            }
            assert!(width < 40 || shown.contains(" 12.4s\n"), "{shown}");
        }
    }
}

#[test]
fn text_that_is_typed_has_its_times_too() {
    let delta = |text: &str| {
        let text = serde_json::to_string(text).unwrap();
        format!(
            r#"{{"type":"stream_event","session_id":"s","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{text}}}}}}}"#
        )
    };
    let (one, two, three) = (delta("Two li"), delta("nes\nof "), delta("text."));
    let start = r#"{"type":"stream_event","session_id":"s","event":{"type":"message_start","message":{"id":"m3"}}}"#;
    let lines = [(900, INIT), (1_000, start), (1_000, &one), (2_000, &two), (3_000, &three), (3_100, TEXT), (3_200, RESULT)];
    let told = claude(&lines);
    let options = TerminalOptions { times: Times::Since(START), partial: true, ..PLAIN };
    let shown = show(&told, RenderAs::Terminal(options));
    assert!(shown.contains("    1.0s  Two lines\n    2.0s  of text.\n"), "{shown}");
    // Drawn over in place, in colour, the rows are counted as they are seen: no line of the view is erased, and none stays twice.
    let style = Style::ansi();
    let live = show(&told, RenderAs::Terminal(TerminalOptions { live: true, width: Some(22), style, ..options }));
    let screen = screen(&live);
    let typed = screen.iter().position(|line| line == "    1.0s  Two lines");
    assert_eq!(typed.map(|at| screen[at + 1].as_str()), Some("          of text."), "{screen:#?}");
    assert_eq!(screen.concat().matches("Two li").count(), 1, "{screen:#?}");
    assert!(screen[0].contains("session started"), "{screen:#?}");
}

#[test]
fn a_stream_without_times_looks_the_same_with_them() {
    for name in ["claude-2.1.325/tools.jsonl", "codex-0.166.0/tools.jsonl"] {
        let told = tell_plainly(&std::fs::read(fixture(name)).unwrap());
        for live in [false, true] {
            let options = TerminalOptions { live, width: Some(80), ..PLAIN };
            let asked = TerminalOptions { times: Times::SinceFirst, ..options };
            assert_eq!(show(&told, RenderAs::Terminal(asked)), show(&told, RenderAs::Terminal(options)), "{name}");
        }
    }
}

#[test]
fn pages_have_the_durations_of_calls_and_turns() {
    let told = claude(RUN);
    let markdown = show(&told, RenderAs::Markdown);
    assert!(markdown.contains("- ✗ ran: `cargo test` · 12.4s\n"), "{markdown}");
    assert!(markdown.contains("- ✓ task completed: look · 1m06.5s\n"), "{markdown}");
    let html = show(&told, RenderAs::Html);
    assert!(html.contains("<code>cargo test</code></span> <span class=took>12.4s</span></summary>"), "{html}");
    assert!(html.contains("task completed: look <span class=took>1m06.5s</span></div>"), "{html}");
    assert!(html.contains("</span> turn 1 · 700 ms"), "{html}");
    let without = claude_without_times();
    for page in [show(&without, RenderAs::Markdown), show(&without, RenderAs::Html)] {
        assert!(!page.contains("class=took") && !page.contains("12.4s"), "{page}");
    }
}
