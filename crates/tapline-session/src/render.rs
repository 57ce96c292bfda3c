//! Renderers: steps in, text out. Pure: no terminal, no clock, no configuration but what they are given.
//! To add one: a file in `render/` and a variant of [`RenderAs`]; the snapshots of fixtures × formats pick it up.

mod column;
mod digest;
mod html;
mod lines;
mod live;
mod markdown;
mod marks;
mod output;
mod proposal;
mod status;
mod steps;
mod style;
mod summary;
mod terminal;
mod transcript;
mod typing;

pub use column::Times;
pub use digest::digest;
pub use html::CONTENT_POLICY;
pub use output::{OutputError, Outputs, has_documents, verbose_item};
pub use proposal::{Current, Proposal};
pub use status::{Status, clock};
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
    /// What the run is doing, on a line that is drawn over; none takes the line away.
    fn status(&mut self, _line: Option<String>) -> String {
        String::new()
    }
    /// Whether a line of text is being typed.
    fn is_mid_line(&self) -> bool {
        false
    }
    /// What makes room for a line that somebody else writes to the same terminal.
    fn pause(&mut self) -> String {
        String::new()
    }
    /// What brings back what made room.
    fn resume(&mut self) -> String {
        String::new()
    }
    /// What to show at the end.
    fn finish(&mut self, summary: &Summary) -> String;
}

/// A format that steps are shown in.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RenderAs {
    /// For a person at a terminal, or reading a log.
    Terminal(TerminalOptions),
    /// One line a step, for a log; of the options, style, thinking and CI log count.
    Lines(TerminalOptions),
    /// A transcript.
    Markdown,
    /// A transcript as one page.
    Html,
    /// What was said, called and answered, for another agent to read.
    Transcript,
    /// Every step, one JSON object a line.
    Steps,
}

impl RenderAs {
    /// A renderer for one stream.
    pub fn renderer(self) -> Box<dyn Render> {
        match self {
            Self::Terminal(options) => Box::new(terminal::Terminal::new(options)),
            Self::Lines(options) => Box::new(lines::Lines::new(options)),
            Self::Transcript => Box::new(transcript::Transcript),
            Self::Markdown => Box::new(markdown::Markdown::default()),
            Self::Html => Box::new(html::Html::default()),
            Self::Steps => Box::new(steps::Steps),
        }
    }
}
