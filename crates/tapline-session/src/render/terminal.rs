//! For a person at a terminal, or reading a log: what the agent says and does, as it happens.

mod draft;
mod prose;

pub use prose::render_page;

use std::collections::HashMap;
use std::fmt::Write as _;

use tapline_protocol::Moment;

use super::changes::{diff, edits};
use super::column::{Column, Times};
use super::live::Live;
use super::marks::{Hints, Shown, behind_earlier_run, failure_of, output_of, session_lines, show, thought};
use super::summary::{doubt_lines, fitted, turn_line, verdict_line, verdict_lines};
use super::typing::Typing;
use super::{Render, Style};
use crate::fold::Summary;
use crate::host::without_earlier_run;
use crate::step::{Call, CallAnswer, CallStatus, DeltaKind, Partial, Said, SessionInfo, Step, Turn};
use crate::text::{count_of, fit, folded, indent, one_line, visible, width, wrap};
use draft::Draft;

/// How the output looks.
#[derive(Clone, Copy, Debug)]
pub struct TerminalOptions {
    /// Colours.
    pub style: Style,
    /// The columns of the terminal. With `None`, nothing is cut.
    pub width: Option<usize>,
    /// The rows of the terminal. No more than that is drawn.
    pub rows: usize,
    /// Whether running calls are drawn over in place. Otherwise they are written when they start and when they end.
    pub live: bool,
    /// Whether thoughts are shown in full.
    pub thinking: bool,
    /// Whether text is shown while it is being written.
    pub partial: bool,
    /// Whether the output of calls and what they write are shown whole.
    pub full: bool,
    /// Whether to show when each step arrived and how long calls took.
    pub times: Times,
    /// What is added where something is shown in part.
    pub hints: Hints,
}

/// How many lines of a failed call's output are shown.
const OUTPUT_LINES: usize = 6;
/// How many of these lines are its first.
const FIRST_LINES: usize = 2;
/// How many lines of a prompt are shown.
const PROMPT_LINES: usize = 4;
/// How many lines of an edit are shown.
const EDIT_LINES: usize = 8;
/// How many edits are remembered until their results come.
const EDITS: usize = 1_024;
/// The column in which durations end, unless the terminal is narrower.
const DURATIONS: usize = 80;

/// The terminal renderer.
pub(super) struct Terminal {
    options: TerminalOptions,
    live: Live,
    typing: Typing,
    /// The line for the end of the last turn, if nothing was shown since.
    told: Option<String>,
    /// Whether something was written since the last empty line.
    dirty: bool,
    /// In live mode: the line that is still being typed. It is drawn over until it is complete, so that what is below
    /// it stays.
    open_line: String,
    /// In live mode with colours: the text that is still being written, before it is shown as Markdown.
    draft: Draft,
    /// When that began.
    draft_began: Option<Moment>,
    /// What the running calls change, by their ids.
    edits: HashMap<String, Vec<(String, String)>>,
    column: Column,
}

impl Terminal {
    pub(super) fn new(options: TerminalOptions) -> Self {
        Self {
            options,
            live: Live::default(),
            typing: Typing::default(),
            told: None,
            dirty: false,
            open_line: String::new(),
            draft: Draft::default(),
            draft_began: None,
            edits: HashMap::new(),
            column: Column::new(options.times),
        }
    }

    fn columns(&self) -> usize {
        self.options.width.unwrap_or(80)
    }

    /// Returns the columns that are left beside the times.
    fn width(&self) -> Option<usize> {
        self.options.width.map(|width| width.saturating_sub(self.column.width()))
    }

    /// Returns the columns for typed text.
    fn typing_columns(&self) -> usize {
        self.width().unwrap_or(usize::MAX)
    }

    fn style(&self) -> Style {
        self.options.style
    }

    /// Writes a line with a mark: `✓ ran: …`.
    fn marked(&mut self, depth: usize, colour: &str, mark: &str, text: &str) -> String {
        self.marked_end(depth, colour, mark, text, None)
    }

    /// Writes a line with a mark and a duration: `✓ ran: …   12.4s`.
    fn marked_end(&mut self, depth: usize, colour: &str, mark: &str, text: &str, ms: Option<u64>) -> String {
        let (indent, Style { dim, reset, .. }) = (indent(depth), self.style());
        self.dirty = true;
        let Some(took) = self.column.took(ms) else {
            let text = self.cut(&one_line(text), indent.len() + 2);
            return format!("{indent}{colour}{mark}{reset} {text}\n");
        };
        let text = self.cut(&one_line(text), indent.len() + 2 + 2 + took.len());
        let room = self.width().unwrap_or(DURATIONS).min(DURATIONS).saturating_sub(indent.len() + 2 + width(&text));
        format!("{indent}{colour}{mark}{reset} {text}  {dim}{took:>0$}{reset}\n", room.saturating_sub(2))
    }

    fn cut(&self, text: &str, used: usize) -> String {
        match self.width() {
            Some(width) => fit(text, width.saturating_sub(used)).into_owned(),
            None => text.to_owned(),
        }
    }

    /// Writes several lines of the agent's text, each made safe.
    fn block(&mut self, depth: usize, colour: &str, text: &str) -> String {
        let indent = indent(depth);
        let mut out = String::new();
        let text = visible(text.trim_end());
        let columns = self.width().map_or(usize::MAX, |width| width.saturating_sub(indent.len()));
        for line in text.lines().flat_map(|line| wrap(line, columns)) {
            let reset = if colour.is_empty() { "" } else { self.style().reset };
            let _ = writeln!(out, "{indent}{colour}{line}{reset}");
        }
        self.dirty = true;
        out
    }

    /// Returns whether Markdown is shown as more than its text: on a terminal with colours.
    fn is_rich(&self) -> bool {
        self.options.width.is_some() && !self.style().bold.is_empty()
    }

    /// Writes a text that the agent wrote in Markdown.
    fn prose(&mut self, depth: usize, text: &str) -> String {
        let indent = indent(depth);
        let columns = self.width().unwrap_or(usize::MAX).saturating_sub(indent.len());
        match prose::lines(text, self.style(), columns).filter(|_| self.is_rich()) {
            Some(lines) => {
                self.dirty |= !lines.is_empty();
                lines.iter().map(|line| format!("{indent}{line}").trim_end().to_owned() + "\n").collect()
            }
            None => self.block(depth, "", text),
        }
    }

    /// Writes what is complete of the text that is being written, or all of it. The rest is drawn as it is.
    fn settle(&mut self, all: bool) -> String {
        let ready = if all { Some(self.draft.take()) } else { self.draft.take_ready() };
        let mut out = String::new();
        if let Some(text) = ready.filter(|text| !text.trim().is_empty()) {
            out += self.gap();
            out += &self.prose(0, &text);
        }
        let columns = self.width().unwrap_or(usize::MAX).saturating_sub(1);
        let text = visible(self.draft.text().trim_end());
        let lines: Vec<_> = text.lines().flat_map(|line| wrap(line, columns)).collect();
        // The newest lines, as many as fit above the running calls.
        let first = lines.len().saturating_sub((self.options.rows / 2).max(1));
        self.live.draft = lines[first..].iter().map(|line| (*line).to_owned()).collect();
        out
    }

    /// Returns an empty line, unless there already is one.
    fn gap(&mut self) -> &'static str {
        if std::mem::take(&mut self.dirty) { "\n" } else { "" }
    }

    fn session(&mut self, info: &SessionInfo) -> String {
        let lines = session_lines(info);
        let Style { bold, dim, reset, yellow, .. } = self.style();
        let started = format!("{bold}●{reset} session started · resume id {bold}{}{reset}\n", one_line(&lines.id));
        let mut out = fitted(&started, self.width());
        for line in [lines.about, lines.has].iter().filter(|line| !line.is_empty()) {
            let line = one_line(line);
            let lines = self.width().map_or_else(|| line.clone(), |columns| folded(&line, columns.saturating_sub(2), 0));
            for line in lines.lines() {
                let _ = writeln!(out, "  {dim}{}{reset}", self.cut(line, 2));
            }
        }
        for line in lines.not_connected {
            let _ = writeln!(out, "  {yellow}!{reset} {}", self.cut(&one_line(&line), 4));
        }
        self.dirty = true;
        out + self.gap()
    }

    fn prompt(&mut self, text: &str, depth: usize) -> String {
        let (earlier, text) = without_earlier_run(text);
        let all = visible(text);
        let shown: Vec<_> = all.lines().take(PROMPT_LINES).collect();
        let more = all.lines().count() - shown.len();
        let mut out = self.gap().to_owned();
        let dim = self.style().dim;
        for (at, line) in shown.iter().enumerate() {
            let mark = if at == 0 { "›" } else { " " };
            out += &self.marked(depth, dim, mark, line);
        }
        if more > 0 {
            out += &self.marked(depth, dim, " ", &format!("… {}", count_of(more, "more line")));
        }
        if earlier > 0 {
            out += &self.marked(depth, dim, " ", &behind_earlier_run(earlier, self.options.hints));
        }
        out
    }

    fn text(&mut self, said: &Said, step: &Step) -> String {
        if let Some(typed) = self.typed(said, step) {
            // The part that the deltas left out.
            let rest = &said.text[typed..];
            if self.is_drafted() {
                self.draft.push(rest);
                return self.end_line();
            }
            return self.typing.write(&visible(rest), self.typing_columns()) + &self.end_line();
        }
        let text = said.text.trim_matches('\n');
        if text.trim().is_empty() {
            return String::new();
        }
        let mut out = self.end_line();
        if step.depth == 0 {
            out += self.gap();
        }
        out += &self.prose(step.depth, text);
        if said.aborted {
            out += &self.marked(step.depth, self.style().yellow, "!", "cut short");
        }
        out
    }

    /// Returns how much of this text was already typed.
    fn typed(&mut self, said: &Said, step: &Step) -> Option<usize> {
        let here = step.parent.is_none() && self.options.partial && said.message_id == self.typing.message_id;
        // Find the block that this text completes. An empty one was never typed.
        let at = self.typing.blocks.iter().position(|(_, typed)| said.text.starts_with(typed.as_str()));
        at.filter(|_| here).and_then(|at| self.typing.blocks.remove(at)).map(|(_, typed)| typed.len())
    }

    /// Returns whether text that is being written is shown as Markdown once a block of it is complete.
    fn is_drafted(&self) -> bool {
        self.options.live && self.is_rich()
    }

    fn end_line(&mut self) -> String {
        if self.is_drafted() {
            return self.settle(true);
        }
        self.typing.end_line(self.typing_columns())
    }

    fn partial(&mut self, part: &Partial, step: &Step) -> String {
        if !self.options.partial || step.parent.is_some() {
            return String::new();
        }
        match part {
            Partial::MessageStart { message_id } => {
                self.typing.message_id.clone_from(message_id);
                self.typing.blocks.clear();
                self.end_line()
            }
            Partial::Delta { index, kind: DeltaKind::Text, text } => {
                let mut out = String::new();
                if self.typing.blocks.back().is_none_or(|(known, _)| known != index) {
                    out += &self.end_line();
                    out += if self.is_drafted() { "" } else { self.gap() };
                    self.typing.blocks.push_back((*index, String::new()));
                }
                if let Some((_, typed)) = self.typing.blocks.back_mut() {
                    typed.push_str(text);
                }
                if self.is_drafted() {
                    self.draft.push(text);
                    return out + &self.settle(false);
                }
                self.dirty = true;
                out + &self.typing.write(&visible(text), self.typing_columns())
            }
            Partial::MessageStop => self.end_line(),
            Partial::Delta { .. } | Partial::BlockStart { .. } | Partial::BlockStop { .. } | Partial::MessageDelta { .. } => {
                String::new()
            }
        }
    }

    fn thinking(&mut self, said: &Said, depth: usize) -> String {
        let dim = self.style().dim;
        if self.options.thinking {
            return self.block(depth, dim, &format!("· {}", said.text.trim()));
        }
        self.marked(depth, dim, "·", &thought(said))
    }

    fn call(&mut self, call: &Call, depth: usize) -> String {
        let tracked = self.live.start(call, depth);
        if let (Some(id), Some(input)) = (&call.id, &call.input)
            && (self.is_rich() || self.options.full)
            && self.edits.len() < EDITS
        {
            let whole = || Some(vec![(String::new(), input.text_of("content")?)]);
            let written = if self.options.full && call.name == "Write" { whole() } else { edits(&call.name, input) };
            self.edits.extend(written.map(|edits| (id.clone(), edits)));
        }
        if self.options.live && tracked {
            return String::new();
        }
        let cyan = self.style().cyan;
        self.marked(depth, cyan, "▸", &format!("{}: {}", call.doing, call.title))
    }

    fn answer(&mut self, answer: &CallAnswer, depth: usize) -> String {
        self.live.end(answer.id.as_ref());
        let edits = answer.id.as_ref().and_then(|id| self.edits.remove(id));
        let title = answer.title.as_deref().or(answer.name.as_deref()).unwrap_or("a call");
        let done = answer.done.as_deref().unwrap_or("called");
        match answer.status {
            CallStatus::Ok | CallStatus::Pending => {
                let line = self.marked_end(depth, self.style().green, "✓", &format!("{done}: {title}"), answer.duration_ms);
                let edits = edits.map(|edits| self.changes(&edits, depth)).unwrap_or_default();
                let output = if self.options.full { self.output(answer, depth) } else { String::new() };
                line + &edits + &output
            }
            CallStatus::Error | CallStatus::Denied => {
                let done = if answer.status == CallStatus::Denied { "denied" } else { done };
                self.marked_end(depth, self.style().red, "✗", &format!("{done}: {title}"), answer.duration_ms)
                    + &if self.options.full { self.output(answer, depth) } else { self.excerpt(answer, depth) }
            }
        }
    }

    /// Returns what a call changed, in a few lines or whole.
    fn changes(&mut self, edits: &[(String, String)], depth: usize) -> String {
        let indent = indent(depth + 1);
        let columns = self.width().unwrap_or(usize::MAX).saturating_sub(indent.len() + 4).max(16);
        let most = if self.options.full { usize::MAX / 2 } else { EDIT_LINES };
        let mut out = String::new();
        for (old, new) in edits {
            for line in diff(old, new, self.style(), columns, most).lines() {
                let _ = writeln!(out, "{indent}{line}");
            }
        }
        out
    }

    /// Returns the whole output of a call.
    fn output(&mut self, answer: &CallAnswer, depth: usize) -> String {
        let text = output_of(answer);
        if text.is_empty() { String::new() } else { self.block(depth + 2, self.style().dim, &text) }
    }

    /// Returns the first and last lines of a failed call's output.
    fn excerpt(&mut self, answer: &CallAnswer, depth: usize) -> String {
        let output = output_of(answer);
        let text = visible(&output);
        let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let dim = self.style().dim;
        let mut out = String::new();
        let hidden = lines.len().saturating_sub(OUTPUT_LINES);
        for (at, line) in lines.iter().enumerate() {
            // The subject comes first, and what went wrong last.
            if hidden > 0 && (FIRST_LINES..FIRST_LINES + hidden).contains(&at) {
                if at == FIRST_LINES {
                    out += &self.block(depth + 2, dim, &format!("… {}", count_of(hidden, "line")));
                }
                continue;
            }
            let line = self.cut(line, depth * 2 + 4);
            out += &self.block(depth + 2, dim, &line);
        }
        out
    }

    fn turn(&mut self, turn: &Turn) -> String {
        let mut out = self.end_line();
        if turn.is_aborted() {
            // Its running calls have ended with it.
            self.live.drain();
        }
        // A turn that has ended waits for none of its calls. They are reported here, so that the verdict comes last.
        self.edits.clear();
        for text in self.live.drain_own() {
            out += &self.marked(0, self.style().yellow, "?", &format!("unanswered: {text}"));
        }
        if let Some(message) = failure_of(turn).filter(|_| !turn.repeats_text) {
            let red = self.style().red;
            out += self.gap();
            out += &self.marked(0, red, "✗", message);
        } else if let Some(text) = turn.news() {
            out += self.gap();
            out += &self.prose(0, text);
        }
        let line = turn_line(turn, self.style());
        out += self.gap();
        // Without a count of the agent's own, the line of the first turn has it already.
        let elapsed = turn.elapsed_ms.filter(|_| turn.index > 0 || turn.duration_ms.is_some());
        let took = self.column.took(elapsed).map(|took| format!(" · took {took}")).unwrap_or_default();
        out += &fitted(&format!("{}{took}\n", line.trim_end()), self.width());
        self.dirty = true;
        self.told = Some(line);
        out
    }

    fn permanent(&mut self, shown: Shown<'_>, step: &Step) -> String {
        let end = if self.is_typed_on(&shown) { String::new() } else { self.end_line() };
        end + &self.rest(shown, step)
    }

    /// Everything starts on a new line, except text that is being typed and its completion.
    fn is_typed_on(&self, shown: &Shown<'_>) -> bool {
        let is_hidden = self.options.live && matches!(shown, Shown::Call(_));
        is_hidden || matches!(shown, Shown::Partial(_) | Shown::Text(_) | Shown::Nothing)
    }

    /// Writes what is left of the text that is being written, with its time.
    fn end_draft(&mut self) -> String {
        if !self.is_drafted() {
            return String::new();
        }
        self.column.step(self.draft_began.take());
        let end = self.end_line();
        self.column.before(end, self.style())
    }

    fn rest(&mut self, shown: Shown<'_>, step: &Step) -> String {
        match shown {
            Shown::Session(info) => self.session(info),
            Shown::Prompt(text) => self.prompt(text, step.depth),
            Shown::Text(said) => self.text(said, step),
            Shown::Thinking(said) => self.thinking(said, step.depth),
            Shown::Call(call) => self.call(call, step.depth),
            Shown::Answer(answer) => self.answer(answer, step.depth),
            Shown::Partial(part) => self.partial(part, step),
            Shown::Turn(turn) => self.turn(turn),
            Shown::Remark(remark) => {
                let colour = remark.mood.colour(self.style());
                self.marked_end(step.depth, colour, remark.mark, &remark.text, remark.took)
            }
            Shown::Nothing => String::new(),
        }
    }
}

impl Render for Terminal {
    fn resize(&mut self, columns: usize, rows: usize) {
        self.options.width = self.options.width.map(|_| columns);
        self.options.rows = rows;
    }

    fn step(&mut self, step: &Step) -> String {
        let shown = show(step);
        let is_typed = matches!(shown, Shown::Partial(_) | Shown::Text(_));
        let ended = if self.is_typed_on(&shown) { String::new() } else { self.end_draft() };
        self.column.step(step.arrived);
        self.live.margin = self.column.width();
        let told = self.told.take().filter(|_| ended.is_empty());
        let redraw = matches!(shown, Shown::Call(_)) || (matches!(shown, Shown::Partial(_)) && self.is_drafted());
        let mut shown = self.permanent(shown, step);
        // What is shown now began earlier, and the rest begins now.
        if is_typed && self.is_drafted() {
            let began = if shown.is_empty() { self.draft_began } else { self.draft_began.take() };
            self.column.step(began.filter(|_| !shown.is_empty()).or(step.arrived));
            self.draft_began = began.filter(|_| shown.is_empty()).or(step.arrived).filter(|_| !self.draft.text().is_empty());
        }
        if shown.is_empty() {
            self.told = told;
        } else if told.is_some() && !shown.starts_with('\n') {
            // Something follows the turn.
            shown.insert(0, '\n');
        }
        let shown = ended + &self.column.before(shown, self.style());
        if !self.options.live || (shown.is_empty() && !redraw) {
            return shown;
        }
        self.open_line.push_str(&shown);
        let whole = self.open_line.rfind('\n').map_or(0, |at| at + 1);
        let rest = self.open_line.split_off(whole);
        let lines = std::mem::replace(&mut self.open_line, rest);
        self.live.erase(self.columns()) + &lines + &self.resume()
    }

    fn status(&mut self, line: Option<String>) -> String {
        self.live.set_status(line);
        if !self.options.live {
            return String::new();
        }
        self.live.erase(self.columns()) + &self.resume()
    }

    fn is_mid_line(&self) -> bool {
        self.typing.is_mid_line() || !self.draft.text().is_empty()
    }

    fn pause(&mut self) -> String {
        let draft = self.end_draft();
        let end = self.end_line();
        let end = draft + &self.column.before(end, self.style());
        self.live.erase(self.columns()) + &std::mem::take(&mut self.open_line) + &end
    }

    fn resume(&mut self) -> String {
        if !self.options.live {
            return String::new();
        }
        self.live.draw(&self.open_line, self.style(), self.columns(), self.options.rows)
    }

    fn finish(&mut self, summary: &Summary) -> String {
        self.live.set_status(None);
        let (paused, mut out) = (self.pause(), String::new());
        self.column.step(None);
        let yellow = self.style().yellow;
        for (depth, text) in self.live.drain() {
            out += &self.marked(depth, yellow, "?", &format!("unanswered: {text}"));
        }
        let line = verdict_line(summary, self.style());
        if self.told.as_ref() != Some(&line) {
            let doubt = |told: &String| doubt_lines(summary, told, self.style(), self.width());
            out += &match self.told.as_ref().and_then(doubt) {
                Some(doubt) => doubt,
                None => self.gap().to_owned() + &verdict_lines(summary, self.style(), self.width()),
            };
        }
        paused + &self.column.before(out, self.style())
    }
}
