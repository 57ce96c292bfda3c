//! How a request is shared by the calls that it made: evenly, so that the shares add up to the request.

use crate::load::Request;
use crate::money::Money;
use crate::tokens::Tokens;

/// What one call answers for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CallShare {
    pub(crate) tokens: Tokens,
    pub(crate) cost: Option<Money>,
    pub(crate) computed: Option<Money>,
}

/// Returns the share of each call of a request, in their order.
pub(crate) fn shares(request: &Request<'_>) -> Vec<CallShare> {
    // Most requests make one.
    if request.calls.len() == 1 {
        return vec![CallShare { tokens: request.tokens, cost: request.cost, computed: request.computed }];
    }
    let even = vec![1; request.calls.len()];
    let parts = |whole: u64| Money::from_pico(whole).split(&even).into_iter().map(Money::pico).collect::<Vec<_>>();
    let whole = request.tokens;
    let classes =
        [whole.input, whole.output, whole.cache_read, whole.cache_write_5m, whole.cache_write_1h, whole.reasoning].map(parts);
    let cost = request.cost.map(|cost| cost.split(&even));
    let computed = request.computed.map(|cost| cost.split(&even));
    let share = |at: usize| CallShare {
        tokens: Tokens {
            input: classes[0][at],
            output: classes[1][at],
            cache_read: classes[2][at],
            cache_write_5m: classes[3][at],
            cache_write_1h: classes[4][at],
            reasoning: classes[5][at],
        },
        cost: cost.as_ref().map(|parts| parts[at]),
        computed: computed.as_ref().map(|parts| parts[at]),
    };
    (0..request.calls.len()).map(share).collect()
}
