//! Lines that two programs wrote into, or that lost their newline: an object starts in the middle.

use tapline_protocol::{Kind, SyntaxError, check_text};

/// How many starts are tried. Each try reads the rest of the line.
const TRIES: usize = 64;

/// Says what happened to a malformed line, if it contains the start or the end of another.
pub(super) fn diagnose(line: &str) -> Option<String> {
    if let Err(SyntaxError::At { offset, .. }) = check_text(line)
        && line.is_char_boundary(offset)
        && check_text(&line[..offset]) == Ok(Kind::Object)
        && line[offset..].starts_with('{')
    {
        return Some(format!("two objects on one line: the second starts at column {}", offset + 1));
    }
    let starts = line.match_indices("{\"").map(|(at, _)| at).filter(|at| *at > 0);
    let whole =
        starts.take(TRIES).find(|at| check_text(&line[*at..]) == Ok(Kind::Object) && line[*at..].contains("\"type\""))?;
    Some(format!("spliced: a line was cut, and another starts at column {}", whole + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splices() {
        assert_eq!(
            diagnose(r#"{"type":"a"}{"type":"b"}"#).as_deref(),
            Some("two objects on one line: the second starts at column 13")
        );
        assert_eq!(
            diagnose(r#"{"type":"assist{"type":"result"}"#).as_deref(),
            Some("spliced: a line was cut, and another starts at column 16")
        );
        assert_eq!(diagnose("plain words"), None);
        assert_eq!(diagnose(r#"{"type":"cut","#), None);
    }
}
