//! Views on a narrow terminal: lists are broken between their parts, and nothing that people copy is cut.

use tapline_session::render::{Hints, RenderAs, Style, TerminalOptions, render_summary};
use tapline_session::text::width;
use tapline_testkit::fixture;

use crate::read_stream::{PLAIN, show, tell_plainly};

const COLUMNS: usize = 40;
const ID: &str = "00000000-0000-4000-8000-000000000001";

fn denied() -> Vec<u8> {
    std::fs::read(fixture("claude-2.1.325/tools-denied.jsonl")).unwrap()
}

/// Whether every line has room, apart from those with the id, which is never broken.
fn has_room(shown: &str) -> bool {
    shown.lines().all(|line| width(line) <= COLUMNS || line.contains(ID))
}

#[test]
fn a_view_is_broken_between_the_parts_of_its_lists() {
    for style in [Style::plain(), Style::ansi()] {
        let options = TerminalOptions { width: Some(COLUMNS), style, ..PLAIN };
        let mut shown = show(&tell_plainly(&denied()), RenderAs::Terminal(options));
        for code in [style.bold, style.dim, style.reset, style.red, style.green, style.yellow, style.cyan] {
            shown = if code.is_empty() { shown } else { shown.replace(code, "") };
        }
        assert!(has_room(&shown), "{shown}");
        let start = format!(
            "● session started\n  resume id {ID}\n  claude-opus-5-5 · claude 2.1.325\n  default · /home/dev/project\n  22 tools · 5 agents · 16 skills\n  3 plugins\n"
        );
        assert!(shown.starts_with(&start), "{shown}");
        let verdict = "\n! success · 2 calls denied · 1 turn\n  250 ms · 48 in · 160 out · 8.0k cached\n  $0.0070\n";
        assert!(shown.ends_with(verdict), "{shown}");
    }
}

#[test]
fn a_summary_is_broken_between_the_parts_of_its_lists_and_its_id_is_whole() {
    let told = tell_plainly(&denied());
    let shown = render_summary(&told.report, &told.summary, Style::plain(), Some(COLUMNS), Hints::default());
    let (facts, _) = shown.rsplit_once("\n\n").unwrap();
    assert!(has_room(facts), "{shown}");
    assert!(shown.contains(&format!("\nsession     {ID}\n")), "{shown}");
    assert!(shown.contains("\nhas         22 tools · 5 agents\n            16 skills · 3 plugins\n"), "{shown}");
    assert!(
        shown.contains("\ntokens      48 in · 160 out\n            8,000 cache read\n            400 cache write\n"),
        "{shown}"
    );
}

#[test]
fn a_command_that_a_signal_ended_says_so_beside_its_exit_code() {
    let stream = |output: &str| {
        let call = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"make"}}]}}"#;
        let output = serde_json::to_string(output).unwrap();
        format!(
            "{call}\n{{\"type\":\"user\",\"message\":{{\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"is_error\":true,\"content\":{output}}}]}}}}\n"
        )
    };
    for (output, said) in [
        ("Exit code 137", "Exit code 137 (killed, SIGKILL)"),
        ("Exit code 137\nbuilding", "Exit code 137 (killed, SIGKILL)"),
        ("Exit code 139\nSegmentation fault", "Exit code 139 (crashed, SIGSEGV)"),
        ("Exit code 143", "Exit code 143 (terminated, SIGTERM)"),
        ("Exit code 129\nusage: git", "Exit code 129"),
        ("Exit code 1", "Exit code 1"),
        ("it said: Exit code 137", "it said: Exit code 137"),
    ] {
        let told = tell_plainly(stream(output).as_bytes());
        for format in [RenderAs::Terminal(PLAIN), RenderAs::Lines(PLAIN), RenderAs::Markdown] {
            let shown = show(&told, format);
            assert!(shown.contains(said) && shown.contains("SIG") == said.contains("SIG"), "{output}: {shown}");
            assert!(output.lines().skip(1).all(|line| shown.contains(line)), "{output}: {shown}");
        }
        assert!(told.report.to_json().contains(&serde_json::to_string(output).unwrap()), "the report has what the agent said");
    }
}
