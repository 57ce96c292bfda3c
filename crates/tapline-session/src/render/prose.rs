//! Markdown, as agents write it: read once and in one way, for the page and for the terminal. Whatever would be markup
//! of somebody else (raw HTML) is text. What is read stays small: a text that is too long or nested too deeply is not
//! read as Markdown.

use pulldown_cmark::{Event as Piece, Options, Parser, Tag, TagEnd, TextMergeStream};

/// A longer text, in bytes, is shown as it is.
const LONGEST: usize = 256 * 1024;
/// A text with a line of more quotes and lists in each other is shown as it is: every later line is compared with all of
/// them.
const DEEPEST: usize = 48;
/// The schemes that a link may have.
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// Reads Markdown. Returns `None` for a text that is better shown as it is.
pub(super) fn events(text: &str) -> Option<impl Iterator<Item = Piece<'_>>> {
    if text.len() > LONGEST || text.lines().any(is_deep) {
        return None;
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Some(TextMergeStream::new(Parser::new_ext(text, options).map(without_html)))
}

/// Makes raw HTML a paragraph of text.
fn without_html(event: Piece<'_>) -> Piece<'_> {
    if let Piece::Html(raw) | Piece::InlineHtml(raw) = event {
        Piece::Text(raw)
    } else if let Piece::Start(Tag::HtmlBlock) = event {
        Piece::Start(Tag::Paragraph)
    } else if let Piece::End(TagEnd::HtmlBlock) = event {
        Piece::End(TagEnd::Paragraph)
    } else {
        event
    }
}

/// Returns whether a line opens very many quotes and lists.
fn is_deep(line: &str) -> bool {
    let opens = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'>' | b'-' | b'+' | b'*' | b'.' | b')' | b'0'..=b'9');
    let begin = line.as_bytes().iter().take_while(opens);
    begin.filter(|byte| matches!(byte, b'>' | b'-' | b'+' | b'*' | b'.' | b')')).take(DEEPEST + 1).count() > DEEPEST
        // A rule or the line below a heading.
        && line.trim().bytes().any(|byte| byte != line.trim().as_bytes()[0])
}

/// Returns whether an address may become a link. Anything else stays text.
pub(super) fn is_web(address: &str) -> bool {
    let is = |scheme: &&str| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    SCHEMES.iter().any(is) && !address.contains(|c: char| c.is_control() || c.is_whitespace())
}

/// Splits a text into what is an address on the web and what is not, in order.
pub(super) fn addresses(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    let mut address = "";
    std::iter::from_fn(move || {
        if !address.is_empty() {
            return Some((std::mem::take(&mut address), true));
        }
        if rest.is_empty() {
            return None;
        }
        let mut from = 0;
        while let Some(at) = rest[from..].find("://").map(|at| from + at) {
            let start = ["https", "http"].iter().find(|scheme| rest[..at].ends_with(**scheme)).map(|scheme| at - scheme.len());
            let length = rest[at + 3..].find(|c: char| c.is_whitespace() || c.is_control() || "<>\"`|{}".contains(c));
            let end = length.map_or(rest.len(), |length| at + 3 + length);
            // What follows a link in a sentence is not part of it.
            let shown = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'', '*', '_', '…']).len();
            let Some(start) = start.filter(|_| shown > at + 3) else {
                from = end;
                continue;
            };
            let before = &rest[..start];
            (address, rest) = (&rest[start..shown], &rest[shown..]);
            return Some(if before.is_empty() { (std::mem::take(&mut address), true) } else { (before, false) });
        }
        Some((std::mem::take(&mut rest), false))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_web_is_linked() {
        for address in ["https://a.example/x?y=1#z", "HTTP://a", "mailto:a@b"] {
            assert!(is_web(address), "{address}");
        }
        for address in ["javascript:alert(1)", "data:text/html,x", "file:///etc", "//a", "a.rs", "", "java\tscript:x", "http:x"]
        {
            assert!(!is_web(address), "{address}");
        }
    }

    #[test]
    fn addresses_in_a_sentence() {
        let parts = |text| addresses(text).collect::<Vec<_>>();
        assert_eq!(
            parts("See https://a.example/b_c. (http://d)"),
            [("See ", false), ("https://a.example/b_c", true), (". (", false), ("http://d", true), (")", false)]
        );
        assert_eq!(parts("https://a"), [("https://a", true)]);
        for text in ["ftp://x", "http://", "a://https", "://", "javascript://x"] {
            assert_eq!(parts(text), [(text, false)], "{text}");
        }
        let many = "http://".repeat(10_000);
        assert_eq!(parts(&many).iter().map(|(part, _)| *part).collect::<String>(), many);
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_not_read() {
        assert!(events(&"[".repeat(1_000_000)).is_none());
        assert!(events(&("> ".repeat(1_000) + "x\n" + &"y\n".repeat(1_000))).is_none());
        assert!(events(&("- ".repeat(1_000) + "x")).is_none());
        for text in ["-".repeat(1_000), "> > - a".to_owned(), "*".repeat(100), "1.1.1.1 is one".to_owned()] {
            assert!(events(&text).is_some(), "{text}");
        }
    }

    #[test]
    fn html_is_text() {
        let html = "<script>a</script>\n\na <b>bold</b> <!-- c -->";
        let is_html = |event: &Piece<'_>| matches!(event, Piece::Html(_) | Piece::InlineHtml(_) | Piece::Start(Tag::HtmlBlock));
        assert!(!events(html).unwrap().any(|event| is_html(&event)));
    }
}
