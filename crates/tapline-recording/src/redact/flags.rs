//! Passwords after a program's flag, or in a `--from-literal`.

use super::programs::Command;
use super::scan::Scan;

/// How far after its name a command's flags may be.
const REACH: usize = 256;

impl Scan<'_> {
    /// Hides the password in `redis-cli -h HOST -a PASSWORD`. Returns the position from which more text could change
    /// the decision.
    pub(super) fn command(&mut self, command: &Command, end: usize) -> usize {
        let bytes = self.bytes;
        let (mut at, mut words, mut is_called) = (end, 0, false);
        // A sentence that mentions a program has no flags near its name.
        while at < bytes.len().min(end + REACH) && (is_called || words < 2) {
            let blanks = bytes[at..].iter().take(REACH).take_while(|byte| matches!(byte, b' ' | b'\t' | b'\\')).count();
            // A backslash continues the line.
            let goes_on = bytes[at..at + blanks].ends_with(b"\\") && bytes.get(at + blanks) == Some(&b'\n');
            at += blanks + usize::from(goes_on);
            let length = bytes[at..].iter().take(REACH).take_while(|byte| !byte.is_ascii_whitespace()).count();
            let word = &bytes[at..at + length];
            if blanks == 0 || word.is_empty() && !goes_on || word == command.name.as_bytes() {
                break;
            }
            at += length;
            words += usize::from(!goes_on);
            is_called |= word.starts_with(b"-");
            if command.flags.iter().any(|flag| flag.as_bytes() == word) {
                let value = at + self.blanks(at);
                self.flag_value(value);
            }
            if matches!(word, [b'|' | b';' | b'&', ..]) || word.ends_with(b";") {
                break;
            }
        }
        self.touched |= at >= bytes.len();
        end
    }

    /// Hides the values in `kubectl create secret generic db --from-literal=pw=PASSWORD`.
    pub(super) fn literal(&mut self, start: usize, end: usize) -> usize {
        let is_secret = |place: usize| self.text[place..].starts_with("secret");
        if !self.literals.before(self.bytes, start).is_some_and(is_secret) {
            return end;
        }
        let from = end + self.bytes[end..].iter().take(4).take_while(|byte| matches!(byte, b' ' | b'=' | b'"' | b'\'')).count();
        let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let at = from + self.bytes[from..].iter().take(REACH).take_while(|byte| is_key(byte)).count();
        if self.byte(at) == Some(b'=') {
            match self.bytes[from - 1] {
                quote @ (b'"' | b'\'') => {
                    let to = self.closing(at + 1, quote, 0);
                    self.hide(at + 1..to);
                }
                _ => self.flag_value(at + 1),
            }
        }
        end
    }
}
