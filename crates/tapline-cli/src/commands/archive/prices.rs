//! `tapline archive prices`: the table of prices, with the user's rows, for people and as JSON.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use serde_json::{Map, Value, json};
use tapline_archive::{Money, Prices, Rates, TokenRates};
use tapline_session::render::Style;
use tapline_session::text::one_line;

use crate::args::archive::PriceTable;
use crate::{output, prices};

/// What most searches cost. Only another price is shown.
const USUAL_SEARCH: Money = Money::from_pico(10_000_000_000);

const CLASSES: [&str; 5] = ["input", "output", "cache read", "write 5m", "write 1h"];

pub(crate) fn run(args: &PriceTable) -> Result<u8> {
    let own = prices::own(&args.prices)?;
    let all = Prices::embedded().clone().with(&own);
    if args.json {
        output::json(&as_json(&all).to_string())?;
    } else {
        let mut out = output::stdout();
        let width = if output::is_terminal() { output::size().0 } else { usize::MAX };
        out.write_all(render(&all, &own, width, args.look.style()).as_bytes())?;
        out.flush()?;
    }
    Ok(0)
}

fn classes(rates: &TokenRates) -> [u64; 5] {
    let TokenRates { input, output, cache_read, cache_write_5m, cache_write_1h } = *rates;
    [input, output, cache_read, cache_write_5m, cache_write_1h]
}

/// Writes millionths as a decimal number, without zeros at its end.
fn decimal(millionths: u64) -> String {
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Writes a whole number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A line of the table.
struct Line {
    label: String,
    cells: [String; 5],
    /// What else has a price, and whether the row is the user's.
    also: String,
    is_main: bool,
}

fn lines_of(name: &str, rates: &Rates, dated: &str, is_own: bool) -> Vec<Line> {
    let cells = |rates: &TokenRates| classes(rates).map(decimal);
    let speeds = [("fast", rates.fast), ("ultrafast", rates.ultrafast), ("flex", rates.flex)];
    let speeds = speeds.into_iter().filter_map(|(word, factor)| Some((word, factor.filter(|factor| *factor != 100)?)));
    let speeds = speeds.map(|(word, hundredths)| format!("{word} ×{}", decimal(hundredths * 10_000)));
    let search =
        (rates.web_search != USUAL_SEARCH).then(|| format!("search ${}", decimal(rates.web_search.pico() / 1_000_000)));
    let seen = (![dated, ""].contains(&&*rates.seen)).then(|| format!("seen {}", rates.seen));
    let since = rates.earlier.last().map(|earlier| format!("since {}", earlier.before));
    let also: Vec<_> =
        speeds.chain(search).chain(since).chain(seen).chain(is_own.then(|| "from your file".to_owned())).collect();
    let main = Line { label: one_line(name), cells: cells(&rates.tokens), also: also.join(", "), is_main: true };
    let long = rates.long.iter().map(|long| Line {
        label: format!("  above {}", grouped(long.above)),
        cells: cells(&long.tokens),
        also: String::new(),
        is_main: false,
    });
    std::iter::once(main).chain(long).collect()
}

fn render(prices: &Prices, own: &Prices, width: usize, style: Style) -> String {
    let Style { bold, dim, reset, .. } = style;
    let is_own = |name: &str| own.table().any(|(own, _)| own == name);
    let lines: Vec<Line> =
        prices.table().flat_map(|(name, rates)| lines_of(name, rates, prices.dated(), is_own(name))).collect();
    let first = lines.iter().map(|line| line.label.chars().count()).max().unwrap_or_default();
    // Numbers stand with their points below each other.
    let split = |cell: &str| cell.split_once('.').map_or((cell.len(), 0), |(whole, part)| (whole.len(), part.len() + 1));
    let widths: [(usize, usize); 5] = std::array::from_fn(|class| {
        let parts = || lines.iter().map(|line| split(&line.cells[class]));
        let whole = parts().map(|(whole, _)| whole).max().unwrap_or_default();
        let part = parts().map(|(_, part)| part).max().unwrap_or_default();
        (whole.max(CLASSES[class].len().saturating_sub(part)), part)
    });
    let mut out = format!("Prices of {} in US dollars for a million tokens\n\n{dim}{:<first$}", prices.dated(), "model");
    for (title, (whole, part)) in CLASSES.iter().zip(widths) {
        let _ = write!(out, "  {title:>0$}", whole + part);
    }
    let _ = writeln!(out, "{reset}");
    let numbers: usize = widths.iter().map(|(whole, part)| whole + part + 2).sum();
    for Line { label, cells, also, is_main } in &lines {
        let colour = if *is_main { bold } else { dim };
        let _ = write!(out, "{colour}{label}{reset}{:1$}", "", first - label.chars().count());
        for (cell, (whole, part)) in cells.iter().zip(widths) {
            let (before, behind) = split(cell);
            let _ = write!(out, "  {0:1$}{cell}{0:2$}", "", whole - before, part - behind);
        }
        let fits = first + numbers + 2 + also.chars().count() <= width;
        if also.is_empty() || !fits {
            out.truncate(out.trim_end_matches(' ').len());
        }
        if !also.is_empty() {
            let _ = write!(out, "{}  {dim}{also}{reset}", if fits { "" } else { "\n" });
        }
        out.push('\n');
    }
    let names: Vec<_> = prices.names().map(|(name, model)| format!("{} is {}", one_line(name), one_line(model))).collect();
    if !names.is_empty() {
        let _ = write!(out, "\n{dim}Other names{reset}\n  {}\n", names.join("\n  "));
    }
    out.push_str("\nabove: for the whole request, if its prompt has more tokens than this, cached or not\n");
    out.push_str("A web search costs $0.01, unless the row says otherwise. In the US only, tokens cost ×1.1.\n");
    out
}

fn as_json(prices: &Prices) -> Value {
    let number = |millionths: u64| json!(decimal(millionths).parse::<f64>().ok());
    let tokens = |rates: &TokenRates| {
        let keys = ["input", "output", "cache_read", "cache_write_5m", "cache_write_1h"];
        keys.iter().zip(classes(rates)).map(|(key, rate)| ((*key).to_owned(), number(rate))).collect::<Map<_, _>>()
    };
    let model = |rates: &Rates| {
        let mut row = tokens(&rates.tokens);
        let long = rates.long.iter().map(|long| {
            let mut row = tokens(&long.tokens);
            row.insert("above".to_owned(), json!(long.above));
            Value::Object(row)
        });
        row.insert("long".to_owned(), long.collect());
        for (word, hundredths) in [("fast", rates.fast), ("ultrafast", rates.ultrafast), ("flex", rates.flex)] {
            row.insert(word.to_owned(), number(hundredths.unwrap_or(100) * 10_000));
        }
        row.insert("web_search".to_owned(), number(rates.web_search.pico() / 1_000_000));
        row.insert("seen".to_owned(), json!(rates.seen));
        row.extend(rates.earlier.last().map(|earlier| ("from".to_owned(), json!(earlier.before))));
        Value::Object(row)
    };
    let models: Map<_, _> = prices.table().map(|(name, rates)| (name.to_owned(), model(rates))).collect();
    let names: Map<_, _> = prices.names().map(|(name, model)| (name.to_owned(), json!(model))).collect();
    json!({ "dated": prices.dated(), "unit": "USD for a million tokens", "models": models, "names": names })
}
