//! Cards: a call and its result are one card, a text grows in its card, and what a page shows of a call.

use serde_json::{Value, json};
use tapline_session::What;
use tapline_session::render::html::Cards;
use tapline_session::step::CallStatus;
use tapline_testkit::fixture;

use crate::read_stream::{ReadStream, tell_plainly};

fn cards(told: &ReadStream, partial: bool) -> (Cards, Vec<Vec<usize>>) {
    let mut cards = Cards::default();
    let steps = told.steps.iter().flatten().filter(|step| partial || !matches!(step.what, What::Partial(_)));
    let changed = steps.map(|step| cards.accept(step)).collect();
    (cards, changed)
}

fn call(name: &str, input: &Value) -> String {
    let block = json!({"type": "tool_use", "id": "t", "name": name, "input": input});
    json!({"type": "assistant", "message": {"id": "m", "content": [block]}}).to_string() + "\n"
}

fn answer(text: &str, is_error: bool) -> String {
    let block = json!({"type": "tool_result", "tool_use_id": "t", "content": text, "is_error": is_error});
    json!({"type": "user", "message": {"content": [block]}}).to_string() + "\n"
}

fn html(stream: &str) -> String {
    let (mut cards, _) = cards(&tell_plainly(stream.as_bytes()), false);
    cards.close();
    cards.iter().map(tapline_session::render::html::Card::html).collect()
}

#[test]
fn a_result_changes_the_card_of_its_call() {
    let (mut cards, changed) =
        cards(&tell_plainly((call("Bash", &json!({"command": "ls"})) + &answer("a.txt", false)).as_bytes()), false);
    assert_eq!(changed.concat(), [0, 0], "the card is new, then it changes");
    assert_eq!((cards.len(), cards[0].kind(), cards[0].call()), (1, "call", Some(("Bash", CallStatus::Ok))));
    assert!(cards[0].html().contains("<pre class=out>a.txt</pre>"), "{}", cards[0].html());
    assert_eq!(cards.close(), Vec::<usize>::new());
}

#[test]
fn a_call_runs_until_nothing_can_follow() {
    let (mut cards, _) = cards(&tell_plainly(call("Bash", &json!({"command": "ls"})).as_bytes()), false);
    assert!(cards[0].html().contains("running <code>ls</code>"), "{}", cards[0].html());
    assert_eq!((cards.close(), cards.close()), (vec![0], vec![]));
    assert!(cards[0].html().contains("unanswered <code>ls</code>"), "{}", cards[0].html());
}

#[test]
fn a_text_grows_in_its_card_and_ends_as_it_would_have_without_its_parts() {
    for name in ["claude-2.1.325/tools-partial.jsonl", "claude-2.0.76/tools-partial.jsonl"] {
        let told = tell_plainly(&std::fs::read(fixture(name)).unwrap());
        let ((grown, changed), (whole, _)) = (cards(&told, true), cards(&told, false));
        let shown = |cards: &Cards| cards.iter().map(|card| (card.kind(), card.html())).collect::<Vec<_>>();
        assert_eq!(shown(&grown), shown(&whole), "{name}");
        let text = grown.iter().find(|card| card.kind() == "text").unwrap().n;
        let times = changed.iter().flatten().filter(|n| **n == text).count();
        assert!(times > 1, "{name}: the text came in {times} parts");
    }
}

#[test]
fn an_edit_is_a_diff() {
    let edit = json!({"file_path": "a.rs", "old_string": "let a = 1;\nsame", "new_string": "let a = <2>;\nsame"});
    let html = html(&(call("Edit", &edit) + &answer("The file was updated.", false)));
    assert!(html.contains("<span class=counts>+1 −1</span>") && html.contains("<details class=\"tool good\" open>"), "{html}");
    assert!(html.contains("<span class=del>- let a = 1;\n</span><span class=add>+ let a = &lt;2&gt;;\n</span>"), "{html}");
    assert!(!html.contains("was updated"), "{html}");
}

#[test]
fn a_failed_call_is_open_and_a_plan_is_a_list() {
    let failed = html(&(call("Bash", &json!({"command": "a\nb"})) + &answer("Exit code 137\nno", true)));
    assert!(failed.contains("<details class=\"tool bad\" open>") && failed.contains("killed, SIGKILL"), "{failed}");
    let plan = json!({"todos": [{"content": "<one>", "status": "completed"}, {"content": "two", "status": "pending"}]});
    let plan = html(&call("TodoWrite", &plan));
    assert!(plan.contains("<li><span class=done>☑</span> &lt;one&gt;</li>\n<li><span class=todo>☐</span> two</li>"), "{plan}");
}

#[test]
fn very_long_output_is_cut_and_says_so() {
    let html = html(&(call("Bash", &json!({"command": "x"})) + &answer(&"y".repeat(300_000), false)));
    assert!(html.len() < 110_000 && html.contains("… 200000 more bytes"), "{} bytes", html.len());
}

#[test]
fn cards_that_were_released_are_forgotten_after_a_while() {
    let said = |n: usize| {
        let text = json!({"type": "text", "text": format!("text {n}")});
        json!({"type": "assistant", "uuid": format!("u{n}"), "message": {"id": format!("m{n}"), "content": [text]}}).to_string()
            + "\n"
    };
    let stream: String =
        (0..20_000).map(said).collect::<String>() + &call("Bash", &json!({"command": "ls"})) + &answer("a.txt", false);
    let told = tell_plainly(stream.as_bytes());
    let mut cards = Cards::default();
    let mut most = 0;
    for step in told.steps.iter().flatten() {
        for n in cards.accept(step) {
            assert!(!cards[n].html().is_empty(), "{n}");
            cards.release(n);
        }
        most = most.max(cards.iter().count());
    }
    assert!(
        (1_024..=1_200).contains(&most),
        "{most} cards at once: texts that may be retracted, and those that are forgotten next"
    );
    assert_eq!((cards.len(), cards.is_empty(), cards.get(0).is_none()), (20_001, false, true));
    // Of the last texts, each can be withdrawn.
    let instead = json!({"type": "assistant", "uuid": "u", "supersedes": ["u19000", "u5", "u19999"], "message": {"id": "m", "content": []}});
    let instead = tell_plainly(format!("{instead}\n").as_bytes());
    let changed: Vec<usize> = instead.steps.iter().flatten().flat_map(|step| cards.accept(step)).collect();
    assert_eq!(changed, [19_000, 19_999]);
    assert!(changed.iter().all(|n| cards[*n].html().contains("withdrawn")));
    // The same answer again, and what comes late, changes nothing that was shown.
    let again = tell_plainly((call("Bash", &json!({"command": "ls"})) + &answer("a.txt", false)).as_bytes());
    let again = again.steps.iter().flatten().find(|step| matches!(step.what, What::Answer(_))).unwrap();
    assert_eq!(cards.accept(again), Vec::<usize>::new());
}

#[test]
fn a_call_that_waits_keeps_no_other_card_in_memory() {
    let waits = json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "tool_use", "id": "waits", "name": "Bash", "input": {"command": "make all"}}]}});
    let round = |n: usize| {
        let call = json!({"type": "tool_use", "id": format!("t{n}"), "name": "Bash", "input": {"command": "ls"}});
        let result = json!({"type": "tool_result", "tool_use_id": format!("t{n}"), "content": "a.txt"});
        let call = json!({"type": "assistant", "message": {"id": format!("m{n}"), "content": [call]}});
        format!("{call}\n{}\n", json!({"type": "user", "message": {"content": [result]}}))
    };
    let end =
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "waits", "content": "built"}]}});
    // A result that comes again, long after its call.
    let again =
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t3", "content": "a.txt"}]}});
    let stream = format!("{waits}\n{}{end}\n{again}\n", (0..20_000).map(round).collect::<String>());
    let told = tell_plainly(stream.as_bytes());
    let (mut cards, mut most, mut last) = (Cards::default(), 0, String::new());
    for step in told.steps.iter().flatten() {
        for n in cards.accept(step) {
            if n == 0 {
                last = cards[n].html();
            }
            cards.release(n);
        }
        most = most.max(cards.kept());
    }
    assert!(most < 1_300, "{most} things at once");
    assert!(last.contains("built"), "the call has its result: {last}");
    assert_eq!(cards.len(), 20_002, "and what came again is told, too");
}
