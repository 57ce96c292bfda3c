//! Advisory signs that a run only looks like a success: it asked a question, or left work in the background.
//! Both are judged from facts kept while the text goes by.

/// What a run says to the heuristics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextFacts {
    /// The last character of the main thread's text that is no blank.
    pub(crate) last_of_main: Option<char>,
    /// A phrase that says work goes on.
    pub(crate) waiting: bool,
    /// `AskUserQuestion` was called.
    pub(crate) asked: bool,
    /// `AskUserQuestion` was called, and not permitted: nobody was there to answer.
    pub(crate) refused: bool,
    /// Calls that start a task in the background.
    pub(crate) launches: u64,
}

const WAITING: &[&str] = &["waiting on", "still waiting", "continuing", "in progress", "in the background"];

impl TextFacts {
    /// One turn that ended by asking something, or any that ended with a question that nobody could answer.
    pub(crate) fn interactive(&self, num_turns: Option<u64>, stop_reason: Option<&str>) -> bool {
        let asked = self.refused || num_turns == Some(1) && (self.asked || self.last_of_main == Some('?'));
        asked && stop_reason == Some("end_turn")
    }

    /// Tasks in the background that nobody waited for.
    pub(crate) fn background(&self, num_turns: Option<u64>) -> bool {
        self.launches > 0 && (self.waiting || num_turns.is_some_and(|turns| turns < self.launches + 2))
    }
}

/// Whether one of the phrases stands in the text, in any case, between word boundaries. Looks at each byte once.
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
