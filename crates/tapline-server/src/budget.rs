//! Budgets: what a month may cost, in all or in some projects, and how much of it is used.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use tapline_archive::ArchiveError;
use tapline_archive::stats::{By, Query, Stats};

use crate::row::now;
use crate::shelf::Shelf;

/// From this share on, a budget is nearly used up.
const NEAR: f64 = 0.8;
/// For how long what was counted is good enough for metrics, which may be asked for often.
const FRESH: Duration = Duration::from_secs(10);

/// What a month may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Only projects with this in their folder's path. `None`: everything.
    pub project: Option<String>,
    /// The most, in USD.
    pub usd: f64,
}

/// How much of a budget is used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BudgetRow {
    pub(crate) project: Option<String>,
    pub(crate) limit_usd: f64,
    pub(crate) spent_usd: f64,
    pub(crate) period: &'static str,
    pub(crate) level: BudgetLevel,
    /// A sentence for people, if somebody should know.
    pub(crate) message: Option<String>,
}

/// How a budget stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BudgetLevel {
    Fine,
    Near,
    Over,
}

impl BudgetRow {
    fn of(budget: &Budget, spent_usd: f64) -> Self {
        let Budget { project, usd: limit_usd } = budget.clone();
        let level = match spent_usd {
            spent if spent >= limit_usd => BudgetLevel::Over,
            spent if spent >= limit_usd * NEAR => BudgetLevel::Near,
            _ => BudgetLevel::Fine,
        };
        let whose = project.as_ref().map(|project| format!(" for {project}")).unwrap_or_default();
        let message = match level {
            BudgetLevel::Fine => None,
            BudgetLevel::Near => Some(format!("This month's budget{whose} is nearly used up.")),
            BudgetLevel::Over => Some(format!("This month's budget{whose} is used up.")),
        };
        Self { project, limit_usd, spent_usd, period: "month", level, message }
    }
}

/// All budgets.
#[derive(Debug)]
pub(crate) struct Budgets {
    all: Vec<Budget>,
    counted: Mutex<Option<(Instant, Vec<BudgetRow>)>>,
}

impl Budgets {
    pub(crate) fn new(all: Vec<Budget>) -> Self {
        Self { all, counted: Mutex::new(None) }
    }

    /// Counts a query, and what is used of the budgets, all at one time.
    pub(crate) fn count_with(&self, archive: &Shelf, query: &Query) -> Result<(Stats, Vec<BudgetRow>), ArchiveError> {
        let (counted, months) = archive.costs(query, &self.queries())?;
        let rows: Vec<BudgetRow> =
            self.all.iter().zip(months).map(|(budget, month)| BudgetRow::of(budget, month.totals.cost_usd.usd())).collect();
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), rows.clone()));
        Ok((counted, rows))
    }

    /// Returns what is used of the budgets, counted a short while ago.
    pub(crate) fn rows(&self, archive: &Shelf) -> Result<Vec<BudgetRow>, ArchiveError> {
        if self.all.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known.filter(|(at, _)| at.elapsed() < FRESH) {
            Some((_, rows)) => Ok(rows),
            None => self.count_with(archive, &this_month()).map(|(_, rows)| rows),
        }
    }

    fn queries(&self) -> Vec<Query> {
        let of = |budget: &Budget| {
            let mut query = this_month();
            query.projects.extend(budget.project.clone());
            query
        };
        self.all.iter().map(of).collect()
    }
}

/// Asks for what this month cost so far.
fn this_month() -> Query {
    let zone = TimeZone::system();
    let today = Timestamp::now().to_zoned(zone.clone());
    let first = today.date().first_of_month().to_zoned(zone.clone());
    let mut query = Query::default();
    (query.by, query.zone, query.now) = (By::Month, zone, now().as_millis());
    query.since = first.ok().map(|first| first.timestamp().as_millisecond().max(0).cast_unsigned());
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_comes_in_time() {
        let all = Budget { project: None, usd: 10.0 };
        let shop = Budget { project: Some("shop".to_owned()), usd: 10.0 };
        let level = |spent| BudgetRow::of(&all, spent).level;
        assert_eq!((level(0.0), level(7.99), level(8.0)), (BudgetLevel::Fine, BudgetLevel::Fine, BudgetLevel::Near));
        assert_eq!((level(9.99), level(10.0), level(25.0)), (BudgetLevel::Near, BudgetLevel::Over, BudgetLevel::Over));
        assert_eq!(BudgetRow::of(&shop, 1.0).message, None);
        assert_eq!(BudgetRow::of(&shop, 12.0).message.as_deref(), Some("This month's budget for shop is used up."));
        assert_eq!(BudgetRow::of(&all, 9.0).message.as_deref(), Some("This month's budget is nearly used up."));
        // Nothing may be spent, and nothing was: that is used up, too, and no division by zero.
        assert_eq!(BudgetRow::of(&Budget { project: None, usd: 0.0 }, 0.0).level, BudgetLevel::Over);
    }
}
