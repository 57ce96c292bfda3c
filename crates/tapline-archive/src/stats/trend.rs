//! What rows cost over time, in a few equal parts of it: enough for a sparkline.

use std::collections::HashMap;

use super::Row;
use crate::money::Money;

const DAY: u64 = 24 * 60 * 60 * 1_000;
/// How many parts the time has.
const PARTS: u64 = 24;

/// What each row cost on each day.
#[derive(Debug, Default)]
pub(super) struct Trend {
    days: HashMap<(usize, u64), Money, foldhash::fast::FixedState>,
}

impl Trend {
    pub(super) fn add(&mut self, row: usize, time: u64, cost: Money) {
        *self.days.entry((row, time / DAY)).or_default() += cost;
    }

    /// Adds another one, whose rows have other places.
    pub(super) fn merge(&mut self, other: Self, place: impl Fn(usize) -> usize) {
        for ((row, day), cost) in other.days {
            *self.days.entry((place(row), day)).or_default() += cost;
        }
    }

    /// Gives the rows their parts.
    pub(super) fn give(self, rows: &mut [Row]) {
        let days = || self.days.keys().map(|(_, day)| *day);
        let (Some(first), Some(last)) = (days().min(), days().max()) else { return };
        // A single day says nothing about a trend.
        if first == last {
            return;
        }
        let parts = PARTS.min(last - first + 1);
        for ((row, day), cost) in self.days {
            if let Some(row) = rows.get_mut(row) {
                row.trend.resize(usize::try_from(parts).unwrap_or(0), Money::ZERO);
                let part = (day - first) * parts / (last - first + 1);
                if let Some(part) = row.trend.get_mut(usize::try_from(part).unwrap_or(usize::MAX)) {
                    *part += cost;
                }
            }
        }
    }
}
