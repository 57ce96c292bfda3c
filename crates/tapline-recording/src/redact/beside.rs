//! Hides values that stand beside their names.

use std::ops::Range;

use super::names::Name;
use super::pairs::{FAR, before, behind, called, private_parts};
use super::scan::Scan;

impl Scan<'_> {
    /// Hides the value of the pair whose name stands here. Returns whether there is one.
    pub(super) fn pair(&mut self, name: Name, place: Range<usize>) -> bool {
        let Some(key) = called(self.bytes, place.start) else { return false };
        self.touched |= place.end + FAR > self.bytes.len();
        let found = behind(self.bytes, place.end).or_else(|| before(self.bytes, key));
        let Some(at) = found else { return false };
        if name == Name::Authorization && at > place.end {
            self.authorization(at);
            return true;
        }
        let is_equal = self.bytes[..at].ends_with(b"=");
        let name_text = &self.text[place.clone()];
        if let Some(span) = self.pair_value(name_text, name != Name::Likely, is_equal, at) {
            self.hide_anywhere(span);
        }
        true
    }

    /// Hides the private parts of a key in JSON.
    pub(super) fn jwk(&mut self, start: usize) -> usize {
        let is_key = matches!(self.bytes[..start].last(), Some(b'"' | b'\''));
        if is_key && start >= self.last_jwk {
            let mut spans = Vec::new();
            self.last_jwk = private_parts(self.text, start, self.last_jwk, &mut spans);
            self.touched |= self.last_jwk == self.bytes.len();
            for span in spans {
                self.hide_anywhere(span);
            }
        }
        start
    }
}
