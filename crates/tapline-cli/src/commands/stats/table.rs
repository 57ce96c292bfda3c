//! Statistics as a table that fits the terminal, and as CSV. Pure: numbers in, text out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tapline_archive::stats::{About, By, Query, Row, Stats, Totals};
use tapline_archive::{Money, project};
use tapline_session::render::Style;
use tapline_session::short_duration;
use tapline_session::text::{count_of, dollars, fit, grouped, one_line, short_count, width, wrap};

/// A terminal of so many columns has room for everything.
pub(super) const WIDE: usize = 160;
/// How wide a bar and a sparkline are: they fill what is left.
const BAR: (usize, usize) = (12, 40);
const TREND: (usize, usize) = (8, 24);
/// The column with the models of a row, and how wide it is: it takes what is left before pictures do.
const MODELS_COLUMN: &str = "models";
const MODELS: (usize, usize) = (16, 32);
/// The narrowest key.
const KEY: usize = 10;

/// What is said if there is nothing to count.
const NOTHING: &str = "No requests found. Name a folder or a file with sessions, or widen --since and the other filters.\n";

/// What a line of the table is about.
#[derive(Clone, Copy)]
struct Line<'s> {
    totals: &'s Totals,
    /// The session, if the line is about one.
    about: Option<&'s About>,
    models: Option<&'s BTreeMap<String, Totals>>,
}

impl<'s> From<&'s Row> for Line<'s> {
    fn from(row: &'s Row) -> Self {
        Self { totals: &row.totals, about: row.about.as_ref(), models: Some(&row.models) }
    }
}

impl<'s> From<&'s Totals> for Line<'s> {
    fn from(totals: &'s Totals) -> Self {
        Self { totals, about: None, models: None }
    }
}

/// A column: its name, how to write a cell, and how early it is left out where there is no room.
type Column = (&'static str, fn(Line<'_>) -> String, u8);

const COLUMNS: [Column; 14] = [
    (MODELS_COLUMN, |of| of.models.map_or_else(String::new, models), 13),
    ("sessions", |of| grouped(of.totals.sessions), 5),
    (
        "took",
        |of| of.about.filter(|about| about.busy_ms > 0).map_or_else(String::new, |about| short_duration(about.busy_ms)),
        7,
    ),
    ("requests", |of| grouped(of.totals.requests), 6),
    ("calls", |of| grouped(of.totals.calls), 9),
    ("failed", |of| rate(of.totals.call_errors, of.totals.calls), 10),
    ("denied", |of| rate(of.totals.call_denials, of.totals.calls), 11),
    ("input", |of| short_count(of.totals.input), 2),
    ("output", |of| short_count(of.totals.output), 1),
    ("cache read", |of| short_count(of.totals.cache_read), 3),
    ("cache write", |of| short_count(of.totals.cache_write), 4),
    ("hits", |of| of.totals.cache_hit_ratio.map_or_else(String::new, |ratio| format!("{:.0} %", ratio * 100.0)), 8),
    ("tokens", |of| short_count(of.totals.tokens), 12),
    ("cost", |of| cost(of.totals), 0),
];

/// The models of a row, the most expensive first.
fn models(all: &BTreeMap<String, Totals>) -> String {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|(_, totals)| Reverse((totals.cost_usd, totals.tokens)));
    // The date of a model says little.
    let short = |name: &str| {
        let is_date = |end: &str| end.len() == 8 && end.bytes().all(|byte| byte.is_ascii_digit());
        name.rsplit_once('-').filter(|(_, end)| is_date(end)).map_or(name, |(name, _)| name).to_owned()
    };
    let names: Vec<_> =
        all.iter().map(|(name, _)| if name.is_empty() { "(unknown)".to_owned() } else { short(name) }).collect();
    fit(&one_line(&names.join(", ")), MODELS.1).into_owned()
}

/// Returns whether a column says something in this table. In a pipe, there are only those that are always there.
fn says_something(name: &str, stats: &Stats, by: By, columns: Option<usize>) -> bool {
    let is_wide = columns.is_some_and(|columns| columns >= WIDE);
    match name {
        MODELS_COLUMN => is_wide && by != By::Model,
        "tokens" => is_wide,
        "sessions" => by != By::Session,
        "took" => by == By::Session,
        "denied" => stats.totals.call_denials > 0,
        _ => true,
    }
}

/// Draws the table.
pub(super) fn render(stats: &Stats, query: &Query, breakdown: bool, columns: Option<usize>, style: Style) -> String {
    if stats.totals.requests == 0 {
        return NOTHING.to_owned();
    }
    let mut shown: Vec<&Column> = COLUMNS.iter().filter(|column| says_something(column.0, stats, query.by, columns)).collect();
    // Lines of their own say more.
    shown.retain(|column| !(breakdown && column.0 == MODELS_COLUMN));
    let columns = columns.unwrap_or(usize::MAX);
    let mut pictures = Pictures::of(stats, columns);
    let has_models = |row: &&Row| breakdown && !row.models.is_empty();
    let labels = labels(&stats.rows);
    let below = stats.rows.iter().filter(has_models).flat_map(|row| row.models.keys()).map(|model| model_label(model));
    let longest = labels.iter().map(|label| width(label)).chain(below.map(|label| width(&label))).max();
    let longest = longest.unwrap_or(0).clamp(KEY, 60);
    let widths = |shown: &[&Column]| -> Vec<usize> {
        let lines = || stats.rows.iter().map(Line::from).chain([Line::from(&stats.totals)]);
        let cells = |column: &Column| lines().map(|line| width(&column.1(line))).max();
        let most = |column: &Column| if column.0 == MODELS_COLUMN { MODELS.0 } else { usize::MAX };
        shown.iter().map(|column| cells(column).unwrap_or(0).min(most(column)).max(column.0.len())).collect()
    };
    let least = pictures.width();
    let taken = |shown: &[&Column]| widths(shown).iter().map(|width| width + 2).sum::<usize>() + least;
    let all: Vec<&Column> = shown.clone();
    while shown.len() > 1 && KEY.max(longest.min(24)) + taken(&shown) > columns {
        let least = shown.iter().map(|column| column.2).max();
        shown.retain(|column| Some(column.2) != least);
    }
    let left_out = all.iter().map(|column| column.0).filter(|name| shown.iter().all(|column| column.0 != *name));
    let left_out: Vec<&str> = left_out.collect();
    let mut widths = widths(&shown);
    let key = longest.min(columns.saturating_sub(taken(&shown)).max(KEY));
    if columns < usize::MAX {
        let mut room = columns.saturating_sub(key + taken(&shown));
        if let Some(at) = shown.iter().position(|column| column.0 == MODELS_COLUMN) {
            let names = stats.rows.iter().map(|row| width(&models(&row.models))).max().unwrap_or(0);
            let more = names.saturating_sub(widths[at]).min(room);
            (widths[at], room) = (widths[at] + more, room - more);
        }
        pictures.grow(room);
    }
    let Style { bold, dim, yellow, reset, .. } = style;
    let mut out = String::new();
    let line = |out: &mut String, label: &str, of: Option<Line<'_>>, end: &str| {
        let label = fit(label, key);
        let _ = write!(out, "{label}{}", " ".repeat(key.saturating_sub(width(&label))));
        for (column, wide) in shown.iter().zip(&widths) {
            let cell = of.map_or_else(|| column.0.to_owned(), column.1);
            let cell = fit(&cell, *wide);
            let gap = " ".repeat(wide.saturating_sub(width(&cell)));
            // Names begin where the column does, and numbers end where it ends.
            let (before, behind) = if column.0 == MODELS_COLUMN { ("", &*gap) } else { (&*gap, "") };
            let _ = write!(out, "  {before}{cell}{behind}");
        }
        let _ = writeln!(out, "{end}");
    };
    let _ = write!(out, "{dim}");
    line(&mut out, "", None, reset);
    for (row, label) in stats.rows.iter().zip(&labels) {
        line(&mut out, label, Some(row.into()), &pictures.draw(row, style));
        for (model, totals) in row.models.iter().filter(|_| breakdown) {
            let _ = write!(out, "{dim}");
            line(&mut out, &model_label(model), Some(totals.into()), reset);
        }
        block(&mut out, row, query, columns, style);
    }
    let _ = write!(out, "{bold}");
    line(&mut out, "total", Some((&stats.totals).into()), reset);
    for (is_warning, note) in notes(stats, &left_out) {
        let colour = if is_warning { yellow } else { dim };
        for line in wrap(&note, columns) {
            let _ = writeln!(out, "{colour}{}{reset}", line.trim_end());
        }
    }
    out
}

/// Returns what is said below the table, and whether it is a warning.
fn notes(stats: &Stats, left_out: &[&str]) -> Vec<(bool, String)> {
    let totals = &stats.totals;
    let count = |count: u64, noun: &str| count_of(usize::try_from(count).unwrap_or(usize::MAX), noun);
    let narrow = if left_out.is_empty() { String::new() } else { format!(" No room for: {}.", left_out.join(", ")) };
    let mut notes = vec![(false, sentence(totals) + &narrow)];
    if totals.cost_unknown > 0 {
        let models = stats.unknown_models.iter().map(|model| one_line(model)).filter(|model| !model.is_empty());
        let models = models.collect::<Vec<_>>().join(", ");
        let models = if models.is_empty() { "requests that name no model" } else { &models };
        let requests = count(totals.cost_unknown, "request");
        notes.push((
            true,
            format!("The cost of {requests} is not known and not in the total: no price for {models} (`tapline help prices`)."),
        ));
    }
    if !totals.exact {
        notes.push((true, "Some numbers are not exact: a stream that broke off lacks output tokens, and one alone may count what its session was forked from.".to_owned()));
    }
    if stats.damaged_lines > 0 {
        notes.push((true, format!("{} could not be read.", count(stats.damaged_lines, "line"))));
    }
    notes
}

/// What stands behind the numbers, if there is room: a bar that compares the rows, and what each cost over time.
struct Pictures {
    /// How wide a bar and a line of blocks are. 0: there is none.
    bar: usize,
    trend: usize,
    most: f64,
}

impl Pictures {
    fn of(stats: &Stats, columns: usize) -> Self {
        let most = stats.rows.iter().map(|row| row.totals.cost_usd).max().unwrap_or_default().usd();
        let trends = columns >= 140 && stats.rows.iter().any(|row| !row.trend.is_empty());
        Self { bar: if columns >= 100 { BAR.0 } else { 0 }, trend: if trends { TREND.0 } else { 0 }, most }
    }

    fn width(&self) -> usize {
        [self.bar, self.trend].into_iter().filter(|width| *width > 0).map(|width| width + 2).sum()
    }

    /// Takes the room that is left: first for the line of blocks, which then has more parts.
    fn grow(&mut self, room: usize) {
        let more = if self.trend > 0 && room >= TREND.1 - TREND.0 { TREND.1 - TREND.0 } else { 0 };
        self.trend += more;
        if self.bar > 0 {
            self.bar = (self.bar + room - more).min(BAR.1);
        }
    }

    fn draw(&self, row: &Row, style: Style) -> String {
        let trend = if self.trend > 0 { sparkline(&row.trend, self.trend) } else { String::new() };
        let bar = bar(row.totals.cost_usd.usd(), self.most, self.bar);
        let mut drawn = String::new();
        if self.trend > 0 {
            drawn = format!("  {trend}{}", " ".repeat(self.trend.saturating_sub(width(&trend))));
        }
        if !bar.is_empty() {
            drawn.push_str("  ");
            drawn.push_str(&bar);
        }
        let drawn = drawn.trim_end();
        if drawn.is_empty() { String::new() } else { format!("{}{drawn}{}", style.cyan, style.reset) }
    }
}

/// A line of blocks, the tallest for the most expensive part.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a block has eight heights")]
fn sparkline(parts: &[Money], most_parts: usize) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    // Neighbours share a block where there is no room for all.
    let sum = |some: &[Money]| some.iter().copied().sum::<Money>();
    let parts: Vec<Money> = parts.chunks(parts.len().div_ceil(most_parts).max(1)).map(sum).collect();
    let most = parts.iter().max().map_or(0.0, |most| most.usd());
    let height = |part: &Money| {
        let share = if most > 0.0 { part.usd() / most } else { 0.0 };
        if part.pico() == 0 { ' ' } else { HEIGHTS[((share * 7.0).round() as usize).min(7)] }
    };
    parts.iter().map(height).collect()
}

/// Says in words what the table has no room for.
fn sentence(totals: &Totals) -> String {
    let reported = totals.cost_reported_usd;
    let basis = if reported == totals.cost_usd && totals.cost_usd.pico() > 0 {
        "as the agents report it".to_owned()
    } else if reported.pico() == 0 {
        "by tapline's table of prices".to_owned()
    } else {
        format!("{} of it as the agents report it, the rest by tapline's table of prices", dollars(reported.usd()))
    };
    let hits = totals
        .cache_hit_ratio
        .map_or_else(String::new, |ratio| format!("; {:.0} % of the input came from the cache", ratio * 100.0));
    format!("Cost {basis}{hits}.")
}

/// What rows are called. Of a session's id, as many groups are shown as tell it from the others, and its title.
fn labels(rows: &[Row]) -> Vec<String> {
    let start = |row: &Row, groups: usize| row.key.split('-').take(groups).collect::<Vec<_>>().join("-");
    let starts = |groups| rows.iter().map(move |row| start(row, groups)).collect::<BTreeSet<_>>().len();
    let groups = (1..5).find(|groups| starts(*groups) == rows.len()).unwrap_or(5);
    let label = |row: &Row| match &row.about {
        None if row.project.is_some() => {
            format!("{}  {}", one_line(&row.key), one_line(project(row.project.as_deref().unwrap_or_default())))
        }
        Some(about) => format!("{}  {}", one_line(&start(row, groups)), one_line(&about.title)).trim_end().to_owned(),
        None => one_line(&row.key),
    };
    rows.iter().map(label).collect()
}

/// What the row of a model is called, below another one.
fn model_label(model: &str) -> String {
    format!("  {}", one_line(if model.is_empty() { "(unknown)" } else { model }))
}

fn cost(totals: &Totals) -> String {
    let known = if totals.cost_usd.pico() == 0 { "$0".to_owned() } else { dollars(totals.cost_usd.usd()) };
    match totals.cost_unknown {
        0 => known,
        all if all == totals.requests && totals.cost_usd.pico() == 0 => "unknown".to_owned(),
        _ => format!("≥ {known}"),
    }
}

fn rate(part: u64, whole: u64) -> String {
    (part * 100 + whole / 2).checked_div(whole).map_or_else(String::new, |rate| format!("{rate} %"))
}

/// A bar of eighths.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "a bar has few steps")]
fn bar(value: f64, most: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let steps = if most > 0.0 { (value / most * (width * 8) as f64).round() as usize } else { 0 };
    "█".repeat(steps / 8) + EIGHTHS[steps % 8]
}

/// The second line of a window of five hours: how fast it is used, and what is left.
fn block(out: &mut String, row: &Row, query: &Query, columns: usize, style: Style) {
    let Some(block) = row.block.as_ref().filter(|block| block.active) else { return };
    let resets = jiff::Timestamp::from_millisecond(block.resets.cast_signed()).unwrap_or_default().to_zoned(query.zone.clone());
    let left = match &block.left {
        None => "what is left of the limit: unknown".to_owned(),
        Some(left) => match left.tokens {
            Some(tokens) => format!("{:.0} % of the limit left ({} tokens)", left.share * 100.0, short_count(tokens)),
            None => format!("{:.0} % of the limit left", left.share * 100.0),
        },
    };
    let rate = block.usd_per_hour.map_or_else(String::new, |usd| format!("{} an hour · ", dollars(usd)));
    let projected = block.projected_usd.map_or_else(String::new, |usd| format!("{} by then · ", dollars(usd)));
    let (dim, reset) = (style.dim, style.reset);
    let text = format!("open until {:02}:{:02} · {rate}{projected}{left}", resets.hour(), resets.minute());
    for line in wrap(&text, columns.saturating_sub(2)) {
        let _ = writeln!(out, "{dim}  {line}{reset}");
    }
}

/// The rows as CSV, or the models of the rows. With `instances`, each row has its project.
pub(super) fn csv(stats: &Stats, breakdown: bool, instances: bool) -> String {
    let mut out = String::from(if instances { "key,project" } else { "key" });
    out += if breakdown { ",model" } else { "" };
    out += ",sessions,requests,calls,call_errors,call_denials,input,output,cache_read,cache_write,reasoning,web_searches,cost_usd,cost_reported_usd,cost_unknown,exact\n";
    for row in &stats.rows {
        let project = row.project.iter().map(|project| format!(",{}", quoted(project)));
        let key = quoted(&row.key) + &project.collect::<String>();
        if breakdown {
            for (model, totals) in &row.models {
                csv_line(&mut out, &format!("{key},{}", quoted(model)), totals);
            }
        } else {
            csv_line(&mut out, &key, &row.totals);
        }
    }
    out
}

fn csv_line(out: &mut String, keys: &str, totals: &Totals) {
    let Totals {
        sessions, requests, calls, call_errors, call_denials, input, output, cache_read, cache_write, reasoning, ..
    } = totals;
    let Totals { web_searches, cost_usd, cost_reported_usd, cost_unknown, exact, .. } = totals;
    let _ = writeln!(
        out,
        "{keys},{sessions},{requests},{calls},{call_errors},{call_denials},{input},{output},{cache_read},{cache_write},{reasoning},\
         {web_searches},{},{},{cost_unknown},{exact}",
        cost_usd.usd(),
        cost_reported_usd.usd(),
    );
}

/// A field of CSV. A text that a spreadsheet would take for a formula gets a quote in front.
fn quoted(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
