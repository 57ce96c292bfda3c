//! Markdown that is still being written. It is shown as it is until a block of it is complete, which is then shown as
//! Markdown. Every character is looked at once.

/// A block that grows longer than this, in bytes, is not waited for.
const LONGEST: usize = 4_096;

/// What was written and is not complete.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: String,
    /// Where the first line begins that was not read to its end.
    read: usize,
    /// The mark of the code block that is open.
    fence: Option<String>,
    /// Whether the last whole line is empty.
    after_gap: bool,
    /// How much is complete.
    ready: usize,
}

impl Draft {
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        while let Some(length) = self.text[self.read..].find('\n') {
            self.begin_line();
            let line = self.text[self.read..self.read + length].trim();
            self.after_gap = line.is_empty();
            match &self.fence {
                Some(fence) if line.starts_with(fence.as_str()) => self.fence = None,
                Some(_) => {}
                None => {
                    let mark = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
                    let length = |mark: &str| line.bytes().take_while(|byte| mark.as_bytes()[0] == *byte).count();
                    self.fence = mark.map(|mark| line[..length(mark)].to_owned());
                }
            }
            self.read += length + 1;
        }
        self.begin_line();
        // What follows in the same code block, list or quote looks a little different then.
        if self.text.len() - self.ready > LONGEST {
            self.ready = if self.read > self.ready { self.read } else { self.text.len() };
        }
    }

    /// A line that begins at the left edge after an empty line begins a block, unless it is code.
    fn begin_line(&mut self) {
        let starts = self.text[self.read..].starts_with(|c: char| !c.is_whitespace());
        if self.after_gap && self.fence.is_none() && starts {
            self.ready = self.read;
            self.after_gap = false;
        }
    }

    /// Takes the blocks that are complete, if there are some.
    pub(super) fn take_ready(&mut self) -> Option<String> {
        if self.ready == 0 {
            return None;
        }
        let rest = self.text.split_off(self.ready);
        let is_in_code = self.fence.is_some() && self.read <= self.ready;
        let ready = std::mem::replace(&mut self.text, rest);
        self.read = self.read.saturating_sub(self.ready);
        self.ready = 0;
        if let Some(fence) = self.fence.as_ref().filter(|_| is_in_code) {
            let again = format!("{fence}\n");
            self.text.insert_str(0, &again);
            self.read += again.len();
        }
        Some(ready)
    }

    /// Takes all of it.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(self).text
    }

    /// Returns what is not complete.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str, size: usize) -> Vec<String> {
        let (mut draft, mut blocks) = (Draft::default(), Vec::new());
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size) {
            draft.push(&piece.iter().collect::<String>());
            blocks.extend(draft.take_ready());
        }
        blocks.push(draft.take());
        blocks
    }

    #[test]
    fn blocks_are_whole_however_the_text_is_cut() {
        let text = "A\nb\n\n1. one\n\n   more\n2. two\n\n```rs\nx\n\ny\n```\n\n## End\n";
        let whole = ["A\nb\n\n", "1. one\n\n   more\n2. two\n\n", "```rs\nx\n\ny\n```\n\n", "## End\n"];
        assert_eq!(blocks(text, 1), whole);
        for size in 2..20 {
            assert_eq!(blocks(text, size).concat(), text, "in pieces of {size}");
        }
    }

    #[test]
    fn what_never_ends_is_shown_in_parts() {
        let parts = blocks(&"x".repeat(20_000), 7);
        assert!(parts.len() > 3 && parts.iter().all(|part| part.len() <= LONGEST + 7));
        assert_eq!(parts.concat().len(), 20_000);
        let code = blocks(&("````\n".to_owned() + &"y\n".repeat(9_000)), 10);
        assert!(code.len() > 3 && code.iter().all(|part| part.starts_with("````\ny")), "{code:?}");
        assert_eq!(code.concat().matches('y').count(), 9_000);
    }
}
