//! Facts that a value has only in the program that made it, and that are not in its JSON.

use std::ops::{Deref, DerefMut};

/// A fact about a value, for those who show it. It is not part of the value: it is not written, it is the default in a
/// value that was read back, and values that differ only in it are equal.
///
/// ```
/// use tapline_session::Verdict;
///
/// let mut stopped = Verdict::default();
/// stopped.clock_words = Some("timeout: 20m passed".to_owned()).into();
/// assert_eq!(stopped, Verdict::default());
/// assert_eq!(stopped.clock_words.as_deref(), Some("timeout: 20m passed"));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwritten<T>(pub T);

impl<T> PartialEq for Unwritten<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> From<T> for Unwritten<T> {
    fn from(fact: T) -> Self {
        Self(fact)
    }
}

impl<T> Deref for Unwritten<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Unwritten<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
