//! Windows of five hours, as accounts are limited: a window begins with the hour of its first request.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use serde::Serialize;

use super::keys::model_hash;
use super::{Query, Row, Share, Totals};
use crate::facts::Limit;

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
    /// Tokens per minute of the window that has passed.
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

/// What the requests of each hour add up to, until all are known and windows can be made of them. A window begins with an
/// hour, so the requests of an hour are always in the same one.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    hours: BTreeMap<u64, Sum>,
}

/// What some requests add up to.
#[derive(Debug, Default)]
struct Sum {
    /// When the last one began.
    last: u64,
    totals: Totals,
    models: BTreeMap<String, Totals>,
    /// Which sessions they are of, and with which models if every row has its models.
    seen: HashSet<(u64, u64), foldhash::fast::FixedState>,
}

impl Sum {
    fn merge(&mut self, other: Self) {
        self.last = self.last.max(other.last);
        self.totals.merge(&other.totals);
        for (model, totals) in other.models {
            self.models.entry(model).or_default().merge(&totals);
        }
        self.seen.extend(other.seen);
    }

    fn count_sessions(&mut self) {
        let of = |wanted: u64| self.seen.iter().filter(|(_, model)| *model == wanted).count() as u64;
        self.totals.sessions = of(0);
        for (model, totals) in &mut self.models {
            totals.sessions = of(model_hash(model));
        }
    }
}

impl Blocks {
    pub(super) fn add(&mut self, time: u64, session: u64, share: &Share<'_>, breakdown: bool) {
        let sum = self.hours.entry(time / HOUR).or_default();
        sum.last = sum.last.max(time);
        sum.totals.add(share);
        sum.seen.insert((session, 0));
        if breakdown {
            sum.models.entry(share.request.model.to_owned()).or_default().add(share);
            sum.seen.insert((session, model_hash(share.request.model)));
        }
    }

    /// Adds what others counted.
    pub(super) fn merge(&mut self, other: Self) {
        for (hour, sum) in other.hours {
            self.hours.entry(hour).or_default().merge(sum);
        }
    }

    /// Makes the windows.
    pub(super) fn rows(&mut self, query: &Query, limits: &[Limit]) -> Vec<Row> {
        let mut windows: Vec<(u64, Sum)> = Vec::new();
        for (hour, sum) in std::mem::take(&mut self.hours) {
            match windows.last_mut() {
                Some((start, window)) if hour * HOUR < *start + WINDOW => window.merge(sum),
                _ => windows.push((hour * HOUR, sum)),
            }
        }
        windows.into_iter().map(|(start, window)| row(start, window, query, limits)).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates have few digits")]
fn row(start: u64, mut window: Sum, query: &Query, limits: &[Limit]) -> Row {
    window.count_sessions();
    let Sum { last, totals, models, .. } = window;
    let resets = start + WINDOW;
    let active = query.now >= start && query.now < resets;
    let passed = query.now.max(last).clamp(start, resets) - start;
    let minutes = (passed as f64 / 60_000.0).max(1.0);
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
