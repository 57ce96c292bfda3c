//! Tokens of a request, in the classes that have a price of their own.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};
use tapline_session::TokenCounts;

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

impl From<Tokens> for TokenCounts {
    fn from(tokens: Tokens) -> Self {
        let Tokens { input, output, cache_read, reasoning, .. } = tokens;
        Self { input, output, cache_read, cache_write: tokens.cache_write(), reasoning }
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
