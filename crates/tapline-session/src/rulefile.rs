//! Files of rules (policies, permission rules): which keys there are and what they hold. What is wrong is said with its line, its key,
//! what was given and what is expected, because whoever wrote it knows TOML at best, and never our types.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::text::nearest;

/// Why rules could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongRules(String);

impl std::fmt::Display for WrongRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongRules {}

/// A kind of file.
#[derive(Debug)]
pub struct File {
    /// What it is called: `a policy`.
    pub name: &'static str,
    /// Which keys there are.
    pub keys: &'static [Key],
    /// How it is written.
    pub example: &'static str,
    /// The other kind, which it may be taken for: its keys, and where they belong.
    pub other: (&'static [&'static str], &'static str),
}

/// A key, and an example of it.
#[derive(Debug)]
pub struct Key(pub &'static str, pub Holds, pub &'static str);

/// Why a text is wrong, if it is.
pub type Wrong = fn(&str) -> Option<String>;

/// What a key holds.
#[derive(Clone, Copy, Debug)]
pub enum Holds {
    /// A name or a list of names.
    Names(Wrong),
    /// A list of texts.
    List(Wrong),
    /// The same as names, at least one.
    SomeNames(Wrong),
    /// A text.
    Text(Wrong),
    /// True or false.
    Flag,
    /// A whole number from 0 up.
    Count,
    /// A number from 0 up.
    Amount,
    /// A number above 0.
    SomeAmount,
    /// A table with these keys.
    Table(&'static [Key]),
    /// A list of tables, each with the first of these keys.
    Rules(&'static [Key]),
}

/// Reads a file of this kind.
pub fn read<T: serde::de::DeserializeOwned>(text: &str, file: &File) -> Result<T, WrongRules> {
    let at = |place: usize, why: &str| {
        let line = text.bytes().take(place).filter(|byte| *byte == b'\n').count() + 1;
        WrongRules(format!("line {line}: {why}"))
    };
    let of_error = |error: &toml::de::Error, why: &str| match error.span() {
        Some(span) => at(span.start, why),
        None => WrongRules(why.to_owned()),
    };
    let table = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start).min(text.len());
        let start = text.as_bytes()[..place].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        // What a parser expects is of use to people where it is a sign.
        let why = error.message().split(", expected ").next().unwrap_or_default();
        let sign = error.message().strip_prefix(why).filter(|rest| rest.contains('`')).unwrap_or_default();
        of_error(&error, &format!("`{}` is not TOML: {why}{sign}; it is written like {}", line.trim(), file.example))
    })?;
    match top(table.get_ref(), file) {
        Err((place, why)) => Err(at(place, &why)),
        Ok(()) => toml::from_str(text).map_err(|error| of_error(&error, error.message())),
    }
}

/// Where something is wrong, and what.
type Checked = Result<(), (usize, String)>;

fn top(table: &DeTable<'_>, file: &File) -> Checked {
    let (others, place) = file.other;
    for key in table.keys() {
        let (name, at) = (key.get_ref().as_ref(), key.span().start);
        if others.contains(&name) {
            return Err((at, format!("`{name}` does not belong in {}, but in {place}. {}", file.name, known(file.keys))));
        }
        let within = |Key(_, holds, _): &&Key| matches!(holds, Holds::Table(keys) if keys.iter().any(|key| key.0 == name));
        if let Some(Key(of, ..)) = file.keys.iter().find(within).filter(|_| !file.keys.iter().any(|key| key.0 == name)) {
            return Err((at, format!("`{name}` belongs below [{of}]: write that on a line of its own before it")));
        }
    }
    keys_of(table, file.keys, "", file.name)
}

/// Which keys there are.
fn known(keys: &[Key]) -> String {
    let names: Vec<_> = keys.iter().map(|Key(name, ..)| format!("`{name}`")).collect();
    format!("Allowed here: {}", names.join(", "))
}

fn keys_of(table: &DeTable<'_>, keys: &[Key], path: &str, of: &str) -> Checked {
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let Some(Key(_, holds, example)) = keys.iter().find(|Key(known, ..)| *known == name) else {
            let meant = nearest(name, keys.iter().map(|Key(known, ..)| *known));
            let meant = meant.map_or(".".to_owned(), |meant| format!(": did you mean `{meant}`?"));
            return Err((key.span().start, format!("{of} has no key `{name}`{meant} {}", known(keys))));
        };
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        value_of(value, *holds, &path, example)?;
    }
    Ok(())
}

fn value_of(value: &Spanned<DeValue<'_>>, holds: Holds, path: &str, example: &str) -> Checked {
    let wrong = |at: &Spanned<DeValue<'_>>, expected: &str| {
        let why = format!("`{path}` is {}, but must be {expected}, like {example}", given(at.get_ref()));
        Err((at.span().start, why))
    };
    let checked = |at: &Spanned<DeValue<'_>>, text: &str, check: Wrong| {
        check(text).map_or(Ok(()), |why| Err((at.span().start, format!("`{path}`: {why}"))))
    };
    match (holds, value.get_ref()) {
        (Holds::Names(check) | Holds::SomeNames(check) | Holds::Text(check), DeValue::String(text)) => {
            checked(value, text, check)
        }
        (Holds::SomeNames(_), DeValue::Array(names)) if names.is_empty() => wrong(value, "at least one name"),
        (Holds::Names(check) | Holds::SomeNames(check) | Holds::List(check), DeValue::Array(names)) => {
            names.iter().try_for_each(|name| {
                let DeValue::String(text) = name.get_ref() else {
                    let what = if matches!(holds, Holds::List(_)) { "texts" } else { "names" };
                    let why = format!("`{path}` holds {}, but must hold {what} alone, like {example}", given(name.get_ref()));
                    return Err((name.span().start, why));
                };
                checked(name, text, check)
            })
        }
        (Holds::Names(_) | Holds::SomeNames(_), _) => wrong(value, "a name or a list of names"),
        (Holds::List(_), _) => wrong(value, "a list of texts"),
        (Holds::Text(_), _) => wrong(value, "a text"),
        (Holds::Flag, DeValue::Boolean(_)) => Ok(()),
        (Holds::Flag, _) => wrong(value, "true or false"),
        (Holds::Count, DeValue::Integer(count)) if whole(count).is_some_and(|count| count >= 0) => Ok(()),
        (Holds::Count, _) => wrong(value, "a whole number from 0 up"),
        (Holds::Amount, given) if amount(given).is_some_and(|amount| amount >= 0.0) => Ok(()),
        (Holds::Amount, _) => wrong(value, "a number from 0 up"),
        (Holds::SomeAmount, given) if amount(given).is_some_and(|amount| amount > 0.0) => Ok(()),
        (Holds::SomeAmount, _) => wrong(value, "a number above 0"),
        (Holds::Table(keys), DeValue::Table(table)) => keys_of(table, keys, path, &format!("[{path}]")),
        (Holds::Table(_), _) => wrong(value, "a table"),
        (Holds::Rules(keys), DeValue::Array(rules)) => rules.iter().enumerate().try_for_each(|(at, rule)| {
            let path = format!("{path}[{at}]");
            let DeValue::Table(table) = rule.get_ref() else {
                let why = format!("`{path}` is {}, but must be a rule, like {example}", given(rule.get_ref()));
                return Err((rule.span().start, why));
            };
            keys_of(table, keys, &path, &format!("the rule {path}"))?;
            match keys.first().filter(|Key(name, ..)| !table.keys().any(|key| key.get_ref() == name)) {
                Some(Key(name, _, example)) => {
                    Err((rule.span().start, format!("the rule {path} has no `{name}`: every rule needs it, like {example}")))
                }
                None => Ok(()),
            }
        }),
        (Holds::Rules(_), DeValue::Table(_)) => Err((
            value.span().start,
            format!("`{path}` is one table, but must be a list of rules: write [[{path}]], in two brackets"),
        )),
        (Holds::Rules(_), _) => wrong(value, "a list of rules"),
    }
}

/// A whole number, however it is written: `255`, `0xFF`, `0o377`, `0b1111_1111`.
fn whole(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A number, if it is one that can be counted with.
fn amount(value: &DeValue<'_>) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "no ceiling needs more than 52 bits")]
    let number = match value {
        DeValue::Integer(number) => whole(number)? as f64,
        DeValue::Float(number) => number.as_str().parse().ok()?,
        DeValue::String(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => return None,
    };
    Some(number).filter(|number| number.is_finite())
}

/// What was given, in words.
fn given(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(list) if list.is_empty() => "an empty list".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Any text will do.
pub fn any(_: &str) -> Option<String> {
    None
}

/// Any but an empty one.
pub fn filled(text: &str) -> Option<String> {
    text.trim().is_empty().then(|| "an empty name is for nothing: leave it out".to_owned())
}
