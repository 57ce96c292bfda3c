//! `tapline archive prices`: the table for people and as JSON, and a user's own prices.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use tapline_testkit::{TempFolder, root};

use crate::tapline::{command, tapline};

#[test]
fn the_table_of_prices_is_aligned_and_dated() {
    let ran = tapline(&["archive", "prices"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let mut lines = ran.out.lines();
    assert_eq!(lines.next(), Some("Prices of 2026-11-16 in US dollars for a million tokens"));
    let title = lines.nth(1).unwrap();
    assert!(title.starts_with("model ") && title.trim_end().ends_with("write 1h"), "{title}");
    let row = |name: &str| {
        let found = ran.out.lines().position(|line| line.split("  ").next() == Some(name)).unwrap();
        let line = ran.out.lines().nth(found).unwrap();
        let cells: Vec<_> = line[name.len()..].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        (found, cells.join(" | "))
    };
    assert_eq!(row("claude-opus-5-5").1, "4 | 20 | 0.2 | 5 | 8 | fast ×2");
    assert_eq!(row("gemini-2.5-flash").1, "0.3 | 2.5 | 0.03 | 0.3 | 0.3 | fast ×1.8, flex ×0.5, search $0.035");
    let (haiku, cells) = row("claude-haiku-5-5");
    assert_eq!(cells, "0.1 | 0.5 | 0.01 | 0.125 | 0.2");
    let long: Vec<_> = ran.out.lines().nth(haiku + 1).unwrap().split_whitespace().collect();
    assert_eq!(long, ["above", "100,000", "0.5", "2.5", "0.05", "0.625", "1"]);
    // The points of a column are below each other.
    let points = |name: &str| ran.out.lines().nth(row(name).0).unwrap().find('.').unwrap();
    assert_eq!(points("claude-haiku-5-5"), points("gpt-5"));
    assert!(ran.out.lines().all(|line| line == line.trim_end()), "{}", ran.out);
    assert!(ran.out.contains("\n  claude-opus-4-0 is claude-opus-4\n"));
}

#[test]
fn the_table_of_prices_is_one_json_object() {
    let ran = tapline(&["archive", "prices", "--json"]);
    let table: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, table["dated"].as_str()), (0, Some("2026-11-16")));
    let long = json!([{ "above": 100_000, "input": 0.5, "output": 2.5, "cache_read": 0.05, "cache_write_5m": 0.625, "cache_write_1h": 1.0 }]);
    let haiku = json!({
        "input": 0.1, "output": 0.5, "cache_read": 0.01, "cache_write_5m": 0.125, "cache_write_1h": 0.2, "long": long,
        "fast": 1.0, "ultrafast": 1.0, "flex": 1.0, "web_search": 0.01, "seen": "2026-11-16",
    });
    assert_eq!(table["models"]["claude-haiku-5-5"], haiku);
    assert_eq!(table["names"]["claude-opus-4-0"], "claude-opus-4");
}

#[test]
fn a_users_prices_are_part_of_the_table_and_marked() {
    let folder = TempFolder::new();
    let mine = folder.path("mine.toml");
    std::fs::write(
        &mine,
        "[models]\nclaude-opus-5-5 = { input = 3.2, output = 16, seen = 2026-12-24 }\n\"e\\u001b[31mvil\" = { input = 1, output = 2 }\n",
    )
    .unwrap();
    let ran = tapline(&["archive", "prices", "--prices", &mine]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let line = ran.out.lines().find(|line| line.starts_with("claude-opus-5-5")).unwrap();
    assert!(line.contains("3.2") && line.ends_with("seen 2026-12-24, from your file"), "{line}");
    assert!(!ran.out.contains('\u{1b}'), "{}", ran.out);
    let table: Value = serde_json::from_str(&tapline(&["archive", "prices", "--prices", &mine, "--json"]).out).unwrap();
    assert_eq!(table["models"]["claude-opus-5-5"]["input"], 3.2);
    assert_eq!(table["models"]["claude-opus-5"]["input"], 5.0);
}

#[test]
fn the_example_of_the_page_on_prices_can_be_read() {
    let page = std::fs::read_to_string(root().join("docs/PRICES.md")).unwrap();
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = TempFolder::new();
    let mine = folder.path("mine.toml");
    std::fs::write(&mine, example).unwrap();
    let ran = tapline(&["archive", "prices", "--prices", &mine, "--json"]);
    let table: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(table["models"]["our-model"]["long"][0]["above"], 200_000);
    assert_eq!(table["names"]["gateway-best"], "claude-opus-5-5");
}

#[test]
fn a_wrong_or_missing_file_of_prices_is_told_with_its_line() {
    let folder = TempFolder::new();
    let mine = folder.path("mine.toml");
    std::fs::write(&mine, "[models]\nx = { input = 1 }\n").unwrap();
    let ran = tapline(&["archive", "prices", "--prices", &mine]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("mine.toml") && ran.err.contains("line 2: `x` has no `output`"), "{}", ran.err);
    assert!(ran.err.contains("tapline help prices"), "{}", ran.err);
    let ran = tapline(&["archive", "prices", "--prices", &folder.path("none.toml")]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("cannot read the prices"), "{}", ran.err);
    assert_eq!(tapline(&["archive"]).code, 2);
}

#[test]
fn prices_can_come_from_a_pipe() {
    let mut command = command(&["archive", "prices", "--json", "--prices", "/dev/stdin"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"[models]\nmine = { input = 1, output = 2 }\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(table["models"]["mine"]["output"], 2.0);
}
