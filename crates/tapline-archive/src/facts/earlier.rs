//! What earlier versions of the index kept of a file: the same facts, in the shapes that they had.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tapline_session::SessionPhase;

use super::messages;
use super::{Call, CallEnd, Facts, Limit, Marks, Message, Name, Names, Reported, SoFar};
use tapline_protocol::Tokens;

/// A message, field by field.
type Plain = (u64, u64, Name, Name, Name, Name, Name, Tokens, u32, Marks, u64, Vec<Call>);
/// A limit that always said what is used.
type Used = (u64, u64, u64, u64);
/// What reading needed to go on, when it knew nothing of what was sent.
type Unsent = (Name, u64, bool, Option<Tokens>, u64, Vec<Call>, Vec<(u64, CallEnd)>);

/// The same, when it knew no service tiers.
type Untiered = (Name, u64, bool, Option<Tokens>, u64, Vec<Call>, Vec<(u64, CallEnd)>, (u64, u64));

/// Messages in the form that the index still has.
#[derive(Deserialize)]
struct Packed(#[serde(deserialize_with = "messages::deserialize")] Vec<Message>);

fn message(plain: Plain) -> Message {
    let (id, time, session, model, folder, branch, subagent, tokens, searches, marks, bytes, calls) = plain;
    Message { id, time, session, model, folder, branch, subagent, tokens, searches, marks, bytes, calls, cost: None }
}

fn all(plain: Vec<Plain>) -> Vec<Message> {
    plain.into_iter().map(message).collect()
}

fn used((time, minutes, used, resets): Used) -> Limit {
    Limit { time, minutes, used: Some(used), resets }
}

/// The facts before recordings had runs: with these messages, limits, and this at the end.
#[derive(Deserialize)]
struct Earlier<M, L, S> {
    agent: String,
    names: Names,
    session: Name,
    title: String,
    titled: bool,
    subagent: Name,
    version: Name,
    folder: Name,
    branch: Name,
    messages: M,
    reported: Vec<Reported>,
    limits: Vec<L>,
    prompts: u64,
    busy_ms: u64,
    first: Option<u64>,
    last: Option<u64>,
    end: SessionPhase,
    damaged: u64,
    /// Not used: nothing goes on where an earlier version stopped.
    #[expect(dead_code, reason = "it is read because the bytes must end behind it")]
    so_far: S,
}

/// Reads bytes as facts of one shape, all of them.
fn whole<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::take_from_bytes(bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(facts, _)| facts)
}

/// Reads facts of one of these shapes.
fn earlier<M: DeserializeOwned, L: DeserializeOwned, S: DeserializeOwned>(
    bytes: &[u8],
    messages: fn(M) -> Vec<Message>,
    limit: fn(L) -> Limit,
) -> Option<Facts> {
    let earlier: Earlier<M, L, S> = whole(bytes)?;
    let Earlier { agent, names, session, title, titled, subagent, version, folder, branch, .. } = earlier;
    let Earlier { reported, prompts, busy_ms, first, last, end, damaged, .. } = earlier;
    let (messages, limits) = (messages(earlier.messages), earlier.limits.into_iter().map(limit).collect());
    let (run, so_far) = (None, SoFar::default());
    Some(Facts {
        agent,
        names,
        session,
        title,
        titled,
        subagent,
        version,
        folder,
        branch,
        messages,
        reported,
        limits,
        prompts,
        busy_ms,
        first,
        last,
        run,
        phase: end,
        damaged,
        so_far,
    })
}

/// Reads facts of the present shape, as another program may have kept them: all of these bytes, or nothing. Until version 10, the last
/// field was not there, which is written as one zero.
pub(crate) fn present(bytes: &[u8]) -> Option<Facts> {
    whole(bytes).or_else(|| whole(&[bytes, &[0]].concat())).map(|facts| Facts { so_far: SoFar::default(), ..facts })
}

/// Reads facts that an index of this version kept, before it was 8. The shape of that version is tried first, then all others.
pub(crate) fn of_version(version: i64, bytes: &[u8]) -> Option<Facts> {
    type Read = fn(&[u8]) -> Option<Facts>;
    let shapes: [(i64, Read); 4] = [
        (6, |bytes| earlier::<Packed, Limit, Untiered>(bytes, |packed| packed.0, |limit| limit)),
        (5, |bytes| earlier::<Packed, Limit, Unsent>(bytes, |packed| packed.0, |limit| limit)),
        (4, |bytes| earlier::<Vec<Plain>, Limit, Unsent>(bytes, all, |limit| limit)),
        (2, |bytes| earlier::<Vec<Plain>, Used, Unsent>(bytes, all, used)),
    ];
    let own = shapes.iter().position(|(since, _)| *since <= version).unwrap_or(0);
    shapes[own..].iter().chain(&shapes[..own]).find_map(|(_, read)| read(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_version_9_have_no_tier_at_their_end() {
        let facts = Facts { agent: "codex".to_owned(), prompts: 7, ..Facts::default() };
        let bytes = postcard::to_stdvec(&facts).unwrap();
        assert_eq!(present(&bytes[..bytes.len() - 1]), Some(facts.clone()));
        assert_eq!(present(&bytes), Some(facts));
        assert_eq!(present(&bytes[..bytes.len() - 2]), None);
    }
}
