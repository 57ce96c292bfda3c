//! What one turn of a chat used. The agent's own figures are for the whole process.

use tapline_protocol::Tokens;
use tapline_session::step::Turn;
use tapline_session::text::{dollars, short_count};

/// What the session has used so far.
#[derive(Debug)]
pub(super) struct Spent {
    before: Tokens,
    /// Whether an earlier session goes on. Its figures may contain what it used before.
    resumed: bool,
}

impl Spent {
    pub(super) fn new(resumed: bool) -> Self {
        Self { before: Tokens::default(), resumed }
    }

    /// Returns what this turn used, if it is known.
    pub(super) fn turn(&mut self, turn: &Turn) -> Option<String> {
        let now = &turn.so_far.ledger;
        let before = std::mem::replace(&mut self.before, now.tokens);
        if self.resumed && turn.index == 0 && !now.exact {
            return None;
        }
        // Each process counts anew.
        let before = if turn.index == 0 { Tokens::default() } else { before };
        let cost = turn.cost_usd.map(dollars);
        let took = |count: fn(&Tokens) -> u64| count(&now.tokens).saturating_sub(count(&before));
        let (read, written) = (took(|tokens| tokens.input), took(|tokens| tokens.output));
        let tokens = (read + written > 0).then(|| format!("{} in · {} out", short_count(read), short_count(written)));
        let parts: Vec<String> = cost.into_iter().chain(tokens).collect();
        (!parts.is_empty()).then(|| format!("this turn: {}", parts.join(" · ")))
    }
}
