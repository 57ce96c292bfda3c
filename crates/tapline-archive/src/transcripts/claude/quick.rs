//! Lines of answers, read without parsing the whole line. The content of an answer is most of its line, and only its calls
//! matter: a search finds them. Claude Code writes one line for each block of an answer, and apart from the content most of
//! each line repeats the line before: such a line is compared with it, which is quicker still.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use tapline_protocol::Moment;
use tapline_session::{needs_a_person, parse_moment};

use super::{Envelope, answer, ended_with, envelope_read};
use crate::facts::{Call, CallEnd, Message, hash};
use crate::transcripts::Reading;

/// The length of a line's id.
const UUID: usize = 36;
/// The length of a time: `2026-11-16T15:18:11.761Z`.
const TIME: usize = 24;
/// What stands between the content and the tokens of a message is not longer than this.
const STOP: usize = 128;
/// Fields of a line that say something about its block only. The last one is always there, in versions that have them.
const OF_BLOCK: [&[u8]; 4] =
    [b"\"thinkingDurationMs\":", b"\"thinkingDisplay\":", b"\"toolInputStreamMs\":", b"\"apiBlockIndex\":"];

static CONTENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"content\":["));
static STOPPED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("],\"stop_reason\":"));
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(",\"usage\":{"));
static BLOCK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"apiBlockIndex\":"));
static REQUEST: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"requestId\":\""));
static ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"uuid\":\""));
static CALL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"type\":\"tool_use\""));
/// Two lines that run into each other have it twice.
static LINE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"parentUuid\""));

/// A line, cut where further lines of its message differ.
struct Cut<'l> {
    /// What the lines of a message have in common.
    same: [&'l [u8]; 4],
    /// Everything up to the content.
    before: &'l [u8],
    content: &'l [u8],
    /// Everything behind the content.
    behind: &'l [u8],
    /// The reason why the message ended, as it is written.
    stop: &'l [u8],
    time: &'l [u8],
}

fn cut(line: &[u8]) -> Option<Cut<'_>> {
    let own = line.strip_prefix(b"{\"parentUuid\":\"")?.get(UUID..)?;
    let head = &own[..CONTENT.find(own)? + CONTENT.needle().len()];
    let (before, rest) = line.split_at(line.len() - own.len() + head.len());
    // The first of them may be in a call's input. Then neither the same as before nor JSON is left without the content.
    let (content, behind) = rest.split_at(STOPPED.find(rest)?);
    let (stop, tail) = behind.split_at(USAGE.find(&behind[..behind.len().min(STOP)])?);
    let stop = &stop[STOPPED.needle().len()..];
    let (usage, tail) = tail.split_at(REQUEST.find(tail)?);
    let usage = without_block(usage)?;
    let (request, tail) = tail.split_at(ID.find(tail)? + ID.needle().len());
    let (time, rest) = tail.get(UUID..)?.strip_prefix(b"\",\"timestamp\":\"")?.split_at_checked(TIME)?;
    Some(Cut { same: [head, usage, request, rest], before, content, behind, stop, time })
}

/// Takes off the fields that are of the block.
fn without_block(usage: &[u8]) -> Option<&[u8]> {
    let Some(last) = BLOCK.find(usage) else { return Some(usage) };
    let start = OF_BLOCK.iter().filter_map(|key| memchr::memmem::find(&usage[..last], key)).min().unwrap_or(last);
    let (usage, mut fields) = usage.split_at(start);
    while !fields.is_empty() {
        let value = OF_BLOCK.iter().find_map(|key| fields.strip_prefix(*key))?;
        fields = &value[memchr::memchr(b',', value)? + 1..];
    }
    Some(usage)
}

/// Returns the only call of a line, if it has one. `Err` if that takes a parser.
fn call_in(content: &[u8]) -> Result<Option<(&str, &str)>, ()> {
    let Some(first) = CALL.find(content) else { return Ok(None) };
    let others = &content[first + CALL.needle().len()..];
    let rest = others.strip_prefix(b",\"id\":\"").filter(|_| content.starts_with(b"{") && first == 1).ok_or(())?;
    let (id, rest) = string(rest).ok_or(())?;
    let (name, _) = rest.strip_prefix(b",\"name\":\"").and_then(string).ok_or(())?;
    if CALL.find(others).is_some() { Err(()) } else { Ok(Some((id, name))) }
}

/// Splits off a string without escapes, and its quote.
fn string(rest: &[u8]) -> Option<(&str, &[u8])> {
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    let text = std::str::from_utf8(&rest[..end]).ok()?;
    (rest[end] == b'"').then_some((text, &rest[end + 1..]))
}

/// Forgets the last answer: another line stands between.
pub(super) fn forget(into: &mut Reading) {
    into.quick.same.clear();
}

/// Reads a line of an answer. Returns false, and does nothing, if the line must be parsed.
pub(super) fn read(line: &[u8], into: &mut Reading) -> bool {
    let line = line.trim_ascii();
    let Some(cut) = cut(line) else { return false };
    let Ok(call) = call_in(cut.content) else { return false };
    if LINE.find(cut.content).is_some() {
        return false;
    }
    further(line, &cut, call, into) || first(line, &cut, call, into)
}

/// Reads a further line of the last answer.
fn further(line: &[u8], cut: &Cut<'_>, call: Option<(&str, &str)>, into: &mut Reading) -> bool {
    let quick = &into.quick;
    let mut same = &quick.same[..];
    for (part, length) in cut.same.iter().zip(quick.lengths) {
        let Some((expected, rest)) = same.split_at_checked(length) else { return false };
        if *part != expected {
            return false;
        }
        same = rest;
    }
    let time = std::str::from_utf8(cut.time).ok().and_then(parse_moment).map_or(0, Moment::as_millis);
    // Further lines were written later.
    if quick.same.is_empty() || time < quick.message.time {
        return false;
    }
    let mut message = Message { time, bytes: line.len() as u64, ..quick.message.clone() };
    into.written(time);
    if let Some((id, name)) = call {
        message.calls.push(Call { id: hash(id), tool: into.facts.names.add(name), ended: CallEnd::Ok });
    }
    let stop = cut.stop.strip_prefix(b"\"").and_then(string).map_or("", |(stop, _)| stop);
    into.facts.phase = ended_with(&message, call.is_some_and(|(_, name)| needs_a_person(name)), stop);
    into.add(message);
    true
}

/// Reads any line of an answer: it is parsed without its content.
fn first(line: &[u8], cut: &Cut<'_>, call: Option<(&str, &str)>, into: &mut Reading) -> bool {
    let mut quick = std::mem::take(&mut into.quick);
    let mut tape = std::mem::take(&mut into.tape);
    quick.rest.clear();
    quick.rest.extend_from_slice(cut.before);
    quick.rest.extend_from_slice(cut.behind);
    let value = simdutf8::basic::from_utf8(&quick.rest).ok().and_then(|text| tape.parse(text).ok());
    let envelope = value.map(Envelope::of).filter(|envelope| envelope.kind == "assistant" && !envelope.streamed);
    // The content that was found need not be the answer's.
    let is_without = |envelope: &Envelope<'_>| {
        let content = envelope.message.and_then(|message| message.get("content")?.items());
        content.is_some_and(|mut blocks| blocks.next().is_none())
    };
    let is_read = envelope.filter(is_without).is_some_and(|envelope| {
        envelope_read(&envelope, into);
        let message = answer(&envelope, line.len(), call, into);
        quick.lengths = cut.same.map(<[u8]>::len);
        quick.same.clear();
        cut.same.iter().for_each(|part| quick.same.extend_from_slice(part));
        quick.message = message.unwrap_or_default();
        true
    });
    (into.quick, into.tape) = (quick, tape);
    is_read
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tapline_testkit::files::files_below;
    use tapline_testkit::fixture;

    use super::*;
    use crate::transcripts::claude::FORMAT;

    /// Reads lines with and without the shortcut. Returns how many took it.
    fn shortcuts<'l>(lines: impl Iterator<Item = &'l [u8]>) -> usize {
        let (mut quick, mut thorough) = (Reading::default(), Reading::default());
        let mut taken = 0;
        for line in lines {
            if read(line, &mut quick) {
                taken += 1;
            } else {
                quick.line(&FORMAT, line);
            }
            thorough.line(&FORMAT, line);
            assert_eq!(quick.facts, thorough.facts, "after {}", String::from_utf8_lossy(line));
        }
        taken
    }

    #[test]
    fn the_shortcut_reads_what_the_parser_reads() {
        let mut files = files_below(fixture("transcripts"));
        files.retain(|file| file.extension().is_some_and(|ending| ending == "jsonl"));
        let taken = files.iter().map(|file| shortcuts(fs::read(file).unwrap().split(|byte| *byte == b'\n')));
        let taken = taken.sum::<usize>();
        assert!(taken > 50, "the real program writes such lines: {taken}");
    }

    fn line(uuid: u32, content: &str) -> String {
        format!(
            "{{\"parentUuid\":\"{:036}\",\"isSidechain\":false,\"message\":{{\"id\":\"msg_1\",\"model\":\"m\",\"content\":[{content}],\
             \"stop_reason\":\"tool_use\",\"stop_sequence\":null,\"usage\":{{\"input_tokens\":3,\"output_tokens\":5}}}},\
             \"apiBlockIndex\":{uuid},\"requestId\":\"req_1\",\"type\":\"assistant\",\"uuid\":\"{uuid:036}\",\
             \"timestamp\":\"2026-11-16T15:18:{uuid:02}.761Z\",\"cwd\":\"/home/dev\",\"sessionId\":\"s\"}}",
            uuid - 1
        )
    }

    #[test]
    fn only_what_is_plainly_an_answer_takes_it() {
        let first = line(1, r#"{"type":"text","text":"a"}"#);
        let call = r#"{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}"#;
        let taken = |second: String| shortcuts([&first, &second].into_iter().map(String::as_bytes));
        let quick = [
            line(2, r#"{"type":"text","text":"\"usage\":{\"b\\"}"#),
            line(2, call),
            line(2, call).replace("\"output_tokens\":5", "\"output_tokens\":6"),
            line(2, call).replace("/home/dev", "/home/other"),
            line(2, call).replace("15:18:02", "15:18:00"),
        ];
        for second in quick {
            assert_eq!(taken(second.clone()), 2, "{second}");
        }
        let parsed = [
            line(2, &format!("{call},{}", call.replace("toolu_1", "toolu_2"))),
            line(2, &call.replace("Bash", "B\\u0061sh")),
            line(2, &call.replace(r#""ls""#, r#"{"type":"tool_use","id":"x"}"#)),
            line(2, &call.replace(r#""ls""#, r#"[1],"stop_reason":null,"usage":{"output_tokens":9}"#)),
            line(2, r#"{"id":"toolu_1","type":"tool_use","name":"Bash","input":{}}"#),
            line(2, call).replace("\"isSidechain\":false", "\"other\":{\"content\":[]}"),
            line(2, call).replace("\"type\":\"assistant\"", "\"type\":\"user\""),
            // A line that was cut off, and the next one behind it.
            line(2, &format!("{}{}", &call[..20], line(3, call))),
        ];
        for second in parsed {
            assert_eq!(taken(second.clone()), 1, "{second}");
        }
    }
}
