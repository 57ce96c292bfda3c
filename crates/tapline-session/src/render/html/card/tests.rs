//! What is forgotten, and how much work that is: many cards at once must not be looked at again for each of them.

use super::*;
use crate::step::Question;

/// How many cards come at once.
const MANY: usize = 100_000;

fn step(what: What) -> Step {
    Step { line: 1, at: None, arrived: None, parent: None, depth: 0, turn: 0, session_id: None, what, message: None }
}

fn said(n: usize) -> Step {
    step(What::Text(Said { text: format!("text {n}"), uuid: Some("u".to_owned()), ..Said::default() }))
}

fn called(n: usize) -> Step {
    step(What::Call(Call { id: Some(format!("t{n}")), name: "Bash".to_owned(), ..Call::default() }))
}

/// A part of a text. Its blocks take turns.
fn typed(n: usize) -> Step {
    step(What::Partial(Partial::Delta { index: n as u64 % 2, kind: DeltaKind::Text, text: "x".repeat(100) }))
}

#[test]
fn many_cards_at_once_are_looked_at_a_few_times() {
    for (name, make) in [("texts", said as fn(usize) -> Step), ("calls", called), ("parts", typed)] {
        let mut cards = Cards::default();
        let changed: Vec<usize> = (0..MANY).flat_map(|n| cards.accept(&make(n))).collect();
        assert_eq!((cards.len(), cards.drafts.len() <= DRAFTS), (MANY, true), "{name}");
        for n in changed {
            cards.release(n);
        }
        assert!(cards.looked_at <= 20 * MANY, "{name}: {} cards and texts were looked at for {MANY}", cards.looked_at);
        assert!(cards.kept() < 3 * MOST, "{name}: {} things are kept", cards.kept());
    }
}

#[test]
fn a_text_that_is_never_finished_stays_in_memory_only_while_it_may_be() {
    let mut cards = Cards::default();
    let begins = step(What::Partial(Partial::MessageStart { message_id: None }));
    for n in 0..5_000 {
        cards.accept(&begins);
        for _ in 0..3 {
            assert_eq!(cards.accept(&typed(0)), [n]);
            cards.release(n);
            assert!(cards[n].html().contains("xxx"), "it still grows");
        }
    }
    assert!(cards.kept() < 200, "{} things are kept", cards.kept());
    // One whose last part was not shown yet is shown first.
    cards.accept(&typed(0));
    cards.accept(&begins);
    assert_eq!(cards[4_999].html().matches('x').count(), 400);
    cards.release(4_999);
    assert_eq!(cards[4_999].html(), "");
}

#[test]
fn texts_with_one_uuid_are_forgotten_like_others() {
    let mut cards = Cards::default();
    for n in 0..20_000 {
        cards.accept(&said(n));
        cards.release(n);
    }
    assert!(cards.kept() < 2_500, "{} things are kept", cards.kept());
    let changed = cards.accept(&step(What::Retracted { uuids: vec!["u".to_owned()] }));
    assert!(changed.len() >= RETRACTED && changed.last() == Some(&19_999), "{} texts", changed.len());
    assert!(changed.iter().all(|n| cards[*n].html().contains("withdrawn")));
}

#[test]
fn of_two_calls_that_are_alike_each_has_its_own_answer() {
    let mut cards = Cards::default();
    for n in 0..2 {
        let (request_id, about) = (Some(format!("r{n}")), Some("Bash `make`".to_owned()));
        let (kind, tool_use_id) = ("can_use_tool".to_owned(), Some(format!("t{n}")));
        cards.accept(&step(What::Question(Question { request_id, kind, about, tool_use_id, ..Question::default() })));
    }
    let (id, name, title) = (Some("t0".to_owned()), Some("Bash".to_owned()), Some("`make`".to_owned()));
    assert_eq!(cards.accept(&step(What::Answer(CallAnswer { id, name, title, ..CallAnswer::default() }))), [0]);
}

#[test]
fn a_question_says_how_it_was_decided() {
    let asked = |n: usize| {
        let about = Some(format!("Bash `make {n}`"));
        let (request_id, tool_use_id) = (Some(format!("r{n}")), Some(format!("t{n}")));
        step(What::Question(Question {
            request_id,
            kind: "can_use_tool".to_owned(),
            about,
            tool_use_id,
            ..Question::default()
        }))
    };
    let answered = |n: usize, status| {
        let (name, title) = (Some("Bash".to_owned()), Some(format!("`make {n}`")));
        step(What::Answer(CallAnswer { id: Some(format!("t{n}")), name, title, status, ..CallAnswer::default() }))
    };
    let mut cards = Cards::default();
    for n in 0..5 {
        assert_eq!(cards.accept(&asked(n)), [n]);
        assert!(cards[n].html().contains("?</span> asks for permission: Bash <code>make"), "{}", cards[n].html());
        cards.release(n);
    }
    // Much happens until then.
    for n in 5..10_000 {
        cards.accept(&said(n));
        cards.release(n);
    }
    assert_eq!(cards.note_decision("r0", true), Some(0));
    assert_eq!(cards.note_decision("r0", false), None, "it is decided");
    assert_eq!(cards.note_decision("r1", false), Some(1));
    assert_eq!(cards.accept(&answered(2, CallStatus::Ok)), [2]);
    assert_eq!(cards.accept(&answered(3, CallStatus::Denied)), [3]);
    assert_eq!(cards.accept(&answered(4, CallStatus::Error)), [4], "some agents answer a call that was denied like this");
    let words = ["✓</span> allowed", "✗</span> denied", "✓</span> allowed", "✗</span> denied", "·</span> asked for permission"];
    for (n, word) in words.into_iter().enumerate() {
        assert!(cards[n].html().contains(&format!("{word}: Bash <code>make {n}</code>")), "{}", cards[n].html());
    }
}
