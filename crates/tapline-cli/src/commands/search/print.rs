//! What a search found, for people and as JSON. Pure: values in, text out.

use std::fmt::Write as _;
use std::iter;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tapline_archive::project;
use tapline_archive::search::{FoundSession, Hit, SearchFound, Shown, Snippet};
use tapline_recording::Redactor;
use tapline_session::render::Style;
use tapline_session::text::{count_of, fit, one_line, visible, wrap};

use crate::args::search::Sort;
use crate::output::quoted;

/// What stands before a snippet.
const INDENT: &str = "    ";
/// The longest title.
const TITLE: usize = 60;

/// Returns how much of a text fits on two lines of a terminal.
pub(super) fn snippet_width(columns: usize) -> usize {
    columns.saturating_sub(INDENT.len()).clamp(40, 120) * 2 - 10
}

/// Writes what was found for people. With columns, snippets are broken between words.
pub(super) fn text(found: &SearchFound, zone: &TimeZone, columns: Option<usize>, style: Style) -> String {
    if found.sessions.is_empty() {
        let nothing = "Nothing found. All words must stand in the same text; wor* also finds longer words.".to_owned();
        let meant = found.meant.iter().map(|(word, meant)| format!("`{word}` stands nowhere: did you mean `{meant}`?"));
        let lines = iter::once(nothing).chain(meant).map(|line| wrap(&line, columns.unwrap_or(usize::MAX)).join("\n") + "\n");
        return lines.collect();
    }
    let Style { dim, reset, .. } = style;
    let mut out = String::new();
    for session in &found.sessions {
        head(&mut out, session, style);
        for hit in &session.hits {
            one_hit(&mut out, hit, zone, columns, style);
        }
        if session.more > 0 {
            let _ = writeln!(out, "  {dim}and {} in this session{reset}", count_of(session.more, "more hit"));
        }
        let _ = writeln!(out, "  {dim}tapline view {}{reset}\n", quoted(&one_line(&session.id)));
    }
    if found.more {
        let _ = writeln!(out, "{dim}There are hits in more sessions: narrow the search, or see more with --limit.{reset}");
    } else {
        // No empty line at the end.
        out.pop();
    }
    out
}

fn head(out: &mut String, session: &FoundSession, style: Style) {
    let Style { bold, dim, reset, .. } = style;
    let title = one_line(&session.title);
    let title = if title.is_empty() { "(no prompt)" } else { &*fit(&title, TITLE) };
    let about = [one_line(project(&session.folder)), one_line(&session.agent)];
    let about: Vec<_> = about.into_iter().filter(|part| !part.is_empty()).collect();
    let _ = writeln!(out, "{bold}{title}{reset}  {dim}{}{reset}", about.join(" · "));
}

fn one_hit(out: &mut String, hit: &Hit, zone: &TimeZone, columns: Option<usize>, style: Style) {
    let Style { dim, red, reset, .. } = style;
    let time = Timestamp::from_second(i64::try_from(hit.time).unwrap_or(0)).unwrap_or_default().to_zoned(zone.clone());
    let mut what = hit.kind.name().to_owned();
    if !hit.tool.is_empty() {
        what = format!("{} {what}", one_line(&hit.tool));
    }
    if hit.subagent {
        what.push_str(", sub-agent");
    }
    let failed = if hit.error { format!("{red}, error{reset}") } else { String::new() };
    let _ = writeln!(out, "  {dim}{}  {what}{reset}{failed}", time.strftime("%Y-%m-%d %H:%M"));
    match &hit.shown {
        Shown::Snippet(snippet) => {
            for line in marked(snippet, columns.map_or(usize::MAX, |columns| columns.saturating_sub(INDENT.len())), style) {
                let _ = writeln!(out, "{INDENT}{line}");
            }
        }
        Shown::Gone => {
            let _ = writeln!(out, "{INDENT}{dim}(the file is gone: {}){reset}", one_line(&hit.path.display().to_string()));
        }
        _ => {
            let _ = writeln!(out, "{INDENT}{dim}(cannot be read again: {}){reset}", one_line(&hit.path.display().to_string()));
        }
    }
}

/// Returns a snippet with its matches in colour, in lines of at most this many columns.
fn marked(snippet: &Snippet, columns: usize, style: Style) -> Vec<String> {
    let Style { bold, yellow, reset, .. } = style;
    let text = snippet.text.as_str();
    let lines = wrap(text, columns).into_iter().map(|line| {
        let start = line.as_ptr().addr() - text.as_ptr().addr();
        let (mut out, mut at, end) = (String::new(), start, start + line.len());
        // A match can go on in the next line.
        for range in
            snippet.matches.iter().map(|range| range.start.max(start)..range.end.min(end)).filter(|range| !range.is_empty())
        {
            let (before, found) = (&text[at..range.start], &text[range.clone()]);
            let _ = write!(out, "{}{bold}{yellow}{}{reset}", visible(before), visible(found));
            at = range.end;
        }
        out + &visible(&text[at..end])
    });
    lines.collect()
}

/// Returns what was found as JSON.
pub(super) fn json(query: &str, sort: Sort, found: &SearchFound, redactor: &Redactor) -> Value {
    let sort = match sort {
        Sort::Newest => "newest",
        Sort::Best => "best",
    };
    let sessions: Vec<Value> = found.sessions.iter().map(|session| of_session(session, redactor)).collect();
    let meant: Vec<Value> = found.meant.iter().map(|(word, meant)| json!({ "word": word, "meant": meant })).collect();
    json!({ "query": query, "sort": sort, "sessions": sessions, "more": found.more, "did_you_mean": meant })
}

fn of_session(session: &FoundSession, redactor: &Redactor) -> Value {
    let FoundSession { id, agent, folder, title, hits, more, .. } = session;
    let hits: Vec<Value> = hits.iter().map(|hit| of_hit(hit, redactor)).collect();
    let view = format!("tapline view {}", quoted(id));
    json!({ "session": id, "agent": agent, "folder": folder, "title": title, "view": view, "hits": hits, "more": more })
}

fn of_hit(hit: &Hit, redactor: &Redactor) -> Value {
    let path = hit.path.display().to_string();
    let time = Timestamp::from_second(i64::try_from(hit.time).unwrap_or(0)).unwrap_or_default();
    let (snippet, lost) = match &hit.shown {
        Shown::Snippet(snippet) => (Some(snippet), None),
        Shown::Gone => (None, Some("gone")),
        _ => (None, Some("unreadable")),
    };
    let matches = snippet.map(|Snippet { text, matches, .. }| {
        let characters = |bytes: usize| text[..bytes].chars().count();
        let place = |range: &std::ops::Range<usize>| json!({ "start": characters(range.start), "end": characters(range.end) });
        matches.iter().map(place).collect::<Vec<_>>()
    });
    json!({
        "time": time.to_string(),
        "kind": hit.kind,
        "tool": Some(&hit.tool).filter(|tool| !tool.is_empty()),
        "error": hit.error,
        "subagent": hit.subagent,
        "file": redactor.text(&path),
        "offset": hit.offset,
        "snippet": snippet.map(|snippet| &snippet.text),
        "matches": matches.unwrap_or_default(),
        "lost": lost,
    })
}
