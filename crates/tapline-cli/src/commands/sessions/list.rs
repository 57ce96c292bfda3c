//! The list of sessions as a table that fits the terminal, and as JSON. Pure: sessions in, text out.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tapline_archive::sessions::ListedSession;
use tapline_session::render::Style;
use tapline_session::text::{count_of, fit, width};

use super::shown::Shown;

/// The narrowest title.
const TITLE: usize = 20;

/// A column: its name, its cell, how early it is left out where there is no room, and whether it is aligned to the right.
type Column = (&'static str, fn(&Shown) -> &str, u8, bool);

static COLUMNS: [Column; 7] = [
    ("session", |shown| shown.short_id(), 1, false),
    ("last", |shown| &shown.when, 2, false),
    ("agent", |shown| &shown.agent, 6, false),
    ("project", |shown| &shown.project, 4, false),
    ("state", |shown| shown.state, 3, false),
    ("prompts", |shown| &shown.prompts, 5, true),
    ("cost", |shown| &shown.cost, 2, true),
];

/// The widest cell of a column.
const WIDEST: usize = 24;

/// Columns, each as wide as its widest cell, that leave room for the title.
pub(super) struct Table {
    columns: Vec<(&'static Column, usize)>,
    title: usize,
}

impl Table {
    pub(super) fn of(sessions: &[Shown], columns: usize) -> Self {
        let wide = |column: &Column| {
            let cells = sessions.iter().map(|shown| width((column.1)(shown)));
            cells.max().unwrap_or(0).max(column.0.len()).min(WIDEST)
        };
        let mut shown: Vec<(&Column, usize)> = COLUMNS.iter().map(|column| (column, wide(column))).collect();
        let taken = |shown: &[(&Column, usize)]| shown.iter().map(|(_, wide)| wide + 2).sum::<usize>();
        while shown.len() > 1 && taken(&shown) + TITLE > columns {
            let least = shown.iter().map(|(column, _)| column.2).max();
            shown.retain(|(column, _)| Some(column.2) != least);
        }
        let title = columns.saturating_sub(taken(&shown));
        Self { columns: shown, title }
    }

    /// Returns the names of the columns.
    pub(super) fn head(&self) -> String {
        self.line(|column| column.0, "title")
    }

    /// Returns a row.
    pub(super) fn row(&self, shown: &Shown) -> String {
        self.line(|column| (column.1)(shown), &shown.title)
    }

    fn line<'s>(&self, cell: impl Fn(&Column) -> &'s str, title: &str) -> String {
        let mut line = String::new();
        for (column, wide) in &self.columns {
            let cell = fit(cell(column), *wide);
            let gap = " ".repeat(wide.saturating_sub(width(&cell)));
            let _ = if column.3 { write!(line, "{gap}{cell}  ") } else { write!(line, "{cell}{gap}  ") };
        }
        line += &fit(title, self.title);
        line.truncate(line.trim_end().len());
        line
    }
}

/// Draws the list.
pub(super) fn render(sessions: &[Shown], all: usize, columns: Option<usize>, style: Style) -> String {
    if sessions.is_empty() {
        return "No sessions found. Name a folder or a file with sessions, or widen the filters.\n".to_owned();
    }
    let table = Table::of(sessions, columns.unwrap_or(usize::MAX));
    let Style { dim, reset, .. } = style;
    let mut out = format!("{dim}{}{reset}\n", table.head());
    for shown in sessions {
        let colour = colour_of(shown.state, style);
        let _ = writeln!(out, "{colour}{}{}", table.row(shown), if colour.is_empty() { "" } else { reset });
    }
    if all > sessions.len() {
        let _ = writeln!(out, "{dim}and {} more{reset}", count_of(all - sessions.len(), "session"));
    }
    out
}

/// Returns the colour of a session that needs attention.
pub(super) fn colour_of(state: &str, style: Style) -> &'static str {
    match state {
        "failed" => style.red,
        "waiting" | "limited" => style.yellow,
        _ => "",
    }
}

/// The list as JSON.
pub(super) fn json(sessions: &[ListedSession], all: usize) -> Value {
    let time = |time: Option<u64>| {
        let time = jiff::Timestamp::from_millisecond(time?.cast_signed()).ok()?;
        Some(time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
    };
    let one = |session: &ListedSession| {
        let facts = &session.facts;
        let recordings = facts.files.iter().filter_map(|file| file.recording.as_ref());
        json!({
            "id": facts.id,
            "agent": facts.agent,
            "title": facts.title,
            "state": session.state,
            "project": tapline_archive::project(&facts.folder),
            "folder": facts.folder,
            "branch": facts.branch,
            "version": facts.version,
            "model": session.model,
            "first": time(facts.first),
            "last": time(facts.last),
            "prompts": facts.prompts,
            "requests": session.requests,
            "busy_ms": facts.busy_ms,
            "cost_usd": facts.cost.usd(),
            "cost_unknown": facts.unpriced,
            "input": facts.tokens.input,
            "output": facts.tokens.output,
            "cache_read": facts.tokens.cache_read,
            "cache_write": facts.tokens.cache_write(),
            "forked_from": facts.forked_from,
            "opens": session.opens().map(|path| path.display().to_string()),
            "files": facts.files.iter().map(|file| json!({"path": file.path.display().to_string(), "gone": file.gone})).collect::<Vec<_>>(),
            "recordings": recordings.map(|path| path.display().to_string()).collect::<Vec<_>>(),
        })
    };
    json!({"sessions": sessions.iter().map(one).collect::<Vec<_>>(), "found": all})
}
