//! `check`: what is odd is found, what is well is left alone, and a policy is kept or not.

use tapline_session::check::{CheckReport, Checker};
use tapline_session::policy::{Policy, PolicyChecker, Violation};

use crate::read_stream::tell_plainly;

fn check(bytes: &[u8]) -> CheckReport {
    let told = tell_plainly(bytes);
    let mut checker = Checker::default();
    for (record, steps) in told.records.iter().zip(&told.steps) {
        checker.accept(record, steps);
    }
    checker.finish(&told.summary, Vec::new(), true)
}

fn codes(bytes: &[u8]) -> Vec<String> {
    check(bytes).findings.into_iter().map(|finding| finding.code.into_owned()).collect()
}

fn violations(policy: &str, bytes: &[u8]) -> Vec<String> {
    let policy: Policy = toml::from_str(policy).unwrap();
    let mut checker = PolicyChecker::new(policy);
    let told = tell_plainly(bytes);
    let mut found: Vec<Violation> = told.steps.iter().flatten().flat_map(|step| checker.accept(step)).collect();
    found.extend(checker.finish());
    found
        .iter()
        .map(|violation| format!("{:?} {}: {}", violation.line.unwrap_or(0), violation.rule, violation.message))
        .collect()
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(tapline_testkit::fixture(name)).unwrap()
}

#[test]
fn real_streams_are_well() {
    for name in ["tools", "tools-partial", "subagent", "multi", "hooks", "retry", "lone-surrogate", "text"] {
        let report = check(&fixture(&format!("claude-2.1.325/{name}.jsonl")));
        assert!(report.findings.is_empty() && report.drift.is_empty(), "{name}: {report:?}");
    }
    assert!(check(&fixture("codex-0.166.0/tools.jsonl")).findings.is_empty());
}

#[test]
fn what_is_odd_is_found() {
    assert_eq!(codes(&fixture("claude-2.1.325/sigterm.jsonl")), ["delta-without-stop", "no-result"]);
    assert_eq!(
        codes(b"{\"type\":\"result\"}{\"type\":\"result\"}\n{\"type\":\"result\",\"subtype\":\"success\"}\n"),
        ["spliced-line"]
    );
    assert_eq!(
        codes(b"{\"type\":\"assis{\"type\":\"keep_alive\"}\nwords\n{\"type\":\"result\",\"subtype\":\"success\"}\n"),
        ["spliced-line", "malformed-line"]
    );
    assert_eq!(
        codes(b"{\"type\":\"result\",\"result\":\"a\"}\n{\"result\": \"a\", \"type\":\"result\"}"),
        ["duplicate-result"]
    );
    assert_eq!(codes(b"{\"type\":\"result\",\"result\":\"\",\"result_index\":0}\n{\"type\":\"result\",\"result\":\"\",\"result_index\":2}\n"), ["result-gap"]);
    assert_eq!(
        codes(b"{\"type\":\"assistant\",\"message\":7}\n{\"type\":\"result\",\"subtype\":\"success\"}\n"),
        ["changed-shape"]
    );
    assert_eq!(codes(b"{\"type\":\"result\",\"subtype\":\"success\"}\n{\"type\":\"resu"), ["malformed-line", "truncated-tail"]);
}

#[test]
fn deltas_must_fit_the_message() {
    let event = |event: &str| format!("{{\"type\":\"stream_event\",\"event\":{event}}}\n");
    let start = event(r#"{"type":"message_start","message":{"id":"m"}}"#)
        + &event(r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#);
    let delta = event(r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}"#);
    let said = |text: &str| {
        format!(
            "{{\"type\":\"assistant\",\"message\":{{\"id\":\"m\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n"
        )
    };
    let stop = event(r#"{"type":"content_block_stop","index":0}"#) + &event(r#"{"type":"message_stop"}"#);
    let result = "{\"type\":\"result\",\"subtype\":\"success\"}\n";
    let run = |parts: &[&str]| codes((parts.concat() + result).as_bytes());
    assert_eq!(run(&[&start, &delta, &said("Hel"), &stop]), [""; 0]);
    assert_eq!(run(&[&start, &delta, &said("Hello"), &stop]), ["delta-differs"]);
    assert_eq!(run(&[&delta]), ["delta-without-start"]);
    assert_eq!(run(&[&start, &delta]), ["delta-without-stop"]);
    assert_eq!(run(&[&event(r#"{"type":"content_block_stop","index":4}"#)]), ["stop-without-start"]);
}

#[test]
fn drift_is_told_by_version() {
    let stream = concat!(
        r#"{"type":"system","subtype":"init","claude_code_version":"9.9.9","new_key":1}"#,
        "\n",
        r#"{"type":"brand_new"}"#,
        "\n",
        r#"{"type":"brand_new"}"#,
        "\n",
        r#"{"type":"result","odd_key":true}"#,
        "\n",
    );
    let report = check(stream.as_bytes());
    let told: Vec<_> = report
        .drift
        .iter()
        .map(|drift| (drift.event.as_str(), drift.unknown_keys.join(","), drift.count, drift.line))
        .collect();
    assert_eq!(
        told,
        [("brand_new", String::new(), 2, 2), ("result", "odd_key".into(), 1, 4), ("system/init", "new_key".into(), 1, 1)]
    );
    assert!(report.drift.iter().all(|drift| drift.cli_version.as_deref() == Some("9.9.9")));
    assert!(!report.ok);
}

#[test]
fn policies() {
    let tools = fixture("claude-2.1.325/tools.jsonl");
    assert_eq!(violations("", &tools), [""; 0]);
    assert_eq!(
        violations(
            "[calls]\nallow = [\"Bash\", \"Read\", \"Write\"]\n[session]\nmodel = \"claude-opus-*\"\ncli_version = \">=2.1, <3\"",
            &tools
        ),
        [""; 0]
    );
    assert_eq!(violations("[calls]\nforbid = \"Write\"", &tools), ["12 calls.forbid: Write was called"]);
    assert_eq!(violations("[tools]\nforbid = \"WebFetch\"", &tools), ["1 tools.forbid: WebFetch is offered"]);
    assert_eq!(violations("[tools]\nrequire = [\"Glob\"]", &tools), ["1 tools.require: Glob is not offered"]);
    assert_eq!(violations("[mcp]\nconnected = [\"github\"]", &tools), ["1 mcp.connected: github is not there"]);
    assert_eq!(
        violations(
            "[session]\nmodel = [\"sonnet\"]\ncli_version = \"<2\"\npermission_mode = \"plan\"\nkey_source = \"none\"",
            &tools
        ),
        [
            "1 session.model: it is claude-opus-5-5, not sonnet",
            "1 session.permission_mode: it is bypassPermissions, not plan",
            "1 session.key_source: it is ANTHROPIC_API_KEY, not none",
            "1 session.cli_version: it is 2.1.325, not <2",
        ]
    );
    assert_eq!(
        violations("[limits]\ncost_usd = 0.001\nturns = 4\nseconds = 0.1\ncalls = 3", &tools),
        [
            "12 limits.calls: call number 4, 3 allowed",
            "15 limits.cost_usd: $0.0070 so far, $0.0010 allowed",
            "15 limits.turns: 5 so far, 4 allowed",
            "15 limits.seconds: 250 ms so far, 100 ms allowed",
        ]
    );
    assert_eq!(violations("[limits]\ndenials = 1", &fixture("claude-2.1.325/tools-denied.jsonl")).len(), 1);
    assert_eq!(violations("[session]\nmodel = \"x\"", b"{\"type\":\"result\",\"subtype\":\"success\"}\n").len(), 1);
    let blind = violations("[limits]\ncost_usd = 1\nturns = 1\nseconds = 1", &fixture("claude-2.1.325/sigterm.jsonl"));
    assert_eq!(blind.len(), 3, "what cannot be seen is not kept: {blind:?}");
    let sharp = "[session]\nagents = [\"Explore\"]\nskills = []\nplugins = []\n[mcp]\nall_connected = true\nallow = []";
    assert!(violations(sharp, &tools).len() > 10);
    for wrong in ["[tool]\nallow = 1", "[limits]\ncost = 1", "[session]\ncli_version = \"new\"", "[limits]\nturns = -1"] {
        assert!(toml::from_str::<Policy>(wrong).is_err(), "{wrong}");
    }
}
