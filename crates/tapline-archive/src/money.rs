//! Money as a whole number, so that sums are the same in any order, and parts always add up to the whole.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Picodollars in a dollar. A price of $1 for a million tokens is a million picodollars for one.
const PICO: f64 = 1e12;

/// An amount in US dollars, exact to a picodollar.
///
/// ```
/// use tapline_archive::Money;
/// let parts = Money::from_usd(1.0).split(&[1, 1, 1]);
/// assert_eq!(parts.iter().copied().sum::<Money>(), Money::from_usd(1.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money(u64);

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// Makes an amount from picodollars.
    pub const fn from_pico(pico: u64) -> Self {
        Self(pico)
    }

    /// Returns the amount in picodollars.
    pub const fn pico(self) -> u64 {
        self.0
    }

    /// Makes an amount from dollars. A negative amount, or one that is not a number, counts as 0.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast from float to integer saturates")]
    pub fn from_usd(usd: f64) -> Self {
        Self((usd * PICO).round() as u64)
    }

    /// Returns the amount in dollars.
    #[expect(clippy::cast_precision_loss, reason = "dollars are shown with far fewer digits")]
    pub fn usd(self) -> f64 {
        self.0 as f64 / PICO
    }

    /// Subtracts another amount, down to nothing.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Splits the amount in proportion to the weights. The parts add up to the whole. Without any weight above 0 the
    /// parts are equal.
    #[must_use]
    pub fn split(self, weights: &[u64]) -> Vec<Self> {
        let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        let (mut given, mut passed) = (0, 0);
        let part = |(at, &weight): (usize, &u64)| {
            // Each part is the difference between two rounded sums, so no picodollar is lost.
            let (so_far, of) = if total == 0 {
                (at as u128 + 1, weights.len() as u128)
            } else {
                passed += u128::from(weight);
                (passed, total)
            };
            let until = u64::try_from(u128::from(self.0) * so_far / of).unwrap_or(u64::MAX);
            let part = Self(until - given);
            given = until;
            part
        };
        weights.iter().enumerate().map(part).collect()
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl Add for Money {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}
