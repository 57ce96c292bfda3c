//! Whole streams without their secrets. A secret may be cut in two by partial messages: their text is blanked, and the
//! whole message follows them.

use tapline_protocol::{Record, Value};

use super::redact;

/// A record's bytes without secrets; the line end stays, and JSON stays JSON.
pub fn redact_line(record: &Record) -> Vec<u8> {
    let text = String::from_utf8_lossy(&record.bytes);
    let blanked = if record.envelope.kind.as_deref() == Some("stream_event") { blank_delta(&text) } else { None };
    redact(blanked.as_deref().unwrap_or(&text)).into_owned().into_bytes()
}

/// The line with what its delta adds taken out.
fn blank_delta(line: &str) -> Option<String> {
    let json = tapline_protocol::Json::parse(line.trim_start_matches('\u{feff}')).ok()?;
    let added = json.with(|value| {
        let delta = value.get("event")?.get("delta")?;
        let texts = ["text", "thinking", "partial_json"].into_iter().filter_map(|key| delta.get(key)).map(Value::raw);
        Some(texts.map(str::to_owned).collect::<Vec<_>>())
    })??;
    // The delta stands in the event: from there on the first such text is its own.
    let from = line.find("\"delta\"")?;
    let (before, mut behind) = (line[..from].to_owned(), line[from..].to_owned());
    for text in added {
        behind = behind.replacen(&text, "\"\"", 1);
    }
    Some(before + &behind)
}
