//! Measures: how many tokens requests took, how long requests, turns and tools took, and what it cost. Instruments, units and bounds are those of
//! the conventions; sums are whole numbers, so they are the same in any order.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use tapline_protocol::Agent;

use super::provider;
use super::span::{AgentSpan, Operation};

/// The attributes of a point, in a fixed order.
pub(super) type Attributes = Vec<(&'static str, String)>;

/// Marks the point of everything that has no point of its own.
pub(super) const OVERFLOW: &str = "otel.metric.overflow";
/// How many points an instrument has. Names of models and tools come from agents, and may be anything.
const MOST: usize = 2_000;
/// The longest name of a model or a tool, in bytes.
const LONGEST: usize = 256;
/// Picodollars in a dollar.
const PICO: f64 = 1e12;

const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
const SECONDS: &[f64] = &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TURN_SECONDS: &[f64] = &[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];

/// What is measured.
#[derive(Debug)]
pub(super) struct Instrument {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) about: &'static str,
    pub(super) bounds: &'static [f64],
    /// How many of what is counted make a unit.
    scale: f64,
}

const MILLIS: f64 = 1_000.0;

static INSTRUMENTS: [Instrument; 4] = [
    Instrument {
        name: "gen_ai.client.token.usage",
        unit: "{token}",
        about: "Number of input and output tokens used.",
        bounds: TOKENS,
        scale: 1.0,
    },
    Instrument {
        name: "gen_ai.client.operation.duration",
        unit: "s",
        about: "GenAI operation duration.",
        bounds: SECONDS,
        scale: MILLIS,
    },
    Instrument {
        name: "gen_ai.invoke_agent.duration",
        unit: "s",
        about: "The end-to-end duration of a single agent invocation.",
        bounds: TURN_SECONDS,
        scale: MILLIS,
    },
    Instrument {
        name: "gen_ai.execute_tool.duration",
        unit: "s",
        about: "The duration of a single tool execution.",
        bounds: SECONDS,
        scale: MILLIS,
    },
];

/// A distribution of values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Histogram {
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) buckets: Vec<u64>,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// How many values there are, and how much they are together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtlpPoint {
    /// How many values there were.
    pub count: u64,
    /// Their sum, in the smallest unit: tokens, milliseconds.
    pub sum: u64,
}

/// A distribution, in the smallest unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    point: OtlpPoint,
    buckets: Vec<u64>,
    least: Option<u64>,
    most: u64,
}

impl Counts {
    #[expect(clippy::cast_precision_loss, reason = "only its place among the bounds matters")]
    fn add(&mut self, value: u64, instrument: &Instrument) {
        self.buckets.resize(instrument.bounds.len() + 1, 0);
        let scaled = value as f64 / instrument.scale;
        // A bound is part of the bucket below it.
        self.buckets[instrument.bounds.partition_point(|bound| *bound < scaled)] += 1;
        self.point.count += 1;
        self.point.sum = self.point.sum.saturating_add(value);
        self.least = Some(self.least.map_or(value, |least| least.min(value)));
        self.most = self.most.max(value);
    }

    fn merge(&mut self, other: &Self) {
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(one, other)| *one += other);
        self.point.count += other.point.count;
        self.point.sum = self.point.sum.saturating_add(other.point.sum);
        self.least = self.least.into_iter().chain(other.least).min();
        self.most = self.most.max(other.most);
    }

    #[expect(clippy::cast_precision_loss, reason = "OTLP has doubles")]
    fn shown(&self, instrument: &Instrument) -> Histogram {
        let scaled = |value: u64| value as f64 / instrument.scale;
        Histogram {
            count: self.point.count,
            sum: scaled(self.point.sum),
            buckets: self.buckets.clone(),
            min: scaled(self.least.unwrap_or(0)),
            max: scaled(self.most),
        }
    }
}

/// What a request to a model used.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestUsage<'u> {
    /// The agent that made it.
    pub agent: Option<Agent>,
    /// The model.
    pub model: &'u str,
    /// All input, with what was read from the cache and written to it.
    pub input: u64,
    /// The output.
    pub output: u64,
    /// What it cost, in picodollars.
    pub pico_usd: Option<u64>,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measures {
    points: [BTreeMap<Attributes, Counts>; 4],
    costs: BTreeMap<Attributes, u64>,
}

/// Returns the point with these attributes, or that of everything else.
fn at<T: Default>(points: &mut BTreeMap<Attributes, T>, attributes: Attributes) -> &mut T {
    let is_full = points.len() >= MOST && !points.contains_key(&attributes);
    points.entry(if is_full { vec![(OVERFLOW, String::new())] } else { attributes }).or_default()
}

fn some(pairs: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Attributes {
    let cut = |value: String| if value.len() > LONGEST { value.chars().take(LONGEST / 4).collect() } else { value };
    pairs.into_iter().filter_map(|(name, value)| Some((name, cut(value.filter(|value| !value.is_empty())?)))).collect()
}

impl Measures {
    /// Adds the tokens and the cost of a request.
    pub fn usage(&mut self, usage: &RequestUsage<'_>) {
        let about = |kind: Option<&str>| {
            some([
                ("gen_ai.operation.name", kind.map(|_| Operation::Chat.name().to_owned())),
                ("gen_ai.provider.name", Some(provider(usage.agent).to_owned())),
                ("gen_ai.request.model", Some(usage.model.to_owned())),
                ("gen_ai.response.model", kind.map(|_| usage.model.to_owned())),
                ("gen_ai.token.type", kind.map(str::to_owned)),
                ("gen_ai.agent.name", usage.agent.filter(|_| kind.is_none()).map(|agent| agent.name().to_owned())),
            ])
        };
        for (kind, tokens) in [("input", usage.input), ("output", usage.output)] {
            at(&mut self.points[0], about(Some(kind))).add(tokens, &INSTRUMENTS[0]);
        }
        if let Some(pico) = usage.pico_usd {
            let cost = at(&mut self.costs, about(None));
            *cost = cost.saturating_add(pico);
        }
    }

    /// Adds how long a span took.
    pub fn duration(&mut self, span: &AgentSpan) {
        let text = |key: &str| span.text(key).map(str::to_owned);
        let of = |keys: &[&'static str]| some(keys.iter().map(|key| (*key, text(key))));
        let (place, attributes) = match span.operation {
            Operation::Chat => (
                1,
                of(&[
                    "gen_ai.operation.name",
                    "gen_ai.provider.name",
                    "gen_ai.request.model",
                    "gen_ai.response.model",
                    "error.type",
                ]),
            ),
            Operation::InvokeAgent => (2, of(&["gen_ai.agent.name", "error.type"])),
            Operation::ExecuteTool => (3, of(&["gen_ai.tool.name", "gen_ai.agent.name", "error.type"])),
            Operation::Session => return,
        };
        let millis = span.end.millis_since(span.start).unwrap_or(0);
        at(&mut self.points[place], attributes).add(millis, &INSTRUMENTS[place]);
    }

    /// Keeps, of each point, whichever is larger. What was sent as a sum must not become smaller: a receiver would take it for a new start.
    pub fn keep_larger(&mut self, before: &Self) {
        for (points, before) in self.points.iter_mut().zip(&before.points) {
            for (attributes, counts) in before {
                let now = points.entry(attributes.clone()).or_default();
                if now.point.count < counts.point.count || now.point.sum < counts.point.sum {
                    now.clone_from(counts);
                }
            }
        }
        for (attributes, pico) in &before.costs {
            let now = self.costs.entry(attributes.clone()).or_default();
            *now = (*now).max(*pico);
        }
    }

    /// Returns whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.costs.is_empty() && self.points.iter().all(BTreeMap::is_empty)
    }

    /// Returns how many values an instrument has, and their sum.
    pub fn total(&self, instrument: &str) -> OtlpPoint {
        let mut total = OtlpPoint::default();
        for (known, points) in INSTRUMENTS.iter().zip(&self.points).filter(|(known, _)| known.name == instrument) {
            debug_assert!(!known.bounds.is_empty());
            for counts in points.values() {
                total.count += counts.point.count;
                total.sum = total.sum.saturating_add(counts.point.sum);
            }
        }
        total
    }

    pub(super) fn histograms(&self) -> impl Iterator<Item = (&'static Instrument, Vec<(&Attributes, Histogram)>)> {
        INSTRUMENTS.iter().zip(&self.points).filter(|(_, points)| !points.is_empty()).map(|(instrument, points)| {
            (instrument, points.iter().map(|(of, counts)| (of, counts.shown(instrument))).collect())
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "OTLP has doubles")]
    pub(super) fn costs(&self) -> impl ExactSizeIterator<Item = (&Attributes, f64)> {
        self.costs.iter().map(|(of, pico)| (of, *pico as f64 / PICO))
    }
}

impl AddAssign<&Measures> for Measures {
    fn add_assign(&mut self, other: &Measures) {
        for (points, other) in self.points.iter_mut().zip(&other.points) {
            for (attributes, counts) in other {
                at(points, attributes.clone()).merge(counts);
            }
        }
        for (attributes, pico) in &other.costs {
            let cost = at(&mut self.costs, attributes.clone());
            *cost = cost.saturating_add(*pico);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(model: &str, input: u64) -> RequestUsage<'_> {
        RequestUsage { model, input, output: 4, pico_usd: Some(2), ..RequestUsage::default() }
    }

    #[test]
    fn a_bound_is_part_of_the_bucket_below_it() {
        let mut counts = Counts::default();
        for value in [0, 1, 2, 4, 5, 67_108_865] {
            counts.add(value, &INSTRUMENTS[0]);
        }
        assert_eq!((counts.buckets[0], counts.buckets[1], counts.buckets[2], counts.buckets[14]), (2, 2, 1, 1));
        assert_eq!((counts.buckets.len(), counts.point.count, counts.least, counts.most), (15, 6, Some(0), 67_108_865));
    }

    #[test]
    fn parts_add_up_to_the_whole_in_any_order() {
        let (mut one, mut other, mut whole) = (Measures::default(), Measures::default(), Measures::default());
        for (at, part) in [&mut one, &mut other].into_iter().enumerate() {
            for input in [3, 70, 900] {
                part.usage(&used(["a", "b"][at], input));
                whole.usage(&used(["a", "b"][at], input));
            }
        }
        let (mut forth, mut back) = (one.clone(), other.clone());
        forth += &other;
        back += &one;
        assert_eq!((&forth, &back), (&whole, &whole));
        assert_eq!(whole.total("gen_ai.client.token.usage"), OtlpPoint { count: 12, sum: 2 * (973 + 12) });
    }

    #[test]
    fn any_number_of_names_takes_a_limited_number_of_points() {
        let mut measures = Measures::default();
        for model in 0..10_000 {
            measures.usage(&used(&model.to_string(), 1));
        }
        assert_eq!((measures.points[0].len(), measures.costs.len()), (MOST + 1, MOST + 1));
        assert_eq!(measures.total("gen_ai.client.token.usage").count, 20_000);
    }

    #[test]
    fn a_sum_that_was_sent_never_becomes_smaller() {
        let (mut before, mut after) = (Measures::default(), Measures::default());
        before.usage(&used("a", 10));
        before.usage(&used("a", 10));
        after.usage(&used("a", 50));
        after.usage(&used("b", 1));
        after.keep_larger(&before);
        assert_eq!(after.total("gen_ai.client.token.usage"), OtlpPoint { count: 6, sum: 20 + 8 + 1 + 4 });
    }
}
