//! What was found in raw lines, told in the words of the clean ones.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// What is odd about a stream, in words that were read from its clean lines. What was found in the raw lines is told in these.
#[derive(Debug, Default)]
pub(crate) struct CleanMessages(BTreeMap<Option<u64>, BTreeMap<Cow<'static, str>, VecDeque<String>>>);

impl CleanMessages {
    pub(crate) fn add(&mut self, code: Cow<'static, str>, line: Option<u64>, message: String) {
        self.0.entry(line).or_default().entry(code).or_default().push_back(message);
    }

    /// The next message with this code about this line.
    pub(crate) fn take(&mut self, code: &str, line: Option<u64>) -> Option<String> {
        self.0.get_mut(&line)?.get_mut(code)?.pop_front()
    }
}
