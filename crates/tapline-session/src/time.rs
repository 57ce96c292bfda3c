//! Points in time and durations, formatted for people and for machines.

use std::time::Duration;

use jiff::Timestamp;
use tapline_protocol::Moment;

/// Formats seconds since 1970 as RFC 3339, in UTC. Returns `None` if the time is out of range.
pub fn rfc3339(seconds: f64) -> Option<String> {
    // Years 1970 to 9999.
    if !(0.0..253_402_300_800.0).contains(&seconds) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "within the range above")]
    let seconds = seconds.floor() as i64;
    Timestamp::from_second(seconds).ok().map(|moment| moment.to_string())
}

/// Parses an RFC 3339 timestamp to seconds since 1970.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

/// Parses an RFC 3339 timestamp.
pub fn parse_moment(text: &str) -> Option<Moment> {
    u64::try_from(text.parse::<Timestamp>().ok()?.as_millisecond()).ok().map(Moment::from_millis)
}

/// Reads a time as people write it: `90`, `90s`, `1.5h`, `1h30m`, `500ms`. A number without a unit means seconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        let behind = &rest[digits..];
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        total += number
            * match &behind[..letters] {
                "ms" => 0.001,
                "" | "s" => 1.0,
                "m" => 60.0,
                "h" => 3_600.0,
                "d" => 86_400.0,
                _ => return None,
            };
        rest = &behind[letters..];
    }
    // A century is long enough, and every clock can add it.
    (!text.trim().is_empty() && total <= 3.2e9).then(|| Duration::from_secs_f64(total))
}

/// Writes a time as people write it: `1h30m`, `90s` as `1m30s`, `500ms`.
pub fn plain_duration(time: Duration) -> String {
    let (seconds, ms) = (time.as_secs(), time.subsec_millis());
    let parts = [(seconds / 3_600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s"), (u64::from(ms), "ms")];
    let parts: Vec<_> = parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.concat() }
}

/// Formats milliseconds in one word, to a tenth of a second: `0.4s`, `12.4s`, `4m05.1s`; from an hour on to the second:
/// `2h03m05s`.
pub fn short_duration(ms: u64) -> String {
    let tenths = ms.saturating_add(50) / 100;
    let (minutes, seconds, tenth) = (tenths / 600, tenths / 10 % 60, tenths % 10);
    match minutes {
        0 => format!("{seconds}.{tenth}s"),
        1..60 => format!("{minutes}m{seconds:02}.{tenth}s"),
        _ => format!("{}h{:02}m{seconds:02}s", minutes / 60, minutes % 60),
    }
}

/// Formats milliseconds for people: `850 ms`, `3.2 s`, `4m 05s`, `2h 03m`.
pub fn duration(ms: f64) -> String {
    if !ms.is_finite() {
        return "unknown time".to_owned();
    }
    let ms = ms.max(0.0);
    if ms < 1_000.0 {
        return format!("{ms:.0} ms");
    }
    if ms < 59_950.0 {
        return format!("{:.1} s", ms / 1_000.0);
    }
    let seconds = (ms / 1_000.0).round();
    let (hours, minutes) = ((seconds / 3_600.0).floor(), (seconds / 60.0).floor() % 60.0);
    if hours > 0.0 { format!("{hours}h {minutes:02}m") } else { format!("{minutes}m {:02}s", seconds % 60.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        assert_eq!(rfc3339(0.0).as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(rfc3339(951_827_696.9).as_deref(), Some("2000-02-29T12:34:56Z"));
        assert_eq!(rfc3339(1_773_810_000.0).as_deref(), Some("2026-03-18T05:00:00Z"));
        for seconds in [0, 951_827_696, 1_773_810_000, 4_102_444_799] {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let text = rfc3339(seconds as f64).unwrap();
            assert_eq!(parse_rfc3339(&text), Some(seconds), "{text}");
        }
        assert_eq!(parse_rfc3339("tomorrow"), None);
        assert_eq!(rfc3339(-1.0), None);
        assert_eq!(rfc3339(f64::NAN), None);
        assert_eq!(rfc3339(1e300), None);
    }

    #[test]
    fn lengths_in_one_word() {
        let told = [(0, "0.0s"), (49, "0.0s"), (50, "0.1s"), (12_449, "12.4s"), (59_949, "59.9s"), (59_950, "1m00.0s")];
        for (ms, word) in told.into_iter().chain([(245_130, "4m05.1s"), (3_599_950, "1h00m00s"), (7_385_000, "2h03m05s")]) {
            assert_eq!(short_duration(ms), word, "{ms}");
        }
        assert!(short_duration(u64::MAX).ends_with('s'));
    }

    #[test]
    fn moments_have_milliseconds() {
        let moment = |text| parse_moment(text).map(Moment::as_millis);
        assert_eq!(moment("1970-01-01T00:00:01.25Z"), Some(1_250));
        assert_eq!(moment("1970-01-01T01:00:00.001+01:00"), Some(1));
        assert_eq!((moment("1969-12-31T23:59:59Z"), moment("yesterday")), (None, None));
    }

    #[test]
    fn lengths() {
        assert_eq!(duration(0.0), "0 ms");
        assert_eq!(duration(3_216.0), "3.2 s");
        assert_eq!(duration(59_999.0), "1m 00s");
        assert_eq!(duration(245_000.0), "4m 05s");
        assert_eq!(duration(7_380_000.0), "2h 03m");
    }
}
