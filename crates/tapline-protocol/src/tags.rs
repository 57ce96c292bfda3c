//! How an agent's events are told apart: one row a `type` in a table of its own, because agents use the same names for other things.

use crate::json::{Kind, Value};

/// What an agent's folder knows of its lines: its events implement it.
pub(crate) trait Wire: Sized {
    /// Reads an object, unless it is of a type that the agent is not known to write.
    fn read_line(kind: &str, subtype: Option<&str>, value: Value<'_>) -> Option<Reading<Self>>;

    /// How well a line fits that was read like this. Agents borrow names from each other: a line counts only where its shape is
    /// this agent's, too.
    fn fit(reading: &Reading<Self>) -> Fit;

    /// Reads a whole document without a type, if the agent writes such.
    fn read_untyped_document(_value: Value<'_>) -> Option<Self> {
        None
    }

    /// What to say of a line that a version wrote which is too old to be read.
    fn too_old(_value: Value<'_>) -> Option<&'static str> {
        None
    }

    /// What to say of a line of a session file that the agent keeps for itself.
    fn in_transcript(_value: Value<'_>) -> Option<&'static str> {
        None
    }
}

/// How well a line fits an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// It only looks like one of this agent's.
    Not,
    /// It can be read so, which says nothing.
    Open,
    /// This agent writes such lines, and so do many others.
    Possible,
    /// This agent writes such lines, and others may.
    Likely,
    /// Only this agent writes such lines.
    Sure,
}

/// An event that was read.
pub(crate) struct Reading<E> {
    /// What could be read.
    pub(crate) event: E,
    /// What is not as it was, where its shape has changed.
    pub(crate) error: Option<String>,
}

/// Keys that any event may carry (read into [`Envelope`](crate::Envelope)).
pub(crate) const COMMON: &[&str] = &["type", "subtype", "uuid", "session_id", "parent_tool_use_id", "timestamp"];

/// Defines an agent's events: `"type" => Variant(Shape);`, with `core "key": Kind` for what must be there; then, behind
/// `beyond`, those that no tag names.
macro_rules! tag_table {
    ($( $tag:literal => $variant:ident($shape:ty) $(core $core:literal: $kind:ident)? ; )+
     beyond $( $(#[$meta:meta])* $other:ident($other_shape:ty); )*) => {
        /// What one line says. It is matched exhaustively in the session's fold, and nowhere else.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event {
            $( #[doc = concat!("`", $tag, "`")] $variant(Box<$shape>), )+
            $( $(#[$meta])* $other(Box<$other_shape>), )*
        }

        impl Event {
            /// Every tag this version models: a type, or `system/<subtype>`.
            pub const TAGS: &'static [&'static str] = &[$($tag),+];

            /// The one copy of a known tag: most lines need none of their own.
            pub(crate) fn known_tag(tag: &str) -> Option<&'static str> {
                match tag {
                    $( $tag => Some($tag), )+
                    _ => None,
                }
            }

            /// Reads the event of a tag.
            fn read(tag: &str, value: $crate::json::Value<'_>) -> Option<$crate::tags::Reading<Self>> {
                match tag {
                    $( $tag => Some($crate::tags::Reading {
                        event: Self::$variant(Box::new(<$shape as $crate::wire::Read>::read(value)?)),
                        error: None $( .or($crate::tags::misshapen(value, $core, $crate::json::Kind::$kind)) )?,
                    }), )+
                    _ => None,
                }
            }

            /// The keys that events of this tag are known to have, beside those that all have.
            pub fn known_keys(tag: &str) -> Option<impl Iterator<Item = &'static str>> {
                let keys: &'static [&'static str] = match tag {
                    $( $tag => <$shape as $crate::wire::Shape>::KEYS, )+
                    _ => return None,
                };
                Some(keys.iter().chain($crate::tags::COMMON).copied())
            }
        }
    };
}
pub(crate) use tag_table;

/// What is wrong with a core field.
pub(crate) fn misshapen(value: Value<'_>, key: &str, kind: Kind) -> Option<String> {
    match value.get(key).map(Value::kind) {
        Some(found) if found == kind => None,
        Some(found) => Some(format!("`{key}` is {found:?}, not {kind:?}").to_lowercase()),
        None => Some(format!("`{key}` is missing")),
    }
}
