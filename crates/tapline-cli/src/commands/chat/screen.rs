//! What a chat shows: events above, and below them the part that is drawn over: the prompt, or the status of the agent.

use std::fmt::Write as _;
use std::time::Duration;

use tapline_session::Step;
use tapline_session::render::{Render, RenderAs, Status, Style, TerminalOptions};
use tapline_session::text::{count_of, one_line, visible, width};

use super::editor::Rows;
use crate::output;
use crate::sink::Sink;

/// The screen.
pub(super) struct Screen {
    renderer: Box<dyn Render>,
    status: Status,
    options: TerminalOptions,
    out: Sink,
    /// The prompt as it was drawn.
    drawn: Option<Rows>,
    /// Whether the status of the agent is drawn.
    working: bool,
    /// Whether the agent waits for an answer, so that its status is not shown.
    waits: bool,
    /// What is shown once the line that is being typed is complete.
    held: String,
}

impl Screen {
    pub(super) fn new(options: TerminalOptions) -> Self {
        Self {
            renderer: RenderAs::Terminal(options).renderer(),
            status: Status::default(),
            options,
            out: Sink::stdout(),
            drawn: None,
            working: false,
            waits: false,
            held: String::new(),
        }
    }

    pub(super) fn style(&self) -> Style {
        self.options.style
    }

    /// Returns the columns and rows.
    pub(super) fn size() -> (usize, usize) {
        output::size()
    }

    /// Starts again below what is there.
    pub(super) fn renew(&mut self) {
        let text = self.erased() + &self.renderer.status(None) + &self.renderer.pause();
        self.out.write(text.as_bytes());
        self.renderer = RenderAs::Terminal(self.options).renderer();
    }

    /// Shows a step of the agent.
    pub(super) fn step(&mut self, step: &Step, elapsed: Duration) {
        self.status.accept(step, elapsed);
        let (columns, rows) = Self::size();
        self.renderer.resize(columns, rows);
        let erased = self.erased();
        let text = erased + &self.renderer.step(step);
        self.out.write(text.as_bytes());
        if !self.renderer.is_mid_line() {
            self.say_held();
        }
    }

    fn say_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.say_now(&held);
        }
    }

    /// Shows lines of ours, but not in the middle of a line of the agent.
    pub(super) fn say(&mut self, text: &str) {
        if self.renderer.is_mid_line() {
            self.held.push_str(text);
        } else {
            self.say_now(text);
        }
    }

    fn say_now(&mut self, text: &str) {
        let mut before = self.erased() + &self.renderer.pause();
        let running = if self.waits { String::new() } else { self.renderer.resume() };
        before += text;
        let text = before + &running;
        self.out.write(text.as_bytes());
    }

    /// Shows a remark: a mark and a line.
    pub(super) fn remark(&mut self, colour: &str, mark: &str, text: &str) {
        let reset = self.style().reset;
        self.say(&format!("{colour}{mark}{reset} {}\n", one_line(text)));
    }

    /// Shows a prompt that was sent. It stays above.
    pub(super) fn said(&mut self, text: &str) {
        let Style { bold, reset, .. } = self.style();
        let shown: Vec<_> =
            text.lines().take(SAID_LINES).map(|line| cut(&visible(line), Self::size().0.saturating_sub(3))).collect();
        let more = text.lines().count().saturating_sub(shown.len());
        let mut out = String::from("\n");
        for (at, line) in shown.iter().enumerate() {
            let _ = writeln!(out, "{bold}{}{reset} {line}", if at == 0 { "›" } else { " " });
        }
        if more > 0 {
            let _ = writeln!(out, "  {}… {}{reset}", self.style().dim, count_of(more, "more line"));
        }
        self.say(&out);
    }

    /// Shows the prompt, below everything else.
    pub(super) fn prompt(&mut self, rows: Rows) {
        if std::mem::take(&mut self.working) {
            let text = self.erased() + &self.renderer.status(None) + &self.renderer.pause() + &self.renderer.resume();
            self.out.write(text.as_bytes());
        }
        self.below(rows);
    }

    /// Shows nothing below.
    pub(super) fn nothing_below(&mut self) {
        let text = self.erased();
        self.out.write(text.as_bytes());
    }

    /// Shows the typed text below what is there.
    pub(super) fn below(&mut self, rows: Rows) {
        let mut text = self.erased();
        text += &rows.rows.join("\n");
        let (row, column) = rows.cursor;
        let up = rows.rows.len() - 1 - row;
        if up > 0 {
            let _ = write!(text, "\x1b[{up}A");
        }
        text += "\r";
        if column > 0 {
            let _ = write!(text, "\x1b[{column}C");
        }
        self.drawn = Some(rows);
        self.out.write(text.as_bytes());
    }

    /// Shows the status of the agent, with the text that is typed meanwhile.
    pub(super) fn work(&mut self, elapsed: Duration, more: &str) {
        let (columns, rows) = Self::size();
        self.renderer.resize(columns, rows);
        let mut text = self.erased();
        (self.working, self.waits) = (true, false);
        text += &self.renderer.status(Some(self.status.line(elapsed) + more));
        self.out.write(text.as_bytes());
    }

    /// Hides the status of the agent, because it waits.
    pub(super) fn quiet(&mut self) {
        (self.working, self.waits) = (false, true);
        let text = self.erased() + &self.renderer.status(None) + &self.renderer.pause();
        self.out.write(text.as_bytes());
        self.say_held();
    }

    /// Erases the prompt.
    fn erased(&mut self) -> String {
        let Some(Rows { rows, cursor: (row, column) }) = self.drawn.take() else { return String::new() };
        // If the terminal has become narrower, a row takes several.
        let columns = Self::size().0.max(1);
        let above: usize = rows[..row].iter().map(|row| width(row).div_ceil(columns).max(1)).sum();
        let above = above + column / columns;
        let up = if above > 0 { format!("\x1b[{above}A") } else { String::new() };
        format!("{up}\r\x1b[J")
    }

    /// Stops drawing over anything.
    pub(super) fn finish(&mut self) {
        self.waits = true;
        let text = self.erased() + &self.renderer.status(None) + &self.renderer.pause();
        self.out.write(text.as_bytes());
        self.say_held();
    }

    /// Returns whether the terminal accepts more.
    pub(super) fn has_room(&self) -> bool {
        self.out.has_room()
    }

    /// Waits until it does.
    pub(super) async fn ready(&self) {
        self.out.ready().await;
    }

    /// Waits until everything is written.
    pub(super) async fn flushed(&mut self) {
        self.out.flushed().await;
    }
}

/// How many lines of a sent prompt are shown.
const SAID_LINES: usize = 8;

fn cut(text: &str, columns: usize) -> String {
    tapline_session::text::fit(text, columns).into_owned()
}
