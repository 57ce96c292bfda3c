//! Moments and lengths of time, written for people and for machines.

/// Seconds since 1970 as RFC 3339, in UTC; `None` for what no calendar has.
pub fn rfc3339(seconds: f64) -> Option<String> {
    // Years 1970 to 9999.
    if !(0.0..253_402_300_800.0).contains(&seconds) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "within the range above")]
    let seconds = seconds.floor() as i64;
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The civil calendar from a day count: eras of 400 years that start in March.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    Some(format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

/// Seconds since 1970 of a moment that [`rfc3339`] wrote.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if text.len() != 20 || !text.ends_with('Z') || !(1..=12).contains(&month) {
        return None;
    }
    // Days from the civil calendar: eras of 400 years that start in March.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Milliseconds as people say them: `850 ms`, `3.2 s`, `4m 05s`, `2h 03m`.
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
    fn lengths() {
        assert_eq!(duration(0.0), "0 ms");
        assert_eq!(duration(3_216.0), "3.2 s");
        assert_eq!(duration(59_999.0), "1m 00s");
        assert_eq!(duration(245_000.0), "4m 05s");
        assert_eq!(duration(7_380_000.0), "2h 03m");
    }
}
