//! A session as one self-contained page. Its content policy allows its own style and its own script, and nothing else: no
//! image, no request. Without the script, all but the search works.

use std::collections::HashMap;
use std::fmt::Write as _;

use tapline_protocol::Moment;

use super::card::{Card, Cards};
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

/// The page. It is written at the end, because sub-agents' steps are mixed with others.
#[derive(Default)]
pub(crate) struct Html {
    cards: Cards,
    /// The first prompt, on one line.
    title: Option<String>,
}

impl Render for Html {
    /// Returns nothing: see [`Html`].
    fn step(&mut self, step: &Step) -> String {
        if let (What::Prompt { text }, None, None) = (&step.what, &self.title, &step.parent) {
            let text = one_line(super::cut(without_earlier_run(text).1.trim()).0);
            self.title = (!text.is_empty()).then(|| fit(&text, TITLE).into_owned());
        }
        // The whole text follows its parts.
        if !matches!(step.what, What::Partial(_)) {
            self.cards.accept(step);
        }
        String::new()
    }

    fn finish(&mut self, summary: &Summary) -> String {
        self.cards.close();
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
        self.cards.iter().filter(|card| card.kind() == "session").for_each(|card| card.write(&mut out));
        let start = self.cards.iter().find_map(|card| card.arrived);
        let started = start.and_then(date).map(|started| format!("started {started}"));
        let about = self.title.is_some().then_some(id).into_iter().chain(started).collect::<Vec<_>>().join(" · ");
        if !about.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", escaped(&about));
        }
        let verdict = verdict_line(summary, Style::plain());
        let _ =
            writeln!(out, "<p class=verdict>{}</p>\n</header>\n<div class=split>\n<aside class=side>", escaped(verdict.trim()));
        timeline::write(&self.cards, &mut out);
        self.contents(&mut out);
        out.push_str("</aside>\n<main class=cards>\n");
        self.cards(start, &mut out);
        out.push_str("</main>\n</div>\n<footer class=last>\n");
        for line in verdict_lines(summary, Style::plain(), None).lines() {
            let _ = writeln!(out, "<p class=verdict>{}</p>", escaped(line.trim()));
        }
        let _ = writeln!(out, "</footer>\n</div>\n<script>{SCRIPT}</script>\n</html>");
        out
    }
}

impl Html {
    /// Lists the prompts, with what their turns cost, and the sub-agents.
    fn contents(&self, out: &mut String) {
        let mut entries: Vec<(&Card, Option<f64>)> = Vec::new();
        let agents: std::collections::HashSet<usize> = self.cards.iter().filter_map(|card| card.parent).collect();
        let mut prompt = None;
        for card in &self.cards {
            if card.kind() == "prompt" && card.depth == 0 {
                prompt = Some(entries.len());
                entries.push((card, None));
            } else if agents.contains(&card.n) {
                entries.push((card, None));
            } else if let (Some(cost), Some(at)) = (card.cost_usd(), prompt) {
                *entries[at].1.get_or_insert(0.0) += cost;
            }
        }
        if entries.is_empty() {
            return;
        }
        out.push_str("<nav aria-label=Contents>\n<h2>Contents</h2>\n<ol>\n");
        for (card, cost) in entries.iter().take(CONTENTS) {
            let class = if card.kind() == "prompt" { "" } else { " class=sub" };
            let cost = cost.map(|cost| format!(" <span>{}</span>", dollars(cost))).unwrap_or_default();
            let _ = writeln!(out, "<li{class}><a href=\"#step-{}\">{}</a>{cost}</li>", card.n, escaped(&card.title()));
        }
        if entries.len() > CONTENTS {
            let _ = writeln!(out, "<li>… {}</li>", count_of(entries.len() - CONTENTS, "more entr").replace("entrs", "entries"));
        }
        out.push_str("</ol>\n</nav>\n");
    }

    /// Writes the cards, each sub-agent's below the call that started it.
    fn cards(&self, start: Option<Moment>, out: &mut String) {
        let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for card in self.cards.iter().filter(|card| card.kind() != "session") {
            below.entry(card.parent).or_default().push(card.n);
        }
        let mut open: Vec<usize> = below.remove(&None).unwrap_or_default().into_iter().rev().collect();
        let mut last = String::new();
        while let Some(n) = open.pop() {
            let card = &self.cards[n];
            let since = card.arrived.zip(start).map(|(arrived, start)| arrived.millis_since(start).unwrap_or(0));
            let time = since.map(clock).unwrap_or_default();
            let depth = if card.depth > 0 { format!(" d{}", card.depth.min(4)) } else { String::new() };
            let _ = write!(
                out,
                "<article class=\"card {}{depth}\" id=step-{n}><a class=time href=\"#step-{n}\" aria-label=\"step {n}\"",
                card.kind()
            );
            if let Some(at) = card.arrived.and_then(date) {
                let _ = write!(out, " title=\"{at}\"");
            }
            out.push('>');
            // A time that repeats says nothing.
            if time != last {
                escape(&time, out);
                last = time;
            }
            out.push_str("</a><div class=body>\n");
            card.write(out);
            out.push_str("</div></article>\n");
            open.extend(below.remove(&Some(n)).unwrap_or_default().into_iter().rev());
        }
    }
}

fn date(moment: Moment) -> Option<String> {
    #[expect(clippy::cast_precision_loss, reason = "rounded to seconds")]
    rfc3339(moment.as_millis() as f64 / 1_000.0)
}
