//! Costs and counts that cannot be true. A stream is written by others, and one wrong figure would outweigh everything else
//! that was counted. All that counts asks here: the fold, and the archive's readers of transcripts.

use tapline_protocol::{Count, Kind, Number, Read as _, Value};

/// The most that an agent can say a run cost, in dollars.
pub const MOST_USD: f64 = 100_000.0;
/// The most tokens that can be counted at once. Beyond this, a float is not exact any more, and neither are the counts of programs that
/// use floats.
pub const MOST_TOKENS: u64 = 10_000_000_000_000_000;
/// The most web searches that a run can have made.
pub const MOST_SEARCHES: u64 = 1_000_000;

/// So many figures of one line are named.
const NAMED: usize = 8;
/// So deep are figures looked for.
const DEPTH: usize = 4;
/// So many characters of a figure are shown.
const SHOWN: usize = 40;

/// Returns whether something can have cost this much.
pub fn is_cost(usd: f64) -> bool {
    (0.0..=MOST_USD).contains(&usd)
}

/// Reads a cost in dollars. Returns `None` if there is none, or if it cannot be true.
pub fn cost(value: Value<'_>) -> Option<f64> {
    Number::read(value).map(|cost| cost.as_f64()).filter(|cost| is_cost(*cost))
}

/// Reads a count of tokens, or of other things of which there are at most `most`. One that is missing or no number is 0. Returns `None` if it cannot be true.
pub fn count(value: Value<'_>, most: u64) -> Option<u64> {
    let count = Count::read(value).map_or(0, |count| count.0);
    let is_negative = || value.raw().trim_start_matches('"').trim_start().starts_with('-');
    (count <= most && !(count == 0 && is_negative())).then_some(count)
}

/// Names the costs and counts of a line that cannot be true: `usage.input_tokens is 1e19`.
pub(crate) fn implausible(line: Value<'_>) -> Vec<String> {
    let mut found = Vec::new();
    look(line, &mut Vec::new(), false, &mut found);
    found
}

/// Looks at an object, and at those in it that have figures.
fn look(object: Value<'_>, path: &mut Vec<String>, in_usage: bool, found: &mut Vec<String>) {
    for (key, value) in object.entries().into_iter().flatten() {
        let is_of_usage = in_usage || matches!(&*key, "usage" | "modelUsage");
        let is_wrong = match value.kind() {
            Kind::Object if path.len() < DEPTH && (is_of_usage || matches!(&*key, "message" | "event")) => {
                path.push(key.into_owned());
                look(value, path, is_of_usage, found);
                path.pop();
                continue;
            }
            Kind::Number if matches!(&*key, "total_cost_usd" | "cost_usd" | "cost" | "costUSD") => cost(value).is_none(),
            Kind::Number | Kind::String if in_usage && key.contains("oken") => count(value, MOST_TOKENS).is_none(),
            Kind::Number | Kind::String if in_usage && key.contains("earch") => count(value, MOST_SEARCHES).is_none(),
            Kind::Null | Kind::True | Kind::False | Kind::Number | Kind::String | Kind::Array | Kind::Object => false,
        };
        if is_wrong && found.len() < NAMED {
            let digits: String = value.raw().chars().take(SHOWN).collect();
            let path: Vec<&str> = path.iter().map(String::as_str).chain([&*key]).collect();
            found.push(format!("{} is {digits}", path.join(".")));
        }
    }
}
