//! Decodes bytes of a terminal into keys. Pure; a sequence may arrive in pieces, and a paste may have any size.

use std::time::Duration;

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Key {
    Char(char),
    Enter,
    /// A line break within the text.
    NewLine,
    Backspace,
    Delete,
    Left,
    Right,
    WordLeft,
    WordRight,
    Up,
    Down,
    Home,
    End,
    Escape,
    /// Ctrl with a letter.
    Ctrl(char),
    /// Pasted text.
    Paste(String),
}

/// An escape byte that nothing follows for this long is the Escape key.
const ESCAPE: Duration = Duration::from_millis(50);
/// A paste that nothing follows for this long is complete.
const PASTE: Duration = Duration::from_secs(2);

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Reads keys.
#[derive(Debug, Default)]
pub(in crate::commands) struct Keys {
    bytes: Vec<u8>,
    /// In a paste: how far its end was searched for.
    pasting: Option<usize>,
}

impl Keys {
    /// Returns the keys in these bytes and the bytes before.
    pub(in crate::commands) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut at = 0;
        while at < self.bytes.len() {
            let Some((key, taken)) = self.next(at) else { break };
            keys.extend(key);
            at += taken;
        }
        self.bytes.drain(..at);
        keys
    }

    /// Returns how long to wait for the rest of a sequence: for an escape, and for a paste without an end.
    pub(in crate::commands) fn waits(&self) -> Option<Duration> {
        match (self.bytes.is_empty(), self.pasting) {
            (true, _) => None,
            (false, None) => Some(ESCAPE),
            (false, Some(_)) => Some(PASTE),
        }
    }

    /// Ends a sequence that nothing followed.
    pub(in crate::commands) fn close(&mut self) -> Vec<Key> {
        let bytes = std::mem::take(&mut self.bytes);
        match self.pasting.take() {
            Some(_) => vec![Key::Paste(pasted(&bytes[PASTE_BEGINS.len()..]))],
            None if bytes.first() == Some(&0x1b) => vec![Key::Escape],
            None => Vec::new(),
        }
    }

    /// Returns the key that begins here and its length. `None` if it is incomplete.
    fn next(&mut self, at: usize) -> Option<(Option<Key>, usize)> {
        let rest = &self.bytes[at..];
        if rest.starts_with(PASTE_BEGINS) {
            return self.paste(at);
        }
        let one = |key| Some((Some(key), 1));
        match rest[0] {
            b'\r' => one(Key::Enter),
            b'\n' => one(Key::NewLine),
            0x7f | 0x08 => one(Key::Backspace),
            b'\t' => one(Key::Char('\t')),
            0x1b => escape(rest),
            byte @ 0..0x20 => one(Key::Ctrl(char::from(byte + b'a' - 1))),
            byte => {
                let length = match byte {
                    0..0x80 => 1,
                    0xc0..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    0xf0..0xf8 => 4,
                    _ => return Some((None, 1)),
                };
                let whole = rest.get(..length)?;
                match std::str::from_utf8(whole).ok().and_then(|text| text.chars().next()) {
                    Some(c) => Some((Some(Key::Char(c)), length)),
                    None => Some((None, 1)),
                }
            }
        }
    }

    fn paste(&mut self, at: usize) -> Option<(Option<Key>, usize)> {
        let body = at + PASTE_BEGINS.len();
        // Do not search the same bytes again: a paste of megabytes arrives in thousands of pieces.
        let from = self.pasting.unwrap_or(0).max(body);
        let found = self.bytes[from..].windows(PASTE_ENDS.len()).position(|window| window == PASTE_ENDS);
        let Some(found) = found else {
            // The bytes before the paste are removed first.
            self.pasting = Some((self.bytes.len() - at).saturating_sub(PASTE_ENDS.len() - 1));
            return None;
        };
        self.pasting = None;
        let end = from + found;
        Some((Some(Key::Paste(pasted(&self.bytes[body..end]))), end + PASTE_ENDS.len() - at))
    }
}

/// Returns a paste as text. A terminal sends Enter for line breaks.
fn pasted(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n")
}

/// Decodes an escape sequence.
fn escape(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    match bytes.get(1)? {
        b'[' | b'O' => {
            let end = 2 + bytes[2..].iter().position(|byte| (0x40..0x7f).contains(byte))?;
            let modified = bytes[2..end].contains(&b';');
            let key = match (&bytes[2..end], bytes[end]) {
                (_, b'A') => Some(Key::Up),
                (_, b'B') => Some(Key::Down),
                (_, b'C') if modified => Some(Key::WordRight),
                (_, b'D') if modified => Some(Key::WordLeft),
                (_, b'C') => Some(Key::Right),
                (_, b'D') => Some(Key::Left),
                (_, b'H') | (b"1" | b"7", b'~') => Some(Key::Home),
                (_, b'F') | (b"4" | b"8", b'~') => Some(Key::End),
                (b"3", b'~') => Some(Key::Delete),
                // Shift-Enter and Alt-Enter, if the terminal distinguishes them.
                (b"13;2" | b"13;3", b'u') => Some(Key::NewLine),
                _ => None,
            };
            Some((key, end + 1))
        }
        b'\r' | b'\n' => Some((Some(Key::NewLine), 2)),
        b'b' => Some((Some(Key::WordLeft), 2)),
        b'f' => Some((Some(Key::WordRight), 2)),
        0x7f => Some((Some(Key::Ctrl('w')), 2)),
        0x1b => Some((Some(Key::Escape), 1)),
        _ => Some((None, 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], size: usize) -> Vec<Key> {
        let mut keys = Keys::default();
        bytes.chunks(size).flat_map(|chunk| keys.push(chunk)).collect()
    }

    #[test]
    fn the_same_keys_however_the_bytes_are_cut() {
        let bytes = "aé😀\r\x1b[A\x1b[1;5C\x1b\r\x1b[200~one\r\ntwo\x1b[D\x1b[201~z\x03\x7f\x1b[3~\x1b[99;9Xq".as_bytes();
        let wanted = [
            Key::Char('a'),
            Key::Char('é'),
            Key::Char('😀'),
            Key::Enter,
            Key::Up,
            Key::WordRight,
            Key::NewLine,
            Key::Paste("one\ntwo\x1b[D".to_owned()),
            Key::Char('z'),
            Key::Ctrl('c'),
            Key::Backspace,
            Key::Delete,
            Key::Char('q'),
        ];
        for size in 1..bytes.len() {
            assert_eq!(all(bytes, size), wanted, "in pieces of {size}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_passed_over() {
        assert_eq!(all(b"\xff\xc3(\x80a", 1), [Key::Char('('), Key::Char('a')]);
    }

    #[test]
    fn a_lone_escape_is_itself_after_a_moment() {
        let mut keys = Keys::default();
        assert_eq!(keys.push(b"\x1b"), []);
        assert_eq!(keys.waits(), Some(ESCAPE));
        assert_eq!(keys.close(), [Key::Escape]);
        assert_eq!(keys.push(b"b"), [Key::Char('b')]);
    }

    #[test]
    fn a_paste_that_never_ends_is_all_there_is() {
        let mut keys = Keys::default();
        assert_eq!(keys.push(b"\x1b[200~half\x03"), []);
        assert_eq!(keys.waits(), Some(PASTE));
        assert_eq!(keys.close(), [Key::Paste("half\x03".to_owned())]);
        assert_eq!(keys.waits(), None);
        assert_eq!(keys.push(b"\x03"), [Key::Ctrl('c')]);
    }

    #[test]
    fn a_paste_of_megabytes_in_small_pieces() {
        let text = "x".repeat(4 << 20);
        let bytes = [PASTE_BEGINS, text.as_bytes(), PASTE_ENDS, b"\r"].concat();
        assert_eq!(all(&bytes, 1024), [Key::Paste(text), Key::Enter]);
    }
}
