//! Walks over everything in a value in text order, for readers that look at every string and key and need its position.
//! It does not recurse, so no depth can break it.

use std::ops::Range;

use super::{Kind, Node};

/// A key or a value, and its position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The kind of the value.
    pub kind: Kind,
    /// The position of its text, including quotes and brackets.
    pub place: Range<usize>,
    /// Whether this is a key of an object. The next token at this depth is its value.
    pub is_key: bool,
    /// Whether this is a string with escapes.
    pub is_escaped: bool,
    /// How many containers the token is nested in.
    pub depth: usize,
}

/// An iterator over the tokens of a value.
#[derive(Clone, Debug)]
pub struct Walk<'t> {
    text: &'t str,
    nodes: &'t [Node],
    at: u32,
    end: u32,
    /// The open containers: where each one ends, and for objects whether a key comes next.
    open: Vec<(u32, Option<bool>)>,
}

impl<'t> Walk<'t> {
    pub(super) fn new(text: &'t str, nodes: &'t [Node], at: u32) -> Self {
        Self { text, nodes, at, end: nodes[at as usize].next, open: Vec::new() }
    }

    /// Returns the text that the tokens' positions refer to.
    pub fn text(&self) -> &'t str {
        self.text
    }
}

impl Iterator for Walk<'_> {
    type Item = Token;

    #[inline]
    fn next(&mut self) -> Option<Token> {
        if self.at >= self.end {
            return None;
        }
        while self.open.last().is_some_and(|(end, _)| *end <= self.at) {
            self.open.pop();
        }
        let node = self.nodes[self.at as usize];
        let depth = self.open.len();
        let is_key = match self.open.last_mut() {
            Some((_, Some(key))) => std::mem::replace(key, !*key),
            Some((_, None)) | None => false,
        };
        match node.kind {
            Kind::Object => self.open.push((node.next, Some(true))),
            Kind::Array => self.open.push((node.next, None)),
            Kind::Null | Kind::True | Kind::False | Kind::Number | Kind::String => {}
        }
        self.at += 1;
        let place = node.start as usize..node.end as usize;
        Some(Token { kind: node.kind, place, is_key, is_escaped: node.escaped, depth })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tape;

    #[test]
    fn keys_and_values_in_the_order_of_the_text() {
        let text = r#" {"a":[1,{"b":"c"},[]],"d":{},"e":"f"} "#;
        let mut tape = Tape::default();
        let walk = tape.parse(text).unwrap().walk();
        let seen: Vec<_> = walk.map(|token| (token.depth, token.is_key, &text[token.place])).collect();
        let expected = [
            (0, false, text.trim()),
            (1, true, "\"a\""),
            (1, false, r#"[1,{"b":"c"},[]]"#),
            (2, false, "1"),
            (2, false, r#"{"b":"c"}"#),
            (3, true, "\"b\""),
            (3, false, "\"c\""),
            (2, false, "[]"),
            (1, true, "\"d\""),
            (1, false, "{}"),
            (1, true, "\"e\""),
            (1, false, "\"f\""),
        ];
        assert_eq!(seen, expected);
    }
}
