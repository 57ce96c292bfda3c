//! Finds where the value after a name really ends: in a shell, YAML, TOML, INI, JSON within text, source code, a
//! header, `.netrc`, or after a flag.

mod beyond;

use std::ops::Range;

use super::floor;
use super::looks::{HEAD, is_file, is_likely, is_random};
use super::names::{self, NAME, Name, PROSE, name_around};
use super::scan::Scan;
use beyond::is_mixed;

/// The longest value in quotes or in a header.
pub(super) const QUOTED: usize = 16 << 10;

/// Texts before a name whose value follows after a space: `--password VALUE`, `setx PASSWORD VALUE`.
const FLAGS: &[&str] = &["--", " -", "--secret ", "setx ", "setenv ", "set -x ", "set -gx ", "configure set ", "config set "];
/// The flags of openssl whose value says where the password comes from: `-passin pass:VALUE`.
const OPENSSL: &[&str] = &["-pass ", "-passin ", "-passout "];

/// How name and value are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    /// `name=value`
    Equals,
    /// `name = value`
    SpacedEquals,
    /// `name: value`
    Colon,
    /// `"name": value`
    Json,
    /// `--name value`
    Flag,
    /// `login … password value`
    Netrc,
    /// `<name>value</name>`
    Tag,
    /// `<string name="name">value</string>`
    Labelled,
    /// `define('name', 'value')`, `name("value")`
    Call,
    /// `| name | value |`
    Cell,
}

impl Scan<'_> {
    /// Hides the value of the name that ends here, if it is a secret. Returns the position from which more text could
    /// change the decision.
    pub(super) fn named(&mut self, end: usize) -> usize {
        let Some(place) = name_around(self.bytes, end) else { return usize::MAX };
        let Range { start, end: to } = place;
        self.touched |= to == self.bytes.len();
        self.last_name = to;
        let text = self.text;
        if &text[start..to] == "Secret" && names::is_kind(&self.bytes[..start]) {
            return self.manifest(start..to);
        }
        // `;PWD=…` in a connection string, not the variable
        let is_connection = &text[start..to] == "PWD" && text[..start].ends_with(';') && !text[to..].starts_with("=/");
        let name = if is_connection { Some(Name::Secret) } else { self.known.name(self.bytes, start..to) };
        let Some(name) = name else { return self.named_by_two_words(start, to) };
        // `${PASSWORD:-…}`, anywhere.
        if let Some(from) = start.checked_sub(2).filter(|from| self.bytes[*from..].starts_with(b"${")) {
            let end = self.end_of_expansion(from);
            if let Some(default) = names::default(&text[from..end]).filter(|_| name == Name::Secret) {
                self.hide(from + default.start..from + default.end);
            }
            return from;
        }
        let Some((joint, at)) = self.joint(start, to) else {
            let is_pair = self.pair(name, start..to);
            return if is_pair { start } else { self.said(name, start, to) };
        };
        if &text[start..to] == "pass" && self.pass_of_openssl(start, joint, at) {
            return at;
        }
        match name {
            Name::Authorization => self.authorization(at),
            Name::Cookie => self.cookie(at),
            Name::Secret | Name::Likely => {
                // In a URL nothing else has such a name.
                let in_address = joint == Joint::Equals && matches!(self.bytes[..start].last(), Some(b'?' | b'&'));
                let is_sure = name == Name::Secret || in_address;
                let (joint, at) = self.behind_type(joint, at);
                let phrase = if is_sure && joint == Joint::Colon { self.end_of_phrase(start..to, at) } else { None };
                let span = phrase.map(|end| at..end);
                if let Some(span) = span.or_else(|| self.value(&text[start..to], is_sure, joint, at)) {
                    let end = span.end;
                    self.hide(span);
                    self.new_value(end);
                } else {
                    self.fallback(at);
                }
            }
        }
        at
    }

    /// Returns the value of a pair that begins here, if it is a secret.
    pub(super) fn pair_value(&mut self, name: &str, is_sure: bool, is_equal: bool, at: usize) -> Option<Range<usize>> {
        self.value(name, is_sure, if is_equal { Joint::Equals } else { Joint::Colon }, at)
    }

    /// Hides the value in `-passin pass:VALUE`. Returns whether that settles it.
    fn pass_of_openssl(&mut self, start: usize, joint: Joint, at: usize) -> bool {
        let text = self.text;
        let rest = text[at..].trim_start_matches(['"', '\'']);
        if joint == Joint::Flag {
            return ["pass:", "env:", "file:", "fd:"].iter().any(|from| rest.starts_with(from));
        }
        let before = &text[..start];
        let flag = before.trim_end_matches(['"', '\'']);
        if joint != Joint::Colon || !OPENSSL.iter().any(|known| flag.ends_with(known)) {
            return false;
        }
        let end = match before.as_bytes().last() {
            Some(quote @ (b'"' | b'\'')) => self.closing(at, *quote, 0),
            _ => self.end_of_bare(at, usize::MAX),
        };
        if !names::is_placeholder(&text[at..end]) {
            self.hide(at..end);
        }
        true
    }

    /// Returns where a value begins that `:` or `=` joins to the name.
    pub(super) fn joined(&mut self, start: usize, to: usize) -> Option<usize> {
        let joint = self.joint(start, to);
        joint.filter(|(joint, _)| matches!(joint, Joint::Colon | Joint::Equals | Joint::SpacedEquals)).map(|(_, at)| at)
    }

    /// Hides the value of a flag that only takes a password.
    pub(super) fn flag_value(&mut self, at: usize) {
        if let Some(span) = self.value("password", true, Joint::Flag, at) {
            self.hide(span);
        }
    }

    /// Returns how a value is joined to the name, and where it begins.
    fn joint(&mut self, start: usize, to: usize) -> Option<(Joint, usize)> {
        // `arn:aws:secretsmanager:…:secret:name`
        if self.bytes[..start].ends_with(b":") && self.bytes.get(to) == Some(&b':') {
            return None;
        }
        let mut at = to;
        let escaped = |scan: &Self, at: usize| scan.bytes[at..].iter().take(HEAD).take_while(|byte| **byte == b'\\').count();
        let slashes = escaped(self, at);
        let quote = self.byte(at + slashes).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
        let is_quoted = quote.is_some();
        if is_quoted {
            at += slashes + 1;
        }
        // `**Password**: …`
        let bold = self.bytes[at..].iter().take(3).take_while(|byte| **byte == b'*').count();
        self.touched |= at + bold == self.bytes.len();
        if self.bytes.get(at + bold) == Some(&b':') {
            at += bold;
        }
        if self.byte(at) == Some(b']') {
            at += 1;
        }
        if (is_quoted || matches!(self.bytes[..start].last(), Some(b'<' | b':'))) && self.byte(at) == Some(b'>') {
            return Some((if is_quoted { Joint::Labelled } else { Joint::Tag }, at + 1));
        }
        // `<Password Type="text">…`
        if !is_quoted && self.bytes.get(at) == Some(&b' ') && matches!(self.bytes[..start].last(), Some(b'<' | b':')) {
            let tag = &self.bytes[at..self.bytes.len().min(at + HEAD)];
            let end = memchr::memchr2(b'>', b'\n', tag).filter(|end| tag[*end] == b'>' && tag[end - 1] == b'"');
            if let Some(end) = end {
                return Some((Joint::Tag, at + end + 1));
            }
        }
        // `<key>Password</key> <string>…</string>`, as in a property list
        if let Some(rest) = self.text[at..].strip_prefix("</key>")
            && let Some(value) = rest.trim_start_matches(['\n', '\r', ' ', '\t']).strip_prefix("<string>")
        {
            return Some((Joint::Tag, self.bytes.len() - value.len()));
        }
        if let Some(found) = self.called(start, to, at, is_quoted) {
            return Some(found);
        }
        let joined = at;
        at += self.blanks(at);
        let rest = &self.bytes[at..];
        // `<add key="Password" value="…"/>`
        if is_quoted && rest.starts_with(b"value=") {
            return Some((Joint::Equals, at + 6));
        }
        let spaced = at > joined;
        let (joint, length) = match rest {
            [b'=', b'=' | b'~', ..] | [b':', b':', ..] => return None,
            [b'=', b'>', ..] | [b':', b'=', ..] => (Joint::SpacedEquals, 2),
            [b'=', ..] if spaced => (Joint::SpacedEquals, 1),
            [b'=', ..] => (Joint::Equals, 1),
            // JSON has no such quotes, so this is a sentence.
            [b':', ..] if is_quoted && quote != Some(b'`') => (Joint::Json, 1),
            [b':', ..] => (Joint::Colon, 1),
            [] => {
                self.touched = true;
                return None;
            }
            [b'|', ..] if self.is_cell(start) => return Some((Joint::Cell, at + 1)),
            _ if spaced && FLAGS.iter().any(|flag| self.text[..start].ends_with(flag)) => return Some((Joint::Flag, at)),
            _ if spaced && self.is_configured(start) => return Some((Joint::Flag, at)),
            _ if self.is_netrc(start) => {
                let blanks = rest.iter().take(HEAD).take_while(|byte| byte.is_ascii_whitespace()).count();
                return Some((Joint::Netrc, at + blanks));
            }
            _ => return None,
        };
        at += length;
        // `**Password:** …`, `**API key:** …`
        if self.text[at..].starts_with("** ") || self.text[at..].starts_with("**") && self.text[..start].ends_with("**") {
            at += 2;
        }
        let blanks = self.blanks(at);
        let joint = if joint == Joint::Equals && blanks > 0 { Joint::SpacedEquals } else { joint };
        Some((joint, at + blanks))
    }

    pub(super) fn blanks(&mut self, at: usize) -> usize {
        let count = self.bytes[at..].iter().take(HEAD).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.touched |= at + count == self.bytes.len();
        count
    }

    /// Returns whether `login NAME` comes before `password`.
    fn is_netrc(&self, start: usize) -> bool {
        let before = &self.bytes[start.saturating_sub(HEAD)..start];
        let mut words = before.rsplit(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let is_apart = before.last().is_some_and(u8::is_ascii_whitespace);
        is_apart && words.next().is_some() && matches!(words.next(), Some(b"login" | b"account" | b"user"))
    }

    /// Returns the value that begins here, if it is a secret.
    pub(super) fn value(&mut self, name: &str, is_sure: bool, joint: Joint, from: usize) -> Option<Range<usize>> {
        if joint == Joint::Cell {
            return if is_sure { self.cell(from) } else { None };
        }
        let mut at = from;
        // `password: !!str …`, `password: &name …`, `<![CDATA[…`
        if joint == Joint::Colon && (self.text[at..].starts_with("!!") || self.bytes.get(at) == Some(&b'&')) {
            at += self.bytes[at..].iter().take(HEAD).position(|byte| *byte == b' ').map_or(0, |blank| blank + 1);
        }
        if joint == Joint::Tag && self.text[at..].starts_with("<![CDATA[") {
            let end = at + memchr::memchr2(b']', b'\n', &self.bytes[at + 9..])? + 9;
            return Some(at + 9..end);
        }
        // `b"…"`, `f'…'`
        if matches!(self.bytes.get(at), Some(b'b' | b'r' | b'f' | b'u')) && matches!(self.bytes.get(at + 1), Some(b'"' | b'\''))
        {
            at += 1;
        }
        let slashes = self.bytes[at..].iter().take(HEAD).take_while(|byte| **byte == b'\\').count();
        if let Some(quote @ (b'"' | b'\'' | b'`')) = self.byte(at + slashes) {
            let mut begin = at + slashes + 1;
            // Three quotes are one.
            if self.bytes[begin..].starts_with(&[quote, quote]) {
                begin += 2;
            }
            let end = self.closing(begin, quote, slashes);
            let value = &self.text[begin..end];
            if let Some(default) = names::default(value) {
                return is_sure.then(|| begin + default.start..begin + default.end);
            }
            let is_meant = if joint == Joint::Call { is_mixed(value) } else { is_sure || is_likely(value) };
            let is_one = !names::is_placeholder(value) && is_meant;
            // One or two signs are the end of a string that mentions a password.
            let is_rest = value.len() < 3 && !value.bytes().any(|byte| byte.is_ascii_alphanumeric());
            return (is_one && !is_rest).then_some(begin..end);
        }
        match (joint, self.bytes.get(at)) {
            (Joint::Call, _) => return None,
            (Joint::Json | Joint::Colon, Some(b'[' | b'{')) if is_sure || name == "cookies" => {
                return self.in_brackets(is_sure, at);
            }
            // `Pwd={a;b};`
            (Joint::Equals, Some(b'{')) if is_sure => {
                let end = at + memchr::memchr2(b'}', b'\n', &self.bytes[at..self.bytes.len().min(at + HEAD)])?;
                let is_whole = matches!(self.bytes.get(end + 1), None | Some(b';' | b'"' | b'\'' | b'\n'));
                let value = &self.text[at + 1..end];
                let is_one = value.contains(';') || is_likely(value);
                return (is_whole && is_one && !value.contains(['{', '"', ' '])).then_some(at + 1..end);
            }
            // The value is alone on the next line.
            (Joint::Colon, Some(b'\n')) if is_sure => return self.next_line(at),
            _ => {}
        }
        if is_sure && let Some(literal) = self.literal_of_call(at) {
            return Some(literal);
        }
        if matches!(joint, Joint::Tag | Joint::Labelled) {
            let is_sure = is_sure && joint == Joint::Tag;
            let rest = &self.bytes[at..self.bytes.len().min(at + QUOTED)];
            let end = at + memchr::memchr2(b'<', b'\n', rest).filter(|end| rest[*end..].starts_with(b"</"))?;
            let value = &self.text[at..end];
            return (!names::is_placeholder(value) && (is_sure || is_likely(value))).then_some(at..end);
        }
        if is_sure && joint == Joint::Colon && matches!(self.bytes.get(at), Some(b'|' | b'>')) {
            return self.block(at);
        }
        if is_sure && self.text[at..].starts_with("${") {
            let end = self.end_of_expansion(at);
            return names::default(&self.text[at..end]).map(|default| at + default.start..at + default.end);
        }
        // Code, whatever follows: `password=(…`.
        let never: &[u8] = if is_sure && is_variable(name, joint) { b"(<" } else { b"([{<&|=!,;)}]>" };
        if self.bytes.get(at).is_some_and(|byte| never.contains(byte)) {
            return None;
        }
        let head = self.end_of_bare(at, HEAD);
        if !self.is_bare_secret(name, is_sure, joint, at, head) {
            return None;
        }
        Some(at..self.end_of_bare(at, usize::MAX))
    }

    /// Hides the value in `sshpass -p VALUE`, `docker login -p VALUE` or `mysql -pVALUE`. Returns the position from
    /// which more text could change the decision.
    pub(super) fn short_flag(&mut self, start: usize, end: usize) -> usize {
        let at = end + self.blanks(end);
        let Some(program) = self.passwords.before_in_line(self.bytes, start) else { return end };
        // With a space, these programs ask for the password, and the next word is the name of a database.
        let is_client = ["mysql", "mariadb"].iter().any(|client| self.text[program..].starts_with(client));
        if is_client && at > end {
            return end;
        }
        let is_port = |value: &str| value.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
        if let Some(span) = self.value("password", true, Joint::Flag, at).filter(|span| !is_port(&self.text[span.clone()])) {
            self.hide(span);
        }
        at
    }

    /// Returns the lines below `name: |` that are indented like the first.
    fn block(&mut self, at: usize) -> Option<Range<usize>> {
        let bytes = &self.bytes[..self.bytes.len().min(at + QUOTED)];
        let first = at + memchr::memchr(b'\n', &bytes[at..bytes.len().min(at + 4)])? + 1;
        let indent = bytes[first..].iter().take(HEAD).take_while(|byte| **byte == b' ').count();
        let mut end = first;
        while indent > 0 && bytes[end..].iter().take(indent).filter(|byte| **byte == b' ').count() == indent {
            end = memchr::memchr(b'\n', &bytes[end..]).map_or(bytes.len(), |line| end + line + 1);
        }
        self.touched |= end == self.bytes.len();
        let value = self.text.get(first + indent..floor(self.text, end))?.trim_end();
        (!names::is_placeholder(value)).then(|| first + indent..first + indent + value.len())
    }

    /// Returns where a value in quotes ends: at the next quote with as many backslashes, or at the end of the line.
    pub(super) fn closing(&mut self, begin: usize, quote: u8, slashes: usize) -> usize {
        let bytes = self.bytes;
        let limit = bytes.len().min(begin + QUOTED);
        let closes = |at: usize| {
            let before = bytes[begin..at].iter().rev().take_while(|byte| **byte == b'\\').count();
            (before == slashes || slashes == 0 && before % 2 == 0).then_some(at - if slashes > 0 { before } else { 0 })
        };
        let mut quotes = memchr::memchr_iter(quote, &bytes[begin..limit]).map(|at| begin + at);
        let (mut next, mut touched) = (0, false);
        let found = quotes.find_map(|at| {
            let end = closes(at).filter(|_| at >= next)?;
            // `'it''s'` in YAML and SQL, `'it'\''s'` in a shell: the value continues.
            let behind = &bytes[at + 1..];
            let more = match behind {
                [b'\'', letter, ..] if letter.is_ascii_alphanumeric() => 1,
                [b'\\', b'\'', b'\'', ..] => 3,
                _ => 0,
            };
            let may_go_on = quote == b'\'' && slashes == 0 && bytes[begin..at].iter().any(u8::is_ascii_alphanumeric);
            touched |= may_go_on && (behind == b"'" || b"\\''".starts_with(behind));
            next = at + 1 + more;
            (more == 0 || !may_go_on).then_some((at, end))
        });
        self.touched |= touched;
        let line = memchr::memchr(b'\n', &bytes[begin..found.map_or(limit, |(at, _)| at)]).map(|at| begin + at);
        match (found, line) {
            (Some((_, end)), None) => end,
            // The value spans lines only if the quote can be nothing but its end.
            (Some((at, end)), Some(_))
                if bytes.get(at + 1).is_none_or(|byte| byte.is_ascii_whitespace() || b",;)}]".contains(byte)) =>
            {
                self.touched |= at + 1 == bytes.len();
                end
            }
            (_, line) => {
                self.touched |= found.is_none() && limit == bytes.len();
                let end = line.unwrap_or(limit);
                let end = end - usize::from(bytes[begin..end].last() == Some(&b'\r'));
                begin + floor(&self.text[begin..], end - begin)
            }
        }
    }

    /// Returns where `${…}` ends.
    fn end_of_expansion(&mut self, from: usize) -> usize {
        let mut depth = 0;
        let head = &self.bytes[from..self.bytes.len().min(from + HEAD)];
        let closes = |byte: &u8| {
            depth += match byte {
                b'{' => 1,
                b'}' => -1,
                _ => 0,
            };
            matches!(byte, b'\n') || *byte == b'}' && depth == 0
        };
        let end = head.iter().position(closes);
        self.touched |= end.is_none() && from + head.len() == self.bytes.len();
        end.map_or(from, |end| from + end + usize::from(head[end] == b'}'))
    }

    /// Returns where a password of several words ends, as YAML allows: at the end of its line. A sentence about
    /// passwords is not one.
    fn end_of_phrase(&mut self, name: Range<usize>, from: usize) -> Option<usize> {
        let start = name.start;
        if !["pass", "pwd"].iter().any(|word| names::find_ignoring_case(&self.text[name.clone()], word)) {
            return None;
        }
        let lead = self.bytes[..start].iter().rev().take(HEAD).take_while(|byte| matches!(byte, b' ' | b'-' | b'\t')).count();
        if self.bytes[..start - lead].last().is_some_and(|byte| *byte != b'\n') {
            return None;
        }
        let rest = &self.bytes[from..self.bytes.len().min(from + HEAD)];
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.touched |= from + length == self.bytes.len();
        let line = &self.text[from..floor(self.text, from + length)];
        let value = line.split(" #").next()?.trim_end();
        if value.starts_with(['$', '|', '>', '[', '{', '<', '&', '!', '-']) || names::is_placeholder(value) {
            return None;
        }
        // A sentence starts like this: `Name of the user`.
        let is_sentence = value.starts_with(|c: char| c.is_ascii_uppercase())
            && !value[1..].bytes().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        let (mut words, mut mixed) = (0, false);
        for word in value.split_ascii_whitespace() {
            let is_apart = word.ends_with(['.', ',', ':', ';', '!', '?', ')']) || word.starts_with(['(', '"', '\'', '`']);
            if is_sentence || is_apart || names::is_code(word) || names::is_prose(word) {
                return None;
            }
            words += 1;
            let has = |is: fn(&u8) -> bool| word.as_bytes().iter().any(is);
            mixed |= has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
        }
        (words >= 4 || words > 1 && mixed).then_some(from + value.len())
    }

    /// Returns where a value without quotes ends, at most `most` bytes on: at whitespace, or at a sign that something
    /// else follows.
    pub(super) fn end_of_bare(&mut self, from: usize, most: usize) -> usize {
        let bytes = self.bytes;
        let limit = from.saturating_add(most).min(bytes.len());
        let mut at = from;
        while at < limit {
            let next = bytes.get(at + 1).copied();
            let is_end = match bytes[at] {
                byte if byte.is_ascii_whitespace() => true,
                b'\\' => matches!(next, Some(b'n' | b'r' | b't' | b'"' | b'\'' | b'\\') | None),
                b'"' | b'\'' | b'`' => !next.is_some_and(|next| next.is_ascii_alphanumeric()),
                b')' | b']' | b'}' | b'>' | b'<' => !next.is_some_and(|next| next.is_ascii_alphanumeric()),
                b',' | b';' | b'&' | b'|' => self.is_next_entry(at),
                _ => false,
            };
            if is_end {
                break;
            }
            at += 1;
        }
        self.touched |= at == bytes.len();
        let mut end = (at..=bytes.len()).find(|at| self.text.is_char_boundary(*at)).unwrap_or(bytes.len());
        // The punctuation of a sentence is not part of the value.
        while end > from + 1 && end < bytes.len() && matches!(bytes[end - 1], b'.' | b',' | b':' | b'!' | b'?' | b';') {
            end -= 1;
        }
        end
    }

    /// Returns whether another entry follows the sign here: a space, the same sign, or `name=`.
    fn is_next_entry(&mut self, at: usize) -> bool {
        let rest = &self.bytes[at + 1..];
        let word = rest
            .iter()
            .take(NAME)
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
            .count();
        self.touched |= word == rest.len();
        match rest.first() {
            None => true,
            Some(next) if next.is_ascii_whitespace() || *next == self.bytes[at] || matches!(next, b'"' | b'\'') => true,
            Some(_) => word > 0 && matches!(rest.get(word), Some(b'=' | b':')),
        }
    }

    /// Returns whether a value without quotes is a secret, and not a word of a sentence or of code.
    fn is_bare_secret(&mut self, name: &str, is_sure: bool, joint: Joint, from: usize, end: usize) -> bool {
        let value = &self.text[from..end];
        let is_word = value.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.' | b'-' | b'\''));
        // It may be a word in a sentence or a type in code. Only a word that ends its line can be a value.
        if is_word && matches!(joint, Joint::Colon | Joint::SpacedEquals) {
            let behind = self.bytes[end..].iter().take(HEAD).find(|byte| !matches!(byte, b' ' | b'\t'));
            if value.len() < 3 || !matches!(behind, None | Some(b'\n' | b'\r' | b'#' | b'\\' | b'"' | b'\'' | b'`')) {
                return false;
            }
        }
        if value.is_empty() || names::is_placeholder(value) || ["$(", "${", "{{"].iter().any(|sign| value.starts_with(sign)) {
            return false;
        }
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'_'));
        if is_number {
            let is_password = name.to_ascii_lowercase().contains("pass");
            let is_long = value.len() >= if is_password { 6 } else { 8 };
            // A date or a version contains other signs.
            let is_other = !is_password && !value.bytes().all(|byte| byte.is_ascii_digit());
            return (is_password || is_sure) && is_long && !is_other && joint != Joint::Json;
        }
        if joint == Joint::Json {
            // It is not a string, and replacing it would break the JSON.
            return false;
        }
        // `GOOGLE_APPLICATION_CREDENTIALS=/etc/key.json`
        if value.starts_with(['/', '~', '.']) && is_file(value) {
            return false;
        }
        if is_sure && is_variable(name, joint) {
            return true;
        }
        if value.starts_with(['"', '\'']) || names::is_code(value) {
            return false;
        }
        if joint == Joint::Netrc {
            return true;
        }
        match joint {
            Joint::Flag if PROSE.has(value) || value.starts_with('-') => false,
            Joint::Flag => is_sure || is_likely(value),
            Joint::Colon if !is_sure => is_random(value) || name.eq_ignore_ascii_case("pw") && is_likely(value),
            _ if !is_sure => is_likely(value),
            Joint::Equals => value.bytes().any(|byte| byte.is_ascii_alphanumeric()),
            _ if is_word => true,
            _ => value.len() > 2 && value.bytes().any(|byte| byte.is_ascii_alphanumeric()),
        }
    }
}

/// Returns whether this is set like a shell variable: `NAME=value`.
fn is_variable(name: &str, joint: Joint) -> bool {
    joint == Joint::Equals && !name.bytes().any(|byte| byte.is_ascii_lowercase())
}
