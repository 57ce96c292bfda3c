//! What changes from one text to the other: the places that differ, and how a terminal shows them. Proposals, views and pages
//! share it.

use std::fmt::Write as _;

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};
use tapline_protocol::{Json, Value};

use super::Style;
use crate::text::{count_of, visible, width, wrap};

/// How many lines around a change are shown.
const AROUND: usize = 2;
/// Texts that differ in more lines are not compared line by line.
const COMPARED: usize = 2_000;

/// Returns the texts that a call replaces, and what it puts in their places; `None` if the call is not an edit.
pub(super) fn edits(tool: &str, input: &Json) -> Option<Vec<(String, String)>> {
    let pair = |value: Value<'_>| {
        let text = |key| value.get(key).and_then(Value::as_str).map(std::borrow::Cow::into_owned);
        text("old_string").zip(text("new_string"))
    };
    let read = |value: Value<'_>| match tool {
        "Edit" => pair(value).map(|edit| vec![edit]),
        "MultiEdit" => value.get("edits")?.items()?.map(pair).collect(),
        _ => None,
    };
    input.with(read).flatten().filter(|edits| !edits.is_empty())
}

/// A line of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'t> {
    /// A line of both texts.
    Same(&'t str),
    /// A line of the old text alone.
    Gone(&'t str),
    /// A line of the new text alone.
    Come(&'t str),
    /// Lines of both texts that are not shown.
    Between,
}

/// Returns the lines that differ, with a few lines around each place.
pub(super) fn lines_of<'t>(old: &'t str, new: &'t str) -> Vec<Line<'t>> {
    let split = |text: &'t str| -> Vec<&'t str> { text.lines().collect() };
    let (old, new) = (split(old), split(new));
    let mut lines = Vec::new();
    for (at, place) in changes(&old, &new).iter().enumerate() {
        lines.extend((at > 0).then_some(Line::Between));
        for op in place {
            if op.tag() == DiffTag::Equal {
                lines.extend(old[op.old_range()].iter().map(|line| Line::Same(line)));
            } else {
                lines.extend(old[op.old_range()].iter().map(|line| Line::Gone(line)));
                lines.extend(new[op.new_range()].iter().map(|line| Line::Come(line)));
            }
        }
    }
    lines
}

/// Splits a line into rows. A word that is too long is cut, because all of it must be visible.
pub(super) fn rows(line: &str, columns: usize) -> Vec<String> {
    let mut rows = Vec::new();
    for part in wrap(line, columns) {
        let (mut row, mut used) = (String::new(), 0);
        for c in part.chars() {
            let wide = width(c.encode_utf8(&mut [0; 4]));
            if used + wide > columns {
                rows.push(std::mem::take(&mut row));
                used = 0;
            }
            row.push(c);
            used += wide;
        }
        rows.push(row);
    }
    rows
}

/// Shows what is invisible in a line of a file: spaces at its end, and its line ending.
fn exact(line: &str) -> String {
    let (line, end) = match line.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').map_or((line, ""), |line| (line, "␍")),
        None => (line, "␄"),
    };
    let text = line.trim_end_matches([' ', '\t']);
    let blanks: String = line[text.len()..].chars().map(|blank| if blank == ' ' { '·' } else { '→' }).collect();
    format!("{}{blanks}{end}", visible(text))
}

/// Shows what changes from one text to the other, with a few lines around each change.
pub(super) fn diff(old: &str, new: &str, style: Style, columns: usize, most: usize) -> String {
    let lines_of = |text| -> Vec<&str> { str::split_inclusive(text, '\n').collect() };
    let (old, new) = (lines_of(old), lines_of(new));
    let places = changes(&old, &new);
    if places.is_empty() {
        return shown(vec![(style.dim, " ", "(nothing changes)".to_owned())], style, most);
    }
    let changed = |op: &DiffOp| match op.tag() {
        DiffTag::Equal => (&old[..0], &new[..0]),
        DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => (&old[op.old_range()], &new[op.new_range()]),
    };
    // A text without a final newline may not be a whole file. The missing newline is shown only if it makes a
    // difference.
    let ends = |lines: &[&str]| lines.iter().any(|line| line.ends_with('\n'));
    let matters = places.iter().flatten().map(changed).any(|(gone, come)| ends(gone) || ends(come));
    let said = |line: &&str| {
        let exact = exact(line);
        if matters { exact } else { exact.trim_end_matches('␄').to_owned() }
    };
    let around = |line: &&str| visible(line.trim_end_matches(['\n', '\r'])).into_owned();
    let mut lines = Vec::new();
    let mut add = |colour: &'static str, mark: &'static str, text: String| {
        lines.extend(rows(&text, columns).into_iter().map(|row| (colour, mark, row)));
    };
    for (at, place) in places.iter().enumerate() {
        if at > 0 {
            add(style.dim, " ", "⋮".to_owned());
        }
        for op in place {
            if op.tag() == DiffTag::Equal {
                old[op.old_range()].iter().map(around).for_each(|line| add(style.dim, " ", line));
            }
            let (gone, come) = changed(op);
            gone.iter().map(said).for_each(|line| add(style.red, "-", line));
            come.iter().map(said).for_each(|line| add(style.green, "+", line));
        }
    }
    shown(lines, style, most)
}

/// Returns the places that differ, each with its context. Texts that differ in very many lines count as one place: the
/// smallest difference would take long to find, and nobody could read it.
fn changes(old: &[&str], new: &[&str]) -> Vec<Vec<DiffOp>> {
    let same = |(one, other): &(&&str, &&str)| one == other;
    let before = old.iter().zip(new).take_while(same).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
    let (gone, come) = (old_rest.len() - after, new_rest.len() - after);
    let ops = if gone + come <= COMPARED {
        capture_diff_slices(Algorithm::Myers, old, new)
    } else {
        let equal = |old_index, new_index, len| DiffOp::Equal { old_index, new_index, len };
        let replaced = DiffOp::Replace { old_index: before, old_len: gone, new_index: before, new_len: come };
        vec![equal(0, 0, before), replaced, equal(before + gone, before + come, after)]
    };
    group_diff_ops(ops, AROUND)
}

/// Keeps the first and the last lines, and says in the middle how many are left out.
pub(super) fn shown(lines: Vec<(&str, &str, String)>, style: Style, most: usize) -> String {
    let hidden = lines.len().saturating_sub(most);
    let mut out = String::new();
    for (at, (colour, mark, text)) in lines.into_iter().enumerate() {
        let first = most / 3 * 2 + most % 3 * 2 / 3;
        if hidden > 0 && (first..first + hidden).contains(&at) {
            if at == first {
                let _ = writeln!(out, "    {}… {}{}", style.yellow, count_of(hidden, "line"), style.reset);
            }
            continue;
        }
        let reset = if colour.is_empty() { "" } else { style.reset };
        let _ = writeln!(out, "  {colour}{mark} {text}{reset}");
    }
    out
}
