//! Agent text is hostile. Only `visible` may pass it to a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

/// Returns whether a character could control a terminal, or make text look like something else.
fn steers(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{180e}'
        | '\u{3164}'
        | '\u{ffa0}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => {
            // Zero-width joiners are part of emoji and scripts. They neither move nor hide anything.
            c != '\u{200d}' && c != '\u{200c}'
        }
        c => c.is_control(),
    }
}

/// Which first bytes of a character may belong to one that steers. All others are passed over without a look at the character.
const MAY_STEER: [bool; 256] = {
    let mut may = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        may[byte] = matches!(byte, 0..=0x1f | 0x7f | 0xc2 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xe3 | 0xef | 0xf3)
            && !matches!(byte, 0x09 | 0x0a);
        byte += 1;
    }
    may
};

/// Returns the first character that steers, and where it is.
fn first_that_steers(text: &str) -> Option<(usize, char)> {
    let mut at = 0;
    loop {
        at += text.as_bytes()[at..].iter().position(|byte| MAY_STEER[usize::from(*byte)])?;
        let c = text[at..].chars().next()?;
        if steers(c) {
            return Some((at, c));
        }
        at += c.len_utf8();
    }
}

/// Makes every control, escape and bidirectional character visible instead of effective. Newlines stay; a carriage
/// return before one is removed.
pub fn visible(text: &str) -> Cow<'_, str> {
    let Some(mut found) = first_that_steers(text) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    loop {
        let (at, c) = found;
        out.push_str(&rest[..at]);
        rest = &rest[at + c.len_utf8()..];
        match c {
            '\r' if rest.starts_with('\n') => {}
            '\u{0}'..='\u{1f}' => out.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => out.push('\u{2421}'),
            c => {
                let _ = write!(out, "<U+{:04X}>", u32::from(c));
            }
        }
        let Some(next) = first_that_steers(rest) else { break };
        found = next;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Makes the text visible on one line: newlines and tabs become spaces.
pub fn one_line(text: &str) -> String {
    let text = visible(text.trim());
    let mut out = String::with_capacity(text.len());
    for word in text.split(['\n', '\t']).map(str::trim).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Breaks up workflow commands with a space: in a CI log, `::error` at the start of a line and `##[error]` anywhere are
/// commands. Takes whole lines.
pub fn without_commands(text: &str) -> String {
    // Some log readers end a line at a lone CR, too.
    let lines = text.split_inclusive(['\n', '\r']).map(|line| {
        let blanks = line.len() - line.trim_start().len();
        let line = line.replace("##[", "## [");
        if line[blanks..].starts_with("::") { format!("{}: {}", &line[..blanks], &line[blanks + 1..]) } else { line }
    });
    lines.collect()
}

/// Returns how many columns a text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Returns how many columns a character takes.
#[inline]
pub(crate) fn char_width(c: char) -> usize {
    // Most text is ASCII: its table need not be asked.
    if c.is_ascii() { usize::from(!c.is_ascii_control()) } else { c.width().unwrap_or(0) }
}

/// Returns whether a text takes at most this many columns.
fn fits(text: &str, columns: usize) -> bool {
    // No character takes more columns than bytes.
    text.len() <= columns || width(text) <= columns
}

/// Shortens a text to this many columns, with `…` where something is missing.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if fits(text, columns) {
        return Cow::Borrowed(text);
    }
    let mut left = columns.saturating_sub(1);
    let kept = text.char_indices().find_map(|(at, c)| {
        let width = char_width(c);
        if width > left {
            return Some(at);
        }
        left -= width;
        None
    });
    Cow::Owned(format!("{}…", &text[..kept.unwrap_or(text.len())]))
}

/// Splits a line between words, so that each part takes at most this many columns. Longer words are not split.
pub fn wrap(line: &str, columns: usize) -> Vec<&str> {
    if fits(line, columns) {
        return vec![line];
    }
    let mut parts = Vec::new();
    // Where the part starts, its width, and its last space with the width up to it.
    let (mut start, mut used, mut blank) = (0, 0, None);
    let mut in_indent = true;
    for (at, c) in line.char_indices() {
        let wide = char_width(c);
        in_indent &= c == ' ';
        if c == ' ' && !in_indent {
            blank = Some((at, used));
        } else if used + wide > columns
            && let Some((end, before)) = blank.take()
        {
            parts.push(line[start..end].trim_end());
            start = end + 1;
            used -= before + 1;
        }
        used += wide;
    }
    parts.push(&line[start..]);
    parts
}

/// Breaks a list (`a · b · c`) between its parts, so that each line takes at most this many columns. All lines but the
/// first start with `indent` spaces. Longer parts are not split. Colours take no columns.
pub(crate) fn folded(list: &str, columns: usize, indent: usize) -> String {
    const BETWEEN: &str = " · ";
    let takes = |part: &str| {
        let mut pieces = part.split('\u{1b}');
        let first = pieces.next().map_or(0, width);
        first + pieces.map(|piece| piece.split_once('m').map_or(0, |(_, shown)| width(shown))).sum::<usize>()
    };
    let (mut out, mut used) = (String::with_capacity(list.len()), 0);
    for (at, part) in list.split(BETWEEN).enumerate() {
        let wide = takes(part);
        if at > 0 && used + width(BETWEEN) + wide > columns {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if at > 0 {
            out += BETWEEN;
            used += width(BETWEEN);
        }
        out += part;
        used += wide;
    }
    out
}

/// Returns the indentation of a sub-agent's lines. It does not grow beyond a depth that people can follow.
pub(crate) fn indent(depth: usize) -> String {
    "  ".repeat(depth.min(12))
}

/// Returns the first characters, and whether there were more.
pub(crate) fn head(text: &str, characters: usize) -> (&str, bool) {
    match text.char_indices().nth(characters) {
        Some((at, _)) => (&text[..at], true),
        None => (text, false),
    }
}

/// Formats a count with thousands separators: `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count for people: `950`, `12.3k`, `4.5M`.
pub fn short_count(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let value = count as f64;
    match count {
        0..=999 => count.to_string(),
        1_000..=999_949 => format!("{:.1}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
    }
}

/// Formats dollars for people: four places below ten cents, otherwise two.
pub fn dollars(usd: f64) -> String {
    let sign = if usd < 0.0 { "-" } else { "" };
    let usd = usd.abs();
    if usd < 0.1 { format!("{sign}${usd:.4}") } else { format!("{sign}${usd:.2}") }
}

/// Formats a count with a noun: `1 tool`, `2 tools`.
pub fn count_of(count: usize, noun: &str) -> String {
    let plural = if noun.ends_with("ch") { "es" } else { "s" };
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}{plural}") }
}

/// Counts how many characters differ: inserted, deleted, changed, or two that are swapped.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut best = (rows[i][j + 1] + 1).min(row[j] + 1).min(rows[i][j] + usize::from(a != b));
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

/// Returns the word that was probably meant: the most similar one.
pub fn nearest<'w>(text: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let near = words.map(|word| (distance(word, text), word)).min()?;
    Some(near.1).filter(|_| near.0 <= (text.chars().count() / 3).max(1))
}

/// Formats an error and its causes on one visible line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    one_line(&causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        let hostile = "a\u{1b}[31mred\u{1b}]52;c;aGk=\u{7}\u{9b}2J\u{202e}evil\u{2066}\r\nnext\rover\u{0}\u{7f}\u{e0041}";
        let shown = visible(hostile);
        assert_eq!(shown, "a␛[31mred␛]52;c;aGk=␇<U+009B>2J<U+202E>evil<U+2066>\nnext␍over␀␡<U+E0041>");
        assert!(!shown.chars().any(steers));
        assert!(matches!(visible("plain\ttext 👩‍👩‍👧 日本語\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn every_character_that_steers_is_found_by_its_first_byte() {
        for c in '\0'..=char::MAX {
            let text = format!("ab{c}");
            let found = first_that_steers(&text);
            assert_eq!(found, steers(c).then_some((2, c)), "{:04X}", u32::from(c));
            assert!(char_width(c) <= c.len_utf8() && char_width(c) == c.width().unwrap_or(0), "{:04X}", u32::from(c));
        }
    }

    #[test]
    fn cutting_counts_columns() {
        assert_eq!(fit("日本語テスト", 7), "日本語…");
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("x", 0), "…");
        assert_eq!(one_line(" a\n\n  b\tc \r\n"), "a b c");
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("  indented words here", 12), ["  indented", "words here"]);
        assert_eq!(wrap("unbreakable", 4), ["unbreakable"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("a unbreakable b c", 5), ["a", "unbreakable", "b c"]);
        assert_eq!(wrap("日本 語テ スト", 5), ["日本", "語テ", "スト"]);
    }

    #[test]
    fn counts() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(short_count(999_949), "999.9k");
        assert_eq!(short_count(1_250_000), "1.2M");
        assert_eq!(count_of(2, "search"), "2 searches");
    }
}
