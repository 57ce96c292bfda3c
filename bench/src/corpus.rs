//! Streams of any size, made from a seed: the lines of a real session (`fixtures/`), with new ids, new texts and
//! tool results of every length put in their places.

use std::io::{self, Write};

use crate::text::{Pool, Random, escape, fill};

/// A session of the real program with partial messages: one line of each kind is taken from it.
const SESSION: &str = include_str!("../../fixtures/claude-2.1.325/tools-partial.jsonl");

/// Sessions of the real program, as they are: every event the project has on record from it.
const SESSIONS: &[&str] = &[
    include_str!("../../fixtures/claude-2.1.325/ask.jsonl"),
    include_str!("../../fixtures/claude-2.1.325/hooks.jsonl"),
    include_str!("../../fixtures/claude-2.1.325/lone-surrogate.jsonl"),
    include_str!("../../fixtures/claude-2.1.325/maxturns.jsonl"),
    include_str!("../../fixtures/claude-2.1.325/multi.jsonl"),
    include_str!("../../fixtures/claude-2.1.325/rate.jsonl"),
    include_str!("../../fixtures/claude-2.1.325/retry.jsonl"),
    include_str!("../../fixtures/claude-2.1.325/subagent.jsonl"),
    include_str!("../../fixtures/claude-2.1.325/text.jsonl"),
    include_str!("../../fixtures/claude-2.1.325/tools-denied.jsonl"),
    include_str!("../../fixtures/claude-2.1.325/tools-partial.jsonl"),
    include_str!("../../fixtures/claude-2.1.325/tools.jsonl"),
];

/// The recorded sessions, again and again.
pub fn recorded(size: u64) -> Vec<u8> {
    let once = SESSIONS.concat().into_bytes();
    once.repeat((size / once.len() as u64 + 1) as usize)
}

/// What most of a stream's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole messages and tool results of 2 to 200 KB.
    Long,
    /// Partial messages: events of a few hundred bytes, small tool results.
    Short,
    /// Partial messages, and tool results from 500 bytes to 1 MiB.
    Mixed,
}

impl Kind {
    pub fn named(name: &str) -> Option<Self> {
        [(Self::Long, "long"), (Self::Short, "short"), (Self::Mixed, "mixed")]
            .into_iter()
            .find_map(|(kind, known)| (known == name).then_some(kind))
    }

    /// About how long the next line with a tool result is.
    fn result_size(self, random: &mut Random) -> usize {
        match self {
            Self::Long => random.spread(2_000, 200_000),
            Self::Short => random.spread(700, 1_500),
            Self::Mixed if random.between(0, 10) == 0 => random.spread(32_000, LONGEST - 4_000),
            Self::Mixed => random.spread(500, 32_000),
        }
    }
}

/// No line is longer.
const LONGEST: usize = 1 << 20;

/// A line with places to fill.
struct Template(Vec<Part>);

enum Part {
    Text(String),
    Slot(char),
}

/// What stands where a line is filled: never in the session itself.
const MARK: char = '\u{1}';

impl Template {
    /// The first line that holds `holding`, with a slot for each id in it and for what stands between these marks.
    fn of(holding: &str, slots: &[(char, &str, &str)]) -> Self {
        let line = SESSION.lines().find(|line| line.contains(holding)).unwrap_or_else(|| panic!("no line holds {holding}"));
        let mut line = line.to_owned();
        for &(name, before, after) in slots {
            let (head, rest) = line.split_once(before).unwrap_or_else(|| panic!("{before} is not in {line}"));
            let at = rest.find(after).unwrap_or_else(|| panic!("{after} is not behind {before} in {line}"));
            line = format!("{head}{before}{MARK}{name}{}", &rest[at..]);
        }
        for (name, prefix) in [('m', "\"msg_"), ('t', "\"toolu_")] {
            while let Some(at) = line.find(prefix) {
                let end = at + 1 + line[at + 1..].find('"').expect("a string ends");
                line.replace_range(at + 1..end, &format!("{MARK}{name}"));
            }
        }
        if let Some(at) = line.rfind("\"uuid\":\"").map(|at| at + 8) {
            line.replace_range(at..at + 36, &format!("{MARK}u"));
        }
        let mut parts = Vec::new();
        for (at, text) in line.split(MARK).enumerate() {
            let mut rest = text;
            if at > 0 {
                let slot = text.chars().next().expect("a slot has a name");
                parts.push(Part::Slot(slot));
                rest = &text[slot.len_utf8()..];
            }
            parts.push(Part::Text(rest.to_owned()));
        }
        Self(parts)
    }

    fn write(&self, out: &mut Vec<u8>, random: &mut Random, slot: impl Fn(char) -> Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Slot('u') => {
                    let (a, b) = (random.next(), random.next());
                    write!(
                        out,
                        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                        a >> 32,
                        a as u16,
                        b >> 52,
                        (b >> 40) & 0xfff,
                        b & 0xffff_ffff_ffff
                    )
                    .expect("memory takes it");
                }
                Part::Slot(name) => out.extend_from_slice(&slot(*name)),
            }
        }
        out.push(b'\n');
    }
}

struct Templates {
    init: Template,
    status: Template,
    message_start: Template,
    text_start: Template,
    text_delta: Template,
    assistant_text: Template,
    block_stop: Template,
    tool_start: Template,
    input_delta: Template,
    assistant_tool: Template,
    message_delta: Template,
    message_stop: Template,
    tool_result: Template,
    result: Template,
}

impl Templates {
    fn new() -> Self {
        // An index is the one of its block.
        let index = ('i', "\"index\":", ",");
        let name = ('n', "\"name\":\"", "\"");
        Self {
            init: Template::of("\"subtype\":\"init\"", &[]),
            status: Template::of("\"subtype\":\"status\"", &[]),
            message_start: Template::of("\"message_start\"", &[]),
            text_start: Template::of("\"content_block\":{\"type\":\"text\"", &[index]),
            text_delta: Template::of("\"text_delta\"", &[('x', "\"text\":\"", "\"}}"), index]),
            assistant_text: Template::of("\"content\":[{\"type\":\"text\"", &[('x', "\"text\":\"", "\"}]")]),
            block_stop: Template::of("\"content_block_stop\"", &[('i', "\"index\":", "}")]),
            tool_start: Template::of("\"content_block\":{\"type\":\"tool_use\"", &[index, name]),
            input_delta: Template::of("\"input_json_delta\"", &[index, ('x', "\"partial_json\":\"", "\"}}")]),
            assistant_tool: Template::of("\"content\":[{\"type\":\"tool_use\"", &[name, ('x', "\"input\":", "}]")]),
            message_delta: Template::of("\"message_delta\"", &[]),
            message_stop: Template::of("\"message_stop\"", &[]),
            // What a command printed stands there twice: for the model, and for programs.
            tool_result: Template::of(
                "\"stdout\"",
                &[
                    ('x', "\"type\":\"tool_result\",\"content\":\"", "\",\"is_error\""),
                    ('y', "\"tool_use_result\":", ",\"stderr\""),
                ],
            ),
            result: Template::of("\"type\":\"result\"", &[]),
        }
    }
}

/// Writes one endless session.
pub struct Generator {
    kind: Kind,
    random: Random,
    templates: Templates,
    code: Pool,
    prose: Pool,
    turn: u64,
}

impl Generator {
    pub fn new(kind: Kind) -> Self {
        let mut random = Random::new(kind as u64 + 1);
        let code = Pool::code(&mut random, 8 << 20);
        let prose = Pool::prose(&mut random, 1 << 20);
        Self { kind, random, templates: Templates::new(), code, prose, turn: 0 }
    }

    /// Writes a session of about `size` bytes, a turn at a time.
    pub fn write(&mut self, out: &mut impl Write, size: u64) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(4 << 20);
        let mut written = 0;
        let templates = std::mem::replace(&mut self.templates, Templates::new());
        templates.init.write(&mut buffer, &mut self.random, |_| Vec::new());
        while written < size {
            self.turn(&templates, &mut buffer);
            written += buffer.len() as u64;
            out.write_all(&buffer)?;
            buffer.clear();
        }
        templates.result.write(&mut buffer, &mut self.random, |_| Vec::new());
        out.write_all(&buffer)?;
        self.templates = templates;
        out.flush()
    }

    /// The same, in memory.
    pub fn in_memory(kind: Kind, size: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size as usize + (8 << 20));
        Self::new(kind).write(&mut bytes, size).expect("memory takes it");
        bytes
    }

    /// The agent says something, calls a tool and hears from it.
    fn turn(&mut self, templates: &Templates, out: &mut Vec<u8>) {
        self.turn += 1;
        let message = format!("msg_01Bench{:014}", self.turn);
        let tool = format!("toolu_01Bench{:012}", self.turn);
        let partial = self.kind != Kind::Long;
        let size = self.kind.result_size(&mut self.random);
        let call = Call::next(&mut self.random, &self.code, size);
        let (random, prose) = (&mut self.random, &self.prose);
        let slots = |index: u8, text: &[u8], name: char| match name {
            'm' => message.clone().into_bytes(),
            't' => tool.clone().into_bytes(),
            'i' => index.to_string().into_bytes(),
            'n' => call.name.as_bytes().to_vec(),
            'x' => text.to_vec(),
            'y' => call.outcome.clone(),
            other => panic!("no slot is named {other}"),
        };

        let mut said = Vec::new();
        let words = random.between(15, 150);
        if partial {
            templates.status.write(out, random, |name| slots(0, b"", name));
            templates.message_start.write(out, random, |name| slots(0, b"", name));
            templates.text_start.write(out, random, |name| slots(0, b"", name));
        }
        let mut delta = Vec::new();
        let mut left = random.between(1, 5);
        let all: Vec<_> = prose.units(random, words).collect();
        for (at, word) in all.iter().enumerate() {
            said.extend_from_slice(word);
            delta.extend_from_slice(word);
            left -= 1;
            if left == 0 || at + 1 == all.len() {
                if partial {
                    templates.text_delta.write(out, random, |name| slots(0, &delta, name));
                }
                delta.clear();
                left = random.between(1, 5);
            }
        }
        templates.assistant_text.write(out, random, |name| slots(0, &said, name));
        if partial {
            templates.block_stop.write(out, random, |name| slots(0, b"", name));
            templates.tool_start.write(out, random, |name| slots(1, b"", name));
            for part in call.input_parts() {
                templates.input_delta.write(out, random, |name| slots(1, part.as_bytes(), name));
            }
        }
        templates.assistant_tool.write(out, random, |name| slots(1, &call.input, name));
        if partial {
            templates.block_stop.write(out, random, |name| slots(1, b"", name));
            templates.message_delta.write(out, random, |name| slots(0, b"", name));
            templates.message_stop.write(out, random, |name| slots(0, b"", name));
        }
        templates.tool_result.write(out, random, |name| slots(0, &call.content, name));
    }
}

/// A tool's call and what came of it, as JSON.
struct Call {
    name: &'static str,
    /// The object it was called with.
    input: Vec<u8>,
    /// What the model sees: the inside of a string.
    content: Vec<u8>,
    /// What programs see: the beginning of `tool_use_result` up to its first value, closed by the line's own rest.
    outcome: Vec<u8>,
}

impl Call {
    fn next(random: &mut Random, code: &Pool, size: usize) -> Self {
        match random.between(0, 10) {
            0..6 => Self::bash(random, code, size),
            6..8 => Self::read(random, code, size),
            _ => Self::edit(random, code, size),
        }
    }

    /// A command: its output stands in the line twice, as the real program writes it.
    fn bash(random: &mut Random, code: &Pool, size: usize) -> Self {
        let command = fill("cargo test -p § --lib -- --nocapture \"§\" 2>&1 | tail -n #", random);
        let input = format!(r#"{{"command":"{}","description":"Run the tests of {}"}}"#, escape(&command), fill("§", random));
        let printed = code.piece(random, size / 2);
        let outcome = [b"{\"stdout\":\"", printed, b"\""].concat();
        Self { name: "Bash", input: input.into_bytes(), content: printed.to_vec(), outcome }
    }

    /// A file: numbered lines for the model, the plain text for programs.
    fn read(random: &mut Random, code: &Pool, size: usize) -> Self {
        let path = fill("/home/dev/project/crates/§/src/§.rs", random);
        let input = format!(r#"{{"file_path":"{path}","limit":{}}}"#, random.between(1, 2000));
        let printed = code.piece(random, size * 9 / 20);
        let mut content = Vec::with_capacity(printed.len() * 5 / 4);
        let mut rest = printed;
        let mut number = 1;
        while let Some(at) = memchr::memmem::find(rest, b"\\n") {
            write!(content, "{number}\\t").expect("memory takes it");
            content.extend_from_slice(&rest[..at + 2]);
            rest = &rest[at + 2..];
            number += 1;
        }
        let head = format!(r#"{{"type":"text","file":{{"filePath":"{path}","numLines":{number},"startLine":1,"content":""#);
        let outcome = [head.as_bytes(), printed, b"\"},\"stdout\":\"\""].concat();
        Self { name: "Read", input: input.into_bytes(), content, outcome }
    }

    /// A change: the whole file as it was, and the patch as an array of lines.
    fn edit(random: &mut Random, code: &Pool, size: usize) -> Self {
        let path = fill("/home/dev/project/crates/§/src/§.rs", random);
        let (old, new) = (code.piece(random, size / 40), code.piece(random, size / 40));
        let head = format!(r#"{{"file_path":"{path}","old_string":""#);
        let input = [head.as_bytes(), old, b"\",\"new_string\":\"", new, b"\",\"replace_all\":false}"].concat();
        let original = code.piece(random, size * 4 / 5);
        let head = format!(r#"{{"filePath":"{path}","originalFile":""#);
        let mut outcome = [head.as_bytes(), original, b"\",\"structuredPatch\":["].concat();
        for hunk in 0..(size / 8_000).min(20) {
            let comma = if hunk > 0 { "," } else { "" };
            let start = random.between(1, 4000);
            write!(outcome, r#"{comma}{{"oldStart":{start},"oldLines":6,"newStart":{start},"newLines":7,"lines":["#)
                .expect("memory takes it");
            for (at, line) in code.units(random, 8).enumerate() {
                let sign = [" ", " ", " ", "-", "+", "+", " ", " "][at];
                let comma = if at > 0 { "," } else { "" };
                write!(outcome, "{comma}\"{sign}").expect("memory takes it");
                outcome.extend_from_slice(&line[..line.len() - 2]);
                outcome.push(b'"');
            }
            outcome.extend_from_slice(b"]}");
        }
        outcome.extend_from_slice(b"],\"userModified\":false,\"replaceAll\":false,\"stdout\":\"\"");
        let content = format!(
            "The file {path} has been updated successfully. (file state is current in your context — no need to Read it back)"
        );
        Self { name: "Edit", input, content: content.into_bytes(), outcome }
    }

    /// The input as it is typed: pieces of some twenty letters, each the inside of a string.
    fn input_parts(&self) -> impl Iterator<Item = String> {
        let text: Vec<char> = String::from_utf8_lossy(&self.input).chars().collect();
        let parts: Vec<String> = text.chunks(20).map(|part| escape(&part.iter().collect::<String>())).collect();
        parts.into_iter()
    }
}
