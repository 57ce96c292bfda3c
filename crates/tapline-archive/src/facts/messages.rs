//! How the messages of a file are kept. Reports read all of them each time, so this is denser than a general format, and
//! several times quicker to read: most messages have the same names as the one before, and times go on.

use std::cell::RefCell;

use serde::de::{Error as _, Visitor};
use serde::{Deserializer, Serializer};

use super::{Call, CallEnd, Marks, Message};
use crate::money::Money;
use tapline_protocol::Tokens;

/// The names are those of the message before.
const SAME_NAMES: u8 = 1;
/// It has web searches.
const SEARCHES: u8 = 2;
/// It has calls.
const CALLS: u8 = 4;
/// It says what it cost.
const COST: u8 = 8;
/// No message takes fewer bytes than this.
const LEAST: usize = 18;
/// Memory for more messages than this is not kept.
const MOST: usize = 1 << 14;

thread_local! {
    /// Memory for messages that nobody needs any more. A report reads thousands of files, and new memory costs more than they do.
    static SPARE: RefCell<Vec<Message>> = const { RefCell::new(Vec::new()) };
}

/// Keeps the memory of messages that were read back, for the next file.
pub(super) fn reuse(mut messages: Vec<Message>) {
    SPARE.with_borrow_mut(|spare| {
        if (spare.capacity() + 1..=MOST).contains(&messages.capacity()) {
            messages.clear();
            *spare = messages;
        }
    });
}

pub(super) fn serialize<S: Serializer>(messages: &[Message], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(&packed(messages))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Message>, D::Error> {
    struct Packed;
    impl Visitor<'_> for Packed {
        type Value = Vec<Message>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("packed messages")
        }

        fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
            unpacked(bytes).ok_or_else(|| E::custom("damaged messages"))
        }
    }
    deserializer.deserialize_bytes(Packed).map_err(D::Error::custom)
}

fn packed(messages: &[Message]) -> Vec<u8> {
    let mut out = Vec::with_capacity(messages.len() * 40);
    number(&mut out, messages.len() as u64);
    let mut before = &Message::default();
    for message in messages {
        let is_same = names(message) == names(before);
        let has = |flag: u8, so: bool| if so { flag } else { 0 };
        let flags = has(SAME_NAMES, is_same)
            | has(SEARCHES, message.searches > 0)
            | has(CALLS, !message.calls.is_empty())
            | has(COST, message.cost.is_some());
        out.extend([flags, message.marks.0]);
        out.extend(message.id.to_le_bytes());
        // Small numbers whether it is later or earlier.
        let later = message.time.wrapping_sub(before.time).cast_signed();
        number(&mut out, (later << 1 ^ later >> 63).cast_unsigned());
        if !is_same {
            for name in names(message) {
                number(&mut out, name.into());
            }
        }
        let Tokens { input, output, cache_read, cache_write_5m, cache_write_1h, reasoning } = message.tokens;
        for count in [input, output, cache_read, cache_write_5m, cache_write_1h, reasoning, message.bytes] {
            number(&mut out, count);
        }
        if message.searches > 0 {
            number(&mut out, message.searches.into());
        }
        if !message.calls.is_empty() {
            number(&mut out, message.calls.len() as u64);
        }
        for call in &message.calls {
            out.extend(call.id.to_le_bytes());
            let ended = match call.ended {
                CallEnd::Ok => 0,
                CallEnd::Failed => 1,
                CallEnd::Denied => 2,
            };
            number(&mut out, u64::from(call.tool) << 2 | ended);
        }
        if let Some(cost) = message.cost {
            number(&mut out, cost.pico());
        }
        before = message;
    }
    out
}

/// Reads them back. Returns `None` if these are no messages.
fn unpacked(bytes: &[u8]) -> Option<Vec<Message>> {
    let mut left = Bytes(bytes);
    let count = usize::try_from(left.number()?).ok()?;
    // A damaged count takes no memory.
    let mut messages = SPARE.take();
    messages.reserve_exact(count.min(bytes.len() / LEAST));
    let (mut time, mut names) = (0_u64, [0_u32; 5]);
    for _ in 0..count {
        let [flags, marks] = left.take::<2>()?;
        let id = u64::from_le_bytes(left.take()?);
        let later = left.number()?;
        time = time.wrapping_add((later >> 1) ^ 0_u64.wrapping_sub(later & 1));
        if flags & SAME_NAMES == 0 {
            for name in &mut names {
                *name = left.number()?.try_into().ok()?;
            }
        }
        let tokens = Tokens {
            input: left.number()?,
            output: left.number()?,
            cache_read: left.number()?,
            cache_write_5m: left.number()?,
            cache_write_1h: left.number()?,
            reasoning: left.number()?,
        };
        let bytes = left.number()?;
        let searches = if flags & SEARCHES == 0 { 0 } else { left.number()?.try_into().ok()? };
        let calls = if flags & CALLS == 0 { Vec::new() } else { left.calls()? };
        let cost = if flags & COST == 0 { None } else { Some(Money::from_pico(left.number()?)) };
        let [session, model, folder, branch, subagent] = names;
        let marks = Marks(marks);
        messages.push(Message {
            id,
            time,
            session,
            model,
            folder,
            branch,
            subagent,
            tokens,
            searches,
            marks,
            bytes,
            calls,
            cost,
        });
    }
    left.0.is_empty().then_some(messages)
}

fn names(message: &Message) -> [u32; 5] {
    [message.session, message.model, message.folder, message.branch, message.subagent]
}

/// Writes a number: seven bits in each byte, the lowest first, and the eighth where more follow.
fn number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Bytes that are still to be read.
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, left) = self.0.split_first_chunk()?;
        self.0 = left;
        Some(*taken)
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        let (&first, left) = self.0.split_first()?;
        self.0 = left;
        if first < 0x80 { Some(first.into()) } else { self.rest(first) }
    }

    #[inline]
    fn rest(&mut self, first: u8) -> Option<u64> {
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let (&byte, left) = self.0.split_first()?;
            self.0 = left;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn calls(&mut self) -> Option<Vec<Call>> {
        let count = usize::try_from(self.number()?).ok()?;
        let mut calls = Vec::with_capacity(count.min(self.0.len() / 9));
        for _ in 0..count {
            let id = u64::from_le_bytes(self.take()?);
            let number = self.number()?;
            let ended = match number & 3 {
                0 => CallEnd::Ok,
                1 => CallEnd::Failed,
                2 => CallEnd::Denied,
                _ => return None,
            };
            calls.push(Call { id, tool: (number >> 2).try_into().ok()?, ended });
        }
        Some(calls)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message() -> impl Strategy<Value = Message> {
        // Small and large numbers, and names that repeat.
        let count = || prop_oneof![0..200_u64, any::<u64>()];
        let name = || prop_oneof![0..2_u32, any::<u32>()];
        let ended = prop_oneof![Just(CallEnd::Ok), Just(CallEnd::Failed), Just(CallEnd::Denied)];
        let call = (any::<u64>(), name(), ended).prop_map(|(id, tool, ended)| Call { id, tool, ended });
        let tokens = [count(), count(), count(), count(), count(), count()];
        let calls = prop::collection::vec(call, 0..4);
        let names = prop_oneof![Just([1, 2, 3, 4, 0]), [name(), name(), name(), name(), name()]];
        (any::<u64>(), count(), names, tokens, (count(), 0..3_u32, any::<u8>()), calls).prop_map(
            |(id, time, names, tokens, (bytes, searches, marks), calls)| {
                let [session, model, folder, branch, subagent] = names;
                let tokens = Tokens {
                    input: tokens[0],
                    output: tokens[1],
                    cache_read: tokens[2],
                    cache_write_5m: tokens[3],
                    cache_write_1h: tokens[4],
                    reasoning: tokens[5],
                };
                let (cost, marks) = ((marks > 99).then(|| Money::from_pico(time)), Marks(marks));
                Message { id, time, session, model, folder, branch, subagent, tokens, searches, marks, bytes, calls, cost }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_packed_is_read_back(messages in prop::collection::vec(message(), 0..6)) {
            let packed = packed(&messages);
            prop_assert!(packed.len() > messages.len() * LEAST);
            prop_assert_eq!(unpacked(&packed), Some(messages));
            for end in 0..packed.len() {
                prop_assert_eq!(unpacked(&packed[..end]), None, "the first {} bytes", end);
            }
        }

        #[test]
        fn any_bytes_are_messages_or_not(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpacked(&bytes);
        }
    }
}
