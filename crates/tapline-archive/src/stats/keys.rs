//! The row of a time: its day, week, month or hour, where the user is. And what stands for a model where sessions are counted.

use std::collections::HashMap;

use jiff::civil::Weekday;
use jiff::{Timestamp, ToSpan as _};

use super::{By, Query};
use crate::facts::hash;

/// No zone is off by less than a quarter of an hour, so all moments in one have the same row.
const QUARTER: u64 = 15 * 60 * 1_000;

/// The rows of the quarters of an hour that occurred.
#[derive(Debug)]
pub(super) struct Keys {
    by: By,
    rows: HashMap<u64, usize, foldhash::fast::FixedState>,
}

impl Keys {
    pub(super) fn new(query: &Query) -> Self {
        Self { by: query.by, rows: HashMap::default() }
    }

    /// Returns the row of a time. `new` gives the row of a key.
    pub(super) fn row(&mut self, time: u64, query: &Query, new: impl FnOnce(String) -> usize) -> usize {
        let by = self.by;
        *self.rows.entry(time / QUARTER).or_insert_with(|| new(key(by, time, query)))
    }
}

/// Returns what the row of a time is called.
pub(super) fn key(by: By, time: u64, query: &Query) -> String {
    let moment = Timestamp::from_millisecond(time.cast_signed()).unwrap_or_default();
    let here = moment.to_zoned(query.zone.clone());
    let day = here.date();
    match by {
        By::Month => format!("{:04}-{:02}", day.year(), day.month()),
        By::Week => {
            let since_monday = i64::from(day.weekday().since(Weekday::Monday));
            day.checked_sub(since_monday.days()).unwrap_or(day).to_string()
        }
        By::Hour => format!("{day} {:02}:00", here.hour()),
        _ => day.to_string(),
    }
}

/// Returns what stands for a model. 0 stands for all of them.
pub(super) fn model_hash(model: &str) -> u64 {
    hash(model) | 1
}
