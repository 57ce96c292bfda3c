//! The budget of a batch: once it is used up, no run starts. Those under way go on, so it is overrun by no more than what they cost.

use std::collections::BTreeMap;

use tapline_archive::Money;

/// What the jobs of a batch cost so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    limit: Option<Money>,
    spent: BTreeMap<String, Money>,
    /// All of it. Picodollars are whole numbers, so the order does not matter.
    total: Money,
}

impl Budget {
    /// A budget of this many dollars, or without a limit.
    pub(crate) fn of(limit: Option<f64>) -> Self {
        Self { limit: limit.map(Money::from_usd), ..Self::default() }
    }

    /// Takes note of what a job cost so far, all its runs together.
    pub(crate) fn spend(&mut self, job: &str, usd: Option<f64>) {
        if let Some(usd) = usd.filter(|usd| usd.is_finite()) {
            let spent = self.spent.entry(job.to_owned()).or_default();
            let now = Money::from_usd(usd).max(*spent);
            self.total = self.total.without(*spent) + now;
            *spent = now;
        }
    }

    /// Returns what all jobs cost so far.
    pub(crate) fn spent(&self) -> f64 {
        self.total.usd()
    }

    /// Returns whether nothing is left.
    pub(crate) fn is_used_up(&self) -> bool {
        self.limit.is_some_and(|limit| self.total >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_cost_is_counted_once() {
        let mut budget = Budget::of(Some(1.0));
        budget.spend("a", Some(0.25));
        budget.spend("a", Some(0.5));
        budget.spend("b", None);
        assert!(!budget.is_used_up());
        budget.spend("c", Some(0.5));
        assert!(budget.is_used_up() && (budget.spent() - 1.0).abs() < 1e-9);
        assert!(!Budget::default().is_used_up());
    }
}
