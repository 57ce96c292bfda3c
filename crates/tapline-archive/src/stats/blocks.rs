//! Windows of five hours, as accounts are limited: a window begins with the hour of its first request.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use serde::Serialize;

use super::{Query, Row, Share, Totals};
use crate::facts::{Limit, hash};

const HOUR: u64 = 60 * 60 * 1_000;
/// The length of a window.
pub(crate) const WINDOW: u64 = 5 * HOUR;
/// The same in minutes, as limits name it.
const WINDOW_MINUTES: u64 = 300;

/// How a window stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Block {
    /// When it began, in milliseconds since 1970.
    pub start: u64,
    /// When it ends, and the limit starts anew.
    pub resets: u64,
    /// Whether it is open now.
    pub active: bool,
    /// Tokens per minute, from the first request to the last one.
    pub tokens_per_minute: Option<f64>,
    /// Dollars per hour, in the same time.
    pub usd_per_hour: Option<f64>,
    /// What it will have cost in the end, if it goes on like this. Only if it is open.
    pub projected_usd: Option<f64>,
    /// What is left of the limit. `None` if that is not known.
    pub left: Option<BlockLimit>,
}

/// What is left of the limit of a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BlockLimit {
    /// The share that is left, from 0 to 1.
    pub share: f64,
    /// The tokens that are left, if the limit is in tokens.
    pub tokens: Option<u64>,
    /// When the agent was told so, in milliseconds since 1970. `None` if the user gave the limit.
    pub as_of: Option<u64>,
}

/// Requests, until all are known and windows can be made of them.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    requests: Vec<Added>,
}

/// What one request adds.
#[derive(Debug)]
struct Added {
    time: u64,
    session: u64,
    /// The model, if every row has its models.
    model: Option<String>,
    totals: Totals,
}

/// A window that more requests can belong to.
#[derive(Default)]
struct Open {
    start: u64,
    first: u64,
    last: u64,
    totals: Totals,
    models: BTreeMap<String, Totals>,
    /// Which sessions were counted, in all and for each model.
    seen: HashSet<(u64, u64)>,
}

impl Open {
    fn add(&mut self, added: Added) {
        let Added { time, session, model, totals } = added;
        self.last = time;
        merge(&mut self.totals, &totals, self.seen.insert((session, 0)));
        if let Some(model) = model {
            let is_new = self.seen.insert((session, hash(&model) | 1));
            merge(self.models.entry(model).or_default(), &totals, is_new);
        }
    }
}

fn merge(sum: &mut Totals, totals: &Totals, is_new: bool) {
    sum.exact |= sum.requests == 0;
    sum.merge(totals);
    sum.sessions += u64::from(is_new);
}

impl Blocks {
    pub(super) fn add(&mut self, time: u64, share: &Share<'_>, breakdown: bool) {
        let mut totals = Totals::default();
        totals.add(share);
        let model = breakdown.then(|| share.request.model.to_owned());
        self.requests.push(Added { time, session: hash(share.request.session), model, totals });
    }

    /// Makes the windows.
    pub(super) fn rows(&mut self, query: &Query, limits: &[Limit]) -> Vec<Row> {
        let mut requests = std::mem::take(&mut self.requests);
        requests.sort_by_key(|added| added.time);
        let mut windows: Vec<Open> = Vec::new();
        for added in requests {
            let time = added.time;
            if windows.last().is_none_or(|open| time >= open.start + WINDOW) {
                windows.push(Open { start: time - time % HOUR, first: time, ..Open::default() });
            }
            if let Some(open) = windows.last_mut() {
                open.add(added);
            }
        }
        windows.into_iter().map(|window| row(window, query, limits)).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates have few digits")]
fn row(window: Open, query: &Query, limits: &[Limit]) -> Row {
    let Open { start, first, last, totals, models, .. } = window;
    let resets = start + WINDOW;
    let active = query.now >= start && query.now < resets;
    let minutes = (last.saturating_sub(first) as f64 / 60_000.0).max(1.0);
    let usd_per_hour = totals.cost_usd.usd() / minutes * 60.0;
    let rest = resets.saturating_sub(query.now.max(last)) as f64 / HOUR as f64;
    let told = limits.iter().find(|limit| limit.minutes == WINDOW_MINUTES && limit.time >= start && limit.time < resets);
    let left = match (query.limit, told) {
        (Some(most), _) => {
            let left = most.saturating_sub(totals.tokens);
            Some(BlockLimit { share: left as f64 / most.max(1) as f64, tokens: Some(left), as_of: None })
        }
        (None, Some(told)) => told.used.map(|used| {
            let share = 1.0 - used.min(1_000) as f64 / 1_000.0;
            BlockLimit { share, tokens: None, as_of: Some(told.time) }
        }),
        (None, None) => None,
    };
    let block = Block {
        start,
        resets: told.map(|told| told.resets).filter(|resets| *resets > 0).unwrap_or(resets),
        active,
        tokens_per_minute: Some(totals.tokens as f64 / minutes),
        usd_per_hour: Some(usd_per_hour),
        projected_usd: active.then(|| totals.cost_usd.usd() + usd_per_hour * rest),
        left,
    };
    let here = Timestamp::from_millisecond(start.cast_signed()).unwrap_or_default().to_zoned(query.zone.clone());
    let key = format!("{} {:02}:{:02}", here.date(), here.hour(), here.minute());
    Row { key, totals, block: Some(block), models, ..Row::default() }
}
