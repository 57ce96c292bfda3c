//! The odd corners of real streams: each is read or kept, none breaks the reading.

use tapline_protocol::claude::control::Request;
use tapline_protocol::claude::result::TurnResult;
use tapline_protocol::{Decoder, Event, Json, Malformed, SyntaxError, check_text, claude};

use crate::read_stream::{joined, read, read_chunks, read_one};

const ALIVE: &[u8] = br#"{"type":"keep_alive"}"#;

fn result(line: impl AsRef<[u8]>) -> TurnResult {
    read_one(line).as_result().unwrap().clone()
}

fn string(text: &str) -> String {
    Json::parse(text).unwrap().with(|value| value.as_str().unwrap().into_owned()).unwrap()
}

#[test]
fn half_a_surrogate_pair_is_a_replacement_character() {
    assert_eq!(string(r#""\ud83d\ude00""#), "😀");
    assert_eq!(string(r#""a\ud83d""#), "a\u{fffd}");
    assert_eq!(string(r#""\ude00b""#), "\u{fffd}b");
    assert_eq!(string(r#""\ude00\ude00""#), "\u{fffd}\u{fffd}");
    assert_eq!(string(r#""\ud83dx\ude00""#), "\u{fffd}x\u{fffd}");
    assert_eq!(string(r#""\ud83d\ud83d\ude00""#), "\u{fffd}😀");
    assert_eq!(string(r#""\ud83d\n\uD83D\u0041""#), "\u{fffd}\n\u{fffd}A");
    assert_eq!(result(r#"{"result":"half: \ud83d","type":"result"}"#).result.as_deref(), Some("half: \u{fffd}"));
}

#[test]
fn the_last_of_a_repeated_key_counts() {
    assert_eq!(result(r#"{"type":"result","result":"a","result":"b"}"#).result.as_deref(), Some("b"));
    assert_eq!(result(r#"{"type":"result","num_turns":1,"result":"a","result":7}"#).result, None);
    assert_eq!(result(r#"{"type":"result","is_error":true,"is_error":"true"}"#).is_error, None);
    assert_eq!(result(r#"{"type":"user","num_turns":1,"errors":["a"],"errors":{},"type":"result"}"#).errors, None);
    assert_eq!(read_one(r#"{"type":"result","type":7}"#), Event::Untyped);
    assert_eq!(read(br#"{"a":1,"b":2,"a":[3]}"#)[0].field("a").unwrap().as_str(), "[3]");
    let record = &read(br#"{"session_id":"a","session_id":"","uuid":"b","uuid":"c","type":"keep_alive"}"#)[0];
    assert_eq!((record.envelope.session_id.as_deref(), record.envelope.uuid.as_deref()), (None, Some("c")));
}

#[test]
fn escaped_keys_are_keys() {
    let turn = result(r#"{"\u0074ype":"\u0072esult","is\u005ferror":true,"re\u0073ult":"x"}"#);
    assert_eq!((turn.is_error, turn.result.as_deref()), (Some(true), Some("x")));
}

#[test]
fn the_type_may_stand_anywhere() {
    assert_eq!(result(r#"{"result":"{\"type\":\"user\"}","usage":{"type":"user"},"type":"result"}"#).result.unwrap().len(), 15);
}

#[test]
fn any_depth_is_read_kept_and_written() {
    let deep = ["[".repeat(200_000), "]".repeat(200_000)].concat();
    assert_eq!(read_one(&deep), Event::NotObject);
    let output =
        result(format!(r#"{{"structured_output":{deep},"subtype":"success","type":"result"}}"#)).structured_output.unwrap();
    assert!(output.as_str() == deep && serde_json::to_string(&output).unwrap() == deep);
    let objects = [r#"{"a":"#.repeat(200_000), "1".into(), "}".repeat(200_000)].concat();
    assert_eq!(read_one(&objects), Event::Untyped);
    assert_eq!(read_one(&objects[..objects.len() - 1]), Event::Malformed(Malformed::Syntax(SyntaxError::Incomplete)));
}

#[test]
fn any_number_keeps_its_digits() {
    let turn = result(
        r#"{"type":"result","num_turns":99999999999999999999,"duration_ms":9007199254740993,"ttft_ms":-0.0E-999,
        "total_cost_usd":1e999,"cost_usd":0.1000000000000000055511151231257827,"usage":{"input_tokens":1e30,
        "output_tokens":"9007199254740993","cache_read_input_tokens":-1,"cache_creation_input_tokens":2.9}}"#
            .replace('\n', ""),
    );
    let turns = turn.num_turns.as_ref().unwrap();
    assert_eq!((turns.as_u64(), turns.to_string().as_str()), (None, "99999999999999999999"));
    assert_eq!(turn.duration_ms.as_ref().unwrap().as_u64(), Some(9_007_199_254_740_993));
    assert_eq!(turn.ttft_ms.as_ref().unwrap().to_string(), "-0.0E-999");
    assert_eq!(turn.total_cost_usd, None, "not finite");
    assert_eq!(serde_json::to_string(turn.total_cost().unwrap()).unwrap(), "0.1000000000000000055511151231257827");
    let counts = turn.usage.unwrap().counts;
    let tokens =
        [counts.input_tokens, counts.output_tokens, counts.cache_read_input_tokens, counts.cache_creation_input_tokens];
    assert_eq!(tokens.map(|tokens| tokens.0), [u64::MAX, 9_007_199_254_740_993, 0, 2]);
}

#[test]
fn invalid_utf8_is_shown_and_kept() {
    let line = b"{\"type\":\"result\",\"result\":\"a\xFFb\xE2\x82\"}\n";
    let records = read(line);
    assert_eq!(joined(&records), line);
    assert_eq!(result(line).result.as_deref(), Some("a\u{fffd}b\u{fffd}"));
}

#[test]
fn what_is_not_json_is_malformed() {
    let wrong = [
        r#"{"a":NaN}"#,
        r#"{"a":-Infinity}"#,
        r#"{"a":1,}"#,
        "[1,]",
        "[,1]",
        "{'a':1}",
        "{a:1}",
        r#"{"a" 1}"#,
        r#"{"a":01}"#,
        r#"{"a":.5}"#,
        r#"{"a":+1}"#,
        r#"{"a":1.e5}"#,
        r#"{"a":1e}"#,
        r#"{"a":truE}"#,
        r#""\x41""#,
        r#""\u00g0""#,
        "\"a\tb\"",
        "{} {}",
        "[}",
        "{]",
        "[1}",
        r#"{"a":1]"#,
        "{}]",
        "\u{feff}x",
        "[SandboxDebug] started",
    ];
    for text in wrong {
        assert!(matches!(check_text(text), Err(SyntaxError::At { .. })), "{text}");
        assert!(matches!(read_one(text), Event::Malformed(Malformed::Syntax(_))), "{text}");
    }
    for control in '\0'..' ' {
        let text = format!("\"{}{control}\"", "a".repeat(40));
        assert!(matches!(check_text(&text), Err(SyntaxError::At { offset: 41, .. })), "{control:?}");
    }
}

#[test]
fn the_beginning_of_json_is_incomplete() {
    let text = r#" {"a":[-1.5e-7,true,null,"\ud83d\"é",{}],"b":{"c":false}}"#;
    for (at, _) in text.char_indices() {
        assert_eq!(check_text(&text[..at]), Err(SyntaxError::Incomplete), "{at}");
    }
    for text in ["-", "1.", "1e", "1e+", "fals", r#""\u00"#, r#""\"#] {
        assert_eq!(check_text(text), Err(SyntaxError::Incomplete), "{text}");
    }
}

#[test]
fn values_that_are_no_objects_are_told_apart() {
    for text in ["null", "true", "-1e3", r#""text""#, "[]", r#"[{"type":"result"}]"#] {
        assert_eq!(read_one(text), Event::NotObject, "{text}");
    }
    for text in ["{}", r#"{"type":null}"#, r#"{"type":["result"]}"#] {
        assert_eq!(read_one(text), Event::Untyped, "{text}");
    }
    assert_eq!(read_one(r#"{"type":""}"#), Event::Unknown { kind: String::new() });
    assert_eq!(read_one(r#"{"type":"system","subtype":"new"}"#), Event::Unknown { kind: "system/new".into() });
}

#[test]
fn a_changed_shape_is_invalid_and_still_read() {
    let Event::Invalid { event, error } = read_one(r#"{"type":"assistant","message":"plain","request_id":"req_1"}"#) else {
        panic!("not invalid")
    };
    let Event::Claude(claude::Event::Assistant(assistant)) = *event else { panic!("{event:?}") };
    assert_eq!((assistant.request_id.as_deref(), error.as_str()), (Some("req_1"), "`message` is string, not object"));
    assert!(matches!(read_one(r#"{"type":"system","subtype":4}"#), Event::Invalid { .. }));
}

#[test]
fn a_new_control_request_keeps_its_text() {
    let line = r#"{"type":"control_request","request_id":"1","request":{"subtype":"side_question","q": 1}}"#;
    let Event::Claude(claude::Event::ControlRequest(frame)) = read_one(line) else { panic!("no request") };
    let request = frame.request.unwrap();
    assert_eq!(request.subtype(), "side_question");
    assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"subtype":"side_question","q": 1}"#);
    assert!(matches!(request, Request::Other(Some(_), _)));
}

#[test]
fn a_byte_order_mark_counts_at_the_start_alone() {
    let line = [b"\xEF\xBB\xBF", ALIVE, b"\n"].concat();
    let records = read(&line.repeat(2));
    assert!(matches!(records[0].event, Event::Claude(claude::Event::KeepAlive(_))));
    assert!(matches!(records[1].event, Event::Malformed(_)));
    assert_eq!(joined(&records), line.repeat(2));
}

#[test]
fn carriage_returns_and_blank_lines_are_kept_and_counted() {
    let stream = [ALIVE, b"\r\n\r\n \t\n ", ALIVE, b"\r\n\n"].concat();
    let records = read(&stream);
    assert_eq!(records[3].text().as_bytes(), ALIVE);
    let alive = |at: usize| matches!(records[at].event, Event::Claude(claude::Event::KeepAlive(_)));
    assert!(records.len() == 5 && alive(0) && alive(3));
    assert!([1, 2, 4].into_iter().all(|at| records[at].event == Event::Blank));
    assert_eq!(records.iter().map(|record| record.line).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(joined(&records), stream);
}

#[test]
fn a_run_of_nuls_hides_no_line() {
    let stream = [ALIVE, b"\n", &[0; 4096], ALIVE, b"\n\0\n\0", ALIVE].concat();
    let records = read(&stream);
    assert_eq!(records[1].event, Event::Malformed(Malformed::NulRun));
    assert_eq!(records[1].bytes, [0; 4096]);
    assert!(matches!(records[2].event, Event::Claude(claude::Event::KeepAlive(_))));
    assert!(records[3..].iter().all(|record| matches!(record.event, Event::Malformed(Malformed::Syntax(_)))));
    assert_eq!(records.iter().map(|record| record.line).collect::<Vec<_>>(), [1, 2, 2, 3, 4]);
    assert_eq!(joined(&records), stream);
}

#[test]
fn a_line_above_the_limit_comes_in_pieces() {
    let limit = ALIVE.len();
    let stream = [ALIVE, b"\n", &vec![b'x'; 2 * limit + 1], b"\n", ALIVE, b"\n", ALIVE, b" "].concat();
    let records = read_chunks(Decoder::with_line_limit(limit), [stream.as_slice()]);
    assert_eq!(records.iter().map(|record| record.line).collect::<Vec<_>>(), [1, 2, 2, 2, 3, 4, 4]);
    assert!([0, 4].into_iter().all(|at| matches!(records[at].event, Event::Claude(claude::Event::KeepAlive(_)))));
    assert!([1, 5].into_iter().all(|at| records[at].event == Event::Malformed(Malformed::TooLong)));
    assert!([2, 3, 6].into_iter().all(|at| records[at].event == Event::Rest));
    assert_eq!(records.iter().map(|record| record.bytes.len()).max(), Some(limit + 1));
    assert_eq!(joined(&records), stream);
}

#[test]
fn an_unterminated_tail_is_a_line() {
    let mut decoder = Decoder::default();
    assert_eq!(decoder.push(ALIVE), []);
    let tail = decoder.finish();
    assert!(tail.len() == 1 && tail[0].bytes == ALIVE && matches!(tail[0].event, Event::Claude(claude::Event::KeepAlive(_))));
    assert_eq!(decoder.finish(), []);
    assert_eq!(read_one(&ALIVE[..9]), Event::Malformed(Malformed::Syntax(SyntaxError::Incomplete)));
    assert_eq!(read(b""), []);
}

#[test]
fn only_a_newline_ends_a_line() {
    let text = "a\u{2028}b\u{2029}c\u{85}d";
    assert_eq!(result(format!(r#"{{"type":"result","result":"{text}"}}"#)).result.as_deref(), Some(text));
    assert_eq!(read(b"\x0B\r\x1C\x1E").len(), 1);
}
