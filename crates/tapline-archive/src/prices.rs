//! What a request costs: a dated table of prices, which a user's file can change, and the model in it that a request
//! names. An unknown model has no price, so that its cost is never taken for nothing.

mod name;
mod rates;
mod read;

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

pub use rates::{Asked, EarlierRates, LongRates, Rates, Speed, TokenRates};
pub use read::PricesError;

use crate::Money;

/// The model of messages that no model wrote: an agent's own notes in a transcript. They cost nothing.
const NO_MODEL: &str = "<synthetic>";

/// Prices of models, as they were at a date.
///
/// ```
/// use tapline_archive::{Asked, Money, Prices, Tokens};
/// let asked = Asked { model: "claude-sonnet-4-5-20250929", tokens: Tokens { output: 1_000, ..Tokens::default() }, ..Asked::default() };
/// assert_eq!(Prices::embedded().price(&asked), Some(Money::from_usd(0.015)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    dated: String,
    models: BTreeMap<String, Rates>,
    /// Other names of models.
    names: BTreeMap<String, String>,
}

impl Prices {
    /// Returns the prices that tapline brings.
    pub fn embedded() -> &'static Self {
        static EMBEDDED: OnceLock<Prices> = OnceLock::new();
        // A test reads the table. If it had a mistake, every model would be reported as unknown.
        EMBEDDED
            .get_or_init(|| read::file(include_str!("prices/table.toml")).map(|(prices, _)| prices.into()).unwrap_or_default())
    }

    /// Reads a user's prices (TOML). Its rows replace rows of the table or add to it: see [`Prices::with`].
    pub fn read(text: &str) -> Result<Self, PricesError> {
        let (file, places) = read::file(text)?;
        let prices = Self::from(file);
        let has_price = |model: &String| prices.models.contains_key(model) || Self::embedded().models.contains_key(model);
        match prices.names.iter().find(|(_, model)| !has_price(model)) {
            Some((name, model)) => Err(PricesError::at(
                text,
                places.get(name).copied().unwrap_or_default(),
                format!("`{name}` is to cost what `{model}` costs, but `{model}` has no price here or in tapline's table"),
            )),
            None => Ok(prices),
        }
    }

    /// Adds the rows of another table. Where both name a model, the other's row counts.
    #[must_use]
    pub fn with(mut self, overrides: &Self) -> Self {
        self.models.retain(|name, _| !overrides.names.contains_key(name));
        self.names.retain(|name, _| !overrides.models.contains_key(name));
        self.models.extend(overrides.models.clone());
        self.names.extend(overrides.names.clone());
        if self.dated.is_empty() {
            self.dated.clone_from(&overrides.dated);
        }
        self
    }

    /// Returns the date of the prices, such as `2026-11-16`. It is empty if a file does not say it.
    pub fn dated(&self) -> &str {
        &self.dated
    }

    /// Finds the prices of a model, however a provider writes its name: with a date (`claude-opus-4-5-20251101`), as
    /// Bedrock does (`us.anthropic.claude-opus-4-1-20250805-v1:0`), Vertex (`claude-sonnet-4-5@20250929`) or a gateway
    /// (`anthropic/claude-opus-4.5`), or with the size of its context (`claude-sonnet-4-5[1m]`). It never takes one model
    /// for another: what remains of the name must be in the table.
    ///
    /// To price many requests of one model, look it up once and use [`Rates::price`].
    pub fn model(&self, name: &str) -> Option<&Rates> {
        name::find(name, |name| self.models.get(name).or_else(|| self.models.get(self.names.get(name)?)))
    }

    /// Returns the models and their prices, in the order of their names.
    pub fn table(&self) -> impl Iterator<Item = (&str, &Rates)> {
        self.models.iter().map(|(name, rates)| (name.as_str(), rates))
    }

    /// Returns the other names of models, each with the model that it stands for.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.iter().map(|(name, model)| (name.as_str(), model.as_str()))
    }

    /// Returns what a request costs, or `None` if the model is unknown, or what its service tier costs.
    pub fn price(&self, asked: &Asked<'_>) -> Option<Money> {
        self.lookup().price(asked)
    }

    /// Prices many requests: models that were looked up are remembered.
    pub(crate) fn lookup(&self) -> Lookup<'_> {
        Lookup { prices: self, known: HashMap::default(), last: (String::new(), self.model("")) }
    }
}

/// Prices, and the models that were looked up.
#[derive(Debug)]
pub(crate) struct Lookup<'p> {
    prices: &'p Prices,
    known: HashMap<String, Option<&'p Rates>, foldhash::fast::FixedState>,
    /// The model before: most often it is the same again.
    last: (String, Option<&'p Rates>),
}

impl Lookup<'_> {
    /// Returns what a request costs, or `None` if the model is unknown, or what its service tier costs.
    pub(crate) fn price(&mut self, asked: &Asked<'_>) -> Option<Money> {
        if asked.model == NO_MODEL {
            return Some(Money::ZERO);
        }
        if self.last.0 != asked.model {
            asked.model.clone_into(&mut self.last.0);
            self.last.1 = match self.known.get(asked.model) {
                Some(rates) => *rates,
                None => *self.known.entry(asked.model.to_owned()).or_insert(self.prices.model(asked.model)),
            };
        }
        self.last.1?.price(asked)
    }
}

impl From<read::File> for Prices {
    fn from(file: read::File) -> Self {
        Self { dated: file.dated, models: file.models, names: file.names }
    }
}
