//! A Kubernetes `Secret`, as `kubectl get secret` prints it. Everything under `data` is secret, whatever its name. The
//! line that says it is a `Secret` may come after the data.

use std::ops::Range;

use super::names::is_placeholder;
use super::scan::Scan;

/// How far a manifest may extend before and after its `kind`.
const FAR: usize = 16 << 10;

impl Scan<'_> {
    /// Hides the data of the manifest whose `kind: Secret` is here.
    pub(super) fn manifest(&mut self, start: usize, end: usize) -> usize {
        let text = self.text;
        // Earlier text was checked with the manifest before, and later text belongs to the next, so each byte is read
        // at most twice.
        let from = super::floor(text, start.saturating_sub(FAR)).max(self.last_manifest);
        let to = super::floor(text, end + FAR);
        let to = end + memchr::memmem::find(&self.bytes[end..to], b"kind").unwrap_or(to - end);
        self.last_manifest = end;
        self.touched |= to == text.len();
        let mut data: Option<usize> = None;
        let mut at = from;
        for line in text[from..to].split_inclusive('\n') {
            let place = at..at + line.len();
            at = place.end;
            let indent = line.len() - line.trim_start_matches([' ', '-']).len();
            let entry = line.trim_start_matches([' ', '-']).trim_end();
            let names_data = matches!(entry, "data:" | "stringData:" | "\"data\": {" | "\"stringData\": {");
            data = if names_data { Some(indent) } else { data.filter(|data| indent > *data && !entry.is_empty()) };
            let mut hide = |value: Range<usize>| self.spans.push(place.start + value.start..place.start + value.end);
            if data.is_some() && !names_data {
                value(line).into_iter().for_each(&mut hide);
            }
            for name in ["\"data\":{", "\"stringData\":{"] {
                in_one_line(line, name, &mut hide);
            }
        }
        start
    }
}

/// Hides the values of an object that is on one line, without spaces.
fn in_one_line(line: &str, name: &str, hide: &mut impl FnMut(Range<usize>)) {
    let Some(from) = line.find(name).map(|at| at + name.len()) else { return };
    let data = line[from..].find('}').map_or(&line[from..], |length| &line[from..from + length]);
    let mut at = 0;
    while let Some(begin) = data[at..].find("\":\"").map(|found| at + found + 3) {
        let end = data[begin..].find('"').map_or(data.len(), |length| begin + length);
        if !is_placeholder(&data[begin..end]) {
            hide(from + begin..from + end);
        }
        at = end;
    }
}

/// Returns the value of a line `name: value` or `"name": "value",`, or the whole line if it is not such an entry.
fn value(line: &str) -> Option<Range<usize>> {
    let from = line.find(": ").map_or(line.len() - line.trim_start().len(), |colon| colon + 2);
    let value = line[from..].trim_end().trim_end_matches(',');
    let from = from + usize::from(value.starts_with(['"', '\'']));
    let value = value.trim_matches(['"', '\'']);
    let is_block = matches!(value, "|" | "|-" | ">" | ">-") || value.ends_with([':', '{', '}']);
    (!is_block && !is_placeholder(value)).then(|| from..from + value.len())
}
