//! Days are those of whoever looks: the costs of a day, and which day it is.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::stage::{Stage, write};

/// A transcript with a request at each of these times.
fn session(times: &[Timestamp]) -> String {
    let line = |(n, time): (usize, &Timestamp)| {
        format!(
            "{{\"type\":\"assistant\",\"sessionId\":\"near-midnight\",\"uuid\":\"u{n}\",\"requestId\":\"r{n}\",\"cwd\":\"/x\",\"timestamp\":\"{time}\",\"message\":{{\"id\":\"m{n}\",\"role\":\"assistant\",\"model\":\"claude-sonnet-5-5\",\"content\":[{{\"type\":\"text\",\"text\":\"done\"}}],\"usage\":{{\"input_tokens\":1,\"output_tokens\":1000}}}}}}\n"
        )
    };
    times.iter().enumerate().map(line).collect()
}

#[test]
fn a_session_near_midnight_is_on_the_day_of_the_reader() {
    let stage = Stage::new();
    let times = ["2026-10-31T10:30:00Z", "2026-10-31T11:30:00Z"].map(|time| time.parse().unwrap());
    write(&stage.path("transcripts/-x/near-midnight.jsonl"), &session(&times));
    let days = |zone: &str| {
        stage.until(&format!("/api/v1/costs?by=day&tz={zone}"), |costs| {
            let rows = costs["rows"].as_array()?;
            (costs["totals"]["requests"] == 2).then(|| {
                rows.iter().map(|row| (row["key"].as_str().unwrap().to_owned(), row["requests"].as_u64().unwrap())).collect()
            })
        })
    };
    let day = |day: &str, requests: u64| (day.to_owned(), requests);
    let found: Vec<_> = days("Pacific/Auckland");
    assert_eq!(found, [day("2026-10-31", 1), day("2026-11-01", 1)]);
    let found: Vec<_> = days("America/Los_Angeles");
    assert_eq!(found, [day("2026-10-31", 2)]);
}

#[test]
fn today_is_a_day_of_the_zone_that_was_asked_for() {
    let stage = Stage::new();
    // Between these two, it is never the same day.
    for zone in ["Pacific/Kiritimati", "Pacific/Niue"] {
        let day = || Timestamp::now().to_zoned(TimeZone::get(zone).unwrap()).date().to_string();
        let before = day();
        let costs = stage.get(&format!("/api/v1/costs?tz={zone}")).json().unwrap();
        assert!([before, day()].contains(&costs["today"].as_str().unwrap().to_owned()), "{zone}: {costs}");
    }
    // Without a zone it is the server's.
    assert!(stage.get("/api/v1/costs?tz=").json().unwrap()["today"].is_string());
    for odd in ["Pacific/Atlantis", "..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Flocaltime", "%1B%5B2J", "UTC%00"] {
        let answer = stage.get(&format!("/api/v1/costs?tz={odd}"));
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad-request"), "{odd}");
        assert!(answer.body.contains("time zone"), "{answer:?}");
    }
}
