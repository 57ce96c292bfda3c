//! Advisory signs that a run only looks successful: it asked a question, or left work in the background. Both are
//! judged from facts that are kept while the text is read.

/// The facts for the heuristics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextFacts {
    /// The last character of the main thread's text that is not whitespace.
    pub(crate) last_of_main: Option<char>,
    /// Whether a phrase says that work continues.
    pub(crate) waiting: bool,
    /// Whether `AskUserQuestion` was called.
    pub(crate) asked: bool,
    /// Whether `AskUserQuestion` was called and denied or failed, because nobody could answer.
    pub(crate) refused: bool,
    /// The number of calls that start a background task.
    pub(crate) launches: u64,
}

const WAITING: &[&str] = &["waiting on", "still waiting", "continuing", "in progress", "in the background"];

impl TextFacts {
    /// Returns whether a single turn ended by asking something, or any turn with a question that nobody could answer.
    pub(crate) fn interactive(&self, num_turns: Option<u64>, stop_reason: Option<&str>) -> bool {
        let asked = self.refused || num_turns == Some(1) && (self.asked || self.last_of_main == Some('?'));
        asked && stop_reason == Some("end_turn")
    }

    /// Returns whether there are background tasks that nobody waited for.
    pub(crate) fn background(&self, num_turns: Option<u64>) -> bool {
        self.launches > 0 && (self.waiting || num_turns.is_some_and(|turns| turns < self.launches + 2))
    }
}

/// Returns whether the text contains one of the phrases, in any case, between word boundaries. It reads each byte once.
pub(crate) fn says_waiting(text: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let bytes = text.as_bytes();
    let mut before = b' ';
    bytes.iter().enumerate().any(|(at, &byte)| {
        let starts = !before.is_ascii_alphanumeric() && matches!(byte | 0x20, b'c' | b'i' | b's' | b'w');
        before = byte;
        starts
            && WAITING.iter().any(|phrase| {
                bytes.get(at..at + phrase.len()).is_some_and(|part| part.eq_ignore_ascii_case(phrase.as_bytes()))
                    && !is_word(text[..at].chars().next_back())
                    && !is_word(text[at + phrase.len()..].chars().next())
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_stand_between_word_boundaries() {
        assert!(says_waiting("STILL WAITING"));
        assert!(says_waiting("work is in progress."));
        assert!(!says_waiting("discontinuing support"));
        assert!(!says_waiting("in-progress"));
        assert!(!says_waiting("éin progress"));
        assert!(says_waiting("日本 continuing 語"));
    }
}
