//! One line per step, for logs: nothing is drawn over and nothing is cut. Only what the agent writes to people keeps its own
//! lines. The caller puts the time before each line.

use super::marks::{Shown, failure_of, output_of, session_lines, show, thought};
use super::summary::{turn_line, verdict_line, verdict_lines};
use super::{Render, Style, TerminalOptions};
use crate::fold::Summary;
use crate::step::{CallAnswer, CallStatus, Step};
use crate::text::{indent, one_line, visible};

/// The renderer of lines.
pub(super) struct Lines {
    options: TerminalOptions,
    /// The line for the end of the last turn, if nothing followed.
    told: Option<String>,
}

impl Lines {
    pub(super) fn new(options: TerminalOptions) -> Self {
        Self { options, told: None }
    }

    fn line(&self, step: &Step) -> Option<String> {
        let Style { bold, dim, red, green, cyan, reset, .. } = self.options.style;
        let marked = |colour: &str, mark: &str, text: &str| Some(format!("{colour}{mark}{reset} {}", one_line(text)));
        match show(step) {
            Shown::Session(info) => {
                let lines = session_lines(info);
                let about: Vec<_> = std::iter::once(format!("session started · resume id {}", lines.id))
                    .chain([lines.about, lines.has].into_iter().filter(|line| !line.is_empty()))
                    .chain(lines.not_connected)
                    .collect();
                marked(bold, "●", &about.join(" · "))
            }
            Shown::Prompt(text) => marked(dim, "›", text),
            Shown::Text(said) if said.text.trim().is_empty() => None,
            Shown::Text(said) => Some(passage(&said.text, step.depth)),
            Shown::Thinking(said) if self.options.thinking => {
                Some(format!("{dim}·{reset} {}", passage(&said.text, step.depth)))
            }
            Shown::Thinking(said) => marked(dim, "·", &thought(said)),
            Shown::Call(call) => marked(cyan, "▸", &format!("{}: {}", call.doing, call.title)),
            Shown::Answer(answer) => {
                let (colour, mark) = match answer.status {
                    CallStatus::Ok | CallStatus::Pending => (green, "✓"),
                    CallStatus::Error | CallStatus::Denied => (red, "✗"),
                };
                marked(colour, mark, &told(answer))
            }
            Shown::Turn(turn) => {
                let message = failure_of(turn).filter(|_| !turn.repeats_text);
                let said = message.map(|text| format!("{red}✗{reset} {}\n", one_line(text)));
                let news = turn.news().map(|text| passage(text, step.depth) + "\n");
                let before = said.or(news).unwrap_or_default();
                Some((before + &turn_line(turn, self.options.style)).trim_end().to_owned())
            }
            Shown::Remark(remark) => marked(remark.mood.colour(self.options.style), remark.mark, &remark.text),
            Shown::Partial(_) | Shown::Nothing => None,
        }
    }
}

/// Returns a text of the agent with its own lines. All but the first are indented, so that one sees where a step begins.
fn passage(text: &str, depth: usize) -> String {
    let next = format!("\n{}", indent(depth + 1));
    visible(text.trim()).lines().map(str::trim_end).collect::<Vec<_>>().join(&next)
}

/// Describes the outcome of a call, with the output of a failed one.
fn told(answer: &CallAnswer) -> String {
    let title = answer.title.as_deref().or(answer.name.as_deref()).unwrap_or("a call");
    match answer.status {
        CallStatus::Ok | CallStatus::Pending => format!("{}: {title}", answer.done.as_deref().unwrap_or("called")),
        CallStatus::Error => format!("{}: {title}: {}", answer.done.as_deref().unwrap_or("called"), output_of(answer)),
        CallStatus::Denied => format!("denied: {title}: {}", answer.text.trim()),
    }
}

impl Render for Lines {
    fn step(&mut self, step: &Step) -> String {
        let Some(line) = self.line(step) else { return String::new() };
        let out = format!("{}{line}\n", indent(step.depth));
        self.told =
            matches!(show(step), Shown::Turn(_)).then(|| line.lines().next_back().unwrap_or_default().to_owned() + "\n");
        out
    }

    fn finish(&mut self, summary: &Summary) -> String {
        if self.told.as_ref() == Some(&verdict_line(summary, self.options.style)) {
            return String::new();
        }
        verdict_lines(summary, self.options.style, None)
    }
}
