//! Whole streams without their secrets.

use tapline_protocol::{Event, Reader};
use tapline_recording::redact_line;

const KEY: &str = "sk-ant-REDACTED";

fn redacted(stream: &str) -> String {
    let records = Reader::new(stream.as_bytes()).map(Result::unwrap);
    String::from_utf8(records.flat_map(|record| redact_line(&record)).collect()).unwrap()
}

#[test]
fn secrets_go_and_json_stays() {
    let stream = format!(
        "{{\"type\":\"user\",\"message\":{{\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"KEY={KEY}\\nAuthorization: Bearer abc\\nok\"}}]}}}}\nplain {KEY}\r\n"
    );
    let out = redacted(&stream);
    assert!(!out.contains(KEY) && !out.contains("Bearer"), "{out}");
    assert!(out.contains("\\nok\"") && out.ends_with("plain [redacted]\r\n"), "{out}");
    let records: Vec<_> = Reader::new(out.as_bytes()).map(Result::unwrap).collect();
    assert!(matches!(records[0].event, Event::User(_)), "{out}");
}

#[test]
fn partial_messages_are_blanked() {
    let delta = |delta: &str| {
        format!(
            "{{\"type\":\"stream_event\",\"event\":{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{delta}}},\"uuid\":\"u\"}}\n"
        )
    };
    let out = redacted(
        &(delta(r#"{"type":"text_delta","text":"sk-ant-api"}"#)
            + &delta(r#"{"type":"input_json_delta","partial_json":"{\"k\":\"sk-"}"#)),
    );
    assert_eq!(out, delta(r#"{"type":"text_delta","text":""}"#) + &delta(r#"{"type":"input_json_delta","partial_json":""}"#));
}
