//! Tokens, in the classes that have a price of their own: of a request, a run, a session, or all of them.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Tokens by price class. No token is in two classes, except that `reasoning` is a part of `output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Tokens {
    /// Input tokens that were not cached.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Tokens written to the cache for five minutes. If the agent does not say for how long, they are here.
    pub cache_write_5m: u64,
    /// Tokens written to the cache for an hour.
    pub cache_write_1h: u64,
    /// The output tokens that were spent on thinking.
    pub reasoning: u64,
}

impl Tokens {
    /// Returns the sum of all tokens.
    pub fn total(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }

    /// Returns the length of the prompt: all input, cached or not.
    pub fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write())
    }

    /// Returns the tokens that were written to the cache, for however long.
    pub fn cache_write(&self) -> u64 {
        self.cache_write_5m.saturating_add(self.cache_write_1h)
    }

    /// Returns the same with a function applied to each class.
    #[must_use]
    pub fn map(self, change: impl Fn(u64) -> u64) -> Self {
        Self {
            input: change(self.input),
            output: change(self.output),
            cache_read: change(self.cache_read),
            cache_write_5m: change(self.cache_write_5m),
            cache_write_1h: change(self.cache_write_1h),
            reasoning: change(self.reasoning),
        }
    }

    /// Returns whether none of these counts is above the other's.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.without(other) == Self::default()
    }

    /// Raises the tokens that were written to the cache to this sum. For how long the rest was written is not known.
    pub fn raise_cache_write(&mut self, sum: u64) {
        self.cache_write_5m = self.cache_write_5m.saturating_add(sum.saturating_sub(self.cache_write()));
    }

    /// Subtracts other tokens, class by class, down to 0.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
            cache_read: self.cache_read.saturating_sub(other.cache_read),
            cache_write_5m: self.cache_write_5m.saturating_sub(other.cache_write_5m),
            cache_write_1h: self.cache_write_1h.saturating_sub(other.cache_write_1h),
            reasoning: self.reasoning.saturating_sub(other.reasoning),
        }
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write_5m = self.cache_write_5m.saturating_add(other.cache_write_5m);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

impl Add for Tokens {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sum for Tokens {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}

/// Tokens as reports have them: the sum of what was written to the cache, and beside it the part that was written for an hour. For
/// `#[serde(with = "…")]`.
pub mod by_kind {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Tokens;

    #[derive(Default, Serialize, Deserialize)]
    #[serde(default)]
    struct Written {
        input: u64,
        output: u64,
        cache_read: u64,
        cache_write: u64,
        #[serde(skip_serializing_if = "is_zero")]
        cache_write_1h: u64,
        reasoning: u64,
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
    fn is_zero(count: &u64) -> bool {
        *count == 0
    }

    /// Writes them.
    pub fn serialize<S: Serializer>(tokens: &Tokens, serializer: S) -> Result<S::Ok, S::Error> {
        let Tokens { input, output, cache_read, cache_write_1h, reasoning, .. } = *tokens;
        Written { input, output, cache_read, cache_write: tokens.cache_write(), cache_write_1h, reasoning }
            .serialize(serializer)
    }

    /// Reads them back.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tokens, D::Error> {
        let it = Written::deserialize(deserializer)?;
        Ok(Tokens {
            input: it.input,
            output: it.output,
            cache_read: it.cache_read,
            cache_write_5m: it.cache_write.saturating_sub(it.cache_write_1h),
            cache_write_1h: it.cache_write_1h,
            reasoning: it.reasoning,
        })
    }
}
