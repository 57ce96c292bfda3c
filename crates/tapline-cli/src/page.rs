//! A page of docs/ as text for a terminal: its Markdown, with links that lead somewhere here.

use std::path::Path;

use tapline_session::render::{Style, render_page};

use crate::topics;

/// Renders the page in lines of at most this many columns, if words allow it.
pub(crate) fn render(markdown: &str, style: Style, columns: usize) -> String {
    render_page(&with_topics(markdown), style, columns)
}

/// Returns the page with links to other pages as what to type. Addresses on the web stay.
fn with_topics(markdown: &str) -> String {
    let (mut out, mut rest) = (String::new(), markdown);
    // Where the paragraph begins.
    let mut begin = 0;
    while let Some(at) = rest.find(['`', '[', '\n']) {
        out += &rest[..at];
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("\n\n") {
            out += "\n\n";
            (begin, rest) = (out.len(), after);
        } else if let Some(end) = code_end(rest) {
            out += &rest[..end];
            rest = &rest[end..];
        } else if let Some((label, target, after)) = link(rest).filter(|_| !out.ends_with('!')) {
            let said = &out[begin..];
            let nested = said.matches('(').count() > said.matches(')').count();
            out += &linked(label, target, nested);
            rest = after;
        } else {
            out += &rest[..1];
            rest = &rest[1..];
        }
    }
    out + rest
}

/// Returns where code ends that begins here.
fn code_end(text: &str) -> Option<usize> {
    let ticks = text.bytes().take_while(|byte| *byte == b'`').count();
    let fence = &text[..ticks];
    (ticks > 0).then(|| text[ticks..].find(fence).map_or(text.len(), |at| at + 2 * ticks))
}

/// Splits off `[label](target)`, and returns the rest.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, rest) = rest.split_once(')')?;
    (!label.contains(']')).then_some((label, target, rest))
}

/// Describes a link: a page has a name here, and a place in the same page needs none.
fn linked(label: &str, target: &str, nested: bool) -> String {
    let place = match topics::in_file(target.split('#').next().unwrap_or_default()) {
        Some(topic) => format!("`tapline help {}`", topic.name),
        None if target.starts_with("https://") => target.to_owned(),
        None => return label.to_owned(),
    };
    match label {
        _ if Path::new(label).extension().is_some_and(|extension| extension == "md") => place,
        _ if nested => format!("{label}, {place}"),
        _ => format!("{label} ({place})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Secrets

Text that is **longer than `one` line**, and goes on
`here` ([what counts](REDACT.md), [syntax](https://example.org)); see *also* [rules](PERMISSIONS.md#decisions) and [below](#more).

![a picture](x.png)

* an item of a list, which is wrapped and
  continued `[not](a link)`

```sh
a | b  # a comment that is [longer](REDACT.md) than any line may be
```

| key | |
|---|---|
| `a \\| b` | either |
";

    #[test]
    fn a_page_is_wrapped_and_its_links_are_topics() {
        let expected = "\
# Secrets

Text that is longer than `one` line, and
goes on `here` (what counts, `tapline
help redact`, syntax,
https://example.org); see also rules
(`tapline help permissions`) and below.

• an item of a list, which is wrapped
  and continued `[not](a link)`

    a | b  # a comment that is [longer](REDACT.md) than any line may be

key
──────────────
`a | b`  either
";
        let page = render(PAGE, Style::plain(), 40);
        assert_eq!(page, expected.replace("──────────────", &"─".repeat(15)));
    }
}
