//! Hostile text takes no more time than other text: four times as much of it takes about four times the time of the processor,
//! where what is quadratic takes sixteen times. What other programs do meanwhile does not count; `bench redact` measures.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tapline_recording::Redactor;

use crate::hostile::HOSTILE;

/// So much text is the measure; what is looked ahead for is mostly less.
const SIZE: usize = 16 << 10;

/// The time that the processor took for this thread.
fn spent(work: impl FnOnce()) -> Duration {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let start = now();
    work();
    now().saturating_sub(start)
}

/// Fails if four times as much of it takes much more than four times the time. Caches and other programs disturb: it is tried again.
fn assert_linear(what: &str, work: impl Fn(usize)) {
    let mut tried = Vec::new();
    while tried.len() < 5 {
        let (one, four) = (spent(|| work(1)), spent(|| work(4)));
        if four < 8 * one + Duration::from_millis(5) {
            return;
        }
        tried.push((one, four));
    }
    panic!("{what:?} is not linear: {tried:?}");
}

#[test]
fn hostile_text_is_looked_at_in_linear_time() {
    let redactor = Redactor::default();
    for piece in HOSTILE {
        assert_linear(piece, |times| {
            let text = piece.repeat(times * SIZE / piece.len());
            let clean = redactor.text(&text);
            assert!(clean.len() <= 3 * text.len(), "{piece}");
            let json = serde_json::json!({ "a": text }).to_string();
            let clean = redactor.line(json.as_bytes());
            assert!(serde_json::from_slice::<serde_json::Value>(&clean).is_ok(), "{piece}: JSON stays JSON");
        });
    }
}

/// As many lines come out of a stream as went in.
fn through(lines: impl Iterator<Item = String>) {
    let mut stream = Redactor::default().stream();
    let (mut given, mut taken) = (0, 0);
    for line in lines {
        given += 1;
        stream.line(line.into_bytes(), |_| taken += 1);
    }
    stream.finish(|_| taken += 1);
    assert_eq!(taken, given);
}

fn delta(index: usize, text: &str) -> String {
    let text = serde_json::json!(text);
    format!(
        "{{\"type\":\"stream_event\",\"event\":{{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{{\"type\":\"text_delta\",\"text\":{text}}}}}}}\n"
    )
}

#[test]
fn hostile_lines_are_looked_at_in_linear_time() {
    for piece in HOSTILE {
        assert_linear(piece, |times| through((0..times * SIZE / 64).map(|_| piece.replace('\n', " ") + "\n")));
    }
}

#[test]
fn hostile_lists_are_looked_at_in_linear_time() {
    let redactor = Redactor::default();
    let keys = "Zm9v1YmFyQm9v".repeat(4);
    for piece in HOSTILE.iter().copied().chain(["", "\n", "--password", "-p", "name", "Secret", "kty", keys.as_str()]) {
        assert_linear(piece, |times| {
            let many = vec![piece; times * SIZE / 8 / (piece.len() + 8)];
            let nested: Vec<_> =
                many.iter().map(|piece| serde_json::json!([piece, { "name": piece, "value": piece }])).collect();
            for json in
                [serde_json::json!(many), serde_json::json!(nested), serde_json::json!([serde_json::json!(many).to_string()])]
            {
                let clean = redactor.line(json.to_string().as_bytes()).into_owned();
                assert!(serde_json::from_slice::<serde_json::Value>(&clean).is_ok(), "{piece}: JSON stays JSON");
            }
        });
    }
}

#[test]
fn ever_new_blocks_are_looked_at_in_linear_time() {
    let whole = "{\"type\":\"user\",\"parent_tool_use_id\":\"a\"}\n";
    assert_linear("new blocks", |times| through((0..1500 * times).map(|index| delta(index, "abc sk-"))));
    assert_linear("new blocks and messages", |times| {
        through((0..1500 * times).flat_map(|index| [delta(index, "abc "), whole.to_owned()]));
    });
}

#[test]
fn hostile_pieces_of_a_block_are_looked_at_in_linear_time() {
    for piece in ["sk-ant-", "PASSWORD=abc", "-----BEGIN PRIVATE KEY-----x: \n", "\\u0073", "password='a''"] {
        assert_linear(piece, |times| through((0..150 * times).map(|_| delta(0, &piece.repeat(32)))));
    }
}
