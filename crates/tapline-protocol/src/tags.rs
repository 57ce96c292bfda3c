//! Each agent's events by their `type`. Every agent has a table of its own, because agents use the same names for
//! different things.

use crate::json::{Kind, Value};

/// What an agent's folder knows about its lines. The agent's event type implements it.
pub(crate) trait Wire: Sized {
    /// Reads an object, unless the agent is not known to write its type.
    fn read_line(kind: &str, subtype: Option<&str>, value: Value<'_>) -> Option<Reading<Self>>;

    /// Returns how well a line fits this agent. Agents share names, so a line counts only if its shape fits, too.
    fn fit(reading: &Reading<Self>) -> Fit;

    /// Reads a whole document without a `type`, if the agent writes such documents.
    fn read_untyped_document(_value: Value<'_>) -> Option<Self> {
        None
    }

    /// If the line is from a version that is too old to read: returns what to tell the user.
    fn too_old(_value: Value<'_>) -> Option<&'static str> {
        None
    }

    /// If the line is from a session file that the agent keeps for itself: returns what to tell the user.
    fn in_transcript(_value: Value<'_>) -> Option<&'static str> {
        None
    }
}

/// How well a line fits an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// The line only looks like one of this agent's.
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

/// A line that was read.
pub(crate) struct Reading<E> {
    /// What could be read.
    pub(crate) event: E,
    /// How the shape differs from the expected one.
    pub(crate) error: Option<String>,
}

/// Keys that any event may have. They are read into [`Envelope`](crate::Envelope).
pub(crate) const COMMON: &[&str] = &["type", "subtype", "uuid", "session_id", "parent_tool_use_id", "timestamp"];

/// Defines an agent's events: `"type" => Variant(Shape);`, with `core key` for a field that must be an object. After `beyond`
/// come the events that have no tag.
macro_rules! tag_table {
    ($( $tag:literal => $variant:ident($shape:ty) $(core $core:ident)? ; )+
     beyond $( $(#[$meta:meta])* $other:ident($other_shape:ty); )*) => {
        /// The decoded content of one line. Only the session's fold matches it, exhaustively.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event {
            $( #[doc = concat!("`", $tag, "`")] $variant(Box<$shape>), )+
            $( $(#[$meta])* $other(Box<$other_shape>), )*
        }

        impl Event {
            /// Every tag that this version models: a type, or `system/<subtype>`.
            pub const TAGS: &'static [&'static str] = &[$($tag),+];

            /// Returns a static copy of a known tag, which needs no allocation.
            pub(crate) fn known_tag(tag: &str) -> Option<&'static str> {
                match tag {
                    $( $tag => Some($tag), )+
                    _ => None,
                }
            }

            /// Reads the event with this tag.
            fn read(tag: &str, value: $crate::json::Value<'_>) -> Option<$crate::tags::Reading<Self>> {
                match tag {
                    $( $tag => {
                        let shape = Box::new(<$shape as $crate::wire::Read>::read(value)?);
                        // What was read was an object.
                        let error = None $( .or_else(|| {
                            if $crate::wire::Field::present(&shape.$core) { None } else { $crate::tags::misshapen(value, stringify!($core)) }
                        }) )?;
                        Some($crate::tags::Reading { event: Self::$variant(shape), error })
                    } )+
                    _ => None,
                }
            }

            /// Returns the known keys of events with this tag, including those that all events have.
            pub fn known_keys(tag: &str) -> Option<impl Iterator<Item = &'static str>> {
                let keys: &'static [&'static str] = match tag {
                    $( $tag => <$shape as $crate::wire::WireShape>::KEYS, )+
                    _ => return None,
                };
                Some(keys.iter().chain($crate::tags::COMMON).copied())
            }
        }
    };
}
pub(crate) use tag_table;

/// Says what is wrong with a field that must be an object.
#[cold]
pub(crate) fn misshapen(value: Value<'_>, key: &str) -> Option<String> {
    match value.get(key).map(Value::kind) {
        Some(Kind::Object) => None,
        Some(found) => Some(format!("`{key}` is {found:?}, not object").to_lowercase()),
        None => Some(format!("`{key}` is missing")),
    }
}
