//! Reports, steps, verdicts and ledgers are values: what is written reads back as the same, and what another version wrote can
//! be read.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tapline_protocol::InputFormat;
use tapline_session::render::{RenderAs, Status, TerminalOptions, Times};
use tapline_session::{
    Advice, Basis, Category, Collector, Ending, ExitClass, Ledger, ModelTotals, Outcome, Report, Run, Step, Tokens, Verdict,
    Warning, What,
};
use tapline_testkit::{fixture, fixtures, root};

use crate::read_stream::{PLAIN, ReadStream, show, tell, tell_plainly};

/// Writes a value, reads it back, and writes it again.
fn round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(&read, value, "{text}");
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

/// Everything that was made of a stream reads back as it was.
pub(crate) fn reads_back(told: &ReadStream) {
    round_trip(&told.report);
    round_trip(&told.report.verdict);
    round_trip(&told.report.ledger);
    told.steps.iter().flatten().for_each(round_trip);
}

/// Steps that were read back are shown and collected as those that were written.
fn looks_the_same(told: &ReadStream, ending: &Ending) {
    let again = |step: &Step| serde_json::from_str(&serde_json::to_string(step).unwrap()).unwrap();
    let steps: Vec<Vec<Step>> = told.steps.iter().map(|steps| steps.iter().map(again).collect()).collect();
    let (mut collector, mut status, mut status_again) = (Collector::default(), Status::default(), Status::default());
    for (step, again) in told.steps.iter().flatten().zip(steps.iter().flatten()) {
        collector.accept(again);
        status.accept(step, Duration::ZERO);
        status_again.accept(again, Duration::ZERO);
        assert_eq!(status.line(Duration::ZERO), status_again.line(Duration::ZERO));
    }
    let report = collector.report(told.summary.clone(), told.report.format, Run::default(), ending);
    assert_eq!(report, told.report);
    let read = ReadStream { records: Vec::new(), steps, summary: told.summary.clone(), report };
    let times = TerminalOptions { times: Times::SinceFirst, thinking: true, ..PLAIN };
    for format in [
        RenderAs::Terminal(times),
        RenderAs::Lines(times),
        RenderAs::Markdown,
        RenderAs::Html,
        RenderAs::Transcript,
        RenderAs::Steps,
    ] {
        assert_eq!(show(&read, format), show(told, format));
    }
}

fn streams() -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let group = entry.unwrap().path();
        if group.is_dir() && !group.ends_with("cases") {
            paths.extend(std::fs::read_dir(group).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file()));
        }
    }
    assert!(paths.len() > 20, "{paths:?}");
    let mut streams: Vec<_> = paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    let orphan = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"late"}]}}"#;
    streams.push(("a result without a call".into(), orphan.into()));
    streams
}

#[test]
fn reports_and_steps_of_every_fixture_read_back_as_they_were_written() {
    let failed = Ending { exit_code: Some(1), stderr: Some("no\u{1b}[0m".to_owned()), ..Ending::default() };
    let stopped = Some(tapline_protocol::StopReason::Timeout);
    let killed = Ending { signal: Some("SIGKILL".to_owned()), stopped, ..Ending::default() };
    let mut kinds = BTreeSet::new();
    for (path, bytes) in streams() {
        for ending in [&Ending::default(), &failed, &killed] {
            let told = tell(&bytes, 1 << 16, InputFormat::Auto, None, ending);
            reads_back(&told);
            looks_the_same(&told, ending);
            let written: Report = serde_json::from_str(&told.report.to_json()).unwrap();
            assert_eq!(written.to_json(), told.report.to_json(), "{}", path.display());
            for step in told.steps.iter().flatten() {
                let Value::String(kind) = serde_json::to_value(step).unwrap()["step"].take() else { panic!("{step:?}") };
                kinds.insert(kind);
            }
        }
    }
    // No kind of step is left out, as docs/STEPS.md lists them.
    let page = std::fs::read_to_string(root().join("docs/STEPS.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let listed = rows.flat_map(|names| names.split("`, `")).map(|name| name.trim_end_matches('`').to_owned());
    let listed: BTreeSet<_> = listed.filter(|name| name != "end").collect();
    assert_eq!(kinds, listed);
}

#[test]
fn values_can_be_sent_cloned_compared_written_and_read() {
    fn is_value<T: Clone + PartialEq + Debug + Send + Sync + Serialize + DeserializeOwned + 'static>() {}
    is_value::<Report>();
    is_value::<Step>();
    is_value::<Verdict>();
    is_value::<Ledger>();
}

#[test]
fn the_agents_own_json_reads_back_to_the_byte() {
    let stream = br#"{"type":"thread.started","thread_id":"t"}
{"type":"item.completed","item":{"id":"i","type":"web_search","ok":"mine","phases":7,"todo_done":3,"n":1.50,"big":123456789012345678901234567890,"half":"\ud83d","deep":{"b":1,"a":[1e400, null]}}}
{"type":"item.completed","item":{"id":"p","type":"todo_list","items":[{"text":"a","completed":true}],"todo_done":"mine"}}
{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":"4","output_tokens":2.0}}
"#;
    let told = tell_plainly(stream);
    reads_back(&told);
    let items = &told.report.codex.as_ref().unwrap().items;
    assert_eq!((items[0].fields["ok"].as_str(), items[0].todo_done, items[1].todo_done), ("\"mine\"", None, Some(1)));
    let text = serde_json::to_string(&told.report).unwrap();
    let read: Report = serde_json::from_reader(text.as_bytes()).unwrap();
    assert_eq!(read, told.report, "from a reader too");
    assert!(text.contains(r#""deep":{"b":1,"a":[1e400, null]}"#) && text.contains("123456789012345678901234567890"));
}

/// Calls `each` with the value without one of its keys, for every key at every depth.
fn without_each_key(whole: &Value, path: &str, each: &mut dyn FnMut(Value, &str)) {
    let at = whole.pointer(path).unwrap();
    let keys: Vec<String> = match at {
        Value::Object(object) => object.keys().cloned().collect(),
        Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
        _ => return,
    };
    for key in keys {
        let below = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        let mut without = whole.clone();
        if let Value::Object(object) = without.pointer_mut(path).unwrap() {
            object.remove(&key);
            each(without, &below);
        }
        without_each_key(whole, &below, each);
    }
}

#[test]
fn a_report_of_another_version_can_be_read() {
    for name in
        ["claude-2.1.325/subagent.jsonl", "codex-0.166.0/tools.jsonl", "claude-2.1.325/hooks.jsonl", "events/control.jsonl"]
    {
        let told = tell_plainly(&std::fs::read(fixture(name)).unwrap());
        let report = serde_json::to_value(&told.report).unwrap();
        without_each_key(&report, "", &mut |without, path| {
            let read = serde_json::from_value::<Report>(without);
            assert!(read.is_ok(), "{name} without {path}: {read:?}");
        });
        // On its way the agent's own JSON was sorted by key.
        let known: Report = serde_json::from_value(report.clone()).unwrap();
        let mut later = report;
        for place in [
            "",
            "/run",
            "/session",
            "/verdict",
            "/verdict/retry",
            "/verdict/exit",
            "/tools",
            "/tools/calls/0",
            "/tools/calls/0/result",
            "/turns/0",
            "/ledger",
            "/ledger/tokens",
            "/tasks/0",
            "/hooks/0",
            "/partial",
            "/codex",
            "/codex/turns",
            "/stream",
            "/stream/lines",
        ] {
            if let Some(Value::Object(object)) = later.pointer_mut(place) {
                object.insert("added_later".to_owned(), json!({"deep": [1, null]}));
            }
        }
        assert_eq!(serde_json::from_value::<Report>(later).unwrap(), known, "{name}");
    }
    assert_eq!(serde_json::from_str::<Report>("{}").unwrap(), Report::default());
    assert!(serde_json::from_str::<Report>("7").is_err());
}

#[test]
fn a_word_of_another_version_is_never_read_as_a_success() {
    let later = r#"{"agent":"someday","format":"someday","verdict":{"outcome":"someday","category":"someday","retry":{"advice":"someday"},
        "exit":{"class":"someday"},"warnings":[{"code":"someday"}]},"ledger":{"basis":"someday"},"tools":{"calls":[{"status":"someday"}]}}"#;
    let report: Report = serde_json::from_str(later).unwrap();
    assert_eq!((report.agent, report.format.word(), report.ledger.basis), (None, "unknown", Basis::None));
    let verdict = report.verdict;
    assert_eq!(
        (verdict.outcome, verdict.category, verdict.retry.advice),
        (Outcome::Incomplete, Some(Category::Other), Advice::No)
    );
    assert_eq!((verdict.exit.class, verdict.warnings[0].code.as_ref()), (ExitClass::Unknown, "someday"));
    let unknown = "someday".parse::<Outcome>().unwrap_err();
    assert_eq!(unknown.to_string(), "`someday` is not one of success, failure, interrupted, incomplete");
}

#[test]
fn a_step_of_another_version_can_be_read() {
    let step: Step = serde_json::from_str(r#"{"line":7,"depth":1,"step":"later","text":{"deep":1}}"#).unwrap();
    assert!(step.line == 7 && matches!(&step.what, What::Quiet { kind, detail: None } if kind == "later"), "{step:?}");
    let bare: Step = serde_json::from_str(r#"{"step":"answer"}"#).unwrap();
    assert!(matches!(&bare.what, What::Answer(answer) if answer.status.word() == "pending"), "{bare:?}");
    assert!(serde_json::from_str::<Step>(r#"{"line":7}"#).is_err(), "what has no kind is no step");
}

#[test]
fn times_read_back() {
    for (text, time) in [
        (
            r#"{"line":1,"arrived_ms":1700000000000,"depth":0,"step":"answer","id":"a","duration_ms":1500}"#,
            r#""duration_ms":1500"#,
        ),
        (
            r#"{"line":2,"arrived_ms":1700000000000,"depth":0,"step":"turn","index":0,"elapsed_ms":2500}"#,
            r#""elapsed_ms":2500"#,
        ),
    ] {
        let step: Step = serde_json::from_str(text).unwrap();
        let written = serde_json::to_string(&step).unwrap();
        assert!(written.contains(time) && written.contains(r#""arrived_ms":1700000000000"#), "{written}");
        assert_eq!(serde_json::from_str::<Step>(&written).unwrap(), step);
    }
}

#[test]
fn a_ledger_that_reports_nothing_is_not_one_of_zero_tokens() {
    let told = tell_plainly(b"{\"type\":\"nobody\"}\n");
    assert!(told.report.ledger.unreported);
    reads_back(&told);
    let zero: Ledger = serde_json::from_str(r#"{"tokens":{"input":0}}"#).unwrap();
    assert!(!zero.unreported && zero == Ledger::default());
}

fn dollars() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO
}

fn tokens() -> impl Strategy<Value = Tokens> {
    any::<[u32; 6]>().prop_map(|counts| {
        let [input, output, cache_read, short, long, reasoning] = counts.map(u64::from);
        Tokens { input, output, cache_read, cache_write_5m: short, cache_write_1h: long, reasoning }
    })
}

prop_compose! {
    fn totals()(tokens in tokens(), cost_usd in proptest::option::of(dollars())) -> ModelTotals {
        ModelTotals { tokens, cost_usd }
    }
}

prop_compose! {
    fn ledger()(
        cost_usd in proptest::option::of(dollars()),
        tokens in proptest::option::of(tokens()),
        web_searches in any::<u64>(),
        exact in any::<bool>(),
        by_model in proptest::collection::btree_map(any::<String>(), totals(), 0..3),
        basis in proptest::sample::select(vec![Basis::None, Basis::Messages, Basis::Deltas, Basis::Results]),
    ) -> Ledger {
        let mut ledger = Ledger::default();
        (ledger.cost_usd, ledger.web_searches, ledger.exact, ledger.by_model, ledger.basis) = (cost_usd, web_searches, exact, by_model, basis);
        ledger.unreported = tokens.is_none();
        ledger.tokens = tokens.unwrap_or_default();
        ledger
    }
}

/// As a stream makes it: whole cents, so that the order of adding does not matter, and nothing exact where nothing is counted.
fn plausible(mut ledger: Ledger) -> Ledger {
    let cents = |cost: f64| (cost.abs() % 1_000.0 * 100.0).round() / 100.0;
    ledger.cost_usd = ledger.cost_usd.map(cents);
    for totals in ledger.by_model.values_mut() {
        totals.cost_usd = totals.cost_usd.map(cents);
    }
    if ledger.unreported {
        ledger.basis = Basis::None;
    } else if ledger.basis == Basis::None {
        ledger.basis = Basis::Results;
    }
    ledger.exact &= !ledger.unreported;
    ledger
}

prop_compose! {
    fn verdict()(
        outcome in proptest::sample::select(vec!["success", "failure", "interrupted", "incomplete"]),
        category in proptest::sample::select(vec!["", "rate_limit", "model_not_found", "no_result", "background_task", "other"]),
        advice in proptest::sample::select(vec!["no", "now", "later"]),
        class in proptest::sample::select(vec!["success", "error", "input-error", "interrupted", "other", "unknown"]),
        (error, at, signal) in any::<(Option<String>, Option<String>, Option<String>)>(),
        (clean, code) in any::<(bool, Option<i32>)>(),
        warnings in proptest::collection::vec(any::<(String, String, Option<u64>)>(), 0..4),
    ) -> Verdict {
        let mut verdict = Verdict::default();
        (verdict.outcome, verdict.category, verdict.error, verdict.clean) = (outcome.parse().unwrap(), category.parse().ok(), error, clean);
        (verdict.retry.advice, verdict.retry.at) = (advice.parse().unwrap(), at);
        (verdict.exit.code, verdict.exit.signal, verdict.exit.class) = (code, signal, class.parse().unwrap());
        verdict.warnings = warnings.into_iter().map(|(code, message, line)| {
            let mut warning = Warning::new(code, message);
            warning.line = line;
            warning
        }).collect();
        verdict
    }
}

proptest! {
    #[test]
    fn any_ledger_reads_back(ledger in ledger()) {
        round_trip(&ledger);
    }

    #[test]
    fn any_sum_of_ledgers_reads_back(mut one in ledger(), other in ledger()) {
        one += &other;
        round_trip(&one);
    }

    #[test]
    fn ledgers_add_up_in_any_grouping_and_nothing_adds_nothing(ledgers in [ledger(), ledger(), ledger()]) {
        let [a, b, c] = ledgers.map(plausible);
        let sum = |one: &Ledger, other: &Ledger| {
            let mut sum = one.clone();
            sum += other;
            sum
        };
        prop_assert_eq!(sum(&sum(&a, &b), &c), sum(&a, &sum(&b, &c)));
        prop_assert_eq!(&sum(&a, &Ledger::default()), &a);
        prop_assert_eq!(&sum(&Ledger::default(), &a), &a);
        prop_assert_eq!(sum(&a, &b).unreported, a.unreported && b.unreported);
        prop_assert!(a.exact && b.exact || !sum(&a, &b).exact);
    }

    #[test]
    fn any_verdict_reads_back(verdict in verdict()) {
        round_trip(&verdict);
    }

    #[test]
    fn a_report_with_any_verdict_and_ledger_reads_back(verdict in verdict(), ledger in ledger(), text in any::<String>()) {
        let mut report = Report::default();
        (report.verdict, report.ledger, report.answer, report.thinking) = (verdict, ledger, Some(text.clone()), vec![text]);
        round_trip(&report);
    }
}
