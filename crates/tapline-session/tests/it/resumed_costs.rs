//! Runs that resume a session, as the real programs wrote them: the runs add up to what the session used, and each report
//! has both.

use tapline_protocol::{Agent, Reader};
use tapline_session::{Ending, Fold, Ledger, SessionTotals, Tokens};
use tapline_testkit::fixture;

fn ledger(agent: Agent, stream: &str, resumes: bool, before: Option<SessionTotals>) -> Ledger {
    let mut fold = Fold::for_agent(Some(agent));
    if resumes {
        fold.resumes(before);
    }
    let bytes = std::fs::read(fixture(&format!("transcripts/{stream}.jsonl"))).expect("a fixture");
    for record in Reader::new(bytes.as_slice()) {
        drop(fold.apply(&record.expect("memory can be read")));
    }
    fold.finish(&Ending::default()).ledger
}

fn assert_costs(ledger: &Ledger, run: f64, session: Option<f64>) {
    let close = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() < 1e-9,
        (one, other) => one == other,
    };
    assert!(close(ledger.cost_usd, Some(run)), "{ledger:?}");
    assert!(close(ledger.session.and_then(|session| session.cost_usd), session), "{ledger:?}");
    assert!(ledger.exact, "{ledger:?}");
}

#[test]
fn claude_says_what_the_session_had_used_before() {
    let claude = |stream: &str| ledger(Agent::Claude, &format!("claude-fork/{stream}"), false, None);
    let first = claude("stream");
    assert_costs(&first, 0.137_202_8, None);
    let second = claude("resume");
    assert_costs(&second, 0.078_067_6, Some(0.215_270_4));
    assert_eq!((second.tokens.output, second.session.map(|session| session.tokens.output)), (402, Some(1008)));
    let third = claude("resume-2");
    assert_costs(&third, 0.146_567_6, Some(0.361_838));
    assert_eq!(third.by_model["claude-opus-5-5"].tokens.cache_read, 70_003);
    let sum = [&first, &second, &third].iter().filter_map(|ledger| ledger.cost_usd).sum::<f64>();
    assert_costs(&third, 0.146_567_6, Some(sum));
    assert_costs(&claude("fork"), 0.107_567_6, Some(0.322_838));
    assert_costs(&claude("fork-resume"), 0.117_067_6, Some(0.439_905_6));
}

#[test]
fn codex_is_told_what_the_session_had_used_before() {
    let codex = |stream: &str, before: Option<SessionTotals>| {
        ledger(Agent::Codex, &format!("codex-fork/{stream}"), before.is_some(), before)
    };
    let first = codex("stream", None);
    assert_eq!((first.tokens.output, first.exact, first.session), (606, true, None));
    let second = codex("resume", Some(first.so_far()));
    assert_eq!((second.tokens.output, second.tokens.input, second.exact), (402, 4_001, true));
    let third = codex("resume-2", Some(second.so_far()));
    assert_eq!(
        third.tokens,
        Tokens { input: 6_001, output: 602, cache_read: 60_003, cache_write_5m: 12_004, ..Tokens::default() }
    );
    assert_eq!(third.so_far().tokens, first.tokens + second.tokens + third.tokens);
    assert_eq!(third.so_far(), third.session.expect("it resumed a session"));
}

#[test]
fn a_run_that_resumes_is_not_exact_if_the_earlier_use_is_not_known() {
    let alone = ledger(Agent::Codex, "codex-fork/resume", true, None);
    assert_eq!((alone.tokens.output, alone.exact, alone.session), (1_008, false, None));
    // More than the thread has used now cannot be what it had used before.
    let wrong = SessionTotals { tokens: Tokens { output: 9_999, ..Tokens::default() }, ..SessionTotals::default() };
    let alone = ledger(Agent::Codex, "codex-fork/resume", true, Some(wrong));
    assert_eq!((alone.tokens.output, alone.exact, alone.session), (1_008, false, None));
}

#[test]
fn a_first_total_far_above_the_requests_of_the_stream_is_not_exact() {
    let message = r#"{"type":"assistant","message":{"id":"m","model":"opus","content":[],"usage":{"input_tokens":10,"output_tokens":1}},"session_id":"s"}"#;
    let result = |tokens: u64| {
        format!(
            r#"{{"type":"result","subtype":"success","is_error":false,"result":"x","total_cost_usd":1.0,"session_id":"s",
"usage":{{"input_tokens":10,"output_tokens":5}},"modelUsage":{{"opus":{{"inputTokens":{tokens},"outputTokens":5,"costUSD":1.0}}}}}}"#
        )
        .replace('\n', "")
    };
    let exact = |tokens| {
        let mut fold = Fold::default();
        let stream = format!("{message}\n{}\n", result(tokens));
        Reader::new(stream.as_bytes()).for_each(|record| drop(fold.apply(&record.expect("memory can be read"))));
        fold.ledger().exact
    };
    assert!(exact(10) && exact(20), "a request that the stream does not show");
    assert!(!exact(1_000), "a session that was resumed");
}

#[test]
fn the_totals_of_the_session_are_read_back() {
    let ledger = ledger(Agent::Claude, "claude-fork/resume", false, None);
    let text = serde_json::to_string(&ledger).expect("a ledger is JSON");
    assert_eq!(serde_json::from_str::<Ledger>(&text).expect("its own JSON"), ledger);
}
