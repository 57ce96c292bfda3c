//! What an agent counts nowhere: the requests of a turn that was interrupted, and of a run that was killed. A run costs at
//! least what they cost, never nothing.

use tapline_protocol::Reader;
use tapline_session::{Basis, Fold, Ledger, Tokens};

const MESSAGE: &str = r#"{"type":"assistant","session_id":"s","message":{"id":"ID","model":"opus","content":[],"usage":{"input_tokens":1000,"output_tokens":1}}}"#;

fn result(is_error: bool, tokens: u64, usd: f64) -> String {
    let models = if tokens > 0 {
        format!(r#""opus":{{"inputTokens":{tokens},"outputTokens":7,"costUSD":{usd}}}"#)
    } else {
        String::new()
    };
    let subtype = if is_error { "error_during_execution" } else { "success" };
    let of_turn = if is_error { 0 } else { 1_000 };
    format!(
        r#"{{"type":"result","subtype":"{subtype}","is_error":{is_error},"session_id":"s","total_cost_usd":{usd},"usage":{{"input_tokens":{of_turn},"output_tokens":0}},"modelUsage":{{{models}}},"terminal_reason":"aborted_streaming","uuid":"{tokens}-{is_error}"}}"#
    )
}

#[expect(clippy::cast_precision_loss, reason = "the counts are small")]
fn a_cent_a_thousand(model: &str, tokens: &Tokens, searches: u64) -> Option<f64> {
    (model == "opus").then(|| tokens.total() as f64 * 1e-5 + searches as f64)
}

fn ledger(lines: &[String], priced: bool) -> Ledger {
    let fold = Fold::default();
    let mut fold = if priced { fold.priced_by(a_cent_a_thousand) } else { fold };
    Reader::new(lines.join("\n").as_bytes()).for_each(|record| drop(fold.apply(&record.expect("memory can be read"))));
    fold.ledger()
}

fn message(id: &str) -> String {
    MESSAGE.replace("ID", id)
}

#[test]
fn an_interrupted_run_never_costs_nothing() {
    let lines = [message("m1"), result(true, 0, 0.0)];
    let unpriced = ledger(&lines, false);
    assert_eq!((unpriced.cost_usd, unpriced.tokens.input, unpriced.exact, unpriced.at_least), (None, 1_000, false, true));
    let priced = ledger(&lines, true);
    assert_eq!((priced.cost_usd, priced.at_least, priced.cost().as_deref()), (Some(0.01), true, Some("≥ $0.0100")));
    assert_eq!(priced.by_model["opus"].cost_usd, Some(0.01));
}

#[test]
fn an_interrupted_turn_is_added_to_the_turns_that_are_counted() {
    let lines = [message("m1"), result(false, 1_000, 0.5), message("m2"), message("m2"), result(true, 1_000, 0.5)];
    let ledger = ledger(&lines, true);
    assert_eq!((ledger.cost_usd, ledger.tokens.input, ledger.exact, ledger.at_least), (Some(0.51), 2_000, false, true));
}

#[test]
fn what_the_agent_counts_is_not_added_again() {
    // The turn failed, but its requests are in the totals.
    let failed = [message("m1"), result(true, 1_000, 0.5)];
    let done = [message("m1"), result(false, 1_000, 0.5)];
    for lines in [&failed, &done] {
        let ledger = ledger(lines, true);
        assert_eq!((ledger.cost_usd, ledger.tokens.input, ledger.at_least), (Some(0.5), 1_000, false), "{lines:?}");
    }
    let silent = ledger(&[result(true, 0, 0.0)], true);
    assert_eq!((silent.cost_usd, silent.at_least), (Some(0.0), false), "nothing was asked");
}

#[test]
fn a_run_without_a_result_costs_at_least_what_its_requests_cost() {
    let killed = ledger(&[message("m1"), message("m2")], true);
    assert_eq!((killed.cost_usd, killed.at_least, killed.exact, killed.basis), (Some(0.02), true, false, Basis::Messages));
    assert_eq!(ledger(&[message("m1")], false).cost_usd, None);
}

#[test]
fn web_searches_cost_what_they_cost() {
    let searched =
        message("m1").replace(r#""output_tokens":1"#, r#""output_tokens":1,"server_tool_use":{"web_search_requests":2}"#);
    for lines in [vec![searched.clone()], vec![searched, result(true, 0, 0.0)]] {
        let ledger = ledger(&lines, true);
        assert_eq!((ledger.cost_usd, ledger.web_searches), (Some(2.01), 2));
    }
}

#[test]
fn it_is_read_back() {
    let ledger = ledger(&[message("m1"), result(true, 0, 0.0)], true);
    let text = serde_json::to_string(&ledger).expect("a ledger is JSON");
    assert!(text.contains(r#""at_least":true"#), "{text}");
    assert_eq!(serde_json::from_str::<Ledger>(&text).expect("its own JSON"), ledger);
}
