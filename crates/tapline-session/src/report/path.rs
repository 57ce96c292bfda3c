//! `--get PATH`: one value of a report, raw.

use tapline_protocol::{Json, Kind, Value};

/// The value at a path like `session.id`, `turns[0].result` or `tools.calls[].name` (which maps over the list),
/// as a script wants it: a string raw, anything else as JSON. `None` where there is none, or it is null.
///
/// ```
/// let report = r#"{"answer":"4","tools":{"calls":[{"name":"Bash"},{"name":"Read"}]}}"#;
/// assert_eq!(tapline_session::get(report, "answer").as_deref(), Some("4"));
/// assert_eq!(tapline_session::get(report, "tools.calls[].name").as_deref(), Some("Bash\nRead"));
/// assert_eq!(tapline_session::get(report, "session.id"), None);
/// ```
pub fn get(report: &str, path: &str) -> Option<String> {
    let path = parse(path)?;
    Json::parse(report).ok()?.with(|value| {
        let mut found = Vec::new();
        follow(value, &path, &mut found);
        let maps = path.contains(&Part::Each);
        if found.is_empty() && !maps { None } else { Some(found.join("\n")) }
    })?
}

#[derive(Debug, PartialEq)]
enum Part<'p> {
    Key(&'p str),
    At(usize),
    Last,
    Each,
}

fn parse(path: &str) -> Option<Vec<Part<'_>>> {
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
            parts.push(match index {
                "" => Part::Each,
                "-1" => Part::Last,
                index => Part::At(index.parse().ok()?),
            });
            rest = behind;
        }
        if !rest.is_empty() {
            return None;
        }
    }
    Some(parts)
}

fn follow(value: Value<'_>, path: &[Part<'_>], found: &mut Vec<String>) {
    let Some((part, rest)) = path.split_first() else {
        if value.kind() != Kind::Null {
            found.push(value.as_str().map_or_else(|| value.raw().to_owned(), std::borrow::Cow::into_owned));
        }
        return;
    };
    let next = match part {
        Part::Key(key) => value.get(key),
        Part::At(index) => value.items().and_then(|mut items| items.nth(*index)),
        Part::Last => value.items().and_then(Iterator::last),
        Part::Each => {
            for item in value.items().into_iter().flatten() {
                follow(item, rest, found);
            }
            return;
        }
    };
    if let Some(next) = next {
        follow(next, rest, found);
    }
}
