//! A run as another agent should read it: what was said, called and answered, in plain text.

use super::Render;
use crate::fold::Summary;
use crate::step::{Answer, Step, What};
use crate::text::head;

/// So many characters of an answer to a call are told.
const ANSWER: usize = 4_000;

/// The renderer of transcripts.
#[derive(Default)]
pub(super) struct Transcript;

impl Render for Transcript {
    fn step(&mut self, step: &Step) -> String {
        let who = if step.depth == 0 { "" } else { " (a sub-agent)" };
        match &step.what {
            What::Prompt { text } if !text.trim().is_empty() => format!("## User{who}\n\n{}\n\n", text.trim()),
            What::Text(said) if !said.text.trim().is_empty() => format!("## Assistant{who}\n\n{}\n\n", said.text.trim()),
            What::Call(call) => {
                let input = call.input.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("## Tool call{who}: {}\n\n{input}\n\n", call.name)
            }
            What::Answer(answer) | What::Orphan(answer) => answered(answer, who),
            What::Turn(turn) => match turn.message.as_deref().or(turn.news()) {
                Some(text) => format!("## {}\n\n{}\n\n", if turn.failed { "Error" } else { "Result" }, text.trim()),
                None => String::new(),
            },
            What::Session(_)
            | What::Prompt { .. }
            | What::Text(_)
            | What::Thinking(_)
            | What::ServerCall(_)
            | What::ServerAnswer(_)
            | What::Partial(_)
            | What::Retracted { .. }
            | What::Retry(_)
            | What::RateLimit(_)
            | What::Task(_)
            | What::Hook(_)
            | What::Denied(_)
            | What::Question(_)
            | What::Progress(_)
            | What::Item(_)
            | What::Error { .. }
            | What::Notice(_)
            | What::Quiet { .. }
            | What::Odd(_) => String::new(),
        }
    }

    fn finish(&mut self, _: &Summary) -> String {
        String::new()
    }
}

fn answered(answer: &Answer, who: &str) -> String {
    let name = answer.name.as_deref().unwrap_or("a tool");
    let failed = if answer.is_error { " (failed)" } else { "" };
    let (text, cut) = head(answer.text.trim(), ANSWER);
    let rest = if cut { "\n[cut]" } else { "" };
    format!("## Tool answer{who}: {name}{failed}\n\n{text}{rest}\n\n")
}
