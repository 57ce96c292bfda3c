//! Every fixture in every format. A change of what people see shows here, as a diff.

use insta::{assert_snapshot, glob};
use tapline_session::render::{Hints, RenderAs, Style, TerminalOptions, render_summary};

use crate::read_stream::{PLAIN, show, tell_plainly};

/// A snapshot of this view of every stream.
fn snapshot(name: &str, view: impl Fn(&[u8]) -> String) {
    glob!("../../../../fixtures", "{claude,codex,events}*/*.jsonl", |path| {
        let bytes = std::fs::read(path).unwrap();
        insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => format!("snapshots/{name}"), omit_expression => true }, {
            assert_snapshot!(name, view(&bytes));
        });
    });
}

#[test]
fn terminal_log() {
    snapshot("log", |bytes| show(&tell_plainly(bytes), RenderAs::Terminal(PLAIN)));
}

#[test]
fn terminal_live_with_partial_text_and_thoughts() {
    let options = TerminalOptions { style: Style::ansi(), width: Some(72), live: true, thinking: true, partial: true, ..PLAIN };
    let visible = |text: String| text.replace('\u{1b}', "␛");
    snapshot("live", |bytes| visible(show(&tell_plainly(bytes), RenderAs::Terminal(options))));
}

#[test]
fn lines() {
    snapshot("lines", |bytes| show(&tell_plainly(bytes), RenderAs::Lines(PLAIN)));
}

#[test]
fn transcript() {
    snapshot("transcript", |bytes| show(&tell_plainly(bytes), RenderAs::Transcript));
}

#[test]
fn markdown() {
    snapshot("markdown", |bytes| show(&tell_plainly(bytes), RenderAs::Markdown));
}

#[test]
fn html() {
    let body = |page: String| {
        let body = page.rsplit_once("</style>").unwrap().1;
        body.split_once("<script>").unwrap().0.to_owned()
    };
    snapshot("html", |bytes| body(show(&tell_plainly(bytes), RenderAs::Html)));
}

#[test]
fn steps() {
    snapshot("steps", |bytes| show(&tell_plainly(bytes), RenderAs::Steps));
}

#[test]
fn summary() {
    snapshot("summary", |bytes| {
        let told = tell_plainly(bytes);
        render_summary(&told.report, &told.summary, Style::plain(), Some(100), Hints::default())
    });
}
