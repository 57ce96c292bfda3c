//! One value of a report, for `--get PATH`.

use std::fmt;

use tapline_protocol::{Json, Kind, Value};

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GetError {
    /// The path is not valid.
    Syntax,
    /// The value does not exist: an index past the end of a list, or a key below null.
    Nothing,
    /// The value is null or an empty string.
    Empty,
    /// There is no such key.
    NoKey {
        /// The key.
        key: String,
        /// The known keys in its place.
        known: Vec<String>,
        /// The path that was probably meant.
        meant: Option<String>,
    },
    /// The value is a list.
    List {
        /// The path of the list.
        path: String,
        /// The path for every item.
        meant: String,
    },
    /// The value is not a list.
    NoList {
        /// The path.
        path: String,
    },
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str("a path is like session.id, turns[0].result, turns[-1].is_error or tools.calls[].name"),
            Self::Nothing => f.write_str("it does not exist"),
            Self::Empty => f.write_str("it is null or empty"),
            Self::NoKey { key, meant: Some(meant), .. } => write!(f, "there is no `{key}`: did you mean `{meant}`?"),
            Self::NoKey { key, known, meant: None } => write!(f, "there is no `{key}`; the keys are {}", known.join(", ")),
            Self::List { path, meant } => write!(f, "`{path}` is a list: write {meant} for every item, [0] or [-1] for one"),
            Self::NoList { path } => write!(f, "`{path}` is not a list"),
        }
    }
}

impl std::error::Error for GetError {}

/// Returns the value at a path like `session.id`, `turns[-1].result` or `tools.calls[].name` (one line for each item
/// of the list): strings without quotes, anything else as JSON.
///
/// ```
/// let report = r#"{"answer":"4","tools":{"calls":[{"name":"Bash"},{"name":"Read"}]}}"#;
/// assert_eq!(tapline_session::get(report, "answer").as_deref(), Ok("4"));
/// assert_eq!(tapline_session::get(report, "tools.calls[].name").as_deref(), Ok("Bash\nRead"));
/// assert!(tapline_session::get(report, "session.id").is_err());
/// ```
pub fn get(report: &str, path: &str) -> Result<String, GetError> {
    let path = parse(path).ok_or(GetError::Syntax)?;
    let found = Json::parse(report).ok().and_then(|json| {
        json.with(|value| {
            let mut found = Vec::new();
            follow(value, &path, &mut found)?;
            Ok(found)
        })
    });
    let found: Vec<String> = found.unwrap_or(Err(GetError::Nothing))?;
    let maps = path.contains(&Part::Each);
    match found.as_slice() {
        [] if !maps => Err(GetError::Nothing),
        [only] if !maps && only.is_empty() => Err(GetError::Empty),
        all => Ok(all.join("\n")),
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Part<'p> {
    Key(&'p str),
    At(usize),
    FromEnd(usize),
    Each,
}

pub(super) fn parse(path: &str) -> Option<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    for piece in path.strip_prefix('.').unwrap_or(path).split('.') {
        let (key, mut rest) = piece.split_at(piece.find('[').unwrap_or(piece.len()));
        if !key.is_empty() {
            parts.push(Part::Key(key));
        } else if rest.is_empty() {
            return None;
        }
        while let Some(inner) = rest.strip_prefix('[') {
            let (index, behind) = inner.split_once(']')?;
            parts.push(match index.strip_prefix('-') {
                Some(index) => Part::FromEnd(index.parse().ok().filter(|index| *index > 0)?),
                None if index.is_empty() => Part::Each,
                None => Part::At(index.parse().ok()?),
            });
            rest = behind;
        }
        if !rest.is_empty() {
            return None;
        }
    }
    Some(parts)
}

fn follow(value: Value<'_>, path: &[Part<'_>], found: &mut Vec<String>) -> Result<(), GetError> {
    let Some((part, rest)) = path.split_first() else {
        if value.kind() == Kind::Null {
            return Err(GetError::Empty);
        }
        found.push(value.as_str().map_or_else(|| value.raw().to_owned(), std::borrow::Cow::into_owned));
        return Ok(());
    };
    let item = |from_end: usize| {
        let items = value.items()?;
        items.clone().nth(items.count().checked_sub(from_end)?)
    };
    let next = match part {
        // What an agent says beside the report's own keys is below `own`.
        Part::Key(key) => match (value.get(key).or_else(|| value.get("own")?.get(key)), value.entries()) {
            (None, Some(entries)) => {
                let known = entries.map(|(key, _)| key.into_owned()).collect();
                return Err(GetError::NoKey { key: (*key).to_owned(), known, meant: None });
            }
            (next, _) => next,
        },
        Part::At(index) => value.items().and_then(|mut items| items.nth(*index)),
        Part::FromEnd(index) => item(*index),
        Part::Each => {
            // Items differ. A key that no item has is a mistake; a key that some lack is not.
            let outcomes: Vec<_> = value.items().into_iter().flatten().map(|item| follow(item, rest, found)).collect();
            let is_there = |outcome: &Result<(), GetError>| matches!(outcome, Ok(()) | Err(GetError::Empty));
            let any = outcomes.is_empty() || outcomes.iter().any(is_there);
            return if any { Ok(()) } else { outcomes.into_iter().next().unwrap_or(Ok(())) };
        }
    };
    next.map_or(Ok(()), |next| follow(next, rest, found))
}
