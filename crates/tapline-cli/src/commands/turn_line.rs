//! The line that tells of a turn's end, held back until something follows: where the verdict line follows, it says all that this one does.

use tapline_session::step::{Step, What};

#[derive(Debug, Default)]
pub(super) struct TurnLine {
    held: String,
}

impl TurnLine {
    /// What to put out now of a step that is shown as this text.
    pub(super) fn pass(&mut self, step: &Step, mut text: String) -> String {
        if text.is_empty() {
            return text;
        }
        let held = self.settle();
        if matches!(step.what, What::Turn(_)) {
            let last = text.trim_end_matches('\n').rfind('\n').map_or(0, |end| end + 1);
            self.held = text.split_off(last);
        }
        if held.is_empty() { text } else { held + &text }
    }

    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// What was held back, where nothing may follow for a while.
    pub(super) fn settle(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The last words, or the line that was held back if there are none.
    pub(super) fn end(&mut self, last: String) -> String {
        let held = self.settle();
        match last.strip_prefix('\n').filter(|_| !held.is_empty()) {
            // The empty line before the turn's line is out already.
            Some(last) => last.to_owned(),
            None if last.is_empty() => held,
            None => last,
        }
    }
}
