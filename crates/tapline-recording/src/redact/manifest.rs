//! A Kubernetes `Secret`, as `kubectl get secret` prints it. Everything under `data` is secret, whatever its name. The
//! line that says it is a `Secret` may come after the data.

use std::ops::Range;

use super::names::is_placeholder;
use super::scan::Scan;

/// How far a manifest may extend before and after its `kind`.
const FAR: usize = 16 << 10;

impl Scan<'_> {
    /// Hides the data of the manifest whose `Secret` is here.
    pub(super) fn manifest(&mut self, place: Range<usize>) -> usize {
        let start = place.start;
        let mut spans = Vec::new();
        let last = self.last_manifest;
        self.last_manifest = place.end;
        let to = in_manifest(self.text, place, last, &mut spans);
        self.touched |= to == self.text.len();
        for span in spans {
            self.hide_anywhere(span);
        }
        start
    }
}

/// Finds the data of the manifest whose `Secret` is here. Earlier text was checked with the manifest before, and later
/// text belongs to the next, so each byte is read at most twice. Returns how far it looked.
pub(super) fn in_manifest(text: &str, kind: Range<usize>, last: usize, spans: &mut Vec<Range<usize>>) -> usize {
    let from = super::floor(text, kind.start.saturating_sub(FAR)).max(last);
    let to = super::floor(text, kind.end + FAR);
    let to = kind.end + memchr::memmem::find(&text.as_bytes()[kind.end..to], b"kind").unwrap_or(to - kind.end);
    let (mut data, mut at): (Option<usize>, usize) = (None, from);
    for line in text[from..to].split_inclusive('\n') {
        let start = at;
        at += line.len();
        let indent = line.len() - line.trim_start_matches([' ', '-', '\t']).len();
        let entry = line[indent..].trim_end();
        let (key, rest) = entry.split_once(':').unwrap_or((entry, "-"));
        let names_data = matches!(key.trim_matches(['"', '\'', ' ']), "data" | "stringData") && matches!(rest.trim(), "" | "{");
        data = if names_data { Some(indent) } else { data.filter(|data| indent > *data && !entry.is_empty()) };
        if names_data {
            continue;
        }
        if data.is_some() {
            spans.extend(value(line).map(|value| start + value.start..start + value.end));
            continue;
        }
        let mut behind = 0;
        while let Some(found) = memchr::memmem::find(&line.as_bytes()[behind..], b"ata") {
            behind += found + 3;
            let word = line[..behind].rsplit(|c: char| !c.is_ascii_alphanumeric()).next();
            if !matches!(word, Some("data" | "stringData")) {
                continue;
            }
            let rest = line[behind..].trim_start_matches(['"', '\'', '\\']).trim_start();
            if let Some(open) = rest.strip_prefix(':').and_then(|rest| rest.trim_start().strip_prefix('{')) {
                let open = start + line.len() - open.len();
                let close = memchr::memchr(b'}', &text.as_bytes()[open..at]).map_or(at, |close| open + close);
                in_braces(text, open..close, spans);
            }
        }
    }
    to
}

/// Finds the values of an object that is on one line.
fn in_braces(text: &str, place: Range<usize>, spans: &mut Vec<Range<usize>>) {
    let bytes = &text.as_bytes()[..place.end];
    let mut at = place.start;
    while let Some(colon) = memchr::memchr(b':', &bytes[at..]) {
        let from = at + colon + 1;
        let blank = bytes[from..].iter().take_while(|byte| b" \"'\\".contains(byte)).count();
        let begin = from + blank;
        let quote = bytes[from..begin].iter().rev().find(|byte| matches!(byte, b'"' | b'\''));
        let ends = |byte: &u8| quote.map_or(matches!(byte, b',' | b' '), |quote| byte == quote || *byte == b'\\');
        let end = bytes[begin..].iter().position(ends).map_or(bytes.len(), |length| begin + length);
        // An object within, or a number, which is no string.
        let is_string = quote.is_some() || !matches!(bytes[..from - 1].last(), Some(b'"' | b'\''));
        if end > begin && is_string && bytes[begin] != b'{' && !is_placeholder(&text[begin..end]) {
            spans.push(begin..end);
        }
        at = end.max(begin);
    }
}

/// Returns the value of a line `name: value` or `"name": "value",`, or the whole line if it is not such an entry.
fn value(line: &str) -> Option<Range<usize>> {
    let from = line.find(": ").map_or(line.len() - line.trim_start().len(), |colon| colon + 2);
    let value = line[from..].trim_end().trim_end_matches(',');
    let from = from + value.len() - value.trim_start().len();
    let value = value.trim_start();
    let from = from + usize::from(value.starts_with(['"', '\'']));
    let value = value.trim_matches(['"', '\'']);
    let is_block = matches!(value, "|" | "|-" | ">" | ">-") || value.ends_with([':', '{', '}']);
    (!is_block && !is_placeholder(value)).then(|| from..from + value.len())
}
