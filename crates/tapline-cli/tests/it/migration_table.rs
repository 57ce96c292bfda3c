//! The table of docs/MIGRATING.md: every row has a case or a test that shows it, every case holds, and every test is there.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use tapline_testkit::{TempFolder, agent, fixture, root};

use crate::tapline::{Ran, tapline, tapline_on};

/// `fixtures/cases/seeds.json`.
#[derive(Deserialize)]
struct Cases {
    inputs: BTreeMap<String, String>,
    cases: Vec<Case>,
}

/// A command and what it must print.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The rows of the table that it shows.
    rows: Vec<usize>,
    args: Vec<String>,
    /// The name of what is on stdin; or of what an agent writes that is run with these arguments.
    input: Option<String>,
    agent: Option<String>,
    /// The agent does not end by itself.
    #[serde(default)]
    hangs: bool,
    code: i32,
    /// All of stdout; `@input` is the input.
    out: Option<String>,
    /// Parts of stdout, what it must not have, and parts of stderr.
    #[serde(default)]
    has: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
    #[serde(default)]
    err_has: Vec<String>,
}

fn cases() -> Cases {
    serde_json::from_str(&std::fs::read_to_string(fixture("cases/seeds.json")).unwrap()).unwrap()
}

fn ran(case: &Case, inputs: &BTreeMap<String, String>) -> Ran {
    let args: Vec<_> = case.args.iter().map(String::as_str).collect();
    let input = |name: &Option<String>| name.as_ref().map(|name| inputs[name].as_str());
    match (input(&case.agent), input(&case.input)) {
        (Some(lines), _) => {
            let folder = TempFolder::new();
            let stream = folder.file("stream", lines);
            let stay = if case.hangs { "exec sleep 1000" } else { "" };
            let agent = folder.script("agent", &format!("{}{stay}", agent::shows(stream)));
            tapline(&[&["run", "go", "--bin", &agent, "--no-record", "--grace", "300ms"], &args[..]].concat())
        }
        (None, Some(text)) => tapline_on(text.as_bytes(), &args),
        (None, None) => tapline(&args),
    }
}

#[test]
fn every_case_of_the_table_holds() {
    let Cases { inputs, cases } = cases();
    for case in &cases {
        let Ran { code, out, err } = ran(case, &inputs);
        let what = format!("rows {:?}: {:?} on {:?}: {err}", case.rows, case.args, case.input);
        assert_eq!(code, case.code, "{what}");
        match case.out.as_deref() {
            Some("@input") => assert_eq!(out, inputs[case.input.as_ref().unwrap()], "{what}"),
            Some(wanted) => assert_eq!(out, wanted, "{what}"),
            None => {}
        }
        for part in &case.has {
            assert!(out.contains(part), "{what}: no {part} in {out}");
        }
        for part in &case.lacks {
            assert!(!out.contains(part), "{what}: {part} in {out}");
        }
        for part in &case.err_has {
            assert!(err.contains(part), "{what}: no {part}");
        }
        assert!(case.out.is_some() || !case.has.is_empty() || case.code != 0, "{what}: nothing is looked at");
    }
    assert!(cases.len() > 200, "the cases are there");
}

/// A row of the table: its number, whether it has a Python call, and the tests in its last cell.
fn rows() -> Vec<(usize, bool, Vec<String>)> {
    let page = std::fs::read_to_string(root().join("docs/MIGRATING.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<_> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let tests = cells.last()?.split(", ").map(|test| test.trim_matches('`').to_owned()).collect::<Vec<_>>();
        Some((cells[0].parse::<usize>().ok()?, cells.get(3).is_some_and(|python| *python != "–"), tests))
    };
    page.lines().filter_map(row).collect()
}

/// A row whose Python expression is run by a Python test (`python/tests/test_migrating.py`).
const IN_PYTHON: &str = "case (Python)";

/// Where a test is: `runner/run_end`, `cli/run_in_scripts`, `e2e/recipes`, `python/test_run`.
fn file_of(place: &str) -> String {
    match place.split_once('/').unwrap_or_else(|| panic!("{place} names no crate")) {
        ("e2e", file) => format!("crates/tapline-cli/tests/e2e/{file}.rs"),
        ("python", file) => format!("python/tests/{file}.py"),
        (name, file) => format!("crates/tapline-{name}/tests/it/{file}.rs"),
    }
}

#[test]
fn every_row_of_the_table_names_what_shows_it() {
    let shown: BTreeSet<_> = cases().cases.into_iter().flat_map(|case| case.rows).collect();
    let rows = rows();
    let numbers: Vec<_> = rows.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>(), "none is missing");
    assert!(numbers.len() > 300, "all of them are there");
    for (number, has_python, tests) in &rows {
        assert_eq!(tests.iter().any(|test| test == "case"), shown.contains(number), "row {number}: {tests:?}");
        let shows_python = tests.iter().any(|test| test == IN_PYTHON || test.starts_with("python/"));
        assert_eq!(*has_python, shows_python, "row {number}: what shows its Python call? {tests:?}");
        for test in tests.iter().filter(|test| *test != "case" && *test != IN_PYTHON) {
            let (place, name) = test.split_once("::").unwrap_or_else(|| panic!("row {number}: {test}"));
            let path = root().join(file_of(place));
            let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("row {number}: {test}: {error}"));
            let is_there = ["fn", "def"].iter().any(|word| source.contains(&format!("{word} {name}(")));
            assert!(is_there, "row {number}: there is no test {test}");
        }
    }
}
