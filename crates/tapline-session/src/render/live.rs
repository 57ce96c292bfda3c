//! The live region: lines at the bottom of a terminal that are drawn over until they are final.

use std::fmt::Write as _;

use super::Style;
use crate::step::Call;
use crate::text::fit;

/// No more running calls than this are shown.
const SHOWN: usize = 8;

/// Calls that are running, as lines that can be erased.
#[derive(Debug, Default)]
pub(super) struct Live {
    running: Vec<(Option<String>, usize, String)>,
    drawn: usize,
}

impl Live {
    pub(super) fn start(&mut self, call: &Call, depth: usize) {
        self.running.push((call.id.clone(), depth, format!("{}: {}", call.doing, call.title)));
    }

    /// Takes a call out; `true` if it was running.
    pub(super) fn end(&mut self, id: Option<&String>) -> bool {
        let at = self.running.iter().position(|(known, ..)| known.as_ref() == id && id.is_some());
        at.map(|at| self.running.remove(at)).is_some()
    }

    /// The calls that never ended.
    pub(super) fn drain(&mut self) -> Vec<(usize, String)> {
        self.running.drain(..).map(|(_, depth, text)| (depth, text)).collect()
    }

    /// Erases what was drawn: the cursor stands behind it, at the start of a line.
    pub(super) fn erase(&mut self) -> String {
        let drawn = std::mem::take(&mut self.drawn);
        if drawn == 0 { String::new() } else { format!("\x1b[{drawn}A\x1b[J") }
    }

    /// Draws the running calls; each is cut to the width, so that the lines can be counted.
    pub(super) fn draw(&mut self, style: Style, width: usize) -> String {
        let mut out = String::new();
        let hidden = self.running.len().saturating_sub(SHOWN);
        for (_, depth, text) in self.running.iter().skip(hidden) {
            let indent = "  ".repeat(*depth);
            let text = fit(text, width.saturating_sub(indent.len() + 3)).into_owned();
            let _ = writeln!(out, "{indent}{}▸ {text}{}", style.cyan, style.reset);
        }
        if hidden > 0 {
            let _ = writeln!(out, "{}  … and {hidden} more{}", style.dim, style.reset);
        }
        self.drawn = out.lines().count();
        out
    }
}
