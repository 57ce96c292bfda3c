//! What a session cost, over all of its runs.

/// What a session cost. The totals of each run begin at zero.
#[derive(Debug, Default)]
pub(super) struct Cost {
    before: Option<f64>,
    run: Option<f64>,
    /// What turns of this run cost that another recording has told.
    told: f64,
}

impl Cost {
    pub(super) fn begin_run(&mut self) {
        *self = Self { before: self.total(), ..Self::default() };
    }

    /// Takes the total of this run after a turn, and whether the turn is told for the first time.
    pub(super) fn note(&mut self, total: Option<f64>, is_new: bool) {
        if let Some(total) = total {
            self.told += if is_new { 0.0 } else { total - self.run.unwrap_or(0.0) };
            self.run = Some(total);
        }
    }

    pub(super) fn total(&self) -> Option<f64> {
        match (self.before, self.run.map(|run| run - self.told)) {
            (Some(before), Some(run)) => Some(before + run),
            (before, run) => before.or(run),
        }
    }
}
