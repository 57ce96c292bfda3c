//! Renderers: steps in, text out. Pure: no terminal, no clock, no configuration but what they are given.
//! To add one: a file in `render/` and a variant of [`Format`]; the snapshots of fixtures × formats pick it up.

mod html;
mod live;
mod markdown;
mod marks;
mod output;
mod steps;
mod style;
mod summary;
mod terminal;

pub use html::CONTENT_POLICY;
pub use output::{OutputError, Outputs, verbose_item};
pub use style::Style;
pub use summary::render_summary;
pub use terminal::TerminalOptions;

use crate::fold::Summary;
use crate::step::Step;

/// Shows steps as they come.
pub trait Render {
    /// What to show of a step. May be nothing.
    fn step(&mut self, step: &Step) -> String;
    /// The terminal has this many columns and rows now.
    fn resize(&mut self, _columns: usize, _rows: usize) {}
    /// What to show at the end.
    fn finish(&mut self, summary: &Summary) -> String;
}

/// A format that steps are shown in.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// For a person at a terminal, or reading a log.
    Terminal(TerminalOptions),
    /// A transcript.
    Markdown,
    /// A transcript as one page.
    Html,
    /// Every step, one JSON object a line.
    Steps,
}

impl Format {
    /// A renderer for one stream.
    pub fn renderer(self) -> Box<dyn Render> {
        match self {
            Self::Terminal(options) => Box::new(terminal::Terminal::new(options)),
            Self::Markdown => Box::new(markdown::Markdown::default()),
            Self::Html => Box::new(html::Html::default()),
            Self::Steps => Box::new(steps::Steps),
        }
    }
}
