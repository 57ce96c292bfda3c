//! Many small things: what they cost grows with their number, not with its square. What does not would take hours here.

use tapline_session::render::{Format, Style, TerminalOptions};

use crate::fixtures::{show, tell_plainly};

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
        let options =
            TerminalOptions { style: Style::plain(), width, rows: 24, live, thinking: false, partial: true, ci_log: false };
        let shown = show(&told, Format::Terminal(options));
        assert!(shown.matches('x').count() >= pieces, "all of it is typed");
    }
}

#[test]
fn a_page_of_malformed_lines_stays_small() {
    let stream = "x\n".repeat(200_000);
    let told = tell_plainly(stream.as_bytes());
    let page = show(&told, Format::Html);
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
    assert!(page.contains("… 199000 more odd lines"), "{}", &page[page.len() - 2_000..]);
}
