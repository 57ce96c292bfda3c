//! A run in plain text for another agent to read: what was said and called, with the results.

use super::Render;
use super::marks::{Shown, show};
use crate::fold::Summary;
use crate::step::{CallAnswer, Step, What};
use crate::text::{head, one_line, visible};

/// How many characters of a tool result are included.
const ANSWER: usize = 4_000;

/// The renderer of transcripts.
#[derive(Default)]
pub(super) struct Transcript;

/// Makes text safe for the other agent: nothing is hidden in it, and no line looks like one of our headings.
fn safe(text: &str) -> String {
    let text = visible(text.trim());
    let lines = text.split('\n').map(|line| if line.starts_with("## ") { format!(" {line}") } else { line.to_owned() });
    lines.collect::<Vec<_>>().join("\n")
}

impl Render for Transcript {
    fn step(&mut self, step: &Step) -> String {
        let who = if step.depth == 0 { "" } else { " (a sub-agent)" };
        if let What::Orphan(answer) = &step.what {
            return answered(answer, who);
        }
        match show(step) {
            Shown::Prompt(text) => format!("## User{who}\n\n{}\n\n", safe(text)),
            Shown::Text(said) if !said.text.trim().is_empty() => format!("## Assistant{who}\n\n{}\n\n", safe(&said.text)),
            Shown::Call(call) => {
                let input = call.input.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("## Tool call{who}: {}\n\n{}\n\n", one_line(&call.name), safe(&input))
            }
            Shown::Answer(answer) => answered(answer, who),
            Shown::Turn(turn) => match turn.message.as_deref().or(turn.news()) {
                Some(text) => format!("## {}\n\n{}\n\n", if turn.failed { "Error" } else { "Result" }, safe(text)),
                None => String::new(),
            },
            Shown::Session(_) | Shown::Text(_) | Shown::Thinking(_) | Shown::Partial(_) | Shown::Remark(_) | Shown::Nothing => {
                String::new()
            }
        }
    }

    fn finish(&mut self, _: &Summary) -> String {
        String::new()
    }
}

fn answered(answer: &CallAnswer, who: &str) -> String {
    let name = one_line(answer.name.as_deref().unwrap_or("a tool"));
    let failed = if answer.is_error { " (failed)" } else { "" };
    let (text, cut) = head(answer.text.trim(), ANSWER);
    let rest = if cut { "\n[cut]" } else { "" };
    format!("## Tool answer{who}: {name}{failed}\n\n{}{rest}\n\n", safe(text))
}
