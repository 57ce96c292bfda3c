//! The decoder: never a panic, records rejoin to the input, and what is JSON is what `serde_json` says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tapline_fuzz::{Case, is_json};
use tapline_protocol::{Decoder, Event, Malformed, claude};

fuzz_target!(|data: &[u8]| {
    let Some(case) = Case::of(data) else { return };
    let records = case.read_both_ways(|chunks| {
        let mut decoder = Decoder::with_line_limit(case.limit);
        let mut records: Vec<_> = chunks.flat_map(|chunk| decoder.push(chunk)).collect();
        records.extend(decoder.finish());
        records
    });
    assert_eq!(records.iter().flat_map(|record| &record.bytes).copied().collect::<Vec<_>>(), case.stream);
    for record in &records {
        let text = record.text();
        match &record.event {
            Event::Blank => assert!(text.is_empty()),
            Event::Malformed(Malformed::TooLong | Malformed::NulRun) | Event::Rest => {}
            Event::Malformed(Malformed::Syntax(_)) => assert!(!is_json(&text)),
            Event::Claude(claude::Event::ControlRequest(frame)) => assert!(is_json(&serde_json::to_string(frame).unwrap())),
            Event::Claude(claude::Event::ControlResponse(frame)) => assert!(is_json(&serde_json::to_string(frame).unwrap())),
            _ => assert!(is_json(&text)),
        }
    }
});
