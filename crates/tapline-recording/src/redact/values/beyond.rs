//! Values that do not stand right behind their name: behind a type, in a call, in a table, in a list, or on the next
//! line.

use std::ops::Range;

use super::{Joint, QUOTED};
use crate::redact::floor;
use crate::redact::looks::{HEAD, is_likely, is_random};
use crate::redact::names::{self, NAME};
use crate::redact::pairs;
use crate::redact::scan::Scan;
use crate::redact::words::Words;

/// Functions that set a variable: `os.Setenv("PASSWORD", "VALUE")`.
static SETTERS: Words = Words::of("set define setenv set_var setproperty putenv put setvariable add append header");
/// Functions around a literal: `String::from("VALUE")`.
static MAKERS: Words = Words::of("from new string some secretstring securestring secret bytes str");
/// The longest type between a name and its value: `const key: &'static str = …`.
const TYPE: usize = 48;

impl Scan<'_> {
    /// Skips the type in `const password: string = "VALUE"`.
    pub(in crate::redact) fn behind_type(&self, joint: Joint, at: usize) -> (Joint, usize) {
        let rest = &self.text[at..floor(self.text, at + TYPE)];
        let is_type = |c: char| c.is_ascii_alphanumeric() || "<>&'_[]|?. ".contains(c);
        match rest.find(" = ") {
            Some(sign) if joint == Joint::Colon && rest[..sign].chars().all(is_type) => (Joint::SpacedEquals, at + sign + 3),
            _ => (joint, at),
        }
    }

    /// Hides the new value in `password = "OLD" -> "NEW"`.
    pub(in crate::redact) fn new_value(&mut self, end: usize) {
        let rest = self.text[end..].trim_start_matches(['\\', '"']);
        if let Some(rest) =
            rest.strip_prefix(" -> ").map(|rest| rest.trim_start_matches('\\')).and_then(|rest| rest.strip_prefix('"'))
        {
            let begin = self.text.len() - rest.len();
            let to = begin + rest.bytes().take(QUOTED).position(|byte| matches!(byte, b'"' | b'\\' | b'\n')).unwrap_or(0);
            self.hide(begin..to);
        }
    }

    /// Returns where a value begins that is the next argument: `define('name', 'value')`, `name("value")`, or the next
    /// line of a list in YAML.
    pub(in crate::redact) fn called(&mut self, start: usize, to: usize, at: usize, is_quoted: bool) -> Option<(Joint, usize)> {
        let (text, bytes) = (self.text, self.bytes);
        if bytes.get(to) == Some(&b'(') {
            return text[..start].ends_with('.').then_some((Joint::Call, to + 1));
        }
        let is_flag = text[..start].ends_with("--");
        let blanks = |from: usize| bytes[from..].iter().take(HEAD).take_while(|byte| byte.is_ascii_whitespace()).count();
        if is_quoted && bytes.get(at) == Some(&b',') {
            let next = at + 1 + blanks(at + 1);
            self.touched |= next == bytes.len();
            let is_string = text[next..].starts_with(['"', '\'', '`', '\\']);
            let before = text[..start].trim_end_matches(['"', '\'', '`', '\\']);
            let joint = if is_setter(before) { Joint::Flag } else { Joint::Call };
            return (is_string && before.ends_with('(')).then_some((joint, next));
        }
        let line = at + blanks(at);
        let item = text[line..].strip_prefix("- ").filter(|item| !item.trim_start_matches(['"', '\'']).starts_with('-'));
        (is_flag && memchr::memchr(b'\n', &bytes[at..line]).is_some() && item.is_some()).then_some((Joint::Flag, line + 2))
    }

    /// Returns whether this is a cell of a table.
    pub(in crate::redact) fn is_cell(&self, start: usize) -> bool {
        self.text[..start].trim_end_matches(['`', '*', '_', '.', ' ']).ends_with('|')
            || self.bytes[..start].iter().rev().take(NAME).take_while(|byte| **byte != b'\n').any(|byte| *byte == b'|')
    }

    /// Returns whether the name is a setting of a program: `git config --global a.token VALUE`.
    pub(in crate::redact) fn is_configured(&self, start: usize) -> bool {
        let before = &self.text[floor(self.text, start.saturating_sub(NAME))..start];
        let line = &before[before.rfind('\n').map_or(0, |at| at + 1)..];
        line.ends_with(['.', ':']) && line.contains("config ")
    }

    /// Returns the value in one of the next cells of a table.
    pub(in crate::redact) fn cell(&mut self, from: usize) -> Option<Range<usize>> {
        let mut at = from;
        let line = &self.text[from..floor(self.text, from + 2 * HEAD)];
        for cell in line.lines().next()?.split('|').take(4) {
            let value = cell.trim().trim_matches(['`', '*', '"']);
            if is_mixed(value) && !value.contains('(') {
                let begin = at + cell.find(value)?;
                return Some(begin..begin + value.len());
            }
            at += cell.len() + 1;
        }
        None
    }

    /// Hides the literal in `password = process.env.PASSWORD || "VALUE"`.
    pub(in crate::redact) fn fallback(&mut self, at: usize) {
        let line = self.text[at..floor(self.text, at + HEAD)].lines().next().unwrap_or_default();
        let is_other = |quote: &usize| {
            let before = &line[..*quote];
            before.ends_with(" or ") || before.trim_end().ends_with("||") || before.trim_end().ends_with("??")
        };
        let literal = memchr::memchr3_iter(b'"', b'\'', b'`', line.as_bytes()).find(is_other);
        if let Some(span) = literal.and_then(|quote| self.value("", false, Joint::SpacedEquals, at + quote)) {
            self.hide(span);
        }
    }

    /// Hides all strings of a list, or the values of objects, behind a name in JSON.
    pub(in crate::redact) fn in_brackets(&mut self, is_sure: bool, from: usize) -> Option<Range<usize>> {
        let bytes = self.bytes;
        let mut at = from + usize::from(bytes[from] == b'[');
        loop {
            at += bytes[at..].iter().take(HEAD).take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
            if self.byte(at) == Some(b'{') {
                let value = pairs::behind(bytes, at)?;
                let is_sure = is_sure && self.text[at..value].trim_end_matches([' ', ':', '\\', '"']).ends_with("value");
                // Brackets within are not followed: text of others may nest them as deep as it likes.
                let is_nested = matches!(self.byte(value), Some(b'[' | b'{'));
                let span = if is_nested { None } else { self.value("value", is_sure, Joint::Json, value) };
                let span = span.filter(|span| span.len() > 7);
                if at == from {
                    return span;
                }
                at = value + memchr::memchr(b'}', &bytes[value..bytes.len().min(value + QUOTED)])? + 1;
                if let Some(span) = span {
                    self.hide(span);
                }
                continue;
            }
            let slashes = bytes[at..].iter().take(HEAD).take_while(|byte| **byte == b'\\').count();
            let quote = self.byte(at + slashes).filter(|byte| is_sure && matches!(byte, b'"' | b'\''))?;
            let begin = at + slashes + 1;
            let end = self.closing(begin, quote, slashes);
            if begin < end && !names::is_placeholder(&self.text[begin..end]) && end - begin < HEAD {
                self.hide(begin..end);
            }
            at = bytes.len().min(end + slashes + 1);
        }
    }

    /// Returns the value below `name:`, if it is alone on its line and further in.
    pub(in crate::redact) fn next_line(&mut self, at: usize) -> Option<Range<usize>> {
        let before = &self.bytes[..at];
        let start = memchr::memrchr(b'\n', &before[at.saturating_sub(HEAD)..]).map_or(0, |found| at - at.min(HEAD) + found + 1);
        let indent = |from: usize| self.bytes[from..].iter().take(HEAD).take_while(|byte| **byte == b' ').count();
        let (outer, inner) = (indent(start), indent(at + 1));
        let from = at + 1 + inner;
        let line = self.text[from..].lines().next()?.trim_end();
        self.touched |= from + line.len() == self.bytes.len();
        let value = line.trim_matches(['"', '\'']);
        let begin = from + line.find(value)?;
        (inner > outer && is_likely(value) && !names::is_placeholder(value) && !value.ends_with(':'))
            .then_some(begin..begin + value.len())
    }

    /// Returns the literal in `String::from("VALUE")`.
    pub(in crate::redact) fn literal_of_call(&mut self, at: usize) -> Option<Range<usize>> {
        let path =
            self.bytes[at..].iter().take(TYPE).take_while(|byte| byte.is_ascii_alphanumeric() || b"_:.".contains(byte)).count();
        let called = &self.text[at..at + path];
        let last = called.rsplit([':', '.']).next()?;
        let rest = self.text[at + path..].strip_prefix('(')?;
        if !MAKERS.has(last) || !rest.starts_with(['"', '\'']) {
            return None;
        }
        let begin = at + path + 2;
        let end = self.closing(begin, self.bytes[begin - 1], 0);
        let value = &self.text[begin..end];
        (is_likely(value) && !names::speaks_of_secret(value)).then_some(begin..end)
    }
}

/// Returns whether this looks like nothing but a secret, or at least mixes capitals, lower case and digits.
pub(in crate::redact) fn is_mixed(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.as_bytes().iter().any(is);
    let is_mix = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && value.len() > 10;
    is_mix && is_likely(value) || is_random(value)
}

/// Returns whether the function called here sets something.
fn is_setter(before: &str) -> bool {
    let name = before.trim_end_matches('(').rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    SETTERS.has(name)
}
