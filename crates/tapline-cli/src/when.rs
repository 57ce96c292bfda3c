//! Times on the command line: a date, a date and time, or how long ago; and where days begin.

use anyhow::{Context as _, Result, bail};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::args::run::duration;
use crate::args::stats::Filter;

/// A span of time, in milliseconds since 1970, and the zone in which it was meant.
pub(crate) struct Span {
    pub(crate) since: Option<u64>,
    pub(crate) until: Option<u64>,
    pub(crate) zone: TimeZone,
}

/// Reads the times of a command line.
pub(crate) fn span(filter: &Filter) -> Result<Span> {
    let zone = match &filter.timezone {
        Some(name) => {
            TimeZone::get(name).with_context(|| format!("`{name}` is not a time zone: write it like Europe/Berlin or UTC"))?
        }
        None => TimeZone::system(),
    };
    let at = |text: &Option<String>| text.as_deref().map(|text| moment(text, &zone)).transpose();
    let since = at(&filter.since)?.or(filter.last.as_deref().map(|text| moment(text, &zone)).transpose()?);
    let until = at(&filter.until)?;
    Ok(Span { since, until, zone })
}

/// Returns the time now, in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    Timestamp::now().as_millisecond().max(0).cast_unsigned()
}

/// Reads a time.
pub(crate) fn moment(text: &str, zone: &TimeZone) -> Result<u64> {
    let zoned = |time: DateTime| time.to_zoned(zone.clone()).map(|zoned| zoned.timestamp());
    let moment = if let Ok(moment) = text.parse::<Timestamp>() {
        moment
    } else if let Ok(time) = text.parse::<DateTime>() {
        zoned(time)?
    } else if let Ok(day) = text.parse::<Date>() {
        zoned(day.to_datetime(jiff::civil::Time::midnight()))?
    } else if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Elsewhere they are seconds. Nobody means the last seven.
        bail!("`{text}` has no unit: {text}d? Write days as {text}d, hours as {text}h, or a date like 2026-11-01");
    } else if let Ok(ago) = duration(text) {
        Timestamp::now().checked_sub(SignedDuration::try_from(ago)?)?
    } else {
        bail!("`{text}` is not a time: write it like 2026-11-01, 2026-11-01T09:00, 7d or 12h");
    };
    Ok(moment.as_millisecond().max(0).cast_unsigned())
}
