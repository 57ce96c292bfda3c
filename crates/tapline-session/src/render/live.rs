//! The live region: lines at the bottom of a terminal that are drawn over until they are final.

use std::fmt::Write as _;

use super::Style;
use crate::step::Call;
use crate::text::{fit, indent, width};

/// How many running calls are shown.
const SHOWN: usize = 8;
/// How many running calls are remembered.
const TRACKED: usize = 1_024;

/// Running calls, as lines that can be erased.
#[derive(Debug, Default)]
pub(super) struct Live {
    running: Vec<(Option<String>, usize, String)>,
    /// The lines above them that are still being written.
    pub(super) draft: Vec<String>,
    /// The status line below them.
    status: Option<String>,
    /// The columns at the left that are used for something else.
    pub(super) margin: usize,
    /// The width of each drawn line.
    drawn: Vec<usize>,
}

impl Live {
    /// Remembers a running call. Returns `false` for a call without an id, whose end could not be noticed, and when
    /// there are too many.
    pub(super) fn start(&mut self, call: &Call, depth: usize) -> bool {
        let tracked = call.id.is_some() && self.running.len() < TRACKED;
        if tracked {
            self.running.push((call.id.clone(), depth, format!("{}: {}", call.doing, call.title)));
        }
        tracked
    }

    /// Removes a call. Returns `true` if it was running.
    pub(super) fn end(&mut self, id: Option<&String>) -> bool {
        let at = self.running.iter().position(|(known, ..)| known.as_ref() == id && id.is_some());
        at.map(|at| self.running.remove(at)).is_some()
    }

    /// Sets the status line.
    pub(super) fn set_status(&mut self, status: Option<String>) {
        self.status = status;
    }

    /// Removes and returns the calls that never ended.
    pub(super) fn drain(&mut self) -> Vec<(usize, String)> {
        self.running.drain(..).map(|(_, depth, text)| (depth, text)).collect()
    }

    /// Removes and returns the agent's own calls that have not ended. Those of sub-agents may continue in the
    /// background.
    pub(super) fn drain_own(&mut self) -> Vec<String> {
        self.running.extract_if(.., |(_, depth, _)| *depth == 0).map(|(.., text)| text).collect()
    }

    /// Erases what was drawn. The cursor is below it, at the start of a line. If the terminal has become narrower, a
    /// line takes several rows.
    pub(super) fn erase(&mut self, columns: usize) -> String {
        let rows: usize = self.drawn.drain(..).map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
        // The cursor may not be in the first column: a terminal shows `^C` where it was typed.
        if rows == 0 { String::new() } else { format!("\r\x1b[{rows}A\x1b[J") }
    }

    /// Draws a line that is still being typed and the running calls. Each is cut to the width, so that the rows can be
    /// counted.
    pub(super) fn draw(&mut self, typed: &str, style: Style, columns: usize, rows: usize) -> String {
        let mut out = String::new();
        if !typed.is_empty() {
            self.drawn.push(width_without_style(typed, style));
            let _ = writeln!(out, "{typed}");
        }
        let margin = " ".repeat(self.margin);
        for line in &self.draft {
            let line = fit(&format!("{margin}{line}"), columns.saturating_sub(1)).into_owned();
            self.drawn.push(width(&line));
            let _ = writeln!(out, "{line}");
        }
        let hidden = self.running.len().saturating_sub(SHOWN.min(rows.saturating_sub(3)).max(1));
        for (_, depth, text) in self.running.iter().skip(hidden) {
            let line = fit(&format!("{margin}{}▸ {text}", indent(*depth)), columns.saturating_sub(1)).into_owned();
            self.drawn.push(width(&line));
            let _ = writeln!(out, "{}{line}{}", style.cyan, style.reset);
        }
        if hidden > 0 {
            let line = format!("{margin}  … and {hidden} more");
            self.drawn.push(width(&line));
            let _ = writeln!(out, "{}{line}{}", style.dim, style.reset);
        }
        if let Some(status) = &self.status {
            let line = fit(status, columns.saturating_sub(1)).into_owned();
            self.drawn.push(width(&line));
            let _ = writeln!(out, "{}{line}{}", style.dim, style.reset);
        }
        out
    }
}

/// Returns the width of a line that is being typed. The time before it may be dimmed.
fn width_without_style(line: &str, style: Style) -> usize {
    width(line).saturating_sub([style.dim, style.reset].into_iter().filter(|code| line.contains(code)).map(width).sum())
}
