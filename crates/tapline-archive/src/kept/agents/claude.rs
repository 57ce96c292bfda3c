//! How long Claude Code keeps its transcripts: `cleanupPeriodDays` of its settings, counted from the last change of a
//! file. It deletes them when it starts.

use std::fs;
use std::path::PathBuf;

use crate::transcripts::Environment;

/// The number of days if no setting says it.
const DEFAULT: u64 = 30;
/// The settings of an organisation. They take precedence.
const MANAGED: &str = "/etc/claude-code/managed-settings.json";

pub(super) fn days(environment: Environment<'_>) -> (Option<u64>, Option<PathBuf>) {
    let folder = environment("CLAUDE_CONFIG_DIR").or_else(|| Some(environment("HOME")?.join(".claude")));
    let own = folder.map(|folder| folder.join("settings.json"));
    for file in [Some(PathBuf::from(MANAGED)), own].into_iter().flatten() {
        if let Some(days) = fs::read(&file).ok().and_then(|text| setting(&text)) {
            return (Some(days), Some(file));
        }
    }
    (Some(DEFAULT), None)
}

/// Reads the setting. As Claude Code does, it ignores anything but a whole number from 1 on.
fn setting(text: &[u8]) -> Option<u64> {
    let settings: serde_json::Value = serde_json::from_slice(text).ok()?;
    settings.get("cleanupPeriodDays")?.as_u64().filter(|days| *days > 0)
}
