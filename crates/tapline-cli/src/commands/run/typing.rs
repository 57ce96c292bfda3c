//! Prints the agent's text as it is written, and nothing else: `--format text --partial`.

use tapline_session::step::{DeltaKind, Partial, Step, What};

/// What was typed so far.
#[derive(Debug, Default)]
pub(super) struct Typing {
    /// The block that is being written, or was last.
    block: String,
}

impl Typing {
    /// Returns what to type for a step. The text of sub-agents is left out.
    pub(super) fn step(&mut self, step: &Step) -> Option<String> {
        let What::Partial(partial) = &step.what else { return None };
        if step.parent.is_some() {
            return None;
        }
        match partial {
            Partial::BlockStart { kind, .. } if kind == "text" => {
                // A blank line separates two blocks.
                let gap = (!self.block.is_empty()).then(|| format!("{}\n", self.line_end()));
                self.block.clear();
                gap
            }
            Partial::Delta { kind: DeltaKind::Text, text, .. } => {
                self.block.push_str(text);
                Some(text.clone())
            }
            _ => None,
        }
    }

    /// Returns what ends the last line.
    pub(super) fn line_end(&self) -> &'static str {
        if self.block.is_empty() || self.block.ends_with('\n') { "" } else { "\n" }
    }

    /// Returns whether this answer is what was typed last.
    pub(super) fn has(&self, answer: &str) -> bool {
        !self.block.is_empty() && self.block.trim() == answer.trim()
    }
}
