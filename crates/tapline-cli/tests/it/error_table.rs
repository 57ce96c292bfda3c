//! Every row of the error table that the project started from, through a live run: what is printed, what is said on stderr,
//! and the exit code.

use tapline_testkit::{TempFolder, agent};

use crate::tapline::{Ran, command, ran};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","apiKeySource":"none"}"#;
const TEXT: &str = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"said"}]}}"#;
const RESULT: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"input_tokens":3,"output_tokens":4}}"#;

/// A run of an agent that writes these lines, with the report on stdout.
fn run(lines: &[&str]) -> Ran {
    let folder = TempFolder::new();
    let agent = folder.script("agent", &agent::says(&lines.join("\n")));
    ran(command(&["run", "go", "--bin", &agent, "--no-record", "--format", "report"]).output().unwrap())
}

#[test]
fn a_line_that_is_not_json_is_told_and_skipped() {
    let ran = run(&[INIT, "{broken", TEXT, RESULT]);
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("tapline: line 2: malformed: "), "{}", ran.err);
    assert!(ran.out.contains(r#""answer":"done""#) && ran.out.contains(r#""malformed_at":[2]"#), "{}", ran.out);
}

#[test]
fn json_that_is_no_object_is_skipped_silently() {
    let ran = run(&[INIT, "[1,2]", "42", TEXT, RESULT]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains(r#""non_object":2"#), "{}", ran.out);
}

#[test]
fn content_that_is_no_list_and_text_that_is_missing() {
    let ran = run(&[
        INIT,
        r#"{"type":"assistant","message":{"content":"plain"}}"#,
        r#"{"type":"assistant","message":{}}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"text"},{"type":"text","text":"b"}]}}"#,
        RESULT,
    ]);
    assert!(ran.out.contains(r#""text":"\nb""#), "{}", ran.out);
}

#[test]
fn usage_that_is_missing_or_broken_counts_nothing() {
    for usage in [r#""usage":null,"#, r#""usage":"many","#, r#""usage":{"input_tokens":null,"output_tokens":[]},"#, ""] {
        let result = format!(r#"{{"type":"result","subtype":"success",{usage}"is_error":false,"result":"done"}}"#);
        let ran = run(&[INIT, TEXT, &result]);
        assert_eq!(ran.code, 0, "{usage}");
        assert!(ran.out.contains(r#""tokens":{"input":0,"output":0"#), "{usage}: {}", ran.out);
    }
}

#[test]
fn is_error_counts_only_where_it_is_literally_true() {
    for (is_error, code) in [("", 0), (r#""is_error":"true","#, 0), (r#""is_error":1,"#, 0), (r#""is_error":true,"#, 1)] {
        let result = format!(r#"{{"type":"result","subtype":"success",{is_error}"result":"x"}}"#);
        assert_eq!(run(&[INIT, TEXT, &result]).code, code, "{is_error}");
    }
    let ran = run(&[INIT, r#"{"type":"result","subtype":"success","is_error":true}"#]);
    assert!(ran.out.contains(r#""category":"api","error":"API error (no detail)""#), "{}", ran.out);
}

#[test]
fn the_key_s_source_is_known_if_it_is_a_string() {
    for source in ["7", "null", "{}"] {
        let init = format!(r#"{{"type":"system","subtype":"init","session_id":"s","apiKeySource":{source}}}"#);
        let ran = run(&[&init, TEXT, RESULT]);
        assert_eq!(ran.err, "", "{source}");
        assert!(ran.out.contains(r#""api_key_source":null"#));
    }
    let second = INIT.replace("none", "claude.ai");
    let ran = run(&[INIT, TEXT, &second, RESULT]);
    assert_eq!(ran.err, "");
    assert!(ran.out.contains(r#""api_key_source":"none""#), "the first counts");
}

#[test]
fn a_long_error_is_cut_in_the_verdict_alone() {
    let long = format!("429 {}", "x".repeat(5_000));
    let ran = run(&[INIT, &format!(r#"{{"type":"result","subtype":"success","is_error":true,"result":"{long}"}}"#)]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains(" ... (truncated)") && ran.out.contains(&long), "the turn keeps all");
    assert!(ran.out.contains(r#""category":"rate_limit""#));
}

#[test]
fn no_result_is_told_and_counts_nothing() {
    let ran = run(&[INIT, TEXT]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("tapline: the stream ended without a result"), "{}", ran.err);
    assert!(ran.out.contains(r#""tokens":{"input":0,"output":0"#) && ran.out.contains(r#""answer":"said""#), "{}", ran.out);
}
