//! A view of one value in a checked text. Reading is lenient: a value of another type is `None`, never an error.

use std::borrow::Cow;

use super::unescape::unescape;
use super::walk::Walk;
use super::{Kind, Node};

/// One value in a checked text.
#[derive(Clone, Copy, Debug)]
pub struct Value<'t> {
    text: &'t str,
    nodes: &'t [Node],
    at: u32,
    depth: u32,
}

impl<'t> Value<'t> {
    pub(super) fn root(text: &'t str, nodes: &'t [Node]) -> Self {
        Self { text, nodes, at: 0, depth: 0 }
    }

    #[inline]
    fn node(self) -> Node {
        self.nodes[self.at as usize]
    }

    /// Returns the kind of the value.
    #[inline]
    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// Returns the value's own text.
    #[inline]
    pub fn raw(self) -> &'t str {
        let node = self.node();
        &self.text[node.start as usize..node.end as usize]
    }

    /// Returns how many containers the value is nested in. Code that reads recursive shapes uses it to stop.
    pub fn depth(self) -> u32 {
        self.depth
    }

    /// Returns the value and everything in it, in text order and without recursion.
    pub fn walk(self) -> Walk<'t> {
        Walk::new(self.text, self.nodes, self.at)
    }

    /// Returns a string's characters. Lone surrogates become U+FFFD.
    #[inline]
    pub fn as_str(self) -> Option<Cow<'t, str>> {
        let node = self.node();
        (node.kind == Kind::String).then(|| {
            let body = &self.text[node.start as usize + 1..node.end as usize - 1];
            if node.escaped { Cow::Owned(unescape(body)) } else { Cow::Borrowed(body) }
        })
    }

    /// Returns a literal `true` or `false`.
    pub fn as_bool(self) -> Option<bool> {
        match self.kind() {
            Kind::True => Some(true),
            Kind::False => Some(false),
            Kind::Null | Kind::Number | Kind::String | Kind::Array | Kind::Object => None,
        }
    }

    /// Returns a number's digits.
    pub fn as_number(self) -> Option<&'t str> {
        (self.kind() == Kind::Number).then(|| self.raw())
    }

    /// Returns the entries of an object in order, including repeated keys.
    #[inline]
    pub fn entries(self) -> Option<Entries<'t>> {
        (self.kind() == Kind::Object).then(|| Entries(self.children()))
    }

    /// Returns the entries of an object with the bytes of their keys. To compare a key with a name, bytes are enough and cost less: no
    /// place in the text has to be checked to be a character's.
    #[inline]
    pub(crate) fn fields(self) -> Option<Fields<'t>> {
        (self.kind() == Kind::Object).then(|| Fields(self.children()))
    }

    /// Returns the items of an array.
    #[inline]
    pub fn items(self) -> Option<Items<'t>> {
        (self.kind() == Kind::Array).then(|| self.children())
    }

    fn children(self) -> Items<'t> {
        Items { text: self.text, nodes: self.nodes, at: self.at + 1, end: self.node().next, depth: self.depth + 1 }
    }

    /// Returns the value at a key of an object. If the key is repeated, the last value counts.
    pub fn get(self, key: &str) -> Option<Value<'t>> {
        self.fields()?.filter(|(name, _)| **name == *key.as_bytes()).last().map(|(_, value)| value)
    }
}

/// An iterator over the items of an array. The default has none.
#[derive(Clone, Debug, Default)]
pub struct Items<'t> {
    text: &'t str,
    nodes: &'t [Node],
    at: u32,
    end: u32,
    depth: u32,
}

impl<'t> Iterator for Items<'t> {
    type Item = Value<'t>;

    #[inline]
    fn next(&mut self) -> Option<Value<'t>> {
        (self.at < self.end).then(|| {
            let value = Value { text: self.text, nodes: self.nodes, at: self.at, depth: self.depth };
            self.at = value.node().next;
            value
        })
    }
}

/// An iterator over the keys and values of an object. The default has none.
#[derive(Clone, Debug, Default)]
pub struct Entries<'t>(Items<'t>);

impl<'t> Iterator for Entries<'t> {
    type Item = (Cow<'t, str>, Value<'t>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let key = self.0.next()?.as_str()?;
        Some((key, self.0.next()?))
    }
}

/// An iterator over the keys, as bytes, and values of an object.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'t>(Items<'t>);

impl<'t> Iterator for Fields<'t> {
    type Item = (Cow<'t, [u8]>, Value<'t>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Items { text, nodes, at, end, depth } = &mut self.0;
        if at >= end {
            return None;
        }
        let key = nodes[*at as usize];
        let value = Value { text, nodes, at: *at + 1, depth: *depth };
        *at = value.node().next;
        let body = &text.as_bytes()[key.start as usize + 1..key.end as usize - 1];
        Some((if key.escaped { unescaped(body) } else { Cow::Borrowed(body) }, value))
    }
}

#[cold]
fn unescaped(body: &[u8]) -> Cow<'_, [u8]> {
    Cow::Owned(std::str::from_utf8(body).map_or_else(|_| body.to_vec(), |body| unescape(body).into_bytes()))
}
