//! Reads a Codex item back. It is written by hand, because serde's flattened maps go through a buffer that changes the
//! agent's JSON.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tapline_protocol::{Json, Read as _, Value};

use super::part::ItemEntry;

/// Works only with `serde_json`. An item may have fields with the same names as ours; ours come last.
impl<'de> Deserialize<'de> for ItemEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        json.with(read).flatten().ok_or_else(|| D::Error::custom("an item is not an object"))
    }
}

fn read(value: Value<'_>) -> Option<ItemEntry> {
    let is_plan = value.get("type").and_then(Value::as_str).as_deref() == Some("todo_list");
    let ours: &[&str] = if is_plan { &["phases", "ok", "todo_done", "todo_total"] } else { &["phases", "ok"] };
    let entries: Vec<_> = value.entries()?.collect();
    let last = |key: &str| entries.iter().rposition(|(name, _)| name == key);
    let places: Vec<_> = ours.iter().filter_map(|key| last(key)).collect();
    let fields = entries.iter().enumerate().filter(|(at, _)| !places.contains(at));
    let count =
        |key: &str| value.get(key).filter(|_| is_plan).and_then(u64::read).and_then(|count| usize::try_from(count).ok());
    let phases = value.get("phases").and_then(Value::items).into_iter().flatten();
    Some(ItemEntry {
        fields: fields.map(|(_, (key, value))| (key.clone().into_owned(), value.to_json())).collect(),
        phases: phases.filter_map(Value::as_str).map(|phase| phase.parse().unwrap_or_default()).collect(),
        ok: value.get("ok").and_then(bool::read).unwrap_or_default(),
        todo_done: count("todo_done"),
        todo_total: count("todo_total"),
    })
}
