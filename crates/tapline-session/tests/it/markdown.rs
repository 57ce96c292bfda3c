//! Markdown that agents write, on a page and on a terminal: what it becomes, and that hostile Markdown stays small text.

use serde_json::json;
use tapline_session::render::html::Cards;
use tapline_session::render::{RenderAs, Style, TerminalOptions};

use crate::read_stream::{PLAIN, ReadStream, screen, show, tell_plainly};

fn said(text: &str) -> ReadStream {
    let line = json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": text}]}});
    tell_plainly(format!("{line}\n").as_bytes())
}

fn html(text: &str) -> String {
    let mut cards = Cards::default();
    let numbers: Vec<usize> = said(text).steps.iter().flatten().flat_map(|step| cards.accept(step)).collect();
    numbers.iter().map(|n| cards[*n].html()).collect()
}

fn terminal(text: &str) -> String {
    let options = TerminalOptions { style: Style::ansi(), width: Some(60), ..PLAIN };
    show(&said(text), RenderAs::Terminal(options))
}

/// The elements of a page that are open at the same time, at most. It fails if one is closed that is not open.
fn nesting(html: &str) -> usize {
    let (mut open, mut most): (Vec<&str>, usize) = (Vec::new(), 0);
    for tag in html.split('<').skip(1) {
        let name = tag.split(['>', ' ']).next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "closes what is open"),
            None if name == "br" || name == "hr" => {}
            None => open.push(name),
        }
        most = most.max(open.len());
    }
    assert_eq!(open, Vec::<&str>::new(), "all is closed");
    most
}

const TEXT: &str = "# Title\n\nA **bold** *soft* ~~gone~~ `<code>` word,\nsecond line.\n\n1. one\n   - nested\n2. two\n\n- [x] done\n- [ ] open\n\n\
    | a | n |\n|---|--:|\n| x | 1 |\n\n> quoted\n\n---\n\n```rust\nlet a = \"<b>\";\n```\n\nhttps://a.example/x. <https://b.example> [c](https://c.example)";

#[test]
fn markdown_on_a_page() {
    let html = html(TEXT);
    for part in [
        "<h3>Title</h3>",
        "<p>A <strong>bold</strong> <em>soft</em> <del>gone</del> <code>&lt;code&gt;</code> word,<br>\nsecond line.</p>",
        "<ol start=1>\n<li>one<ul>\n<li>nested</li>\n</ul>\n</li>\n<li>two</li>\n</ol>",
        "<li><span class=done aria-label=\"done: \">☑</span> done</li>",
        "<tr><th>a</th><th class=right>n</th></tr>\n<tr><td>x</td><td class=right>1</td></tr>",
        "<blockquote>\n<p>quoted</p>\n</blockquote>\n<hr>",
        "<pre class=code><span class=kw>let</span> a = <span class=str>&quot;&lt;b&gt;&quot;</span>;</pre>",
        "<a href=\"https://a.example/x\" rel=\"noreferrer noopener\" target=_blank>https://a.example/x</a>.",
        "<a href=\"https://b.example\" rel=\"noreferrer noopener\" target=_blank>https://b.example</a>",
        "<a href=\"https://c.example\" rel=\"noreferrer noopener\" target=_blank>c</a>",
    ] {
        assert!(html.contains(part), "{part}\n\n{html}");
    }
    nesting(&html);
}

#[test]
fn markdown_on_a_terminal_and_its_source_in_a_pipe() {
    let shown = terminal("A **bold** `word`\n\n- one");
    assert!(shown.contains("A \u{1b}[1mbold\u{1b}[0m \u{1b}[36mword\u{1b}[0m\n\n• one\n"), "{shown:?}");
    for options in [PLAIN, TerminalOptions { width: Some(60), ..PLAIN }, TerminalOptions { style: Style::ansi(), ..PLAIN }] {
        let shown = show(&said("A **bold** `word`\n\n- one"), RenderAs::Terminal(options));
        assert!(shown.contains("A **bold** `word`\n\n- one\n"), "{shown:?}");
    }
}

#[test]
fn only_the_web_is_linked_and_nothing_is_fetched() {
    for link in [
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](&#106;avascript:alert(1))",
        "[x](vbscript:x)",
        "[x](file:///etc/passwd)",
        "[x](//evil.example)",
        "[x](<java\nscript:alert(1)>)",
        "[x][y]\n\n[y]: javascript:alert(1)",
        "<javascript:alert(1)>",
        "![x](javascript:alert(1))",
    ] {
        let html = html(link);
        assert!(!html.contains("<a ") && !html.contains("<img"), "{link}: {html}");
    }
    let image = html("![a \"b\"](https://c.example/d.svg)");
    assert!(image.contains("image: <a href=\"https://c.example/d.svg\"") && !image.contains("<img"), "{image}");
    let quoted = html("[x](https://a.example/\"onclick=y)");
    assert!(quoted.contains("href=\"https://a.example/&quot;onclick=y\""), "{quoted}");
}

#[test]
fn raw_html_is_text() {
    for raw in [
        "<script>alert(1)</script>",
        "a <img src=x onerror=y> b",
        "<!-- x -->",
        "<svg/onload=x>",
        "<?php x ?>",
        "<a href=x>y</a>",
    ] {
        let html = html(raw);
        assert!(html.contains("&lt;"), "{html}");
        for tag in ["<script", "<img", "<!--", "<svg", "<?", "<a "] {
            assert!(!html.contains(tag), "{html}");
        }
    }
}

#[test]
fn hostile_markdown_stays_small_and_flat() {
    let rows = |text: &str, count| text.repeat(count);
    let stairs: String = (0..300).fold(String::new(), |text, depth| text + &"  ".repeat(depth) + "- a\n");
    for text in [
        rows("[", 1_000_000),
        rows("![", 100_000),
        rows("[a](", 50_000),
        rows("*a_ ", 50_000),
        rows("> ", 50_000) + "x\n" + &rows("y\n", 50_000),
        rows("- ", 50_000) + "x",
        rows("`", 100_000),
        rows("<a", 50_000),
        rows("|a", 5_000) + "\n" + &rows("|-", 5_000) + "\n" + &rows("x\n", 5_000),
        format!("[a]: http://{}\n\n{}", rows("b", 20_000), rows("[a] ", 20_000)),
        rows("```\n", 50_000),
        rows("http://", 20_000),
        format!("```js\n{}\n```", rows("1 ", 40_000)),
        rows("> ", 40) + "x",
        stairs,
    ] {
        let begin: String = text.chars().take(20).collect();
        let html = html(&text);
        assert!(html.len() < text.len() * 64 + 4_096, "{begin}: {} bytes became {}", text.len(), html.len());
        assert!(nesting(&html) <= 40, "{begin}: {} elements in each other", nesting(&html));
        let shown = terminal(&text);
        assert!(shown.len() < text.len() * 64 + 4_096, "{begin}: {} bytes became {}", text.len(), shown.len());
    }
}

const COLOUR: TerminalOptions = TerminalOptions { style: Style::ansi(), width: Some(60), ..PLAIN };

#[test]
fn text_that_is_typed_ends_as_it_would_have_without_its_parts() {
    let text = "# Plan\n\nA **bold** word.\n\n1. one\n\n   more\n2. two\n\n```sh\nls\n\npwd\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd";
    for size in [1, 3, 50, 1_000] {
        let chars: Vec<char> = text.chars().collect();
        let start = json!({"type": "stream_event", "event": {"type": "message_start", "message": {"id": "m"}}});
        let mut stream = format!("{start}\n");
        for piece in chars.chunks(size) {
            let delta = json!({"type": "text_delta", "text": piece.iter().collect::<String>()});
            let event = json!({"type": "content_block_delta", "index": 0, "delta": delta});
            stream += &(json!({"type": "stream_event", "event": event}).to_string() + "\n");
        }
        let whole = json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": text}]}});
        let told = tell_plainly(format!("{stream}{whole}\n").as_bytes());
        let [typed, whole] = [true, false]
            .map(|partial| screen(&show(&told, RenderAs::Terminal(TerminalOptions { live: true, partial, ..COLOUR }))));
        assert_eq!(typed, whole, "in pieces of {size}");
        assert!(whole.contains(&"    pwd".to_owned()) && whole.contains(&"   more".to_owned()), "{whole:#?}");
    }
}

fn edited() -> ReadStream {
    let new: String = (0..30).fold(String::new(), |text, at| text + "new " + &at.to_string() + "\n");
    let input = json!({"file_path": "a.rs", "old_string": "old\n", "new_string": new});
    let call = json!({"type": "tool_use", "id": "t", "name": "Edit", "input": input});
    let call = json!({"type": "assistant", "message": {"id": "m", "content": [call]}});
    let answer = json!({"type": "tool_result", "tool_use_id": "t", "content": "one\n\u{1b}[2Jtwo\nthree"});
    let answer = json!({"type": "user", "message": {"content": [answer]}});
    tell_plainly(format!("{call}\n{answer}\n").as_bytes())
}

#[test]
fn edits_are_short_diffs_on_a_terminal_with_colours_alone() {
    let shown = show(&edited(), RenderAs::Terminal(COLOUR));
    assert!(shown.contains("\u{1b}[31m- old\u{1b}[0m\n") && shown.contains("\u{1b}[32m+ new 0\u{1b}[0m\n"), "{shown}");
    assert!(shown.contains("… 23 lines") && !shown.contains("three"), "{shown}");
    let plain = show(&edited(), RenderAs::Terminal(PLAIN));
    assert!(plain.contains("✓ edited: `a.rs`") && !plain.contains("new 0"), "{plain}");
}

#[test]
fn a_full_view_has_whole_edits_and_outputs() {
    for options in [PLAIN, COLOUR] {
        let shown = show(&edited(), RenderAs::Terminal(TerminalOptions { full: true, ..options }));
        assert!((0..30).all(|at| shown.contains(&format!("+ new {at}"))), "{shown}");
        for line in ["one", "␛[2Jtwo", "three"] {
            assert!(shown.contains(line), "{shown}");
        }
    }
}
