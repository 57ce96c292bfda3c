//! A point in time at which something arrived. It comes with a record; nothing in this crate reads a clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time, in whole milliseconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(u64);

impl Moment {
    /// Creates the moment this many milliseconds after the start of 1970.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the start of 1970.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the moment this much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns the milliseconds since an earlier moment, or `None` if that moment is later.
    ///
    /// ```
    /// use tapline_protocol::Moment;
    ///
    /// let (call, result) = (Moment::from_millis(1_000), Moment::from_millis(13_400));
    /// assert_eq!(result.millis_since(call), Some(12_400));
    /// assert_eq!(call.millis_since(result), None);
    /// ```
    pub fn millis_since(self, earlier: Self) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}
