//! A run at a glance: the verdict line at the end of a view, and the summary of `inspect`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Style;
use super::marks::{Hints, behind_earlier_run, failure_of, session_lines};
use crate::fold::Summary;
use crate::host::without_earlier_run;
use crate::ledger::Ledger;
use crate::report::{Report, name_of};
use crate::step::{CallStatus, SoFar, Turn};
use crate::text::{count_of, dollars, fit, folded, grouped, one_line, short_count, wrap};
use crate::time::duration;
use crate::verdict::{Advice, Category, Outcome, Verdict};

/// Returns the line for the end of a turn, with the totals so far. It ends a view, unless something follows.
pub(super) fn turn_line(turn: &Turn, style: Style) -> String {
    let (colour, mark, word) = match turn.failed {
        true if turn.is_aborted() => (style.yellow, "!", "interrupted"),
        true => (style.red, "✗", "failure"),
        false if turn.so_far.foreign => (style.red, "✗", "incomplete"),
        false if turn.so_far.blemished => (style.yellow, "!", "success"),
        false => (style.green, "✓", "success"),
    };
    let category = match word {
        "failure" => turn.category,
        "incomplete" => Some(Category::NoResult),
        _ => None,
    };
    let category = category.map(|category| format!(" ({})", category.word()));
    let judged = format!("{}{word}{}{}", style.bold, style.reset, category.unwrap_or_default());
    let SoFar { duration_ms, ledger, denials, .. } = &turn.so_far;
    // As the report counts turns. An agent may count its requests to the model under the same name.
    let turns = turn.index as u64 + 1;
    format!("{colour}{mark}{} {judged}{} · {}\n", style.reset, denied(*denials), figures(turns, *duration_ms, ledger))
}

/// Formats the count of denied calls: ` · 2 calls denied`.
fn denied(denials: u64) -> String {
    if denials > 0 { format!(" · {} denied", count(denials, "call")) } else { String::new() }
}

fn count(count: u64, what: &str) -> String {
    count_of(usize::try_from(count).unwrap_or(usize::MAX), what)
}

/// Formats the totals: `5 turns · 3.2 s · 48 in · 160 out · $0.0123`.
fn figures(turns: u64, duration_ms: Option<f64>, ledger: &Ledger) -> String {
    let mut parts = vec![count(turns, "turn")];
    parts.extend(duration_ms.map(duration));
    parts.extend(tokens(ledger));
    parts.extend(ledger.cost());
    parts.join(" · ")
}

/// Returns one line with verdict, turns, time, tokens and cost.
pub(super) fn verdict_line(summary: &Summary, style: Style) -> String {
    let figures = figures(summary.turns as u64, summary.duration_ms, &summary.ledger);
    format!("{} · {figures}\n", glance(&summary.verdict, "", style))
}

/// Returns the verdict in a few words, with the name of what was judged, if it has one: `! name success · 1 call denied`.
pub fn glance(verdict: &Verdict, name: &str, style: Style) -> String {
    let gap = if name.is_empty() { "" } else { " " };
    format!("{} {name}{gap}{}{}", mark(verdict, style), judged(verdict, style), denied(verdict.denials))
}

/// Returns why a success is not clean, for a view whose last line has the figures already: `! success (interactive): …`.
pub(super) fn doubt_lines(summary: &Summary, told: &str, style: Style, width: Option<usize>) -> Option<String> {
    let verdict = &summary.verdict;
    let head = |style| format!("{} {}", mark(verdict, style), judged(verdict, style));
    let figures = verdict_line(summary, style).strip_prefix(&head(style))?.to_owned();
    let is_doubt = told.ends_with(&figures) && summary.rejected.is_empty();
    let warning = verdict.doubt().filter(|_| is_doubt)?;
    // Wrapped without colours, which take no columns.
    let plain = head(Style::plain());
    let lines = format!("{plain}: {}", one_line(&warning.message));
    let lines = wrap(&lines, width.unwrap_or(usize::MAX)).join("\n  ");
    Some(lines.replacen(&plain, &head(style), 1) + "\n")
}

/// Says what went wrong and whether a retry can help, if there is something to say.
fn reason_lines(summary: &Summary, style: Style, width: Option<usize>) -> String {
    let (verdict, mut out) = (&summary.verdict, String::new());
    if let Some(error) = verdict.error_for_people().filter(|_| verdict.outcome != Outcome::Interrupted) {
        let error = one_line(error);
        let shown = width.map_or(error.clone(), |width| fit(&error, width.saturating_sub(2)).into_owned());
        let _ = writeln!(out, "{}✗{} {shown}", style.red, style.reset);
    }
    if let (Advice::Later, Some(at)) = (verdict.retry.advice, &verdict.retry.at) {
        let _ = writeln!(out, "{}↻{} try again at {at}", style.yellow, style.reset);
    }
    out
}

/// Returns the end of a transcript: what went wrong, if no turn has said so, and the verdict.
pub(super) fn verdict_lines(summary: &Summary, style: Style, width: Option<usize>) -> String {
    let told = summary.last_turn.as_ref().is_some_and(|turn| failure_of(turn).is_some());
    let reason = if told { String::new() } else { reason_lines(summary, style, width) };
    rejected_lines(summary, style, width) + &reason + &fitted(&verdict_line(summary, style), width)
}

/// Breaks the line of a verdict or a turn for a terminal of this width.
pub(super) fn fitted(line: &str, width: Option<usize>) -> String {
    width.map_or_else(|| line.to_owned(), |columns| folded(line, columns, 2))
}

/// Lists the rejected calls that are not in the stream and that no step could show.
fn rejected_lines(summary: &Summary, style: Style, width: Option<usize>) -> String {
    let mut out = String::new();
    for call in summary.rejected.iter().take(WARNINGS) {
        let text = one_line(&format!("denied: {call}"));
        let text = width.map_or(text.clone(), |width| fit(&text, width.saturating_sub(2)).into_owned());
        let _ = writeln!(out, "{}✗{} {text}", style.red, style.reset);
    }
    out
}

fn mark(verdict: &Verdict, style: Style) -> String {
    let (colour, mark) = match verdict.outcome {
        Outcome::Success if verdict.clean => (style.green, "✓"),
        Outcome::Success | Outcome::Interrupted => (style.yellow, "!"),
        Outcome::Failure | Outcome::Incomplete => (style.red, "✗"),
    };
    format!("{colour}{mark}{}", style.reset)
}

/// Formats the outcome: `failure (rate_limit)`.
fn judged(verdict: &Verdict, style: Style) -> String {
    let category = verdict.category.map(|category| format!(" ({})", category.word())).filter(|_| {
        // `interrupted (interrupted)` would say nothing more.
        verdict.outcome != Outcome::Interrupted
    });
    format!("{}{}{}{}", style.bold, verdict.outcome.word(), style.reset, category.unwrap_or_default())
}

/// Formats `48 in · 160 out · 8.0k cached`, with `~` if it is not exact.
fn tokens(ledger: &Ledger) -> Vec<String> {
    let counts = &ledger.tokens;
    if counts.total() == 0 {
        return Vec::new();
    }
    let about = if ledger.exact { "" } else { "~" };
    let mut parts =
        vec![format!("{about}{} in", short_count(counts.input)), format!("{about}{} out", short_count(counts.output))];
    if counts.cache_read > 0 {
        parts.push(format!("{} cached", short_count(counts.cache_read)));
    }
    parts
}

/// Returns the summary of `inspect`: what people want to know about a run, aligned.
pub fn render_summary(report: &Report, summary: &Summary, style: Style, width: Option<usize>, hints: Hints) -> String {
    let Style { dim, reset, .. } = style;
    let mut out = fitted(&verdict_line(summary, style), width) + &reason_lines(summary, style, width);
    out.push('\n');
    let mut row = |name: &str, value: String| {
        let value = one_line(&value);
        let value = match width {
            // People copy it whole.
            _ if name == "session" => value,
            Some(columns) if LISTS.contains(&name) => {
                let columns = columns.saturating_sub(NAMES);
                let lines = folded(&value, columns, 0);
                lines.lines().flat_map(|line| wrap(line, columns)).collect::<Vec<_>>().join(&format!("\n{:NAMES$}", ""))
            }
            Some(columns) => fit(&value, columns.saturating_sub(NAMES)).into_owned(),
            None => value,
        };
        let _ = writeln!(out, "{dim}{name:<10}{reset}  {value}");
    };
    let info = &summary.session.info;
    let lines = session_lines(info);
    if let Some(id) = &report.session.id {
        let more = report.session.ids.len() - 1;
        row("session", if more > 0 { format!("{id} (and {more} more)") } else { id.clone() });
    }
    let agent = name_of(report.agent);
    row("agent", info.setup.cli_version.as_ref().map_or_else(|| agent.to_owned(), |version| format!("{agent} {version}")));
    for (name, value) in [
        ("model", &info.setup.model),
        ("folder", &info.setup.cwd),
        ("mode", &info.setup.permission_mode),
        ("key", &info.setup.api_key_source),
    ] {
        if let Some(value) = value {
            row(name, value.clone());
        }
    }
    if !lines.has.is_empty() {
        row("has", lines.has.clone());
    }
    for line in &lines.not_connected {
        row("!", line.clone());
    }
    for (at, text) in prompt_rows(report, summary, hints).into_iter().enumerate() {
        row(if at == 0 { "prompt" } else { "" }, text);
    }
    if !report.tools.calls.is_empty() {
        row("calls", calls(report));
    }
    let tasks = &report.tasks;
    if !tasks.is_empty() {
        let open = tasks.iter().filter(|task| !task.terminal).count();
        row("tasks", if open > 0 { format!("{} ({open} never ended)", tasks.len()) } else { tasks.len().to_string() });
    }
    if !report.retries.is_empty() {
        row("retries", report.retries.len().to_string());
    }
    let ledger = &report.ledger;
    if ledger.tokens.total() > 0 {
        let t = &ledger.tokens;
        let exact = if ledger.exact { "" } else { " (not exact)" };
        row(
            "tokens",
            format!(
                "{} in · {} out · {} cache read · {} cache write{exact}",
                grouped(t.input),
                grouped(t.output),
                grouped(t.cache_read),
                grouped(t.cache_write())
            ),
        );
    }
    if ledger.by_model.len() > 1 {
        for (model, totals) in &ledger.by_model {
            let cost = totals.cost_usd.map(|cost| format!(" · {}", dollars(cost))).unwrap_or_default();
            row("", format!("{model}: {} in · {} out{cost}", grouped(totals.tokens.input), grouped(totals.tokens.output)));
        }
    }
    let stream = &report.stream;
    let plural = |count: u64, noun: &str| format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" });
    row("stream", format!("{} · {}", plural(stream.lines.total, "line"), plural(stream.bytes, "byte")));
    let warnings = report.verdict.warnings_for_people();
    for warning in warnings.iter().take(WARNINGS) {
        let line = warning.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        row("!", format!("{}: {line}{}", warning.code, warning.message));
    }
    if warnings.len() > WARNINGS {
        let more = count_of(warnings.len() - WARNINGS, "more warning");
        row("!", format!("… and {more}{}", hints.warnings));
    }
    out + &answer_lines(report, style, width, hints)
}

/// Shows the first lines of the answer.
fn answer_lines(report: &Report, style: Style, width: Option<usize>, hints: Hints) -> String {
    let Some(answer) = report.answer.as_ref().filter(|answer| !answer.trim().is_empty()) else { return String::new() };
    let mut out = "\n".to_owned();
    let shown: Vec<_> = answer.trim().lines().collect();
    for line in shown.iter().take(ANSWER_LINES) {
        let line = crate::text::visible(line);
        for part in wrap(&line, width.unwrap_or(usize::MAX)) {
            let _ = writeln!(out, "{part}");
        }
    }
    if shown.len() > ANSWER_LINES {
        let more = count_of(shown.len() - ANSWER_LINES, "more line");
        let _ = writeln!(out, "{}… {more}{}{}", style.dim, hints.answer, style.reset);
    }
    out
}

/// Shows the first prompt, and how many there are. What a sub-agent was told is not the session's prompt.
fn prompt_rows(report: &Report, summary: &Summary, hints: Hints) -> Vec<String> {
    let Some(first) = summary.first_prompt.and_then(|at| report.prompts.get(at)) else { return Vec::new() };
    let (earlier, first) = without_earlier_run(first.trim());
    let (head, cut) = crate::text::head(first.lines().next().unwrap_or_default(), PROMPT_CHARACTERS);
    let more = first.lines().count() - 1;
    let cut = if cut { "…" } else { "" };
    let lines = if more > 0 { format!(" (and {})", count_of(more, "more line")) } else { String::new() };
    let mut rows = vec![format!("{head}{cut}{lines}")];
    rows.extend((earlier > 0).then(|| behind_earlier_run(earlier, hints)));
    if summary.prompts > 1 {
        rows.push(format!("and {}{}", count_of(summary.prompts - 1, "more prompt"), hints.prompts));
    }
    rows
}

/// The columns before the values of rows.
const NAMES: usize = 12;
/// Rows that have several parts. Where there is no room, they are broken and not cut.
const LISTS: &[&str] = &["has", "calls", "tokens", "stream"];
/// How many characters of a prompt are shown.
const PROMPT_CHARACTERS: usize = 200;
/// How many warnings are shown.
const WARNINGS: usize = 10;
/// How many lines of the answer are shown.
const ANSWER_LINES: usize = 12;

/// Formats the calls: `7: Bash 4, Read 3 · 1 failed · 1 denied`.
fn calls(report: &Report) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for call in &report.tools.calls {
        *counts.entry(&call.name).or_default() += 1;
    }
    let mut names: Vec<(&str, usize)> = counts.into_iter().collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let names: Vec<_> = names.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let with = |status: CallStatus, word: &str| {
        let count = report.tools.calls.iter().filter(|call| call.status == status).count();
        if count > 0 { format!(" · {count} {word}") } else { String::new() }
    };
    format!(
        "{}: {}{}{}{}",
        report.tools.calls.len(),
        names.join(", "),
        with(CallStatus::Error, "failed"),
        with(CallStatus::Denied, "denied"),
        with(CallStatus::Pending, "unanswered")
    )
}
