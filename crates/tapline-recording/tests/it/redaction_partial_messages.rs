//! Lines that add to a block and differ in little are not read as JSON each: nothing may slip through for that.

use tapline_recording::{REDACTED, Redactor, SHAPES};

/// A key as Anthropic makes them.
fn key() -> String {
    ["sk-", "ant-", "api03-", "Zx9_", "qW3e-", "R5tYuI7oP"].concat()
}

const UUID: &str = "123e4567-e89b-12d3-a456-426614174000";
const OTHER: &str = "00000000-0000-4000-8000-00000000beef";

/// A line as the agent writes it; `text` as it stands between the quotes.
fn line(text: &str, parent: &str, uuid: &str) -> String {
    let delta = format!("{{\"type\":\"text_delta\",\"text\":\"{text}\"}}");
    let event = format!("{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{delta}}}");
    format!("{{\"type\":\"stream_event\",\"event\":{event},\"parent_tool_use_id\":{parent},\"uuid\":\"{uuid}\"}}\n")
}

fn redacted(redactor: &Redactor, lines: &[String]) -> String {
    let mut pieces = redactor.pieces();
    let mut out = pieces.push(lines.concat().as_bytes());
    out.extend(pieces.finish());
    String::from_utf8(out).unwrap()
}

/// What comes out behind a line that is like it.
fn behind(redactor: &Redactor, next: &str) -> String {
    let first = line("hello ", "null", UUID);
    let out = redacted(redactor, &[first.clone(), next.to_owned()]);
    out.strip_prefix(&first).expect("the first stays").to_owned()
}

#[test]
fn a_line_like_the_last_hides_nothing() {
    let (redactor, key) = (Redactor::default(), key());
    let fine = [
        line("more", "null", OTHER),
        line("a \\\"b\\\" \\n é", "null", OTHER),
        line("", "null", OTHER),
        line("x", "\"toolu_1\"", OTHER),
        line("x", "null", "no uuid"),
        line("no JSON \\q", "null", OTHER),
        line("nor \u{1}this", "null", OTHER),
    ];
    for line in &fine {
        assert_eq!(behind(&redactor, line), *line);
    }
    // A key in the text, in what stands for the `uuid`, and in what only seems to be text.
    assert_eq!(
        behind(&redactor, &line(&format!("the {key} x"), "null", OTHER)),
        line(&format!("the {REDACTED} x"), "null", OTHER)
    );
    assert_eq!(behind(&redactor, &line("x", "null", &key)), line("x", "null", REDACTED));
    let within = "x\"}},\"password\":\"hunter2\",\"e\":{\"d\":{\"t\":\"";
    assert_eq!(behind(&redactor, &line(within, "null", OTHER)), line(&within.replace("hunter2", REDACTED), "null", OTHER));
    let escaped: String = key.bytes().map(|byte| format!("\\u{byte:04x}")).collect::<Vec<_>>().concat();
    assert_eq!(behind(&redactor, &line(&escaped, "null", OTHER)), line(REDACTED, "null", OTHER));
}

#[test]
fn a_users_own_value_is_hidden_also_in_a_uuid() {
    let redactor = Redactor::with(&[], [OTHER.to_owned()]).unwrap();
    assert_eq!(behind(&redactor, &line("x", "null", OTHER)), line("x", "null", REDACTED));
}

#[test]
fn secrets_that_are_told_by_their_middle_are_not_half_out_before() {
    let redactor = Redactor::default();
    for shape in SHAPES {
        for (key, start) in shape.starts.iter().map(|start| (shape.example(start, false), start)) {
            for size in 1..6 {
                let said = format!("it is {key} there");
                let letters: Vec<char> = said.chars().collect();
                let lines: Vec<_> =
                    letters.chunks(size).map(|piece| line(&piece.iter().collect::<String>(), "null", UUID)).collect();
                let out = redacted(&redactor, &lines);
                let texts = out.lines().map(|line| line.split("\"text\":\"").nth(1).unwrap().split('"').next().unwrap());
                let out: String = texts.collect();
                let left = out.strip_prefix("it is ").and_then(|out| out.strip_suffix(&format!("{REDACTED} there")));
                // Of one that shows only in its middle what it is, a few letters are out by then.
                let most = if key.starts_with(start) { 0 } else { 12 };
                assert!(left.is_some_and(|left| left.len() <= most), "{}, {size}: {out}", shape.name);
            }
        }
    }
}

#[test]
fn blocks_of_several_agents_are_told_apart_by_lines_that_are_nearly_alike() {
    let key = key();
    let (one, two) = key.split_at(9);
    let ours = |text: &str| line(text, "null", UUID);
    let theirs = |text: &str| line(text, "\"toolu_1\"", OTHER);
    let lines = [ours("a "), ours(one), theirs("b "), theirs(one), ours(two), theirs(two), ours(" c"), theirs(" d")];
    let out = redacted(&Redactor::default(), &lines);
    assert!(!out.contains(two), "{out}");
    assert_eq!(out.matches(REDACTED).count(), 2);
    assert_eq!(out.lines().count(), lines.len());
}
