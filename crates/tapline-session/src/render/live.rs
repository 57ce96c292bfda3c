//! The live region: lines at the bottom of a terminal that are drawn over until they are final.

use std::fmt::Write as _;

use super::Style;
use crate::step::Call;
use crate::text::{fit, indent, width};

/// No more running calls than this are shown.
const SHOWN: usize = 8;
/// No more running calls than this are remembered.
const TRACKED: usize = 1_024;

/// Calls that are running, as lines that can be erased.
#[derive(Debug, Default)]
pub(super) struct Live {
    running: Vec<(Option<String>, usize, String)>,
    /// What the run is doing, below them.
    status: Option<String>,
    /// The columns at the left that are somebody else's.
    pub(super) margin: usize,
    /// The columns that each drawn line takes.
    drawn: Vec<usize>,
}

impl Live {
    /// Remembers a running call. One without an id cannot end, and nobody watches thousands: `false`.
    pub(super) fn start(&mut self, call: &Call, depth: usize) -> bool {
        let tracked = call.id.is_some() && self.running.len() < TRACKED;
        if tracked {
            self.running.push((call.id.clone(), depth, format!("{}: {}", call.doing, call.title)));
        }
        tracked
    }

    /// Takes a call out; `true` if it was running.
    pub(super) fn end(&mut self, id: Option<&String>) -> bool {
        let at = self.running.iter().position(|(known, ..)| known.as_ref() == id && id.is_some());
        at.map(|at| self.running.remove(at)).is_some()
    }

    /// What the run is doing.
    pub(super) fn set_status(&mut self, status: Option<String>) {
        self.status = status;
    }

    /// The calls that never ended.
    pub(super) fn drain(&mut self) -> Vec<(usize, String)> {
        self.running.drain(..).map(|(_, depth, text)| (depth, text)).collect()
    }

    /// The agent's own calls that have not ended; those of sub-agents may go on in the background.
    pub(super) fn drain_own(&mut self) -> Vec<String> {
        self.running.extract_if(.., |(_, depth, _)| *depth == 0).map(|(.., text)| text).collect()
    }

    /// Erases what was drawn: the cursor stands behind it, at the start of a line. Where the terminal has become
    /// narrower since, a line takes several rows.
    pub(super) fn erase(&mut self, columns: usize) -> String {
        let rows: usize = self.drawn.drain(..).map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
        // The column may not be the first: a terminal shows `^C` where it was typed.
        if rows == 0 { String::new() } else { format!("\r\x1b[{rows}A\x1b[J") }
    }

    /// Draws a line that is still being typed and the running calls; each is cut to the width, so that the rows can be counted.
    pub(super) fn draw(&mut self, typed: &str, style: Style, columns: usize, rows: usize) -> String {
        let mut out = String::new();
        if !typed.is_empty() {
            self.drawn.push(width_without_style(typed, style));
            let _ = writeln!(out, "{typed}");
        }
        let margin = " ".repeat(self.margin);
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

/// The columns of a line that is being typed: the time before it may be dim.
fn width_without_style(line: &str, style: Style) -> usize {
    width(line).saturating_sub([style.dim, style.reset].into_iter().filter(|code| line.contains(code)).map(width).sum())
}
