//! Finds the secrets in a JSON value: in each of its strings, in lists of lines, which are judged as the text that they
//! are, and behind names that stand beside their values.

use std::ops::Range;

use tapline_protocol::{Kind, Tape, Token, Value};

use super::args::is_secret_flag;
use super::looks::is_likely;
use super::manifest::in_manifest;
use super::names::{self, Name};
use super::pairs;
use super::peel::{Escapes, Peeled, find, look, peel};
use super::rules::Rules;
use super::spans::merge;

/// Shorter strings cannot hold a secret.
const SHORTEST: usize = 6;
/// How deep JSON in strings of JSON is read as such.
const DEPTH: usize = 4;

/// Finds the secrets in a value's strings and keys. The string at `except` is checked elsewhere.
pub(super) fn json(rules: &Rules, value: Value<'_>, except: Option<&Range<usize>>) -> Vec<Range<usize>> {
    let mut spans = within(rules, value, except, 0);
    merge(&mut spans);
    spans
}

/// A name that holds for all strings at a depth.
type Named = Option<(usize, Name)>;

fn within(rules: &Rules, value: Value<'_>, except: Option<&Range<usize>>, nested: usize) -> Vec<Range<usize>> {
    let walk = value.walk();
    let text = walk.text();
    let mut spans = Vec::new();
    // `under`: the name of the next value. `list`: the strings of a list that has a secret's name; `value`: the value of
    // an object that has one.
    let (mut under, mut list, mut value): (Option<Name>, Named, Named) = (None, None, None);
    let mut lists: Vec<List> = Vec::new();
    let (mut last_jwk, mut last_manifest) = (0, 0);
    for token in walk {
        list = list.filter(|(depth, _)| token.depth >= *depth);
        value = value.filter(|(depth, _)| token.depth >= *depth);
        while let Some(list) = lists.pop_if(|list| token.depth < list.depth) {
            list.judge(rules, text, &mut spans);
        }
        if token.is_key {
            let key = &text[token.place.start + 1..token.place.end - 1];
            under = if token.is_escaped { json_name(&peel(key, Escapes::Json).text) } else { json_name(key) };
            if under.is_none() && pairs::is_value(key) {
                under = value.filter(|(depth, _)| *depth == token.depth).map(|(_, name)| name);
            }
            if key == "kty" && token.place.start >= last_jwk {
                last_jwk = pairs::private_parts(text, token.place.start, last_jwk, &mut spans);
            }
        }
        let named = if token.is_key { None } else { under.take() };
        let here = |named: Named| named.filter(|(depth, _)| token.depth == *depth && !token.is_key).map(|(_, name)| name);
        match token.kind {
            Kind::Array => {
                list = named.map(|name| (token.depth + 1, name)).or(list);
                lists.push(List { depth: token.depth + 1, ..List::default() });
            }
            // The token of a grammar has a value, too.
            Kind::Object => value = named.or(here(list)).map(|_| (token.depth + 1, Name::Likely)).or(value),
            Kind::String if except != Some(&token.place) => {
                let mut name = named.or(here(list));
                if let Some(list) = lists.last_mut().filter(|list| list.depth == token.depth && !token.is_key) {
                    name = name.or(list.flagged(text, &token));
                    list.strings.push(token.clone());
                }
                if !token.is_key {
                    beside(text, &token, &mut last_manifest, &mut spans);
                }
                string(rules, text, &token, name, nested, &mut spans);
            }
            _ => {}
        }
    }
    for list in lists {
        list.judge(rules, text, &mut spans);
    }
    spans
}

/// Returns what a key says about its value. For most keys, the last letters decide.
fn json_name(key: &str) -> Option<Name> {
    match names::name(key) {
        Some(Name::Likely) if key.eq_ignore_ascii_case("token") => Some(Name::Secret),
        name => name,
    }
}

/// Hides what a string that is a name says about its neighbours: `{"name": "DB_PASSWORD", "value": "…"}`.
fn beside(text: &str, token: &Token, last_manifest: &mut usize, spans: &mut Vec<Range<usize>>) {
    let body = token.place.start + 1..token.place.end - 1;
    if body.len() > names::LONGEST {
        return;
    }
    let name = &text[body.clone()];
    if name == "Secret" && names::is_kind(&text.as_bytes()[..body.start]) {
        in_manifest(text, body.clone(), *last_manifest, spans);
        *last_manifest = body.end;
    }
    if pairs::called(text.as_bytes(), body.start).is_none() {
        return;
    }
    let last = name.rfind(['.', '/', ':']).map_or(name, |at| &name[at + 1..]);
    let Some(said) = json_name(last) else { return };
    let Some(at) = pairs::value_of(text, body).filter(|at| text[*at..].starts_with('"')) else { return };
    let end = at + 1 + closing(&text.as_bytes()[at + 1..]);
    let value = &text[at + 1..end];
    if !value.is_empty() && !names::is_placeholder(value) && (said != Name::Likely || is_likely(value)) {
        spans.push(at + 1..end);
    }
}

/// Returns where a JSON string ends.
fn closing(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[at..]) {
        at += found;
        if bytes[at] == b'"' {
            return at;
        }
        at = bytes.len().min(at + 2);
    }
    bytes.len()
}

/// The strings of one list.
#[derive(Debug, Default)]
struct List {
    depth: usize,
    strings: Vec<Token>,
}

impl List {
    /// Returns whether the string before is a flag that takes a secret.
    fn flagged(&self, text: &str, token: &Token) -> Option<Name> {
        let before = self.strings.last()?;
        let flag = text[before.place.start + 1..before.place.end - 1].strip_prefix("--")?;
        let is_flag = text[token.place.start + 1..].starts_with("--");
        (!flag.contains('=') && !is_flag && is_secret_flag(flag)).then_some(Name::Secret)
    }

    /// Judges the strings together, as lines of one text or as the words of a command.
    fn judge(self, rules: &Rules, text: &str, spans: &mut Vec<Range<usize>>) {
        if self.strings.len() < 2 {
            return;
        }
        let raw = |token: &Token| &text[token.place.start + 1..token.place.end - 1];
        let is_command = !raw(&self.strings[0]).contains([' ', '+', ':'])
            && self.strings[1..].iter().any(|token| raw(token).starts_with('-'))
            && !raw(&self.strings[0]).starts_with(['-', '\\']);
        let mut joined = Peeled::default();
        let mut places = Vec::with_capacity(self.strings.len());
        for token in &self.strings {
            let (from, above) = (joined.text.len(), token.place.start + 1);
            joined.marks.push((from, above));
            if token.is_escaped {
                let peeled = peel(raw(token), Escapes::Json);
                joined.marks.extend(peeled.marks.iter().map(|(inner, outer)| (from + inner, above + outer)));
                joined.text.push_str(&peeled.text);
            } else {
                joined.text.push_str(raw(token));
            }
            let end = joined.text.trim_end_matches(['\n', '\r']).len().max(from);
            places.push(from..end);
            if is_command {
                joined.text.push(' ');
            } else if !joined.text.ends_with('\n') {
                joined.text.push('\n');
            }
        }
        let found = look(rules, &joined.text, false, !is_command).spans;
        let mut place = 0;
        for span in found {
            while places.get(place).is_some_and(|place| place.end <= span.start) {
                place += 1;
            }
            let lines = places[place..].iter().take_while(|line| line.start < span.end);
            let parts = lines.map(|line| line.start.max(span.start)..line.end.min(span.end)).filter(|part| !part.is_empty());
            spans.extend(parts.map(|part| joined.above(part.start)..joined.above(part.end)));
        }
    }
}

fn string(rules: &Rules, text: &str, token: &Token, name: Option<Name>, nested: usize, spans: &mut Vec<Range<usize>>) {
    let body = token.place.start + 1..token.place.end - 1;
    if body.is_empty() || body.len() < SHORTEST && name.is_none() {
        return;
    }
    let raw = &text[body.clone()];
    let peeled = token.is_escaped.then(|| peel(raw, Escapes::Json));
    let decoded = peeled.as_ref().map_or(raw, |peeled| &peeled.text);
    if let Some(name) = name
        && !names::is_placeholder(decoded)
        && (name != Name::Likely || is_likely(decoded))
    {
        spans.push(body);
        return;
    }
    let above = |at: usize| body.start + peeled.as_ref().map_or(at, |peeled| peeled.above(at));
    let mut found = find(rules, decoded, false).spans;
    let is_json = decoded.starts_with(['{', '[']) && decoded.trim_end().ends_with(['}', ']']);
    if is_json && nested < DEPTH {
        let mut tape = Tape::default();
        if let Ok(value) = tape.parse(decoded) {
            found.extend(within(rules, value, None, nested + 1));
        }
    }
    spans.extend(found.into_iter().map(|span| above(span.start)..above(span.end)));
}
