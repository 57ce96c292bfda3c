//! Files of rules (policies, permission rules): their keys and values. An error names the line, the key, what was given
//! and what is expected, because people who write such files know TOML at best, and never our types.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::text::nearest;

/// Why rules could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongRules {
    said: String,
    belongs_in: Option<RuleFile>,
}

impl WrongRules {
    /// The other kind of file, if the rules are rules of that kind.
    pub fn belongs_in(&self) -> Option<RuleFile> {
        self.belongs_in
    }
}

impl std::fmt::Display for WrongRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.said)
    }
}

impl std::error::Error for WrongRules {}

/// A kind of file with rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleFile {
    /// A [policy](crate::policy::Policy).
    Policy,
    /// [Permission rules](crate::permission::Permissions).
    Permissions,
    /// The configuration of a program.
    Config,
}

impl std::fmt::Display for RuleFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Policy => "a policy",
            Self::Permissions => "a permission file",
            Self::Config => "config.toml",
        })
    }
}

/// What a kind of file may hold.
#[derive(Debug)]
pub struct File {
    /// The kind.
    pub kind: RuleFile,
    /// The keys that it may have.
    pub keys: &'static [Key],
    /// An example.
    pub example: &'static str,
    /// The keys of the other kind, which it may be taken for.
    pub other: (&'static [&'static str], RuleFile),
}

/// A key, its kind of value, and an example.
#[derive(Debug)]
pub struct Key(pub &'static str, pub Holds, pub &'static str);

/// Says why a text is wrong, if it is.
pub type Wrong = fn(&str) -> Option<String>;

/// The kind of value of a key.
#[derive(Clone, Copy, Debug)]
pub enum Holds {
    /// A name or a list of names.
    Names(Wrong),
    /// A list of texts.
    List(Wrong),
    /// A name or a list of names, at least one.
    SomeNames(Wrong),
    /// A text.
    Text(Wrong),
    /// True or false.
    Flag,
    /// A whole number, 0 or greater.
    Count,
    /// A number, 0 or greater.
    Amount,
    /// A number greater than 0.
    SomeAmount,
    /// A table with these keys.
    Table(&'static [Key]),
    /// A list of tables. The first of these keys is required.
    Rules(&'static [Key]),
}

/// Reads a file of this kind.
pub fn read<T: serde::de::DeserializeOwned>(text: &str, file: &File) -> Result<T, WrongRules> {
    let at = |place: usize, why: &str| {
        let line = text.bytes().take(place).filter(|byte| *byte == b'\n').count() + 1;
        WrongRules { said: format!("line {line}: {why}"), belongs_in: None }
    };
    let of_error = |error: &toml::de::Error, why: &str| match error.span() {
        Some(span) => at(span.start, why),
        None => WrongRules { said: why.to_owned(), belongs_in: None },
    };
    let table = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start).min(text.len());
        let start = text.as_bytes()[..place].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        // What the parser expects helps people only if it is a character.
        let why = error.message().split(", expected ").next().unwrap_or_default();
        let sign = error.message().strip_prefix(why).filter(|rest| rest.contains('`')).unwrap_or_default();
        of_error(&error, &format!("`{}` is not TOML: {why}{sign}; it is written like {}", line.trim(), file.example))
    })?;
    let (others, kind) = file.other;
    if let Some(key) = table.get_ref().keys().find(|key| others.contains(&key.get_ref().as_ref())) {
        let why = format!("`{}` does not belong in {}, but in {kind}. {}", key.get_ref(), file.kind, known(file.keys));
        return Err(WrongRules { belongs_in: Some(kind), ..at(key.span().start, &why) });
    }
    match top(table.get_ref(), file) {
        Err((place, why)) => Err(at(place, &why)),
        Ok(()) => toml::from_str(text).map_err(|error| of_error(&error, error.message())),
    }
}

/// The position of a mistake, and a description.
type Checked = Result<(), (usize, String)>;

fn top(table: &DeTable<'_>, file: &File) -> Checked {
    for key in table.keys() {
        let (name, at) = (key.get_ref().as_ref(), key.span().start);
        let within = |Key(_, holds, _): &&Key| matches!(holds, Holds::Table(keys) if keys.iter().any(|key| key.0 == name));
        if let Some(Key(of, ..)) = file.keys.iter().find(within).filter(|_| !file.keys.iter().any(|key| key.0 == name)) {
            return Err((at, format!("`{name}` belongs below [{of}]: write that on a line of its own before it")));
        }
    }
    keys_of(table, file.keys, "", &file.kind.to_string())
}

/// Lists the known keys.
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
                    let why =
                        format!("`{path}` contains {}, but may contain only {what}, like {example}", given(name.get_ref()));
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

/// Returns a whole number in any notation: `255`, `0xFF`, `0o377`, `0b1111_1111`.
fn whole(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Returns a number, if it is finite.
fn amount(value: &DeValue<'_>) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "no ceiling needs more than 52 bits")]
    let number = match value {
        DeValue::Integer(number) => whole(number)? as f64,
        DeValue::Float(number) => number.as_str().parse().ok()?,
        DeValue::String(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => return None,
    };
    Some(number).filter(|number| number.is_finite())
}

/// Describes the given value.
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

/// Accepts any text.
pub fn any(_: &str) -> Option<String> {
    None
}

/// Accepts any text that is not empty.
pub fn filled(text: &str) -> Option<String> {
    text.trim().is_empty().then(|| "an empty name matches nothing: leave it out".to_owned())
}
