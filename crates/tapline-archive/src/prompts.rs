//! The prompts of a recording. They were sent to the agent, or stood on its command line. Its own output need not repeat them:
//! without a transcript, nothing else says what was asked for.

use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use tapline_protocol::{Agent, Moment, Read as _, Tape};
use tapline_recording::{Recording, Stream};
use tapline_session::{Fold, Host, What};

use crate::transcripts;

/// A longer message is not read. Of a longer text, the beginning is: so no input can take all memory.
const LONGEST: u64 = 16 << 20;

/// Marks the number of a text as that of a prompt: it stands in what was sent, not in the output.
const SENT: u32 = 1 << 31;
/// Marks it as plain text, not a message on a line of its own.
const PLAIN: u32 = 1 << 30;
/// Marks it as an argument of the command that started the agent.
const ARGUMENT: u32 = 1 << 29;
/// The file that says which command it was.
const META: &str = "meta.json";

/// A prompt that was sent.
#[derive(Debug)]
pub(crate) struct SentPrompt {
    pub(crate) text: String,
    /// When.
    pub(crate) at: Moment,
    /// Where its line is in what was sent, and which text of it it is, as [`sent_text`] takes it.
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) part: u32,
    /// Whether it is the input that was piped to a command with a prompt: agents join them to one prompt.
    pub(crate) is_piped: bool,
}

/// Passes on the prompts behind the first `from` bytes of what was sent, until `each` returns false. Returns up to where it
/// was read: the end of the last complete message.
pub(crate) fn each_prompt(recording: &Recording, from: u64, mut each: impl FnMut(SentPrompt) -> bool) -> u64 {
    let mut end = from;
    // All of a text is one prompt, and read once. An agent that is sent messages takes no prompt from its command line.
    let plain = !recording.takes_messages();
    if plain && from > 0 {
        return from;
    }
    let argument = if plain { argument(recording) } else { None };
    let is_argued = argument.is_some();
    if argument.is_none_or(&mut each) {
        // What cannot be read says nothing.
        let _ = read(recording, &mut end, (plain, is_argued), each);
    }
    // Then it was read, even if nothing was sent.
    end.max(u64::from(is_argued))
}

/// Returns the prompt on the command line of the agent, if there is one.
fn argument(recording: &Recording) -> Option<SentPrompt> {
    let argv = &recording.meta.argv;
    let agent = Agent::named(recording.meta.agent.as_deref()?)?;
    let number = transcripts::prompt_in(agent, argv.get(1..)?)? + 1;
    let text = argv.get(number)?.clone();
    let len = recording.file(Stream::Stdout).with_file_name(META).metadata().ok()?.len();
    let part = SENT | ARGUMENT | u32::try_from(number).ok()?;
    (!text.trim().is_empty()).then(|| SentPrompt { text, at: recording.started(), offset: 0, len, part, is_piped: false })
}

fn read(
    recording: &Recording,
    end: &mut u64,
    (plain, is_piped): (bool, bool),
    mut each: impl FnMut(SentPrompt) -> bool,
) -> io::Result<()> {
    let mut file = recording.open_file(Stream::Stdin)?;
    file.seek(SeekFrom::Start(*end))?;
    let mut sendings = recording.sendings();
    let mut input = BufReader::new(file);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let mut next = input.by_ref().take(LONGEST);
        let len = if plain { next.read_to_end(&mut bytes)? } else { next.read_until(b'\n', &mut bytes)? } as u64;
        let is_whole = plain || bytes.ends_with(b"\n");
        if !is_whole && len == LONGEST {
            *end += len + input.skip_until(b'\n')? as u64;
            continue;
        }
        let texts = texts(&bytes, plain);
        // At the end, or before a line that is still being written, or was cut off.
        if len == 0 || !is_whole && texts.is_empty() {
            return Ok(());
        }
        let offset = *end;
        *end += len;
        let at = sendings.as_mut().and_then(|sendings| sendings.at(*end)).unwrap_or_else(|| recording.started());
        for (number, text) in (0..).zip(texts) {
            let part = SENT | if plain { PLAIN } else { number };
            if !text.trim().is_empty() && !each(SentPrompt { text, at, offset, len, part, is_piped }) {
                return Ok(());
            }
        }
        if plain {
            return Ok(());
        }
    }
}

/// Returns the prompts in a message, or in a text.
fn texts(bytes: &[u8], plain: bool) -> Vec<String> {
    let mut host = if plain { Host::with_text() } else { Host::with_messages() };
    let mut fold = Fold::default();
    let mut steps = host.push(bytes, None, &mut fold);
    steps.extend(host.close(&mut fold));
    let text = |what| if let What::Prompt { text } = what { Some(text) } else { None };
    steps.into_iter().filter_map(|step| text(step.what)).collect()
}

/// Returns the file that a text stands in, if it is not the output itself.
pub(crate) fn sent_file(output: &Path, part: u32) -> Option<PathBuf> {
    let name = if part & ARGUMENT != 0 { META } else { Stream::Stdin.file_name() };
    (part & SENT != 0).then(|| output.with_file_name(name))
}

/// Returns one of the prompts in these bytes of what was sent, if this is the number of one.
pub(crate) fn sent_text(bytes: &[u8], part: u32) -> Option<String> {
    if part & ARGUMENT != 0 {
        let (text, mut tape) = (String::from_utf8_lossy(bytes), Tape::default());
        let argv: Vec<String> = tape.parse(text.trim()).ok()?.get("argv").and_then(Vec::read)?;
        return argv.into_iter().nth((part & !(SENT | ARGUMENT)) as usize);
    }
    texts(bytes, part & PLAIN != 0).into_iter().nth((part & !(SENT | PLAIN)) as usize)
}
