//! A session as one self-contained page. Its content policy allows its own style and its own script, and nothing else: no
//! image, no request. Without the script, all but the search works.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Write as _;

use tapline_protocol::Moment;

use super::card::{Card, Cards};
use super::mark::Mark;
use super::remark::marked;
use super::{STYLE, clock, escape, escaped, timeline};
use crate::fold::Summary;
use crate::host::without_earlier_run;
use crate::render::summary::{verdict_line, verdict_lines};
use crate::render::{Render, Style};
use crate::step::{Step, What};
use crate::text::{count_of, dollars, fit, one_line};
use crate::time::rfc3339;

/// The layout of the page around the cards.
const LAYOUT: &str = include_str!("page.css");
/// The search.
const SCRIPT: &str = include_str!("page.js");

/// The page's content policy. It has the hashes of the page's styles and of its script; a test keeps them equal.
pub const CONTENT_POLICY: &str = "default-src 'none'; \
    style-src 'sha256-ObnWDihxlTkkEUZkck9EDVGhoduzcyTXTW4hGjREf1I=' 'sha256-S4AZLxuBR/qFtLDKrZWz4hnseXGOiRwgKH+wu39KhYU='; \
    script-src 'sha256-oNjI9Nz88iQgIM1qyyhQuyP9pU4ixKO89ZzRtqcaXYk='; base-uri 'none'; form-action 'none'";

/// How many entries the table of contents has.
const CONTENTS: usize = 400;
/// The longest title, in columns.
const TITLE: usize = 120;

/// A session as a page, for whoever writes it piece by piece. Cards are kept elsewhere once they are shown, and written at the end, because
/// sub-agents' steps are mixed with others: memory holds only what the table of contents and the timeline need.
///
/// ```
/// use tapline_protocol::Reader;
/// use tapline_session::render::html::Page;
/// use tapline_session::{Ending, Fold};
///
/// let stream = br#"{"type":"assistant","message":{"content":[{"type":"text","text":"It **works**."}]}}"#;
/// let (mut fold, mut page, mut kept) = (Fold::default(), Page::default(), Vec::new());
/// for record in Reader::new(stream.as_slice()) {
///     for step in fold.apply(&record?) {
///         for n in page.accept(&step) {
///             kept.resize(page.len(), String::new());
///             kept[n] = page.release(n);
///         }
///     }
/// }
/// for n in page.close() {
///     kept[n] = page.release(n);
/// }
/// let mut out = String::new();
/// let card = |n: usize| Ok::<_, std::io::Error>(kept[n].clone());
/// page.write(&fold.finish(&Ending::default()), card, |piece| {
///     out.push_str(piece);
///     Ok(())
/// })?;
/// assert!(out.contains("<strong>works</strong>") && out.ends_with("</html>\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Page {
    cards: Cards,
    marks: Vec<Mark>,
    /// The first prompt, on one line.
    title: Option<String>,
}

impl Page {
    /// Takes the next step. Returns the numbers of the cards that are new or have changed.
    pub fn accept(&mut self, step: &Step) -> Vec<usize> {
        if let (What::Prompt { text }, None, None) = (&step.what, &self.title, &step.parent) {
            let text = one_line(super::cut(without_earlier_run(text).1.trim()).0);
            self.title = (!text.is_empty()).then(|| fit(&text, TITLE).into_owned());
        }
        // The whole text follows its parts.
        if matches!(step.what, What::Partial(_)) { Vec::new() } else { self.cards.accept(step) }
    }

    /// Returns a card that is new or has changed as HTML, which the caller keeps.
    pub fn release(&mut self, n: usize) -> String {
        let Some(card) = self.cards.get(n) else { return String::new() };
        let (mark, html) = (Mark::of(card), card.html());
        self.note(mark);
        self.cards.release(n);
        html
    }

    fn note(&mut self, mark: Mark) {
        match self.marks.get_mut(mark.n) {
            Some(known) => *known = mark,
            // Cards are released in the order of their numbers.
            None => self.marks.push(mark),
        }
    }

    /// Returns how many cards there are.
    pub fn len(&self) -> usize {
        self.cards.len()
    }

    /// Returns whether there is no card.
    pub fn is_empty(&self) -> bool {
        self.cards.is_empty()
    }

    /// Says that nothing follows. Returns the numbers of the cards that have changed.
    pub fn close(&mut self) -> Vec<usize> {
        self.cards.close()
    }

    /// Writes the page, a piece at a time. Cards are asked for by their numbers, as they were released.
    pub fn write<E>(
        &self,
        summary: &Summary,
        mut card: impl FnMut(usize) -> Result<String, E>,
        mut write: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let id = summary.session.ids.first().map_or("(no id)", String::as_str);
        let id = format!("Session {}", one_line(id));
        let title = escaped(self.title.as_ref().unwrap_or(&id));
        let mut out = format!(
            "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
             <meta http-equiv=Content-Security-Policy content=\"{CONTENT_POLICY}\">\n\
             <meta name=viewport content=\"width=device-width,initial-scale=1\">\n\
             <meta name=referrer content=no-referrer>\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n<style>{LAYOUT}</style>\n\
             <div class=page>\n<header class=top>\n<h1>{title}</h1>\n"
        );
        for mark in self.marks.iter().filter(|mark| mark.kind == "session") {
            out.push_str(&card(mark.n)?);
        }
        let start = self.marks.iter().find_map(|mark| mark.arrived);
        let started = start.and_then(date).map(|started| format!("started {started}"));
        let about = self.title.is_some().then_some(id).into_iter().chain(started).collect::<Vec<_>>().join(" · ");
        if !about.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", escaped(&about));
        }
        let line = verdict_line(summary, Style::plain());
        let _ =
            writeln!(out, "<p class=verdict>{}</p>\n</header>\n<div class=split>\n<aside class=side>", escaped(line.trim()));
        timeline::write(&self.marks, &mut out);
        self.contents(&mut out);
        out.push_str("</aside>\n<main class=cards>\n");
        write(&out)?;
        self.write_cards(start, &mut card, &mut write)?;
        let mut out = "</main>\n</div>\n<footer class=last>\n".to_owned() + &verdict(summary);
        let _ = writeln!(out, "</footer>\n</div>\n<script>{SCRIPT}</script>\n</html>");
        write(&out)
    }

    /// Lists the prompts, with what their turns cost, and the sub-agents.
    fn contents(&self, out: &mut String) {
        let mut entries: Vec<(&Mark, Option<f64>)> = Vec::new();
        let agents: std::collections::HashSet<usize> = self.marks.iter().filter_map(|mark| mark.parent).collect();
        let mut prompt = None;
        for mark in &self.marks {
            if mark.kind == "prompt" && mark.depth == 0 {
                prompt = Some(entries.len());
                entries.push((mark, None));
            } else if agents.contains(&mark.n) {
                entries.push((mark, None));
            } else if let (Some(cost), Some(at)) = (mark.cost_usd, prompt) {
                *entries[at].1.get_or_insert(0.0) += cost;
            }
        }
        if entries.is_empty() {
            return;
        }
        out.push_str("<nav aria-label=Contents>\n<h2>Contents</h2>\n<ol>\n");
        for (mark, cost) in entries.iter().take(CONTENTS) {
            let class = if mark.kind == "prompt" { "" } else { " class=sub" };
            let cost = cost.map(|cost| format!(" <span>{}</span>", dollars(cost))).unwrap_or_default();
            let _ = writeln!(out, "<li{class}><a href=\"#step-{}\">{}</a>{cost}</li>", mark.n, escaped(&mark.title));
        }
        if entries.len() > CONTENTS {
            let _ = writeln!(out, "<li>… {}</li>", count_of(entries.len() - CONTENTS, "more entr").replace("entrs", "entries"));
        }
        out.push_str("</ol>\n</nav>\n");
    }

    /// Writes the cards, each sub-agent's below the call that started it.
    fn write_cards<E>(
        &self,
        start: Option<Moment>,
        card: &mut impl FnMut(usize) -> Result<String, E>,
        write: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for mark in self.marks.iter().filter(|mark| mark.kind != "session") {
            below.entry(mark.parent).or_default().push(mark.n);
        }
        let mut open: Vec<usize> = below.remove(&None).unwrap_or_default().into_iter().rev().collect();
        let mut last = String::new();
        while let Some(n) = open.pop() {
            let mark = &self.marks[n];
            let since = mark.arrived.zip(start).map(|(arrived, start)| arrived.millis_since(start).unwrap_or(0));
            let time = since.map(clock).unwrap_or_default();
            let depth = if mark.depth > 0 { format!(" d{}", mark.depth.min(4)) } else { String::new() };
            let mut out = format!(
                "<article class=\"card {}{depth}\" id=step-{n}><a class=time href=\"#step-{n}\" aria-label=\"step {n}\"",
                mark.kind
            );
            if let Some(at) = mark.arrived.and_then(date) {
                let _ = write!(out, " title=\"{at}\"");
            }
            out.push('>');
            // A time that repeats says nothing.
            if time != last {
                escape(&time, &mut out);
                last = time;
            }
            out.push_str("</a><div class=body>\n");
            out.push_str(&card(n)?);
            out.push_str("</div></article>\n");
            write(&out)?;
            open.extend(below.remove(&Some(n)).unwrap_or_default().into_iter().rev());
        }
        Ok(())
    }
}

/// Returns the end of a session as HTML, which is safe to put into a page: what went wrong, if no turn has said so, and the verdict.
pub fn verdict(summary: &Summary) -> String {
    let mut out = String::new();
    for line in verdict_lines(summary, Style::plain(), None).lines() {
        let _ = writeln!(out, "<p class=verdict>{}</p>", marked(line.trim()));
    }
    out
}

/// The page as one text.
#[derive(Default)]
pub(crate) struct Html(Page);

impl Render for Html {
    /// Returns nothing: the page is written at the end.
    fn step(&mut self, step: &Step) -> String {
        self.0.accept(step);
        String::new()
    }

    fn finish(&mut self, summary: &Summary) -> String {
        let Self(page) = self;
        page.close();
        page.marks = page.cards.iter().map(Mark::of).collect();
        let mut out = String::new();
        let card = |n: usize| Ok::<_, Infallible>(page.cards.get(n).map(Card::html).unwrap_or_default());
        let Ok(()) = page.write(summary, card, |piece| {
            out.push_str(piece);
            Ok(())
        });
        out
    }
}

fn date(moment: Moment) -> Option<String> {
    #[expect(clippy::cast_precision_loss, reason = "rounded to seconds")]
    rfc3339(moment.as_millis() as f64 / 1_000.0)
}
