//! One value of a row, and what writes rows.

use std::io;

use crate::money::Money;

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell<'c> {
    Nothing,
    Text(&'c str),
    Whole(u64),
    Money(Money),
    /// Milliseconds since 1970.
    Time(u64),
    /// Days since 1970.
    Day(i32),
    Flag(bool),
}

impl<'c> Cell<'c> {
    /// A text. Nothing if it is empty.
    pub(super) fn text(text: &'c str) -> Self {
        if text.is_empty() { Self::Nothing } else { Self::Text(text) }
    }
}

impl From<u64> for Cell<'_> {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<bool> for Cell<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<Money> for Cell<'_> {
    fn from(money: Money) -> Self {
        Self::Money(money)
    }
}

impl From<Option<Money>> for Cell<'_> {
    fn from(money: Option<Money>) -> Self {
        money.map_or(Self::Nothing, Self::Money)
    }
}

/// Writes the rows of one table in one format.
pub(super) trait Rows {
    /// Writes a row: as many cells as the table has columns.
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()>;
    /// Writes what is left. A table without rows is written, too.
    fn finish(&mut self) -> io::Result<()>;
}

/// Writes dollars with all their decimals, and no zeros behind them.
pub(super) fn decimal(money: Money) -> String {
    let pico = money.pico();
    let (whole, part) = (pico / 1_000_000_000_000, pico % 1_000_000_000_000);
    let text = format!("{whole}.{part:012}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Writes a moment as RFC 3339, in UTC.
pub(super) fn moment(millis: u64) -> String {
    let moment = jiff::Timestamp::from_millisecond(millis.cast_signed()).unwrap_or(jiff::Timestamp::MAX);
    format!("{moment:.3}")
}

/// Writes a day like 2026-11-17.
pub(super) fn day(days: i32) -> String {
    use jiff::ToSpan as _;
    jiff::civil::date(1970, 1, 1).checked_add(i64::from(days).days()).unwrap_or(jiff::civil::Date::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_has_every_digit_and_no_more() {
        for (pico, text) in [
            (0, "0"),
            (1, "0.000000000001"),
            (1_500_000_000_000, "1.5"),
            (120_000_000_000_000, "120"),
            (u64::MAX, "18446744.073709551615"),
        ] {
            assert_eq!(decimal(Money::from_pico(pico)), text);
        }
    }

    #[test]
    fn times_are_of_the_same_length_and_days_are_dates() {
        assert_eq!(moment(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(moment(1_795_000_000_120), "2026-11-18T11:06:40.120Z");
        assert_eq!((day(0), day(-1), day(20_773)), ("1970-01-01".into(), "1969-12-31".into(), "2026-11-16".into()));
    }
}
