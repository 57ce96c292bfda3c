//! A session in words: one row of the list, and what can be searched in it.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tapline_archive::project;
use tapline_archive::sessions::ListedSession;
use tapline_session::text::{dollars, grouped, one_line};

/// A session, as it is shown. All of it is safe for a terminal.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) when: String,
    pub(super) agent: String,
    pub(super) project: String,
    pub(super) state: &'static str,
    pub(super) cost: String,
    pub(super) prompts: String,
    pub(super) title: String,
    /// What a filter is looked for in, in small letters.
    searched: String,
}

impl Shown {
    pub(super) fn of(session: &ListedSession, zone: &TimeZone, now: u64) -> Self {
        let facts = &session.facts;
        let title = if facts.title.is_empty() { "(no prompt)".to_owned() } else { one_line(&facts.title) };
        let (agent, project) = (one_line(&facts.agent), one_line(project(&facts.folder)));
        let least = if facts.unpriced > 0 { "≥ " } else { "" };
        let cost = match (facts.unpriced, facts.cost.pico()) {
            (0, _) | (_, 1..) => format!("{least}{}", dollars(facts.cost.usd())),
            _ => "unknown".to_owned(),
        };
        let (id, folder, branch) = (facts.id.as_str(), facts.folder.as_str(), facts.branch.as_str());
        let searched = [id, &agent, folder, branch, &session.model, &title, session.state.name()];
        Self {
            searched: searched.map(str::to_lowercase).join("\n"),
            id: one_line(&facts.id),
            when: when(facts.last, zone, now),
            agent,
            project,
            state: session.state.name(),
            cost,
            prompts: grouped(facts.prompts),
            title,
        }
    }

    /// Returns whether it has all of these words.
    pub(super) fn has(&self, words: &str) -> bool {
        words.to_lowercase().split_whitespace().all(|word| self.searched.contains(word))
    }

    /// Returns the beginning of its id: enough to name it.
    pub(super) fn short_id(&self) -> &str {
        // Codex's ids begin with the time, so that those of one day share their beginning.
        let end = self.id.char_indices().nth(SHORT).map_or(self.id.len(), |(at, _)| at);
        &self.id[..end]
    }
}

/// How much of an id the list shows.
const SHORT: usize = 13;

/// Returns a time: without the day if it is today's, without the year if it is this year's.
fn when(time: Option<u64>, zone: &TimeZone, now: u64) -> String {
    let zoned = |time: u64| Timestamp::from_millisecond(time.cast_signed()).unwrap_or_default().to_zoned(zone.clone());
    let Some(time) = time.map(zoned) else { return String::new() };
    let now = zoned(now);
    let form = if time.date() == now.date() {
        "%H:%M"
    } else if time.year() == now.year() {
        "%m-%d %H:%M"
    } else {
        "%Y-%m-%d"
    };
    time.strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_says_what_is_not_plain() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap_or_default().as_millisecond().cast_unsigned();
        let now = at("2026-11-17T12:00:00Z");
        let shown = |text: &str| when(Some(at(text)), &TimeZone::UTC, now);
        assert_eq!(shown("2026-11-17T08:05:00Z"), "08:05");
        assert_eq!(shown("2026-11-16T23:59:00Z"), "11-16 23:59");
        assert_eq!(shown("2025-11-17T12:00:00Z"), "2025-11-17");
        assert_eq!(when(None, &TimeZone::UTC, now), "");
    }
}
