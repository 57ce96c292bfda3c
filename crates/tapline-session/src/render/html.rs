//! A transcript as one self-contained page. The agent's text is escaped, never interpreted. The content policy allows
//! only the page's own style: no script, no image, no request.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::marks::{Mood, Shown, session_lines, show};
use super::{Render, Style};
use crate::fold::Summary;
use crate::step::{Call, CallAnswer, CallStatus, SessionInfo, Step, What};
use crate::text::{count_of, head, one_line, visible};
use crate::time::short_duration;

const STYLE: &str = include_str!("html/style.css");

/// The page's content policy. It has the hash of the page's style; a test keeps them equal.
pub const CONTENT_POLICY: &str =
    "default-src 'none'; style-src 'sha256-Tgufhg2ht1H8wRM1IbHv/g0rqEhWZ3Z0eO6EJnaJ8CA='; base-uri 'none'; form-action 'none'";

/// How many characters of a call's output are put on the page.
const OUTPUT_LIMIT: usize = 100_000;
/// How many unreadable lines are put on the page one by one. Each takes many times its own size.
const ODD_LIMIT: usize = 1_000;
/// Sub-agents deeper than this are not nested further.
const DEEPEST: usize = 24;

/// The page as a tree: sub-agents are under the call that started them.
#[derive(Default)]
pub(super) struct Html {
    session: Option<SessionInfo>,
    nodes: Vec<Node>,
    roots: Vec<usize>,
    calls: HashMap<String, usize>,
    /// Texts by their event, so that they can be retracted.
    texts: HashMap<String, Vec<usize>>,
    /// The number of unreadable lines.
    odd: usize,
}

struct Node {
    depth: usize,
    body: Body,
    children: Vec<usize>,
}

enum Body {
    Markup(String),
    Call(Box<(Call, Option<CallAnswer>)>),
}

/// Shows text as text: control characters visible, markup escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

impl Html {
    fn place(&mut self, parent: Option<&String>, body: Body) -> usize {
        let above = parent.and_then(|id| self.calls.get(id).copied());
        let at = self.nodes.len();
        let depth = above.map_or(0, |above| self.nodes[above].depth + 1);
        self.nodes.push(Node { depth: depth.min(DEEPEST), body, children: Vec::new() });
        match above.filter(|_| depth <= DEEPEST) {
            Some(above) => self.nodes[above].children.push(at),
            None => self.roots.push(at),
        }
        at
    }

    fn markup(&mut self, step: &Step, markup: String) {
        self.place(step.parent.as_ref(), Body::Markup(markup));
    }

    /// Removes retracted text from the page, and says that it was retracted.
    fn retract(&mut self, uuids: &[String]) {
        for at in uuids.iter().filter_map(|uuid| self.texts.remove(uuid)).flatten() {
            self.nodes[at].body =
                Body::Markup("<div class=\"line aside\"><span class=mark>↶</span> withdrawn</div>\n".to_owned());
        }
    }

    fn accept(&mut self, step: &Step) {
        if let What::Retracted { uuids } = &step.what {
            return self.retract(uuids);
        }
        if let What::Odd(_) = &step.what {
            self.odd += 1;
            if self.odd > ODD_LIMIT {
                return;
            }
        }
        match show(step) {
            Shown::Session(info) => self.session = Some(info.clone()),
            Shown::Prompt(text) => self.markup(step, format!("<div class=prompt>{}</div>\n", escaped(text))),
            Shown::Text(said) if said.text.trim().is_empty() => {}
            Shown::Text(said) => {
                self.markup(step, format!("<div class=text>{}</div>\n", escaped(said.text.trim())));
                if let Some(uuid) = &said.uuid {
                    self.texts.entry(uuid.clone()).or_default().push(self.nodes.len() - 1);
                }
            }
            Shown::Thinking(said) => {
                let (words, text) = (count_of(said.text.split_whitespace().count(), "word"), escaped(said.text.trim()));
                let summary = format!("<summary>thought ({words})</summary>");
                self.markup(step, format!("<details class=thought>{summary}<div class=text>{text}</div></details>\n"));
            }
            Shown::Call(call) => {
                let at = self.place(step.parent.as_ref(), Body::Call(Box::new((call.clone(), None))));
                if let Some(id) = &call.id {
                    self.calls.insert(id.clone(), at);
                }
            }
            Shown::Answer(answer) => {
                let at = answer.id.as_ref().and_then(|id| self.calls.get(id).copied());
                if let Some(Body::Call(call)) = at.map(|at| &mut self.nodes[at].body) {
                    call.1 = Some(answer.clone());
                }
            }
            Shown::Turn(turn) => {
                if let Some(message) = turn.message.as_ref().filter(|_| !turn.repeats_text) {
                    self.markup(step, format!("<div class=error>{}</div>\n", escaped(message)));
                } else if let Some(text) = turn.news() {
                    self.markup(step, format!("<div class=text>{}</div>\n", escaped(text)));
                }
                if turn.elapsed_ms.is_some() {
                    let line = format!("<span class=mark>◦</span> turn ended{}", took(turn.elapsed_ms));
                    self.markup(step, format!("<div class=\"line aside\">{line}</div>\n"));
                }
            }
            Shown::Remark(remark) => {
                let class = match remark.mood {
                    Mood::Good => "good",
                    Mood::Bad => "bad",
                    Mood::Warn => "warn",
                    Mood::Aside => "aside",
                };
                let text = escaped(&one_line(&remark.text));
                self.markup(
                    step,
                    format!(
                        "<div class=\"line {class}\"><span class=mark>{}</span> {text}{}</div>\n",
                        remark.mark,
                        took(remark.took)
                    ),
                );
            }
            Shown::Partial(_) | Shown::Nothing => {}
        }
    }

    fn write(&self, nodes: &[usize], out: &mut String) {
        for node in nodes.iter().map(|at| &self.nodes[*at]) {
            match &node.body {
                Body::Markup(markup) => out.push_str(markup),
                Body::Call(call) => self.write_call(&call.0, call.1.as_ref(), &node.children, out),
            }
        }
    }

    fn write_call(&self, call: &Call, answer: Option<&CallAnswer>, children: &[usize], out: &mut String) {
        let (class, mark, word) = match answer.map(|answer| answer.status) {
            Some(CallStatus::Ok) => ("good", "✓", &*call.done),
            Some(CallStatus::Error) => ("bad", "✗", &*call.done),
            Some(CallStatus::Denied) => ("bad", "✗", "denied"),
            Some(CallStatus::Pending) | None => ("warn", "?", "unanswered"),
        };
        let title = match call.title.strip_prefix('`').and_then(|title| title.strip_suffix('`')) {
            Some(code) => format!("<code>{}</code>", escaped(code)),
            None => escaped(&call.title),
        };
        let open = if class == "bad" { " open" } else { "" };
        let took = took(answer.and_then(|answer| answer.duration_ms));
        let _ = writeln!(
            out,
            "<details{open}><summary class={class}><span class=mark>{mark}</span> {word}: {title}{took}</summary>"
        );
        if let Some(input) = &call.input {
            let _ = writeln!(out, "<pre>{}</pre>", limited(&crate::call::input_text(&call.name, input)));
        }
        if let Some(answer) = answer.filter(|answer| !answer.text.trim().is_empty()) {
            let _ = writeln!(out, "<pre>{}</pre>", limited(answer.text.trim_end()));
        }
        out.push_str("</details>\n");
        if !children.is_empty() {
            out.push_str("<div class=agent>\n");
            self.write(children, out);
            out.push_str("</div>\n");
        }
    }
}

/// Returns how long something took, if it is known, in small type.
fn took(ms: Option<u64>) -> String {
    ms.map(|ms| format!(" <small class=quiet>{}</small>", short_duration(ms))).unwrap_or_default()
}

fn limited(text: &str) -> String {
    match head(text, OUTPUT_LIMIT) {
        (head, true) => format!("{}\n… {} more bytes", escaped(head), text.len() - head.len()),
        (text, false) => escaped(text),
    }
}

impl Render for Html {
    /// Returns nothing: the page is written at the end, because sub-agents' steps are mixed with others.
    fn step(&mut self, step: &Step) -> String {
        self.accept(step);
        String::new()
    }

    fn finish(&mut self, summary: &Summary) -> String {
        let id = summary.session.ids.first().map_or("(no id)", String::as_str);
        let title = escaped(&one_line(&format!("Session {id}")));
        let mut out = format!(
            "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
             <meta http-equiv=Content-Security-Policy content=\"{CONTENT_POLICY}\">\n\
             <meta name=viewport content=\"width=device-width,initial-scale=1\">\n\
             <meta name=referrer content=no-referrer>\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n<header>\n<h1>{title}</h1>\n"
        );
        if let Some(info) = &self.session {
            let lines = session_lines(info);
            for line in [lines.about, lines.has].iter().filter(|line| !line.is_empty()) {
                let _ = writeln!(out, "<p>{}</p>", escaped(&one_line(line)));
            }
            for line in lines.not_connected {
                let _ = writeln!(out, "<p class=warn><span class=mark>!</span> {}</p>", escaped(&one_line(&line)));
            }
        }
        let verdict = super::summary::verdict_line(summary, Style::plain());
        let _ = writeln!(out, "<p class=verdict>{}</p>\n</header>\n<main>", escaped(verdict.trim()));
        let roots = std::mem::take(&mut self.roots);
        self.write(&roots, &mut out);
        if self.odd > ODD_LIMIT {
            let more = count_of(self.odd - ODD_LIMIT, "more odd line");
            let _ = writeln!(out, "<div class=\"line warn\"><span class=mark>!</span> … {more}</div>");
        }
        out.push_str("</main>\n<footer>\n");
        for line in super::summary::verdict_lines(summary, Style::plain(), None).lines() {
            let _ = writeln!(out, "<p class=verdict>{}</p>", escaped(line.trim()));
        }
        out.push_str("</footer>\n</html>\n");
        out
    }
}
