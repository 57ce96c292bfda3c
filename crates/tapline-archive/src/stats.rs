//! Statistics: what all requests add up to, by day, project, model, tool and so on.

mod adder;
mod blocks;
mod keys;
mod trend;

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use serde::Serialize;

use adder::Adder;
pub use blocks::{Block, BlockLimit};

use crate::cost::CostBasis;
use crate::error::ArchiveError;
use crate::facts::CallEnd;
use crate::index::Index;
use crate::load::{DamagedFile, Request, Selection, load_parts};
use crate::money::Money;
use crate::prices::Prices;
use tapline_protocol::Tokens;

/// What a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum By {
    /// A day.
    #[default]
    Day,
    /// A week, from Monday on.
    Week,
    /// A month.
    Month,
    /// An hour of a day.
    Hour,
    /// A session.
    Session,
    /// A project: the working folder.
    Project,
    /// A model.
    Model,
    /// An agent.
    Agent,
    /// A tool. The cost of a request is shared evenly by the calls it made.
    Tool,
    /// A kind of sub-agent.
    Subagent,
    /// A branch.
    Branch,
    /// A window of five hours, as accounts are limited.
    Block,
}

/// What statistics are on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Query {
    /// What a row is.
    pub by: By,
    /// Only requests from then on, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Only requests before then.
    pub until: Option<u64>,
    /// Only projects whose folder has one of these in its path.
    pub projects: Vec<String>,
    /// Only models that have one of these in their name.
    pub models: Vec<String>,
    /// Only these agents.
    pub agents: Vec<String>,
    /// Where days begin.
    pub zone: TimeZone,
    /// Whether rows of times are also of one project each.
    pub instances: bool,
    /// Whether every row has its models.
    pub breakdown: bool,
    /// Whether every row has its cost over time.
    pub trend: bool,
    /// The time, for the window of five hours that is open now.
    pub now: u64,
    /// The most tokens that a window of five hours may have, if the user says it.
    pub limit: Option<u64>,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            by: By::Day,
            since: None,
            until: None,
            projects: Vec::new(),
            models: Vec::new(),
            agents: Vec::new(),
            zone: TimeZone::UTC,
            instances: false,
            breakdown: false,
            trend: false,
            now: 0,
            limit: None,
        }
    }
}

impl Query {
    /// Returns whether a request counts.
    pub(crate) fn takes(&self, request: &Request<'_>) -> bool {
        let one_of = |parts: &[String], text: &str| parts.is_empty() || parts.iter().any(|part| text.contains(&**part));
        self.since.is_none_or(|since| request.time >= since)
            && self.until.is_none_or(|until| request.time < until)
            && one_of(&self.projects, request.folder)
            && one_of(&self.models, request.model)
            && self.takes_agent(request.agent)
    }

    fn takes_agent(&self, agent: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|wanted| wanted == agent)
    }
}

/// What some requests add up to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// Input tokens that were not cached.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Tokens written to the cache.
    pub cache_write: u64,
    /// Those that were written for an hour.
    pub cache_write_1h: u64,
    /// The output tokens that were spent on thinking.
    pub reasoning: u64,
    /// All tokens.
    pub tokens: u64,
    /// What is known of the cost.
    #[serde(serialize_with = "usd")]
    pub cost_usd: Money,
    /// The part of it that agents report themselves. The rest is computed from prices.
    #[serde(serialize_with = "usd")]
    pub cost_reported_usd: Money,
    /// What all of it costs by the table of prices.
    #[serde(serialize_with = "usd")]
    pub cost_computed_usd: Money,
    /// The number of requests whose cost is not known. They are missing in `cost_usd`.
    pub cost_unknown: u64,
    /// Whether all tokens are exact.
    pub exact: bool,
    /// The number of requests to models.
    pub requests: u64,
    /// The requests that failed.
    pub request_errors: u64,
    /// The requests that no line shows. They are known from totals that agents report.
    pub unlisted: u64,
    /// The number of tool calls.
    pub calls: u64,
    /// The calls that failed.
    pub call_errors: u64,
    /// The calls that were refused.
    pub call_denials: u64,
    /// The number of web searches.
    pub web_searches: u64,
    /// The number of sessions.
    pub sessions: u64,
    /// The share of the input that was read from the cache.
    pub cache_hit_ratio: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn usd<S: serde::Serializer>(money: &Money, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(money.usd())
}

impl Totals {
    /// Adds a whole request.
    pub(crate) fn add_request(&mut self, request: &Request<'_>) {
        let (tokens, cost, computed) = (request.tokens, request.cost, request.computed);
        self.add(&Share { request, tokens, cost, computed, calls: Ended::of(request), whole: true });
    }

    fn add(&mut self, share: &Share<'_>) {
        let Share { request, tokens, cost, computed, calls, whole } = share;
        self.exact = (self.is_nothing() || self.exact) && request.exact;
        self.input += tokens.input;
        self.output += tokens.output;
        self.cache_read += tokens.cache_read;
        self.cache_write += tokens.cache_write();
        self.cache_write_1h += tokens.cache_write_1h;
        self.reasoning += tokens.reasoning;
        self.tokens += tokens.total();
        self.cost_usd += cost.unwrap_or_default();
        self.cost_computed_usd += computed.unwrap_or_default();
        if request.basis == CostBasis::Reported {
            self.cost_reported_usd += cost.unwrap_or_default();
        }
        if *whole {
            self.cost_unknown += u64::from(cost.is_none());
            self.requests += 1;
            self.request_errors += u64::from(request.error);
            self.unlisted += u64::from(request.unlisted);
            self.web_searches += request.searches;
        }
        self.calls += calls.all;
        self.call_errors += calls.failed;
        self.call_denials += calls.denied;
    }

    fn is_nothing(&self) -> bool {
        self.requests == 0 && self.calls == 0 && self.tokens == 0
    }

    /// Adds other sums. Sessions are not known to be different ones, so they are not added.
    fn merge(&mut self, other: &Self) {
        self.exact = (self.is_nothing() || self.exact) && (other.is_nothing() || other.exact);
        for (mine, theirs) in [
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.cache_read, other.cache_read),
            (&mut self.cache_write, other.cache_write),
            (&mut self.cache_write_1h, other.cache_write_1h),
            (&mut self.reasoning, other.reasoning),
            (&mut self.tokens, other.tokens),
            (&mut self.cost_unknown, other.cost_unknown),
            (&mut self.requests, other.requests),
            (&mut self.request_errors, other.request_errors),
            (&mut self.unlisted, other.unlisted),
            (&mut self.calls, other.calls),
            (&mut self.call_errors, other.call_errors),
            (&mut self.call_denials, other.call_denials),
            (&mut self.web_searches, other.web_searches),
        ] {
            *mine += theirs;
        }
        self.cost_usd += other.cost_usd;
        self.cost_reported_usd += other.cost_reported_usd;
        self.cost_computed_usd += other.cost_computed_usd;
    }

    /// Works out what follows from the sums.
    #[expect(clippy::cast_precision_loss, reason = "a ratio has few digits")]
    fn finish(&mut self) {
        // Nothing is exactly nothing.
        self.exact |= self.requests == 0 && self.tokens == 0;
        let prompt = self.input + self.cache_read + self.cache_write;
        self.cache_hit_ratio = (prompt > 0).then(|| self.cache_read as f64 / prompt as f64);
    }
}

/// A part of a request: all of it, or what one of its calls answers for.
struct Share<'r> {
    request: &'r Request<'r>,
    tokens: Tokens,
    cost: Option<Money>,
    computed: Option<Money>,
    calls: Ended,
    /// Whether the request itself counts here.
    whole: bool,
}

/// How many calls there are, and how they ended.
#[derive(Clone, Copy, Default)]
struct Ended {
    all: u64,
    failed: u64,
    denied: u64,
}

impl Ended {
    fn of(request: &Request<'_>) -> Self {
        request.calls.iter().map(|(_, end)| *end).collect()
    }
}

impl FromIterator<CallEnd> for Ended {
    fn from_iter<I: IntoIterator<Item = CallEnd>>(ends: I) -> Self {
        ends.into_iter().fold(Self::default(), |sum, end| Self {
            all: sum.all + 1,
            failed: sum.failed + u64::from(end == CallEnd::Failed),
            denied: sum.denied + u64::from(end == CallEnd::Denied),
        })
    }
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// What the row is of: a date, a name, an id.
    pub key: String,
    /// The working folder, if rows are also of one project each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its sums.
    #[serde(flatten)]
    pub totals: Totals,
    /// If it is a session: what it is about, where and when.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// If it is a window of five hours: how it stands.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub block: Option<Block>,
    /// The same by model, if it was asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, Totals>,
    /// What it cost in equal parts of the whole time, if that was asked for and the time is more than a day.
    #[serde(skip)]
    pub trend: Vec<Money>,
}

/// What a session is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct About {
    /// The first prompt, or its title.
    pub title: String,
    /// The agent.
    pub agent: String,
    /// The working folder.
    pub folder: String,
    /// The branch.
    pub branch: String,
    /// When it began, in milliseconds since 1970.
    pub first: Option<u64>,
    /// When it ended.
    pub last: Option<u64>,
    /// How long its turns took, as far as the agent says it.
    pub busy_ms: u64,
    /// The number of prompts.
    pub prompts: u64,
}

/// Statistics.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// All of it.
    pub totals: Totals,
    /// The rows. Times are in order, all others by cost.
    pub rows: Vec<Row>,
    /// Models without a known price.
    pub unknown_models: Vec<String>,
    /// The number of lines that could not be read.
    pub damaged_lines: u64,
    /// The files that these are in, in the order of their paths.
    pub damaged_files: Vec<DamagedFile>,
    /// The date of the prices.
    pub prices_dated: String,
}

/// Adds up what is in the index.
pub fn stats(index: &Index, prices: &Prices, selection: &Selection, query: &Query) -> Result<Stats, ArchiveError> {
    let mut stats = load_parts(index, prices, selection, || Adder::new(query))?.finish();
    prices.dated().clone_into(&mut stats.prices_dated);
    Ok(stats)
}
