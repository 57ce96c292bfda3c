//! Costs and counts that cannot be true do not count, and a warning names them.

use crate::read_stream::{ReadStream, tell_plainly};

fn result(rest: &str) -> String {
    format!(
        "{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"ok\",\"num_turns\":1,\"session_id\":\"s\",{rest}}}\n"
    )
}

fn named(told: &ReadStream) -> Vec<&str> {
    let warnings = told.report.verdict.warnings.iter().filter(|warning| warning.code == "implausible-figure");
    warnings.filter_map(|warning| warning.message.split(',').next()).collect()
}

#[test]
fn a_cost_that_cannot_be_true_is_refused_and_named() {
    for (key, figure) in
        [("total_cost_usd", "1e308"), ("total_cost_usd", "-5000"), ("total_cost_usd", "1e999"), ("cost_usd", "100000.01")]
    {
        let good = result("\"total_cost_usd\":0.5,\"usage\":{\"input_tokens\":7,\"output_tokens\":2}");
        let bad = result(&format!("\"{key}\":{figure},\"usage\":{{\"input_tokens\":7,\"output_tokens\":2}}"));
        let told = tell_plainly((good + &bad).as_bytes());
        let report = &told.report;
        assert_eq!((report.ledger.cost_usd, report.ledger.exact), (Some(0.5), false), "{figure}");
        assert_eq!((report.ledger.tokens.input, report.ledger.tokens.output), (14, 4), "{figure}");
        assert_eq!(named(&told), [format!("{key} is {figure}")]);
        assert_eq!(report.verdict.warnings.iter().find_map(|warning| warning.line), Some(2));
        let turns: Vec<_> = report.turns.iter().map(|turn| turn.total_cost_usd.is_some()).collect();
        assert_eq!(turns, [true, false], "{figure}");
        assert!(report.verdict.clean, "{:?}", report.verdict);
    }
}

#[test]
fn what_is_no_json_counts_nothing_either() {
    let told = tell_plainly(result("\"total_cost_usd\":NaN").as_bytes());
    assert_eq!(told.report.ledger.cost_usd, None);
    assert!(
        told.report.verdict.warnings.iter().any(|warning| warning.code == "malformed-line" && warning.message.contains("NaN"))
    );
}

#[test]
fn counts_that_cannot_be_true_are_refused_and_named() {
    for figure in ["1e19", "-5", "18446744073709551615", "1e999", "\"-7\""] {
        let usage = format!("\"usage\":{{\"input_tokens\":{figure},\"output_tokens\":2}}");
        let models = format!("\"modelUsage\":{{\"m\":{{\"inputTokens\":3,\"outputTokens\":{figure},\"costUSD\":-1}}}}");
        let told = tell_plainly(result(&format!("\"total_cost_usd\":0.5,{usage},{models}")).as_bytes());
        let names = [
            format!("usage.input_tokens is {figure}"),
            format!("modelUsage.m.outputTokens is {figure}"),
            "modelUsage.m.costUSD is -1".to_owned(),
        ];
        assert_eq!(named(&told), names);
        let ledger = &told.report.ledger;
        assert_eq!((ledger.cost_usd, ledger.tokens.input, ledger.tokens.output), (Some(0.5), 3, 0), "{figure}");
        assert!(!ledger.exact && ledger.by_model["m"].cost_usd.is_none(), "{figure}");
        assert_eq!(told.report.turns[0].usage.counts.input_tokens.0, 0, "{figure}");

        let message = format!("{{\"role\":\"assistant\",\"id\":\"1\",\"model\":\"m\",\"content\":[],{usage}}}");
        let whole = format!("{{\"type\":\"assistant\",\"session_id\":\"s\",\"message\":{message}}}\n");
        let start = format!("{{\"type\":\"stream_event\",\"event\":{{\"type\":\"message_start\",\"message\":{message}}}}}\n");
        let delta = format!("{{\"type\":\"stream_event\",\"event\":{{\"type\":\"message_delta\",{usage}}}}}\n");
        for (line, at) in [(whole, "message.usage"), (start, "event.message.usage"), (delta, "event.usage")] {
            let told = tell_plainly(line.as_bytes());
            assert_eq!(named(&told), [format!("{at}.input_tokens is {figure}")], "{line}");
            assert_eq!((told.report.ledger.tokens.input, told.report.ledger.exact), (0, false), "{line}");
        }

        let thread = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n{\"type\":\"turn.started\"}\n";
        let told = tell_plainly(format!("{thread}{{\"type\":\"turn.completed\",{usage}}}\n").as_bytes());
        assert_eq!(named(&told), [format!("usage.input_tokens is {figure}")]);
        assert_eq!((told.report.ledger.tokens.input, told.report.ledger.exact), (0, false));
    }
}

#[test]
fn what_can_be_true_counts() {
    let told = tell_plainly(
        result("\"total_cost_usd\":100000,\"usage\":{\"input_tokens\":0,\"output_tokens\":10000000000000000}").as_bytes(),
    );
    assert_eq!(named(&told), [""; 0]);
    assert_eq!((told.report.ledger.cost_usd, told.report.ledger.tokens.output), (Some(100_000.0), 10_000_000_000_000_000));
}
