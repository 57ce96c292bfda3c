//! Expands words as a shell does, as far as possible. Reserved characters stand for unknown text, for a break between
//! words, and for unquoted special characters.

use super::super::shell::{Piece, Unreadable, Word};
use super::{Input, VALUES, Walk};

/// Stands for any text.
pub(super) const UNKNOWN: char = '\u{fdd0}';
/// Stands for a break between two words.
pub(super) const SPLIT: char = '\u{fdd1}';
/// Unquoted special characters, and the characters that stand for them.
const MARKS: &[(char, char)] =
    &[('?', '\u{fdd2}'), ('*', '\u{fdd3}'), ('[', '\u{fdd4}'), ('{', '\u{fdd5}'), (',', '\u{fdd6}'), ('}', '\u{fdd7}')];
const ONE: char = '\u{fdd2}';
const ANY: char = '\u{fdd3}';
const CLASS: char = '\u{fdd4}';
const OPEN: char = '\u{fdd5}';
const COMMA: char = '\u{fdd6}';
const CLOSE: char = '\u{fdd7}';
/// Longer texts are not followed.
const LONGEST: usize = 64 * 1024;
/// Longer lists in braces are not followed.
const MOST: usize = 256;

/// Returns the text without marks, except for unknown parts.
pub(super) fn unmarked(text: &str) -> String {
    let plain = |c| match c {
        SPLIT => ' ',
        c => MARKS.iter().find(|(_, mark)| *mark == c).map_or(c, |(plain, _)| *plain),
    };
    text.chars().map(plain).collect()
}

fn marked(text: &str, braces: bool) -> String {
    let mark = |c| {
        let mark = MARKS.iter().find(|(plain, _)| *plain == c).map(|(_, mark)| *mark);
        mark.filter(|mark| braces || ![OPEN, COMMA, CLOSE].contains(mark)).unwrap_or(c)
    };
    text.chars().map(mark).collect()
}

/// Returns whether a text is a pattern for file names.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains([ONE, ANY, CLASS])
}

/// Returns the name at the start of a rule's pattern, if it has no `*`.
pub(in super::super) fn literal_name(pattern: &str) -> Option<&str> {
    pattern.split_whitespace().next().filter(|name| !name.contains('*'))
}

/// Returns whether a name with unquoted special characters may match a file: `/bin/r?` may be `rm`.
pub(in super::super) fn could_be(name: &str, file: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default();
    let mut signs = Vec::new();
    let mut characters = name.chars();
    while let Some(c) = characters.next() {
        signs.push(if c == CLASS && characters.by_ref().any(|c| c == ']') { ONE } else { c });
    }
    let marks = signs.iter().any(|c| [ONE, ANY, CLASS].contains(c));
    marks && fits(&signs, &file.chars().collect::<Vec<_>>())
}

/// Matches special characters. On a mismatch only the last `*` takes another character, so the time is at most the
/// product of both lengths.
fn fits(signs: &[char], text: &[char]) -> bool {
    let (mut sign, mut at, mut last) = (0, 0, None);
    while at < text.len() {
        match signs.get(sign) {
            Some(&ANY) => {
                last = Some((sign, at));
                sign += 1;
            }
            Some(&c) if c == ONE || c == text[at] => {
                sign += 1;
                at += 1;
            }
            _ => match &mut last {
                Some((star, from)) => {
                    *from += 1;
                    (sign, at) = (*star + 1, *from);
                }
                None => return false,
            },
        }
    }
    signs[sign..].iter().all(|sign| *sign == ANY)
}

impl Walk {
    /// Returns what a word may become: lists of fields.
    pub(super) fn fields(&mut self, word: &Word) -> Result<Vec<Vec<String>>, Unreadable> {
        let quoted = word.pieces.iter().any(|piece| matches!(piece, Piece::Text { quoted: true, .. }));
        let mut all = Vec::new();
        for text in self.texts(word)? {
            let mut fields = Vec::new();
            for text in in_braces(&text)? {
                fields.extend(text.split(SPLIT).filter(|field| !field.is_empty()).map(str::to_owned));
            }
            if fields.is_empty() && quoted {
                fields.push(String::new());
            }
            all.push(fields);
        }
        Ok(all)
    }

    /// Returns what a word may become, with marks.
    pub(super) fn texts(&mut self, word: &Word) -> Result<Vec<String>, Unreadable> {
        self.pieces(&word.pieces)
    }

    /// Returns a value as part of a word. Unquoted, it is split into words.
    fn unquoted(&self, value: &str) -> String {
        let between = self.variables.get("IFS").into_iter().flatten().flatten();
        let between: String = between.flat_map(|text| text.chars()).take(64).chain([' ', '\t', '\n']).collect();
        let split = |c| if between.contains(c) { SPLIT } else { c };
        marked(value, false).chars().map(split).collect()
    }

    fn variable(
        &mut self,
        name: &str,
        index: Option<&Word>,
        operator: &str,
        operand: Option<&Word>,
        quoted: bool,
    ) -> Result<Vec<String>, Unreadable> {
        if let Some(index) = index {
            self.expanded_again(index)?;
        }
        let operand_texts = match operand {
            Some(word) => self.texts(word)?,
            None => Vec::new(),
        };
        let (indirect, operator) = match operator.strip_prefix('!') {
            Some(operator) => (true, operator),
            None => (false, operator),
        };
        let separator = if quoted { SPLIT } else { ' ' };
        let mut values = self.values(name, index, separator);
        if indirect {
            let names = values.clone().unwrap_or_default();
            values = Some(names.iter().filter_map(|name| self.values(name, None, separator)).flatten().collect());
        }
        let known = values.clone().filter(|values| !values.is_empty());
        let unknown = || vec![UNKNOWN.to_string()];
        let operands: Vec<_> = operand_texts.iter().map(|text| unmarked(text)).collect();
        let first = operands.first().cloned().unwrap_or_default();
        let change = |change: &dyn Fn(&str) -> String| {
            known.clone().map_or_else(unknown, |values| values.iter().map(|value| change(value)).collect())
        };
        let result: Vec<String> = match operator {
            "" | ":?" | "?" => known.clone().unwrap_or_else(unknown),
            ":-" | "-" | ":=" | "=" => {
                if operator.ends_with('=') {
                    for text in &operands {
                        self.set(name, vec![text.clone()]);
                    }
                }
                // Quoted text is used unchanged; other text is split into words below.
                known.clone().unwrap_or_default().into_iter().chain(operands).collect()
            }
            ":+" | "+" => operands,
            "^^" => change(&str::to_uppercase),
            "," | ",," => change(&str::to_lowercase),
            "^" => change(&|value| {
                let mut rest = value.chars();
                rest.next().map(|c| c.to_uppercase().collect::<String>() + rest.as_str()).unwrap_or_default()
            }),
            "#" | "##" if operand.is_some() => change(&|value| {
                let from = first
                    .strip_prefix('*')
                    .map(|end| if operator == "##" { value.rfind(end) } else { value.find(end) }.map(|at| at + end.len()));
                from.flatten().map_or_else(|| value.strip_prefix(&*first).unwrap_or(value), |from| &value[from..]).to_owned()
            }),
            "%" | "%%" => change(&|value| {
                let to =
                    first.strip_suffix('*').map(|start| if operator == "%%" { value.find(start) } else { value.rfind(start) });
                to.flatten().map_or_else(|| value.strip_suffix(&*first).unwrap_or(value), |to| &value[..to]).to_owned()
            }),
            "/" | "//" | "/#" | "/%" => {
                let (from, to) = first.split_once('/').unwrap_or((&first, ""));
                change(&|value| match operator {
                    _ if from.is_empty() || value.len().saturating_mul(to.len()) > LONGEST => UNKNOWN.to_string(),
                    "//" => value.replace(from, to),
                    _ => value.replacen(from, to, 1),
                })
            }
            ":" => {
                let mut numbers = first.splitn(2, ':').map(|number| number.trim().parse::<usize>());
                let (from, length) = (numbers.next().and_then(Result::ok), numbers.next().map(Result::ok));
                match (from, length) {
                    (Some(from), None) => change(&|value| value.chars().skip(from).collect()),
                    (Some(from), Some(Some(length))) => change(&|value| value.chars().skip(from).take(length).collect()),
                    _ => unknown(),
                }
            }
            "@" => {
                // `${x@P}` expands the value again.
                for value in known.clone().unwrap_or_default() {
                    self.expanded_text(&value)?;
                }
                known.clone().unwrap_or_else(unknown)
            }
            _ => unknown(),
        };
        Ok(if quoted { result } else { result.iter().map(|value| self.unquoted(value)).collect() })
    }

    /// Returns the values of a variable, or `None` if they are not known.
    fn values(&self, name: &str, index: Option<&Word>, separator: char) -> Option<Vec<String>> {
        let name = self.references.get(name).map_or(name, String::as_str);
        let join = |list: &Vec<String>| list.join(&separator.to_string());
        let (list, index) = match (name, index.map(|index| index.raw.as_str())) {
            ("@" | "*", _) => return Some(self.variables.get("@")?.iter().map(join).collect()),
            (name, Some("@" | "*")) => return Some(self.variables.get(name)?.iter().map(join).collect()),
            (name, None) if !self.variables.contains_key(name) && usual(name).is_some() => {
                return Some(usual(name).map(str::to_owned).into_iter().collect());
            }
            ("0", _) => ("0", 0),
            (name, index) => match name.parse::<usize>() {
                Ok(number) => ("@", number.checked_sub(1)?),
                Err(_) => match index.unwrap_or("0").parse() {
                    Ok(index) => (name, index),
                    // The index is not followed, so any element may be meant.
                    Err(_) => return Some(self.variables.get(name)?.iter().flatten().cloned().collect()),
                },
            },
        };
        Some(self.variables.get(list)?.iter().filter_map(|list| list.get(index).cloned()).collect())
    }
}

/// Returns the usual value of a variable that a shell sets itself.
fn usual(name: &str) -> Option<&'static str> {
    match name {
        "IFS" => Some(" "),
        "SHELL" | "BASH" | "0" => Some("bash"),
        _ => None,
    }
}

/// Returns what pieces may become together.
pub(super) fn pieces(walk: &mut Walk, pieces: &[Piece]) -> Result<Vec<String>, Unreadable> {
    let mut all = vec![String::new()];
    for piece in pieces {
        let texts = match piece {
            Piece::Text { text, quoted: true } => vec![text.clone()],
            Piece::Text { text, quoted: false } => vec![marked(text, true)],
            Piece::Variable { name, index, operator, operand, quoted } => {
                walk.variable(name, index.as_deref(), operator, operand.as_deref(), *quoted)?
            }
            Piece::Output { script, quoted } => {
                let output = walk.script(script, &Input::Inherited)?.map(|text| text.trim_end_matches('\n').to_owned());
                let output = output.unwrap_or_else(|| UNKNOWN.to_string());
                vec![if *quoted { output } else { walk.unquoted(&output) }]
            }
            Piece::Process(script) => vec![walk.process(script)?],
            Piece::Arithmetic(inner) => {
                for text in walk.pieces(inner)? {
                    walk.expanded_text(&unmarked(&text))?;
                }
                vec![UNKNOWN.to_string()]
            }
            Piece::Pattern(inner) => {
                walk.pieces(inner)?;
                vec![ANY.to_string()]
            }
        };
        all = match texts.as_slice() {
            [] => all,
            [text] => {
                for one in &mut all {
                    one.push_str(text);
                }
                all
            }
            texts => all.iter().flat_map(|one| texts.iter().map(move |text| format!("{one}{text}"))).take(VALUES).collect(),
        };
        if all.iter().any(|text| text.len() > LONGEST) {
            return Err(Unreadable);
        }
    }
    Ok(all)
}

/// Expands `a{b,c}` to `ab` and `ac`.
fn in_braces(text: &str) -> Result<Vec<String>, Unreadable> {
    // Without a list they are plain braces. Trying each of many would take long.
    if !text.contains(COMMA) && !text.contains("..") {
        return Ok(vec![text.to_owned()]);
    }
    if text.matches([OPEN, CLOSE]).count() > MOST {
        return Err(Unreadable);
    }
    let (mut done, mut open) = (Vec::new(), vec![text.to_owned()]);
    while let Some(text) = open.pop() {
        if done.len() + open.len() > MOST {
            return Err(Unreadable);
        }
        // The innermost pair that closes first.
        let close = text.char_indices().filter(|(_, c)| *c == CLOSE).find_map(|(close, _)| {
            let start = text[..close].rfind(OPEN)?;
            Some((start, close))
        });
        let Some((start, close)) = close else {
            done.push(text);
            continue;
        };
        let inner = &text[start + OPEN.len_utf8()..close];
        let (before, after) = (&text[..start], &text[close + CLOSE.len_utf8()..]);
        if inner.contains(COMMA) {
            let words = inner.split(COMMA).rev();
            open.extend(words.map(|word| format!("{before}{word}{after}")));
        } else if let Some((from, to)) = inner.split_once("..").and_then(|(from, to)| Some((one(from)?, one(to)?))) {
            open.extend((from.min(to)..=from.max(to)).rev().map(|c| format!("{before}{c}{after}")));
        } else {
            // It is not a list, so the braces stay.
            open.push(format!("{before}{{{inner}}}{after}"));
        }
    }
    Ok(done)
}

fn one(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|c| characters.next().is_none() && c.is_ascii_alphanumeric())
}
