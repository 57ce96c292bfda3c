//! Markdown on a page: our own tags around escaped text.

use std::fmt::Write as _;

use pulldown_cmark::{Alignment, CodeBlockKind, Event as Piece, HeadingLevel, Tag, TagEnd};

use super::code::{self, Language};
use super::{cut, escape};
use crate::render::prose::{addresses, events, is_web};

/// Tags in each other beyond this depth are left out; their text stays.
const DEEPEST: usize = 32;

/// Writes a text that an agent wrote in Markdown.
pub(super) fn write(text: &str, out: &mut String) {
    let (text, more) = cut(text.trim());
    if let Some(events) = events(text) {
        let mut writer = Writer::new(out);
        events.for_each(|event| writer.event(event));
    } else {
        out.push_str("<p class=plain>");
        escape(text, out);
        out.push_str("</p>\n");
    }
    if more > 0 {
        let _ = writeln!(out, "<p class=quiet>… {more} more bytes</p>");
    }
}

struct Writer<'o> {
    out: &'o mut String,
    depth: usize,
    /// The links that are open: where their text begins, and for one that stays text its address, which follows the text.
    links: Vec<(usize, Option<String>)>,
    /// The code block that is open.
    code: Option<(Option<Language>, String)>,
    alignments: Vec<Alignment>,
    column: usize,
    in_head: bool,
    /// Where the cell that is open begins, and its text.
    cell: (usize, usize),
    /// Empty cells that are written once another cell follows: a hostile table has very many.
    empty: usize,
}

impl<'o> Writer<'o> {
    fn new(out: &'o mut String) -> Self {
        Self {
            out,
            depth: 0,
            links: Vec::new(),
            code: None,
            alignments: Vec::new(),
            column: 0,
            in_head: false,
            cell: (0, 0),
            empty: 0,
        }
    }

    fn event(&mut self, event: Piece<'_>) {
        match event {
            Piece::Start(tag) => {
                self.depth += 1;
                self.start(tag);
            }
            Piece::End(tag) => {
                self.end(tag);
                self.depth -= 1;
            }
            Piece::Text(text) => self.text(&text),
            Piece::Code(text) => {
                self.out.push_str("<code>");
                escape(&text, self.out);
                self.out.push_str("</code>");
            }
            // People see the lines that the agent wrote.
            Piece::SoftBreak | Piece::HardBreak => self.out.push_str("<br>\n"),
            Piece::Rule => self.out.push_str("<hr>\n"),
            Piece::TaskListMarker(done) => {
                let (class, mark, word) = if done { ("done", "☑", "done: ") } else { ("todo", "☐", "to do: ") };
                let _ = write!(self.out, "<span class={class} aria-label=\"{word}\">{mark}</span> ");
            }
            // These are not read: see the options of the parser.
            Piece::Html(text) | Piece::InlineHtml(text) | Piece::InlineMath(text) | Piece::DisplayMath(text) => {
                self.text(&text);
            }
            Piece::FootnoteReference(name) => escape(&name, self.out),
        }
    }

    fn text(&mut self, text: &str) {
        if let Some((_, code)) = &mut self.code {
            code.push_str(text);
        } else if self.links.is_empty() {
            for (part, is_address) in addresses(text) {
                if is_address {
                    self.open_link(part);
                    escape(part, self.out);
                    self.out.push_str("</a>");
                } else {
                    escape(part, self.out);
                }
            }
        } else {
            escape(text, self.out);
        }
    }

    fn open_link(&mut self, address: &str) {
        self.out.push_str("<a href=\"");
        escape(address, self.out);
        self.out.push_str("\" rel=\"noreferrer noopener\" target=_blank>");
    }

    fn link(&mut self, address: &str) {
        // A link within a link or beyond the deepest tag is text.
        if is_web(address) && self.depth <= DEEPEST && self.links.is_empty() {
            self.open_link(address);
            self.links.push((self.out.len(), None));
        } else {
            self.links.push((self.out.len(), Some(address.to_owned())));
        }
    }

    fn end_link(&mut self) {
        let Some((start, address)) = self.links.pop() else { return };
        let Some(address) = address else { return self.out.push_str("</a>") };
        let mut shown = String::new();
        escape(&address, &mut shown);
        if !shown.is_empty() && self.out[start..] != shown {
            let _ = write!(self.out, " <span class=quiet>({shown})</span>");
        }
    }

    fn put(&mut self, tag: &str) {
        if self.depth <= DEEPEST {
            self.out.push_str(tag);
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.put("<p>"),
            Tag::Heading { level, .. } => self.put(&format!("<h{}>", heading(level))),
            Tag::BlockQuote(_) => self.put("<blockquote>\n"),
            Tag::CodeBlock(kind) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => Language::named(info.split([' ', ',', '{']).next().unwrap_or_default()),
                    CodeBlockKind::Indented => None,
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(None) => self.put("<ul>\n"),
            Tag::List(Some(first)) => self.put(&format!("<ol start={first}>\n")),
            Tag::Item => self.put("<li>"),
            Tag::Table(alignments) => {
                self.alignments = alignments;
                self.put("<div class=table><table>\n");
            }
            Tag::TableHead => {
                (self.in_head, self.column, self.empty) = (true, 0, 0);
                self.put("<tr>");
            }
            Tag::TableRow => {
                (self.column, self.empty) = (0, 0);
                self.put("<tr>");
            }
            Tag::TableCell => {
                let class = match self.alignments.get(self.column) {
                    Some(Alignment::Right) => " class=right",
                    Some(Alignment::Center) => " class=center",
                    Some(Alignment::Left | Alignment::None) | None => "",
                };
                self.column += 1;
                self.cell.0 = self.out.len();
                self.put(&format!("<{}{class}>", self.cell()));
                self.cell.1 = self.out.len();
            }
            Tag::Emphasis => self.put("<em>"),
            Tag::Strong => self.put("<strong>"),
            Tag::Strikethrough => self.put("<del>"),
            Tag::Link { dest_url, .. } => self.link(&dest_url),
            // Nothing is fetched: an image is a link to it.
            Tag::Image { dest_url, .. } => {
                self.out.push_str("image: ");
                self.link(&dest_url);
            }
            Tag::HtmlBlock
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn cell(&self) -> &'static str {
        if self.in_head { "th" } else { "td" }
    }

    fn end_cell(&mut self) {
        if self.out.len() == self.cell.1 {
            self.out.truncate(self.cell.0);
            self.empty += 1;
            return;
        }
        let name = self.cell();
        self.put(&format!("</{name}>"));
        let before = format!("<{name}></{name}>").repeat(std::mem::take(&mut self.empty));
        self.out.insert_str(self.cell.0, &before);
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.put("</p>\n"),
            TagEnd::Heading(level) => self.put(&format!("</h{}>\n", heading(level))),
            TagEnd::BlockQuote(_) => self.put("</blockquote>\n"),
            TagEnd::CodeBlock => {
                if let Some((language, text)) = self.code.take() {
                    code::write_block(&text, language, self.out);
                }
            }
            TagEnd::List(false) => self.put("</ul>\n"),
            TagEnd::List(true) => self.put("</ol>\n"),
            TagEnd::Item => self.put("</li>\n"),
            TagEnd::Table => self.put("</table></div>\n"),
            TagEnd::TableHead => {
                self.in_head = false;
                self.put("</tr>\n");
            }
            TagEnd::TableRow => self.put("</tr>\n"),
            TagEnd::TableCell => self.end_cell(),
            TagEnd::Emphasis => self.put("</em>"),
            TagEnd::Strong => self.put("</strong>"),
            TagEnd::Strikethrough => self.put("</del>"),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::HtmlBlock
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }
}

/// The page has headings of its own above these.
fn heading(level: HeadingLevel) -> usize {
    (level as usize + 2).min(6)
}
