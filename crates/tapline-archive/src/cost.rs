//! What a session cost: messages priced one by one, and brought into agreement with what the agent itself reports, so
//! that the parts always add up to the reported whole.

use std::collections::BTreeMap;

use tapline_session::plausible::is_cost;

use crate::facts::{Marks, Message};
use crate::money::Money;
use crate::prices::{Asked, Lookup, Prices, Speed};
use tapline_protocol::Tokens;

/// Where a cost comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CostBasis {
    /// The agent reports it: for this request, or for the whole session, of which this is a part, in proportion to the price.
    Reported,
    /// Computed from the table of prices.
    Computed,
    /// The price of the model is not known, and the agent reports none. The cost is missing, not 0.
    #[default]
    Unknown,
}

/// Returns what tokens of a model, and so many web searches, cost by tapline's own table of prices.
pub fn list_price(model: &str, tokens: &Tokens, web_searches: u64) -> Option<f64> {
    Some(Prices::embedded().price(&Asked { model, tokens: *tokens, web_searches, ..Asked::default() })?.usd())
}

/// A message with its cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Item<'g> {
    /// The message. `None` if no line shows it: it is what the reported total has beyond all messages.
    pub(crate) message: Option<&'g Message>,
    /// When it began.
    pub(crate) time: u64,
    /// The tokens that count for it: a copy can know better.
    pub(crate) tokens: Tokens,
    pub(crate) searches: u32,
    pub(crate) model: &'g str,
    /// The place of its file in the session.
    pub(crate) file: usize,
    /// The session that it counts for.
    pub(crate) session: &'g str,
    pub(crate) cost: Option<Money>,
    pub(crate) basis: CostBasis,
    /// What the table of prices says, also where the agent reports a total.
    pub(crate) computed: Option<Money>,
    /// Whether the tokens are exact.
    pub(crate) exact: bool,
}

impl Item<'_> {
    /// Returns whether the message has a mark.
    pub(crate) fn has(&self, mark: Marks) -> bool {
        self.message.is_some_and(|message| message.marks.has(mark))
    }
}

/// A total that an agent reports, for some of the messages of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Total {
    pub(crate) cost: Option<Money>,
    pub(crate) models: BTreeMap<String, ModelTotal>,
    pub(crate) time: u64,
    /// Whether it is of this session alone.
    pub(crate) is_sure: bool,
}

/// The same for one model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ModelTotal {
    pub(crate) tokens: Tokens,
    pub(crate) splits_writes: bool,
    pub(crate) searches: u64,
    pub(crate) cost: Option<Money>,
}

impl Total {
    /// Subtracts what was spent before.
    pub(crate) fn without(mut self, before: &Self) -> Self {
        self.cost = self.cost.map(|cost| cost.without(before.cost.unwrap_or_default()));
        for (model, total) in &mut self.models {
            if let Some(before) = before.models.get(model) {
                total.tokens = total.tokens.without(before.tokens);
                total.searches = total.searches.saturating_sub(before.searches);
                total.cost = total.cost.map(|cost| cost.without(before.cost.unwrap_or_default()));
            }
        }
        self
    }
}

/// Prices an item by the table.
pub(crate) fn price(item: &mut Item<'_>, prices: &mut Lookup<'_>) {
    let speed = item.message.map_or(Speed::Standard, |message| message.marks.speed());
    let (tokens, web_searches, us_only) = (item.tokens, item.searches.into(), item.has(Marks::US));
    let tier = item.has(Marks::TIER);
    let asked = Asked { model: item.model, tokens, web_searches, us_only, time: item.time, speed, tier };
    // So many tokens that one request would cost a fortune cannot be true.
    item.computed = prices.price(&asked).filter(|cost| is_cost(cost.usd()));
    let said = item.message.and_then(|message| message.cost);
    item.cost = said.or(item.computed);
    item.basis = match (said, item.computed) {
        (Some(_), _) => CostBasis::Reported,
        (None, Some(_)) => CostBasis::Computed,
        (None, None) => CostBasis::Unknown,
    };
}

/// Brings items into agreement with a reported total: requests that no line shows are added, output that is not known
/// is shared out, and the costs add up to the reported one. `covered` are the items that the total is of.
pub(crate) fn agree<'g>(items: &mut Vec<Item<'g>>, covered: &[usize], total: &'g Total, prices: &mut Lookup<'_>) {
    let mut covered = fitting(items, covered, total);
    let sum = |items: &[Item<'_>], covered: &[usize], model: Option<&str>| -> Tokens {
        let of = |at: &&usize| model.is_none_or(|model| is_same_model(items[**at].model, model));
        let known = |item: &Item<'_>| Tokens { output: if item.exact { item.tokens.output } else { 0 }, ..item.tokens };
        covered.iter().filter(of).map(|at| known(&items[*at])).sum()
    };
    // Names of models can differ between messages and totals. What the messages say in all is never counted again.
    let mut room = total.models.values().map(|total| total.tokens).sum::<Tokens>().without(sum(items, &covered, None));
    for (model, reported) in &total.models {
        let listed = sum(items, &covered, Some(model));
        let mut rest = reported.tokens.without(listed);
        if !reported.splits_writes {
            rest.cache_write_5m = reported.tokens.cache_write().saturating_sub(listed.cache_write());
            rest.cache_write_1h = 0;
            room.cache_write_5m = room.cache_write_5m.max(rest.cache_write_5m);
        }
        rest = least(rest, room);
        room = room.without(rest);
        let vague: Vec<usize> =
            covered.iter().copied().filter(|at| !items[*at].exact && is_same_model(items[*at].model, model)).collect();
        if !vague.is_empty() {
            let weights: Vec<u64> = vague.iter().map(|at| items[*at].message.map_or(0, |message| message.bytes)).collect();
            let parts = Money::from_pico(rest.output).split(&weights);
            for (at, part) in vague.iter().zip(parts) {
                items[*at].tokens.output = part.pico();
                items[*at].exact = true;
                price(&mut items[*at], prices);
            }
            rest.output = 0;
        }
        let searched: u64 =
            covered.iter().filter(|at| is_same_model(items[**at].model, model)).map(|at| u64::from(items[*at].searches)).sum();
        let more_searches = u32::try_from(reported.searches.saturating_sub(searched)).unwrap_or(u32::MAX);
        if rest.total() > 0 || more_searches > 0 {
            // The messages' own name: a total can add the size of the context to it.
            let named = covered.iter().map(|at| items[*at].model).find(|name| is_same_model(name, model));
            let model = named.unwrap_or(model);
            let (time, exact) = (total.time, total.is_sure);
            let mut item = Item { time, tokens: rest, searches: more_searches, model, exact, ..Item::default() };
            price(&mut item, prices);
            covered.push(items.len());
            items.push(item);
        }
    }
    spread(items, &covered, total);
}

/// Leaves out the oldest items if all of them are more than the total says: the process that knew of them was killed
/// before it could write it down.
fn fitting(items: &[Item<'_>], covered: &[usize], total: &Total) -> Vec<usize> {
    let mut covered = covered.to_vec();
    covered.sort_by_key(|at| items[*at].time);
    let prompt = |item: &Item<'_>| item.tokens.prompt();
    let said: u64 = total.models.values().map(|model| model.tokens.prompt()).sum();
    let mut listed: u64 = covered.iter().map(|at| prompt(&items[*at])).sum();
    let too_many = covered.iter().take_while(|at| {
        let over = listed > said;
        listed -= if over { prompt(&items[**at]) } else { 0 };
        over
    });
    let too_many = too_many.count();
    covered.split_off(if total.models.is_empty() { 0 } else { too_many })
}

/// Spreads the reported cost over the items, in proportion to their price.
fn spread(items: &mut [Item<'_>], covered: &[usize], total: &Total) {
    let Some(whole) = total.cost else { return };
    let mut left = covered.to_vec();
    let by_model: Money = total.models.values().filter_map(|model| model.cost).sum();
    // Where the models' costs do not add up to the whole, only the whole is sure.
    if by_model.pico().abs_diff(whole.pico()) <= 1_000 * (1 + total.models.len() as u64) {
        let mut given = Money::ZERO;
        let mut last = Vec::new();
        for (model, reported) in &total.models {
            let (of, others) = left.iter().partition::<Vec<usize>, _>(|at| is_same_model(items[**at].model, model));
            if let Some(cost) = reported.cost.filter(|_| !of.is_empty()) {
                give(items, &of, cost);
                given += cost;
                last = of;
                left = others;
            }
        }
        if given == by_model && left.iter().all(|at| items[*at].tokens.total() == 0) {
            // The models' costs are rounded one by one. The last one takes the difference.
            if let Some(&at) = last.last() {
                let cost = items[at].cost.unwrap_or_default();
                items[at].cost = Some((cost + whole.without(given)).without(given.without(whole)));
            }
            return;
        }
    }
    if !covered.is_empty() {
        give(items, covered, whole);
    }
}

/// Gives a cost to some items, in proportion to their price, or to their tokens where a price is not known.
fn give(items: &mut [Item<'_>], some: &[usize], cost: Money) {
    let known = some.iter().all(|at| items[*at].computed.is_some());
    let weight = |item: &Item<'_>| if known { item.computed.unwrap_or_default().pico() } else { item.tokens.total() };
    let weights: Vec<u64> = some.iter().map(|at| weight(&items[*at])).collect();
    for (at, part) in some.iter().zip(cost.split(&weights)) {
        items[*at].cost = Some(part);
        items[*at].basis = CostBasis::Reported;
    }
}

/// Returns whether two names mean the same model: totals can leave out the date, or add the size of the context.
fn is_same_model(one: &str, other: &str) -> bool {
    let plain = |name: &'_ str| name.split('[').next().map_or(0, str::len);
    let (one, other) = (&one[..plain(one)], &other[..plain(other)]);
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    let dated = |rest: &str| {
        rest.is_empty() || rest.len() == 9 && rest.starts_with('-') && rest[1..].bytes().all(|byte| byte.is_ascii_digit())
    };
    long.strip_prefix(short).is_some_and(dated)
}

fn least(one: Tokens, other: Tokens) -> Tokens {
    Tokens {
        input: one.input.min(other.input),
        output: one.output.min(other.output),
        cache_read: one.cache_read.min(other.cache_read),
        cache_write_5m: one.cache_write_5m.min(other.cache_write_5m),
        cache_write_1h: one.cache_write_1h.min(other.cache_write_1h),
        reasoning: one.reasoning.min(other.reasoning),
    }
}
