//! What a run used and cost. Cumulative totals become differences, repeated messages count once, and placeholders are
//! never added; `exact` says whether the numbers are complete.

mod builder;

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use tapline_protocol::{Json, Tokens, by_kind};

pub(crate) use builder::{LedgerBuilder, MessageUsage, ModelsUsage, ResultUsage, SYNTHETIC};

use self::builder::Used;
use crate::plausible::MOST_TOKENS;
use crate::text::dollars;
use crate::words::words;

/// Leaves out counts that cannot be true.
pub(crate) fn plausible(tokens: Tokens) -> Tokens {
    tokens.map(|count| if count > MOST_TOKENS { 0 } else { count })
}

/// What one model used and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelTotals {
    /// The tokens.
    #[serde(flatten, with = "by_kind")]
    pub tokens: Tokens,
    /// The cost, if the stream has it.
    pub cost_usd: Option<f64>,
}

impl ModelTotals {
    fn is_nothing(self) -> bool {
        self.tokens == Tokens::default() && self.cost_usd.is_none_or(|usd| usd == 0.0)
    }

    /// Subtracts what was used before.
    fn without(self, before: Self) -> Self {
        let cost = |usd: f64| exact_dollars((usd - before.cost_usd.unwrap_or(0.0)).max(0.0));
        Self { tokens: self.tokens.without(before.tokens), cost_usd: self.cost_usd.map(cost) }
    }
}

impl AddAssign for ModelTotals {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.cost_usd = add_costs(self.cost_usd, other.cost_usd);
    }
}

/// What a session used and cost: a run, and the earlier runs of the session that it resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionTotals {
    /// The cost in dollars. `None` if it is not known.
    pub cost_usd: Option<f64>,
    /// Tokens.
    #[serde(with = "by_kind")]
    pub tokens: Tokens,
    /// Whether nothing is missing or estimated.
    pub exact: bool,
}

words! {
    /// Where the counts come from.
    #[derive(PartialOrd, Ord)]
    pub enum Basis {
        /// The stream has no token counts.
        None = "none",
        /// From messages, each counted once. In a stream their output is not known, and the counts are not exact; in a
        /// transcript it is.
        Messages = "messages",
        /// From partial messages: exact for what the stream contains.
        Deltas = "deltas",
        /// From the agent's own results.
        Results = "results",
    } else None
}

/// What a run used and cost. What its session had used before the run is not part of it.
///
/// ```
/// use tapline_protocol::Reader;
/// use tapline_session::{Ending, Fold};
///
/// let stream = br#"{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.5,"usage":{"input_tokens":7,"output_tokens":2}}"#;
/// let mut fold = Fold::default();
/// for record in Reader::new(stream.as_slice()) {
///     fold.apply(&record?);
/// }
/// let ledger = fold.finish(&Ending::default()).ledger;
/// assert_eq!((ledger.cost_usd, ledger.tokens.input, ledger.tokens.output), (Some(0.5), 7, 2));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Written")]
#[non_exhaustive]
pub struct Ledger {
    /// The cost in dollars. `None` if the stream does not have it.
    pub cost_usd: Option<f64>,
    /// Tokens.
    pub tokens: Tokens,
    /// The number of web searches that the API ran.
    pub web_searches: u64,
    /// Whether nothing is missing or estimated.
    pub exact: bool,
    /// Whether the agent did not count all of its requests: work that was interrupted cost at least this much.
    pub at_least: bool,
    /// The totals for each model.
    pub by_model: BTreeMap<String, ModelTotals>,
    /// Where the counts come from.
    pub basis: Basis,
    /// The totals of the session, if the run resumed it and what the session had used before is known.
    pub session: Option<SessionTotals>,
    /// Whether nothing is known, not even that the agent used nothing, because no known agent wrote the stream.
    pub unreported: bool,
}

/// Returns what these tokens of a model, and so many web searches, cost by its list price, if that is known.
pub type Pricing = fn(&str, &Tokens, u64) -> Option<f64>;

impl Ledger {
    /// Adds requests that the agent did not count, at their list price. A cost of nothing is then not known.
    fn add_uncounted(&mut self, requests: &BTreeMap<String, Used>, pricing: Option<Pricing>) {
        for (model, Used { tokens, searches }) in requests {
            let cost_usd = pricing.and_then(|price| price(model, tokens, *searches));
            self.web_searches = self.web_searches.saturating_add(*searches);
            self.tokens += *tokens;
            self.cost_usd = add_costs(self.cost_usd.filter(|usd| *usd > 0.0), cost_usd);
            *self.by_model.entry(model.clone()).or_default() += ModelTotals { tokens: *tokens, cost_usd };
            (self.exact, self.at_least) = (false, true);
        }
    }

    /// Returns the cost as people read it: `$0.62`, or `≥ $0.62` if it is at least that.
    pub fn cost(&self) -> Option<String> {
        cost_text(self.cost_usd, self.at_least)
    }

    /// Returns what the session has used and cost so far: in this run, and in those that it resumed.
    pub fn so_far(&self) -> SessionTotals {
        self.session.unwrap_or(SessionTotals { cost_usd: self.cost_usd, tokens: self.tokens, exact: self.exact })
    }
}

/// Returns a cost as people read it: `$0.62`, or `≥ $0.62` if it is at least that.
pub fn cost_text(cost_usd: Option<f64>, at_least: bool) -> Option<String> {
    let least = if at_least { "≥ " } else { "" };
    cost_usd.map(|usd| format!("{least}{}", dollars(usd)))
}

/// Tokens as a ledger writes them.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
struct ByKind(#[serde(with = "by_kind")] Tokens);

/// The keys of counts that are not known.
const UNKNOWN: [&str; 5] = ["input", "output", "cache_read", "cache_write", "reasoning"];

impl Serialize for Ledger {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut ledger = serializer.serialize_struct("Ledger", 8)?;
        ledger.serialize_field("cost_usd", &self.cost_usd)?;
        if self.unreported {
            ledger.serialize_field("tokens", &BTreeMap::from(UNKNOWN.map(|kind| (kind, None::<u64>))))?;
        } else {
            ledger.serialize_field("tokens", &ByKind(self.tokens))?;
        }
        ledger.serialize_field("web_searches", &self.web_searches)?;
        ledger.serialize_field("exact", &self.exact)?;
        ledger.serialize_field("by_model", &self.by_model)?;
        ledger.serialize_field("basis", &self.basis)?;
        if self.at_least {
            ledger.serialize_field("at_least", &true)?;
        }
        if let Some(session) = &self.session {
            ledger.serialize_field("session", session)?;
        }
        ledger.end()
    }
}

/// The ledger as it is read back. Null tokens mean that nothing is known.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    cost_usd: Option<f64>,
    tokens: Option<Json>,
    web_searches: u64,
    exact: bool,
    at_least: bool,
    by_model: BTreeMap<String, ModelTotals>,
    basis: Basis,
    session: Option<SessionTotals>,
}

impl From<Written> for Ledger {
    fn from(written: Written) -> Self {
        let Written { cost_usd, tokens, web_searches, exact, at_least, by_model, basis, session } = written;
        let unreported = tokens.as_ref().and_then(|tokens| tokens.get("input")) == Some(Json::null());
        let ByKind(tokens) = tokens.and_then(|tokens| tokens.to().ok()).unwrap_or_default();
        Self { cost_usd, tokens, web_searches, exact, at_least, by_model, basis, session, unreported }
    }
}

/// Adds two runs. The sum is exact if both are.
impl AddAssign<&Ledger> for Ledger {
    fn add_assign(&mut self, other: &Ledger) {
        if *other == Self::default() {
            return;
        }
        if *self == Self::default() {
            return self.clone_from(other);
        }
        self.exact &= other.exact;
        self.at_least |= other.at_least;
        self.unreported &= other.unreported;
        self.cost_usd = add_costs(self.cost_usd, other.cost_usd);
        self.tokens += other.tokens;
        self.web_searches = self.web_searches.saturating_add(other.web_searches);
        for (model, totals) in &other.by_model {
            *self.by_model.entry(model.clone()).or_default() += *totals;
        }
        self.basis = self.basis.max(other.basis);
        self.session = other.session.or(self.session);
    }
}

fn add_costs(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(exact_dollars(one + other)),
        (cost, None) | (None, cost) => cost,
    }
}

/// Rounds off the noise of binary fractions: no price is finer than 1e-10 dollars per token. The result is always
/// finite, as JSON requires.
pub(crate) fn exact_dollars(usd: f64) -> f64 {
    let usd = usd.clamp(f64::MIN, f64::MAX);
    let rounded = (usd * 1e10).round() / 1e10;
    if rounded.is_finite() { rounded } else { usd }
}
