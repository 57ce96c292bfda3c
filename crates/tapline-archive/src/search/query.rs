//! What is searched for: words, phrases, prefixes, alternatives and filters, read from what a person typed. No text of theirs reaches the
//! database as syntax: it is taken apart into words here, and every word is quoted.

use std::fmt::Display;

use super::words::words;
use crate::said::EntryKind;

/// The filters that a search can have.
pub const FILTERS: [&str; 8] = ["agent", "branch", "is", "project", "session", "since", "tool", "until"];

/// The most terms that a search can have.
const MOST_TERMS: usize = 32;
/// The shortest beginning of a word that can be searched for.
const SHORTEST_PREFIX: usize = 2;

/// Why a search cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// There is nothing to search for.
    #[error("nothing to search for: name a word, a \"phrase\" or a filter")]
    Empty,
    /// A term has no word in it.
    #[error("`{0}` has no letter or digit to search for")]
    NoWord(String),
    /// A prefix is too short.
    #[error("`{0}*` begins too many words: write at least two letters before the `*`")]
    ShortPrefix(String),
    /// There are too many terms.
    #[error("too many words: a search can have 32")]
    TooLong,
    /// There is nothing to choose from.
    #[error("`OR` stands between two words or phrases, as in `error OR warning`; to search for the word, write `or`")]
    Or,
    /// There is no such filter.
    #[error("there is no filter `{name}:`; there are {known}; to search for the text itself, put it into double quotes")]
    NoFilter {
        /// Its name.
        name: String,
        /// The names of all filters.
        known: String,
    },
    /// A filter cannot have this value.
    #[error("`{name}:{value}` is not possible: {why}")]
    BadValue {
        /// The name of the filter.
        name: String,
        /// Its value.
        value: String,
        /// What it can be.
        why: String,
    },
}

/// Words that must follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) words: Vec<String>,
    /// Whether the last word is only the beginning of one.
    pub(super) prefix: bool,
    /// Whether it may stand in place of the one before it.
    pub(super) or: bool,
}

/// What a text must be, beside its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    Agent(String),
    Branch(String),
    Project(String),
    Session(String),
    Tool(String),
    Kind(EntryKind),
    Error,
    Subagent,
}

/// What is searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// What must be there.
    pub(super) terms: Vec<Term>,
    pub(super) without: Vec<Term>,
    /// Whether each filter must hold, or must not.
    pub(super) filters: Vec<(bool, Filter)>,
    /// Only from this time on, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Only before this time, in milliseconds since 1970.
    pub until: Option<u64>,
}

impl SearchQuery {
    /// Reads what a person typed. `time` reads a time, as in `since:7d`, or says why it cannot.
    ///
    /// ```
    /// use tapline_archive::search::SearchQuery;
    ///
    /// let time = |_: &str| Err("no times here");
    /// assert!(SearchQuery::parse("\"connection refused\" time* -retry tool:Bash is:error", time).is_ok());
    /// assert!(SearchQuery::parse("colour:red", time).unwrap_err().to_string().contains("no filter `colour:`"));
    /// ```
    pub fn parse<E: Display>(text: &str, time: impl Fn(&str) -> Result<u64, E>) -> Result<Self, QueryError> {
        let time = |text: &str| time(text).map_err(|error| error.to_string());
        let mut query = Self::default();
        let mut rest = text.trim_start();
        // Whether the last one was a term, and whether it was an `OR`.
        let (mut was_term, mut is_or) = (false, false);
        while !rest.is_empty() {
            if let Some(behind) =
                rest.strip_prefix("OR").filter(|behind| behind.trim_start().len() < behind.len() || behind.is_empty())
            {
                if !was_term {
                    return Err(QueryError::Or);
                }
                (was_term, is_or, rest) = (false, true, behind.trim_start());
                continue;
            }
            let terms = query.terms.len();
            let negative = rest.len() > 1 && rest.starts_with('-') && !rest[1..].starts_with(char::is_whitespace);
            let token = if negative { &rest[1..] } else { rest };
            rest = query.take(token, negative, &time)?.trim_start();
            was_term = query.terms.len() > terms;
            match query.terms.last_mut() {
                Some(term) if is_or && was_term => term.or = true,
                _ if is_or => return Err(QueryError::Or),
                _ => {}
            }
            is_or = false;
            if query.terms.len() + query.without.len() + query.filters.len() > MOST_TERMS {
                return Err(QueryError::TooLong);
            }
        }
        if is_or {
            return Err(QueryError::Or);
        }
        let is_empty = query.terms.is_empty() && query.without.is_empty() && query.filters.is_empty();
        if is_empty && query.since.is_none() && query.until.is_none() {
            return Err(QueryError::Empty);
        }
        Ok(query)
    }

    /// One word of the index.
    pub(super) fn word(word: &str) -> Self {
        Self { terms: vec![Term { words: vec![word.to_owned()], prefix: false, or: false }], ..Self::default() }
    }

    /// Takes one term or filter. Returns the rest.
    fn take<'t>(
        &mut self,
        token: &'t str,
        negative: bool,
        time: &impl Fn(&str) -> Result<u64, String>,
    ) -> Result<&'t str, QueryError> {
        if let Some(quoted) = token.strip_prefix('"') {
            // A quote that is not closed goes to the end.
            let (text, rest) = quoted.split_once('"').unwrap_or((quoted, ""));
            let (prefix, rest) = rest.strip_prefix('*').map_or((false, rest), |rest| (true, rest));
            self.term(text, prefix, negative)?;
            return Ok(rest);
        }
        let end = token.find(char::is_whitespace).unwrap_or(token.len());
        if let Some((name, value)) = filter_of(&token[..end]) {
            // The value can be quoted, and then have blanks.
            let behind = &token[name.len() + 1..];
            let (value, rest) = match behind.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => (value, &token[end..]),
            };
            self.filter(name, value, negative, time)?;
            return Ok(rest);
        }
        // A quote in the middle of a word ends it.
        let end = token[..end].find('"').unwrap_or(end);
        let (text, prefix) = token[..end].strip_suffix('*').map_or((&token[..end], false), |text| (text, true));
        self.term(text, prefix, negative)?;
        Ok(&token[end..])
    }

    fn term(&mut self, text: &str, prefix: bool, negative: bool) -> Result<(), QueryError> {
        let words: Vec<String> = words(text).into_iter().map(|(word, _)| word).collect();
        let Some(last) = words.last() else { return Err(QueryError::NoWord(text.to_owned())) };
        if prefix && last.chars().count() < SHORTEST_PREFIX && last.is_ascii() {
            return Err(QueryError::ShortPrefix(text.to_owned()));
        }
        // A prefix that ends in a sign, as in `foo-*`, means the words before it.
        let prefix = prefix && text.ends_with(char::is_alphanumeric);
        if negative { &mut self.without } else { &mut self.terms }.push(Term { words, prefix, or: false });
        Ok(())
    }

    fn filter(
        &mut self,
        name: &str,
        value: &str,
        negative: bool,
        time: &impl Fn(&str) -> Result<u64, String>,
    ) -> Result<(), QueryError> {
        let bad = |why: String| QueryError::BadValue { name: name.to_owned(), value: value.to_owned(), why };
        if value.is_empty() {
            return Err(bad("a value must follow the colon".to_owned()));
        }
        let owned = || value.to_owned();
        let filter =
            match name {
                "since" | "until" if negative => return Err(bad("a time cannot be excluded".to_owned())),
                "since" => {
                    self.since = Some(time(value).map_err(bad)?);
                    return Ok(());
                }
                "until" => {
                    self.until = Some(time(value).map_err(bad)?);
                    return Ok(());
                }
                "agent" => Filter::Agent(owned()),
                "branch" => Filter::Branch(owned()),
                "project" => Filter::Project(owned()),
                "session" => Filter::Session(owned()),
                "tool" => Filter::Tool(owned()),
                "is" => match value {
                    "error" => Filter::Error,
                    "subagent" => Filter::Subagent,
                    _ => {
                        let kind = EntryKind::ALL.into_iter().find(|kind| kind.name() == value);
                        Filter::Kind(kind.ok_or_else(|| {
                            bad("it can be answer, call, error, output, prompt, subagent or thinking".to_owned())
                        })?)
                    }
                },
                _ => {
                    let known = FILTERS.map(|name| format!("{name}:")).join(", ");
                    return Err(QueryError::NoFilter { name: name.to_owned(), known });
                }
            };
        self.filters.push((!negative, filter));
        Ok(())
    }
}

/// Returns the name and the value of a filter, if this is one. Addresses, paths and Rust's `a::b` are not filters.
fn filter_of(token: &str) -> Option<(&str, &str)> {
    let (name, value) = token.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_other = value.starts_with([':', '/', '\\']) || !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_known = FILTERS.contains(&name);
    (is_name && (is_known || !is_other && !value.is_empty())).then_some((name, value))
}

impl Term {
    /// Writes it as the database reads it. Words have no sign of ASCII.
    pub(super) fn written(&self) -> String {
        format!("\"{}\"{}", self.words.join(" "), if self.prefix { " *" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<SearchQuery, QueryError> {
        SearchQuery::parse(text, |time| if time == "7d" { Ok(7) } else { Err("not a time".to_owned()) })
    }

    fn term(words: &[&str], prefix: bool) -> Term {
        Term { words: words.iter().map(|word| (*word).to_owned()).collect(), prefix, or: false }
    }

    #[test]
    fn words_phrases_prefixes_and_exclusions() {
        let query =
            parse(r#"Panic "index out of" wor* -retry -"not found" foo_bar src/main.rs:12 std::fs https://a.b"#).unwrap();
        let terms = [
            term(&["panic"], false),
            term(&["index", "out", "of"], false),
            term(&["wor"], true),
            term(&["foo", "bar"], false),
            term(&["src", "main", "rs", "12"], false),
            term(&["std", "fs"], false),
            term(&["https", "a", "b"], false),
        ];
        assert_eq!(query.terms, terms);
        assert_eq!(query.without, [term(&["retry"], false), term(&["not", "found"], false)]);
    }

    #[test]
    fn alternatives() {
        let or = |words: &[&str]| Term { or: true, ..term(words, false) };
        let query = parse(r#"panic "not found" OR absent  OR gone tool:Bash or"#).unwrap();
        let terms =
            [term(&["panic"], false), term(&["not", "found"], false), or(&["absent"]), or(&["gone"]), term(&["or"], false)];
        assert_eq!(query.terms, terms);
        assert_eq!(parse("ORacle \"OR\"").unwrap().terms, [term(&["oracle"], false), term(&["or"], false)]);
        for wrong in ["OR", "OR a", "a OR", "a OR OR b", "a OR -b", "-a OR b", "a OR tool:Bash", "tool:Bash OR a"] {
            assert_eq!(parse(wrong), Err(QueryError::Or), "{wrong}");
        }
    }

    #[test]
    fn filters() {
        let query = parse(r#"tool:Bash -tool:mcp__db* project:"my app" is:error -is:prompt since:7d x"#).unwrap();
        let filters = [
            (true, Filter::Tool("Bash".to_owned())),
            (false, Filter::Tool("mcp__db*".to_owned())),
            (true, Filter::Project("my app".to_owned())),
            (true, Filter::Error),
            (false, Filter::Kind(EntryKind::Prompt)),
        ];
        assert_eq!(query.filters, filters);
        assert_eq!(query.since, Some(7));
        assert_eq!(query.terms, [term(&["x"], false)]);
    }

    #[test]
    fn mistakes_are_explained() {
        let wrong = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(wrong("  "), "nothing to search for: name a word, a \"phrase\" or a filter");
        assert!(wrong("tools:Bash").contains("there are agent:, branch:, is:, project:, session:, since:, tool:, until:"));
        assert!(wrong("is:bad").contains("answer, call, error, output, prompt, subagent or thinking"));
        assert_eq!(wrong("since:later"), "`since:later` is not possible: not a time");
        assert_eq!(wrong("->"), "`>` has no letter or digit to search for");
        assert!(wrong("a*").contains("two letters"));
        assert!(wrong("tool:").contains("must follow the colon"));
        assert_eq!(parse(&"a ".repeat(33)), Err(QueryError::TooLong));
    }

    proptest! {
        /// Whatever is typed is either a query or an error, and no sign of it reaches the database.
        #[test]
        fn any_text_can_be_read(text in r#"[a-z"*:( )^+\-{}\\'%_NOTR日\n]{0,60}"#) {
            if let Ok(query) = parse(&text) {
                for term in query.terms.iter().chain(&query.without) {
                    let written = term.written();
                    let inner = written.trim_end_matches(" *").trim_matches('"');
                    prop_assert!(!inner.is_empty() && inner.chars().all(|c| c.is_alphanumeric() || c == ' ' || !c.is_ascii()));
                }
            }
        }
    }
}
