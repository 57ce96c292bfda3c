//! The prices of one model, and what a request costs by them. All of it is whole numbers.

use crate::{Money, Tokens};

/// A request to a model: the parts of it that have a price.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// The model's name, as the agent gives it.
    pub model: &'a str,
    /// The tokens of the request.
    pub tokens: Tokens,
    /// How many times the model searched the web.
    pub web_searches: u64,
    /// Whether the model had to run in the US (`inference_geo` is `us`). Then tokens cost a tenth more.
    pub us_only: bool,
    /// When it was made, in milliseconds since 1970. 0 if unknown: then it has the prices of today.
    pub time: u64,
    /// The requested speed.
    pub speed: Speed,
    /// Whether it was made at a service tier that is not the usual one: such a tier has a price only where the row of the model has a factor
    /// for its speed. Otherwise, a model without a factor costs the same at every speed.
    pub tier: bool,
}

/// The speed of an answer. Not every model has another price for another speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Speed {
    /// The usual speed.
    #[default]
    Standard,
    /// Faster: fast mode, or the service tier `priority`.
    Fast,
    /// The fastest.
    Ultrafast,
    /// Slower: whenever the provider has room.
    Flex,
}

impl Speed {
    /// Returns the speed with this name: `speed` of a message of Claude, or the service tier of a request to another
    /// maker. (Claude's service tier does not change its price.) Every other name is the usual speed.
    pub fn named(name: &str) -> Self {
        match name {
            "fast" | "priority" => Self::Fast,
            "ultrafast" => Self::Ultrafast,
            "flex" => Self::Flex,
            _ => Self::Standard,
        }
    }
}

/// The prices of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rates {
    /// The prices of tokens.
    pub tokens: TokenRates,
    /// Prices of tokens for longer prompts, the shortest first.
    pub long: Vec<LongRates>,
    /// The price of one web search.
    pub web_search: Money,
    /// By how much a fast answer multiplies the price of tokens, in hundredths: 200 is twice. `None` if the table does not say it.
    pub fast: Option<u64>,
    /// The same for the fastest answer.
    pub ultrafast: Option<u64>,
    /// The same for an answer that may wait.
    pub flex: Option<u64>,
    /// The day when these prices were seen, such as `2026-11-16`. It may be empty.
    pub seen: String,
    /// What the prices were before, the oldest first.
    pub earlier: Vec<EarlierRates>,
}

/// The prices of a model until a day.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EarlierRates {
    /// The first day of the prices that followed, such as `2026-08-01`.
    pub before: String,
    /// When that day begins (UTC), in milliseconds since 1970.
    pub before_ms: u64,
    /// The prices.
    pub rates: Rates,
}

/// Prices of tokens, in picodollars for one. A million of that is the price in dollars for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenRates {
    /// Input that is not cached.
    pub input: u64,
    /// Output, including reasoning.
    pub output: u64,
    /// Input that is read from the cache.
    pub cache_read: u64,
    /// Input that is written to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Input that is written to the cache for an hour.
    pub cache_write_1h: u64,
}

/// Prices of a request with a longer prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongRates {
    /// The whole request has these prices if its prompt has more tokens than this, cached or not.
    pub above: u64,
    /// The prices.
    pub tokens: TokenRates,
}

impl Rates {
    /// Returns the prices that were valid at a time, in milliseconds since 1970. 0 is today.
    pub fn on(&self, time: u64) -> &Self {
        let earlier = self.earlier.iter().find(|earlier| time > 0 && time < earlier.before_ms);
        earlier.map_or(self, |earlier| &earlier.rates)
    }

    /// Returns the prices of a request whose prompt has this many tokens.
    pub fn at(&self, prompt: u64) -> &TokenRates {
        let longest = self.long.iter().rev().find(|long| prompt > long.above);
        longest.map_or(&self.tokens, |long| &long.tokens)
    }

    /// Returns what a request to this model costs, or `None` if nobody knows what its service tier costs.
    ///
    /// The tokens of all classes are added up exactly, then multiplied for speed and place, then rounded once to a
    /// picodollar, a half upwards. Web searches are added after that: neither speed nor place changes their price.
    pub fn price(&self, asked: &Asked<'_>) -> Option<Money> {
        let Tokens { input, output, cache_read, cache_write_5m, cache_write_1h, reasoning: _ } = asked.tokens;
        let day = self.on(asked.time);
        let rates = day.at(asked.tokens.prompt());
        let classes = [
            (input, rates.input),
            (output, rates.output),
            (cache_read, rates.cache_read),
            (cache_write_5m, rates.cache_write_5m),
            (cache_write_1h, rates.cache_write_1h),
        ];
        let exact =
            classes.iter().fold(0, |sum: u128, (tokens, rate)| sum.saturating_add(u128::from(*tokens) * u128::from(*rate)));
        let speed = match asked.speed {
            Speed::Standard => None,
            Speed::Fast => day.fast,
            Speed::Ultrafast => day.ultrafast,
            Speed::Flex => day.flex,
        };
        let speed = speed.or((!asked.tier).then_some(100))?;
        let place = if asked.us_only { 110 } else { 100 };
        // Most requests are multiplied by one: that needs no division.
        let pico = match u128::from(speed) * place {
            10_000 => exact,
            times => exact.saturating_mul(times).saturating_add(5_000) / 10_000,
        };
        let searches = day.web_search.pico().saturating_mul(asked.web_searches);
        Some(Money::from_pico(u64::try_from(pico).unwrap_or(u64::MAX)) + Money::from_pico(searches))
    }
}
