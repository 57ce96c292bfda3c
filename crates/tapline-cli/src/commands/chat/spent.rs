//! What one turn of a chat used. The agent's own figures are for the whole session.

use tapline_session::step::Turn;
use tapline_session::text::{dollars, short_count};
use tapline_session::{Ledger, TokenCounts};

/// What the session has used so far.
#[derive(Debug)]
pub(super) struct Spent {
    /// `None` while it is not known: a resumed session continues its count.
    before: Option<Ledger>,
}

impl Spent {
    pub(super) fn new(resumed: bool) -> Self {
        Self { before: (!resumed).then(Ledger::default) }
    }

    /// Returns what this turn used, if it is known.
    pub(super) fn turn(&mut self, turn: &Turn) -> Option<String> {
        let now = &turn.so_far.ledger;
        let before = self.before.replace(now.clone())?;
        let cost = turn.cost_usd.map(dollars);
        let took = |count: fn(&TokenCounts) -> u64| count(&now.tokens).saturating_sub(count(&before.tokens));
        let (read, written) = (took(|tokens| tokens.input), took(|tokens| tokens.output));
        let tokens = (read + written > 0).then(|| format!("{} in · {} out", short_count(read), short_count(written)));
        let parts: Vec<String> = cost.into_iter().chain(tokens).collect();
        (!parts.is_empty()).then(|| format!("this turn: {}", parts.join(" · ")))
    }
}
