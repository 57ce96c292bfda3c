//! Reads a table of prices from TOML. Numbers are read as they are written, digit by digit, so that no price is rounded.
//! An error names the line, the model, what was given and what is expected.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tapline_protocol::Moment;
use tapline_session::parse_moment;
use tapline_session::text::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::rates::{EarlierRates, LongRates, Rates, TokenRates};
use crate::Money;

/// Why a file with prices cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct PricesError {
    line: usize,
    why: String,
}

impl PricesError {
    /// Returns the line with the mistake, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    pub(super) fn at(text: &str, place: usize, why: String) -> Self {
        Self { line: text.bytes().take(place).filter(|byte| *byte == b'\n').count() + 1, why }
    }
}

/// What a file holds.
pub(super) struct File {
    pub(super) dated: String,
    pub(super) models: BTreeMap<String, Rates>,
    pub(super) names: BTreeMap<String, String>,
}

/// Where in the text each of the file's names is.
type Places = BTreeMap<String, usize>;

/// The position of a mistake, and a description.
type Wrong = (usize, String);

/// What web searches cost unless a row says otherwise.
const WEB_SEARCH: Money = Money::from_pico(10_000_000_000);

const TOP: &[&str] = &["dated", "models", "names"];
const TOKENS: &[&str] = &["input", "output", "cache_read", "cache_write_5m", "cache_write_1h"];
const LONG: &[&str] = &["above"];
const MODEL: &[&str] = &["long", "web_search", "fast", "ultrafast", "flex", "seen", "from"];

/// Reads a file.
pub(super) fn file(text: &str) -> Result<(File, Places), PricesError> {
    let table = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        PricesError::at(text, place, format!("this is not TOML: {}", error.message().lines().next().unwrap_or_default()))
    })?;
    top(table.get_ref()).map_err(|(place, why)| PricesError::at(text, place, why))
}

fn top(table: &DeTable<'_>) -> Result<(File, Places), Wrong> {
    let top = Row { what: "the file", table, keys: &[TOP] };
    top.check()?;
    let dated = top.day("dated")?.unwrap_or_default();
    let mut file = File { dated, models: BTreeMap::new(), names: BTreeMap::new() };
    for (name, value) in top.rows("models")? {
        let rates = model(name, value, &file.dated)?;
        file.models.insert(name.get_ref().to_ascii_lowercase(), rates);
    }
    let mut places = Places::new();
    for (name, value) in top.rows("names")? {
        let model =
            value.get_ref().as_str().ok_or_else(|| wrong(value, name.get_ref(), "the name of a model", r#""gpt-5""#))?;
        places.insert(name.get_ref().to_ascii_lowercase(), value.span().start);
        file.names.insert(name.get_ref().to_ascii_lowercase(), model.to_ascii_lowercase());
    }
    Ok((file, places))
}

/// Reads the prices of a model: a row, or a list of them, the oldest first, each valid from a day on.
fn model(name: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>, dated: &str) -> Result<Rates, Wrong> {
    let no_row = |value| wrong(value, name.get_ref(), "a table", "{ input = 3, output = 15 }");
    let list = value.get_ref().as_array();
    let (mut earlier, mut newest) = (Vec::<EarlierRates>::new(), None);
    for value in list.map_or_else(|| vec![value], |list| list.iter().collect()) {
        let table = value.get_ref().as_table().ok_or_else(|| no_row(value))?;
        let row = Row { what: name.get_ref(), table, keys: &[TOKENS, MODEL] };
        let place = if list.is_some() { value.span().start } else { name.span().start };
        let rates = row.model(place, dated)?;
        let begins = |day: &str| parse_moment(&format!("{day}T00:00:00Z")).map(Moment::as_millis);
        let from = row.day("from")?.map(|day| (begins(&day), day));
        match (newest.replace(rates), from) {
            (None, None) => {}
            (Some(rates), Some((Some(before_ms), before))) if earlier.last().is_none_or(|last| last.before_ms < before_ms) => {
                earlier.push(EarlierRates { before, before_ms, rates });
            }
            (None, Some(_)) => {
                return Err((place, "the first row has no `from`: it is valid for all days before the second".to_owned()));
            }
            (Some(_), _) => {
                return Err((place, "this row needs a `from`, a later day than that of the row before it".to_owned()));
            }
        }
    }
    newest.map(|newest| Rates { earlier, ..newest }).ok_or_else(|| no_row(value))
}

/// A table with keys that are known.
struct Row<'t> {
    what: &'t str,
    table: &'t DeTable<'t>,
    keys: &'static [&'static [&'static str]],
}

impl<'t> Row<'t> {
    fn get(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// Rejects unknown keys.
    fn check(&self) -> Result<(), Wrong> {
        let known = || self.keys.iter().copied().flatten().copied();
        let Some(key) = self.table.keys().find(|key| !known().any(|known| known == key.get_ref())) else { return Ok(()) };
        let (name, what) = (key.get_ref().as_ref(), self.what);
        let meant = nearest(name, known()).map_or(".".to_owned(), |meant| format!(": did you mean `{meant}`?"));
        let known: Vec<_> = known().map(|key| format!("`{key}`")).collect();
        Err((key.span().start, format!("{what} has no key `{name}`{meant} Allowed here: {}", known.join(", "))))
    }

    /// Returns the rows of a table in this one.
    fn rows(&self, key: &str) -> Result<impl Iterator<Item = (&'t Spanned<Cow<'t, str>>, &'t Spanned<DeValue<'t>>)>, Wrong> {
        let rows = match self.get(key) {
            None => None,
            Some(value) => {
                let not_a_table = || wrong(value, key, "a table", &format!("[{key}] on a line of its own"));
                Some(value.get_ref().as_table().ok_or_else(not_a_table)?)
            }
        };
        Ok(rows.into_iter().flatten())
    }

    fn model(&self, place: usize, dated: &str) -> Result<Rates, Wrong> {
        self.check()?;
        let tokens = self.tokens(place)?;
        let factor = |key: &str| self.number(key, 2, "a factor with at most two decimals", "2.5");
        // Six decimals of a dollar are a millionth, and a millionth has a million picodollars.
        let web_search = self.number("web_search", 6, "the price of one search in dollars", "0.01")?;
        let rates = Rates {
            tokens,
            long: self.long()?,
            web_search: web_search.map_or(WEB_SEARCH, |price| Money::from_pico(price.saturating_mul(1_000_000))),
            fast: factor("fast")?,
            ultrafast: factor("ultrafast")?,
            flex: factor("flex")?,
            seen: self.day("seen")?.unwrap_or_else(|| dated.to_owned()),
            earlier: Vec::new(),
        };
        Ok(rates)
    }

    /// Reads the prices of tokens. Where the file says nothing about a cache, cached tokens have the price of other
    /// input.
    fn tokens(&self, place: usize) -> Result<TokenRates, Wrong> {
        let needed = |key: &str| {
            self.price(key)?.ok_or_else(|| {
                let what = self.what;
                (place, format!("`{what}` has no `{key}`: it needs `input` and `output`, in dollars for a million tokens"))
            })
        };
        let (input, output) = (needed("input")?, needed("output")?);
        let cache_write_5m = self.price("cache_write_5m")?.unwrap_or(input);
        Ok(TokenRates {
            input,
            output,
            cache_read: self.price("cache_read")?.unwrap_or(input),
            cache_write_5m,
            cache_write_1h: self.price("cache_write_1h")?.unwrap_or(cache_write_5m),
        })
    }

    fn long(&self) -> Result<Vec<LongRates>, Wrong> {
        let example = "[{ above = 200_000, input = 6, output = 22.5 }]";
        let Some(value) = self.get("long") else { return Ok(Vec::new()) };
        let list = value.get_ref().as_array().ok_or_else(|| wrong(value, "long", "a list", example))?;
        let mut long: Vec<LongRates> = Vec::new();
        for value in list {
            let table = value.get_ref().as_table().ok_or_else(|| wrong(value, "long", "a list of tables", example))?;
            let row = Row { what: "long", table, keys: &[LONG, TOKENS] };
            row.check()?;
            let place = value.span().start;
            let above = row.number("above", 0, "a whole number of tokens", "200_000")?;
            let above = above.ok_or_else(|| (place, "`long` has no `above`: from how many tokens on?".to_owned()))?;
            if long.last().is_some_and(|before| before.above >= above) {
                return Err((place, format!("`long` must be in order: {above} is not above the one before it")));
            }
            long.push(LongRates { above, tokens: row.tokens(place)? });
        }
        Ok(long)
    }

    /// Reads a price in dollars for a million tokens as picodollars for one.
    fn price(&self, key: &str) -> Result<Option<u64>, Wrong> {
        let price = self.number(key, 6, "a price in dollars for a million tokens, with at most six decimals", "0.25")?;
        if price.is_some_and(|price| price > 0 && price < 1_000) {
            let place = self.get(key).map_or(0, |value| value.span().start);
            return Err((
                place,
                format!("`{key}` is less than a tenth of a cent for a million tokens: is it the price of one token?"),
            ));
        }
        Ok(price)
    }

    fn number(&self, key: &str, decimals: usize, expected: &str, example: &str) -> Result<Option<u64>, Wrong> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => decimal(number.as_str(), decimals),
            DeValue::Float(number) => decimal(number.as_str(), decimals),
            _ => None,
        };
        number.map(Some).ok_or_else(|| wrong(value, key, expected, example))
    }

    fn day(&self, key: &str) -> Result<Option<String>, Wrong> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(day) if super::name::is_day(day) => Ok(Some(day.clone().into_owned())),
            DeValue::Datetime(day) if day.time.is_none() => Ok(Some(day.to_string())),
            _ => Err(wrong(value, key, "a day", "\"2026-11-16\"")),
        }
    }
}

/// Reads a decimal number as a whole number of its smallest part.
fn decimal(text: &str, decimals: usize) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = part.trim_end_matches('0');
    let is_plain = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if part.len() > decimals || whole.is_empty() || !is_plain(whole) || !is_plain(part) {
        return None;
    }
    format!("{whole}{part:0<decimals$}").parse().ok()
}

/// Says that a value is of another kind than its key needs.
fn wrong(value: &Spanned<DeValue<'_>>, key: &str, expected: &str, example: &str) -> Wrong {
    let given = match value.get_ref() {
        DeValue::String(text) => format!("the text {text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    };
    (value.span().start, format!("`{key}` is {given}, but must be {expected}, like {example}"))
}
