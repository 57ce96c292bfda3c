//! Which calls were denied: the fields of a line decide, and an agent's words only where it has none. A stream and its report say the
//! same.

use std::fs;
use std::sync::atomic::AtomicBool;

use tapline_archive::stats::{Query, stats};
use tapline_archive::{Index, Places, Prices, Selection, report_of_bytes};
use tapline_session::permission::{Decision, Ruling};
use tapline_session::step::{CallStatus, DeniedBy};
use tapline_testkit::TempFolder;

const WORDS: &str = "Permission to use Bash with command rm has been denied.";

/// What a line says about a call beside the words of its result, in a transcript and in a stream; and how the call ended.
const CASES: &[(&str, &str, &str, CallStatus)] = &[
    ("", "", WORDS, CallStatus::Denied),
    ("", "", "This Bash command has several parts. The following parts require approval: curl", CallStatus::Denied),
    ("", "", "no such file", CallStatus::Error),
    (
        r#","permissionDecision":{"decision":"reject","source":"config"}"#,
        r#","tool_result_meta":[{"id":"toolu_1","permission_decision":{"decision":"reject","source":"config"}}]"#,
        "what it says is new",
        CallStatus::Denied,
    ),
    (
        r#","permissionDecision":{"decision":"accept","source":"config"}"#,
        r#","tool_result_meta":[{"id":"toolu_1","permission_decision":{"decision":"accept","source":"config"}}]"#,
        WORDS,
        CallStatus::Error,
    ),
    (
        r#","toolDenialKind":"user-rejected""#,
        r#","tool_result_meta":[{"id":"toolu_1","permission_decision":{"decision":"reject","source":"user_reject"}}]"#,
        "not now",
        CallStatus::Denied,
    ),
    // Nobody asked about this call.
    (
        r#","permissionDecision":7"#,
        r#","tool_result_meta":[{"id":"toolu_2","permission_decision":{"decision":"reject"}}]"#,
        "no such file",
        CallStatus::Error,
    ),
];

const CALL: &str = r#"{"type":"assistant","sessionId":"s","session_id":"s","uuid":"u-1","timestamp":"2026-11-01T10:00:00Z","message":{"id":"m","role":"assistant","model":"claude-opus-5-5","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"rm -rf x"}}],"usage":{"input_tokens":1,"output_tokens":2}}}"#;

fn result(beside: &str, words: &str) -> String {
    format!(
        r#"{{"type":"user","sessionId":"s","session_id":"s","uuid":"u-2","timestamp":"2026-11-01T10:00:01Z"{beside},"message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":"{words}"}}]}}}}"#
    )
}

/// Returns how many calls failed, and how many were denied.
fn counted(text: &str) -> (u64, u64) {
    let folder = TempFolder::new();
    fs::write(folder.join("s.jsonl"), text).unwrap();
    let mut index = Index::in_memory().unwrap();
    index.update(&Places::below(&[folder.join(".")]), &AtomicBool::new(false), |_| {}).unwrap();
    let totals = stats(&index, Prices::embedded(), &Selection::default(), &Query::default()).unwrap().totals;
    (totals.call_errors, totals.call_denials)
}

fn count(status: CallStatus) -> (u64, u64) {
    (u64::from(status == CallStatus::Error), u64::from(status == CallStatus::Denied))
}

#[test]
fn a_transcript_a_stream_and_its_report_agree() {
    for (transcript, stream, words, status) in CASES {
        assert_eq!(counted(&format!("{CALL}\n{}\n", result(transcript, words))), count(*status), "{transcript} {words}");
        let stream = format!("{CALL}\n{}\n", result(stream, words));
        assert_eq!(counted(&stream), count(*status), "{stream}");
        let report = report_of_bytes(stream.as_bytes());
        assert_eq!(report.tools.calls.iter().map(|call| call.status).collect::<Vec<_>>(), [*status], "{stream}");
    }
}

#[test]
fn a_result_names_the_calls_that_were_denied() {
    let end = r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","total_cost_usd":0.1,"usage":{"input_tokens":1},"permission_denials":[{"tool_name":"Bash","tool_use_id":"toolu_1","tool_input":{}}]}"#;
    let stream = format!("{CALL}\n{}\n{end}\n", result("", "no such file"));
    assert_eq!(counted(&stream), (0, 1));
    assert_eq!(report_of_bytes(stream.as_bytes()).tools.calls[0].status, CallStatus::Denied);
}

#[test]
fn a_rule_of_ours_is_named_by_what_it_told_the_agent() {
    let meta = r#","tool_result_meta":[{"id":"toolu_1","permission_decision":{"decision":"reject","source":"hook"}}]"#;
    for (words, by, reason) in [
        ("denied by deny[0]: no pushing", DeniedBy::Rule, Some("no pushing")),
        ("Error: denied by ceiling.deny[12]: not here", DeniedBy::Rule, Some("not here")),
        ("denied by deny[3]", DeniedBy::Rule, None),
        ("denied by deny[x]: no", DeniedBy::Hook, Some("denied by deny[x]: no")),
        ("denied by somebody", DeniedBy::Hook, Some("denied by somebody")),
    ] {
        let stream = format!("{CALL}\n{}\n", result(meta, words));
        let report = report_of_bytes(stream.as_bytes());
        let denial = report.tools.calls[0].denial.as_ref().unwrap();
        assert_eq!((denial.by, denial.reason.as_deref()), (by, reason), "{words}");
    }
    let decision = Decision { ruling: Ruling::Deny, rule: Some("deny[0]".to_owned()), reason: Some("no pushing".to_owned()) };
    assert_eq!(decision.denial(), "denied by deny[0]: no pushing");
    assert_eq!(Decision { reason: None, ..decision.clone() }.denial(), "denied by deny[0]");
    assert_eq!(Decision { rule: None, ..decision }.denial(), "no pushing");
}
