//! Renderers: steps in, text out. They are pure: no terminal, no clock, and no configuration other than their
//! arguments. Text for a CI log goes through [`without_commands`](crate::text::without_commands) before it is printed.
//! To add one: a file in `render/` and a variant of [`RenderAs`]; the snapshots of fixtures × formats pick it up.

mod changes;
mod column;
mod digest;
pub mod html;
mod lines;
mod live;
mod markdown;
mod marks;
mod output;
mod proposal;
mod prose;
mod status;
mod steps;
mod style;
mod summary;
mod terminal;
mod transcript;
mod typing;

pub use column::Times;
pub use digest::digest;
pub use marks::Hints;
pub use output::{OutputError, Outputs, has_documents, verbose_item};
pub use proposal::{Current, Proposal};
pub use status::{Status, clock};
pub use style::Style;
pub use summary::{glance, render_summary};
pub use terminal::{TerminalOptions, render_page};

use crate::fold::Summary;
use crate::step::Step;

/// Shows steps as they arrive.
pub trait Render {
    /// Returns what to show for a step, which may be nothing.
    fn step(&mut self, step: &Step) -> String;
    /// Sets the size of the terminal.
    fn resize(&mut self, _columns: usize, _rows: usize) {}
    /// Sets the status line, which is drawn over. `None` removes it.
    fn status(&mut self, _line: Option<String>) -> String {
        String::new()
    }
    /// Returns whether a line of text is being typed.
    fn is_mid_line(&self) -> bool {
        false
    }
    /// Makes room for a line that somebody else writes to the same terminal.
    fn pause(&mut self) -> String {
        String::new()
    }
    /// Draws again what made room.
    fn resume(&mut self) -> String {
        String::new()
    }
    /// Returns what to show at the end.
    fn finish(&mut self, summary: &Summary) -> String;
}

/// A format for steps.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RenderAs {
    /// For a person at a terminal, or reading a log.
    Terminal(TerminalOptions),
    /// One line per step, for a log. Of the options, only style and thinking apply.
    Lines(TerminalOptions),
    /// A transcript.
    Markdown,
    /// A transcript as one page.
    Html,
    /// What was said and called, with the results, for another agent to read.
    Transcript,
    /// Every step, as one JSON object per line.
    Steps,
}

impl RenderAs {
    /// Creates a renderer for one stream.
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
