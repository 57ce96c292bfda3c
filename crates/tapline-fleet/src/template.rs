//! Texts with places to fill in: `Fix {repo}`. `{{` and `}}` stand for the braces themselves. A text is filled in once, so a
//! value that has braces stays as it is.

/// Why a text cannot be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A brace has no partner.
    #[error("`{0}` has no partner: write `{0}{0}` for the brace itself")]
    Brace(char),
    /// A place has no name.
    #[error("`{{}}` has no name between its braces: write `{{{{}}}}` for the braces themselves")]
    NoName,
    /// Nothing has this name.
    #[error("`{{{0}}}`: nothing has this name")]
    Unknown(String),
}

/// A piece of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    Text(&'t str),
    /// A place to fill in, by its name.
    Place(&'t str),
}

/// Splits a text into its pieces.
pub(crate) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        let brace = &rest[at..=at];
        let after = &rest[at + 1..];
        if after.starts_with(brace) {
            pieces.push(Piece::Text(brace));
            rest = &after[1..];
            continue;
        }
        if brace == "}" {
            return Err(TemplateError::Brace('}'));
        }
        let end = after.find(['{', '}']).filter(|end| after[*end..].starts_with('}')).ok_or(TemplateError::Brace('{'))?;
        let name = after[..end].trim();
        if name.is_empty() {
            return Err(TemplateError::NoName);
        }
        pieces.push(Piece::Place(name));
        rest = &after[end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

/// Fills in a text.
pub(crate) fn fill(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> Result<String, TemplateError> {
    let mut filled = String::with_capacity(text.len());
    for piece in pieces(text)? {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Place(name) => filled.push_str(&value(name).ok_or_else(|| TemplateError::Unknown(name.to_owned()))?),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, TemplateError> {
        fill(text, |name| (name == "repo").then(|| "a{b}".to_owned()))
    }

    #[test]
    fn places_are_filled_in_once() {
        assert_eq!(filled("Fix {repo}, { repo }."), Ok("Fix a{b}, a{b}.".to_owned()), "a value's braces stay");
        assert_eq!(filled("fn f() {{ {repo} }}"), Ok("fn f() { a{b} }".to_owned()));
        assert_eq!(filled("{{repo}}"), Ok("{repo}".to_owned()));
        assert_eq!(filled("{{{repo}}}"), Ok("{a{b}}".to_owned()));
        assert_eq!(filled(""), Ok(String::new()));
    }

    #[test]
    fn a_mistake_is_named() {
        assert_eq!(filled("{repos}"), Err(TemplateError::Unknown("repos".to_owned())));
        for (text, brace) in [("{", '{'), ("a } b", '}'), ("{repo", '{'), ("{a{repo}}", '{'), ("{repo}}", '}')] {
            assert_eq!(filled(text), Err(TemplateError::Brace(brace)), "{text}");
        }
        assert_eq!(filled("{ }"), Err(TemplateError::NoName));
        assert_eq!(TemplateError::Unknown("x".to_owned()).to_string(), "`{x}`: nothing has this name",);
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_escaped(text in ".*") {
            let escaped = text.replace('{', "{{").replace('}', "}}");
            proptest::prop_assert_eq!(fill(&escaped, |_| None), Ok(text));
        }
    }
}
