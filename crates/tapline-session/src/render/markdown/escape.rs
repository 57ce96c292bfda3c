//! The agent's text in Markdown: its formatting stays, but no HTML, no entity and no script link survives.

use crate::text::{one_line, visible};

/// Returns text with the agent's own formatting. Fenced code and code spans stay unchanged; an open fence is closed.
pub(in crate::render) fn prose(text: &str) -> String {
    let text = visible(text.trim_matches('\n'));
    let mut out = String::with_capacity(text.len());
    let mut fence: Option<String> = None;
    // A backtick that an earlier line of the paragraph left open may close on any later line. Then it is not certain
    // what is a code span.
    let mut sure = true;
    for line in text.lines() {
        if !out.is_empty() {
            out.push('\n');
        }
        if let Some(open) = &fence {
            out.push_str(line);
            if closes(line, open) {
                fence = None;
                sure = true;
            }
            continue;
        }
        fence = opens(line);
        if line.trim().is_empty() {
            sure = true;
        }
        let (escaped, balanced) = harmless_but_spans(line, sure);
        sure &= balanced;
        out.push_str(&escaped);
    }
    if let Some(open) = fence {
        out.push('\n');
        out.push_str(&open);
    }
    out
}

/// Makes a line harmless, except for its code spans. Returns whether every backtick in it is paired.
fn harmless_but_spans(line: &str, sure: bool) -> (String, bool) {
    if !sure || line.contains("\\`") {
        return (harmless(line), !line.contains('`'));
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        out.push_str(&harmless(&rest[..at]));
        let run = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        let (mark, behind) = rest[at..].split_at(run);
        // The closing run has the same length.
        let partner = behind
            .match_indices(mark)
            .map(|(at, _)| at)
            .find(|at| !behind[..*at].ends_with('`') && !behind[at + run..].starts_with('`'));
        let Some(end) = partner else { return (out + &harmless(&rest[at..]), false) };
        out.push_str(&rest[at..at + run + end + run]);
        rest = &behind[end + run..];
    }
    (out + &harmless(rest), true)
}

/// Returns the fence that this line opens: three or more backticks or tildes at its very start. An indented fence may
/// belong to a list and end with it.
fn opens(line: &str) -> Option<String> {
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    let info = &line[length..];
    (length >= 3 && !(mark == '`' && info.contains('`'))).then(|| mark.to_string().repeat(length))
}

fn closes(line: &str, open: &str) -> bool {
    let text = line.trim_start_matches(' ');
    let rest = text.trim_end();
    line.len() - text.len() <= 3 && rest.len() >= open.len() && rest.chars().all(|c| open.starts_with(c))
}

/// Returns a line without HTML, entities, or links that run something.
fn harmless(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for (at, c) in line.char_indices() {
        let next = line[at + c.len_utf8()..].chars().next();
        match c {
            '<' if next.is_some_and(|next| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?')) => {
                out.push_str("&lt;");
            }
            '&' if next.is_some_and(|next| next.is_ascii_alphabetic() || next == '#') => out.push_str("&amp;"),
            ':' if runs_something(&out) => out.push_str(" :"),
            c => out.push(c),
        }
    }
    out
}

/// Returns whether a link scheme that a page would run ends here.
fn runs_something(before: &str) -> bool {
    const SCHEMES: &[&str] = &["javascript", "vbscript", "data"];
    let before = before.trim_end_matches('\\');
    SCHEMES.iter().any(|scheme| {
        let start = before.len().checked_sub(scheme.len());
        let found = start.and_then(|start| before.get(start..));
        found.is_some_and(|found| found.eq_ignore_ascii_case(scheme))
            && (*scheme != "data" || before[..before.len() - scheme.len()].ends_with(['(', '<', ' ']))
    })
}

/// Returns text on one line, without formatting.
pub(in crate::render) fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in harmless(&one_line(text)).chars() {
        if matches!(c, '*' | '_' | '[' | ']' | '`' | '|' | '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Formats a call's title: text in backticks becomes a code span, whatever it contains.
pub(super) fn title(text: &str) -> String {
    match text.strip_prefix('`').and_then(|text| text.strip_suffix('`')) {
        Some(code) => code_span(code),
        None => inline(text),
    }
}

fn code_span(code: &str) -> String {
    let mark = "`".repeat(longest_run(code) + 1);
    let pad = if code.starts_with('`') || code.ends_with('`') { " " } else { "" };
    format!("{mark}{pad}{code}{pad}{mark}")
}

/// Writes a fenced block that nothing inside can close.
pub(in crate::render) fn code_block(text: &str) -> String {
    let mark = "`".repeat(longest_run(text).max(2) + 1);
    format!("{mark}\n{}\n{mark}", visible(text))
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_runs() {
        assert_eq!(prose("<script>x</script> a < b <!-- c"), "&lt;script>x&lt;/script> a < b &lt;!-- c");
        assert_eq!(prose("[x](javascript:alert(1))"), "[x](javascript :alert(1))");
        assert_eq!(prose("[x](JavaScript\\:alert(1))"), "[x](JavaScript\\ :alert(1))");
        assert_eq!(prose("[x](java&#115;cript:1)"), "[x](java&amp;#115;cript:1)");
        assert_eq!(prose("metadata: fine"), "metadata: fine");
    }

    #[test]
    fn code_stays_and_fences_close() {
        assert_eq!(prose("```html\n<b>\n```\n<b>"), "```html\n<b>\n```\n&lt;b>");
        assert_eq!(prose("~~~\n<b>"), "~~~\n<b>\n~~~");
        assert_eq!(prose("``` a`b\n<b>"), "``` a`b\n&lt;b>");
        assert_eq!(code_block("a ``` b"), "````\na ``` b\n````");
        assert_eq!(title("`echo `date``"), "`` echo `date` ``");
        assert_eq!(prose("use `Vec<String>` and `&str`, not <b>"), "use `Vec<String>` and `&str`, not &lt;b>");
        assert_eq!(prose("open ` here\n` <b> `\n\n`<i>`"), "open ` here\n` &lt;b> `\n\n`<i>`");
        assert_eq!(prose("\\`<b>\\`"), "\\`&lt;b>\\`");
        assert_eq!(prose("- a\n  ```\n<script>x"), "- a\n  ```\n&lt;script>x");
    }
}
