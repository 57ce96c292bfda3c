//! Advisory signs that a run only looks like a success: it asked a question, or left work in the background.
//! Both are judged from facts kept while the text goes by, so that the text itself need not be kept.

/// What the texts of a run say to the heuristics.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextFacts {
    /// The last character of the main thread's text that is no blank.
    last_of_main: Option<char>,
    /// A phrase that says work goes on.
    waiting: bool,
    /// `AskUserQuestion` was called.
    pub(crate) asked: bool,
    /// Calls that start a task in the background.
    pub(crate) launches: u64,
}

const WAITING: &[&str] = &["waiting on", "still waiting", "continuing", "in progress", "in the background"];

impl TextFacts {
    pub(crate) fn text(&mut self, text: &str, main: bool) {
        if main && let Some(last) = text.trim_end().chars().next_back() {
            self.last_of_main = Some(last);
        }
        self.waiting = self.waiting || says_waiting(text);
    }

    /// One turn that ended by asking something.
    pub(crate) fn interactive(&self, num_turns: Option<u64>, stop_reason: Option<&str>) -> bool {
        num_turns == Some(1) && stop_reason == Some("end_turn") && (self.asked || self.last_of_main == Some('?'))
    }

    /// Tasks in the background that nobody waited for.
    pub(crate) fn background(&self, num_turns: Option<u64>) -> bool {
        self.launches > 0 && (self.waiting || num_turns.is_some_and(|turns| turns < self.launches + 2))
    }
}

/// Whether one of the phrases stands in the text, in any case, between word boundaries. Looks at each byte once.
fn says_waiting(text: &str) -> bool {
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
