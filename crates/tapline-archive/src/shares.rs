//! How a request is shared by the calls that it made: evenly, so that the shares add up to the request.

use crate::load::Request;
use crate::money::Money;
use tapline_protocol::Tokens;

/// What one call answers for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CallShare {
    pub(crate) tokens: Tokens,
    pub(crate) cost: Option<Money>,
    pub(crate) computed: Option<Money>,
}

/// Returns the share of each call of a request, in their order.
pub(crate) fn shares(request: &Request<'_>) -> impl Iterator<Item = CallShare> {
    let (whole, cost, computed) = (request.tokens, request.cost, request.computed);
    let of = request.calls.len() as u64;
    (0..of).map(move |at| {
        let part = |whole: u64| part(whole, at, of);
        let money = |whole: Money| Money::from_pico(part(whole.pico()));
        CallShare {
            tokens: Tokens {
                input: part(whole.input),
                output: part(whole.output),
                cache_read: part(whole.cache_read),
                cache_write_5m: part(whole.cache_write_5m),
                cache_write_1h: part(whole.cache_write_1h),
                reasoning: part(whole.reasoning),
            },
            cost: cost.map(money),
            computed: computed.map(money),
        }
    })
}

/// Returns one of several equal parts of a whole. Each is the difference between two rounded sums, so nothing is lost.
fn part(whole: u64, at: u64, of: u64) -> u64 {
    // Most requests make one call.
    if of == 1 {
        return whole;
    }
    let (each, rest) = (whole / of, whole % of);
    each + rest * (at + 1) / of - rest * at / of
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_those_of_a_split_with_equal_weights(whole in prop_oneof![0..100_u64, any::<u64>()], of in 1..200_usize) {
            let parts = Money::from_pico(whole).split(&vec![1; of]);
            for (at, wanted) in parts.into_iter().enumerate() {
                prop_assert_eq!(part(whole, at as u64, of as u64), wanted.pico());
            }
        }
    }
}
