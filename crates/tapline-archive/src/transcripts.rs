//! Session files that agents keep for themselves: one file here for each agent. Outside them nothing knows how an agent
//! writes its transcripts.

mod claude;
mod codex;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tapline_protocol::{Agent, Kind, Moment, Tape, Value};
use tapline_session::{parse_moment, plausible};

use crate::facts::{Call, CallEnd, Facts, Marks, Message, Name, Reported, hash};
use crate::lines::{Needles, interesting, lines, without_mark};
use crate::money::Money;
use crate::packed;
use crate::said::{Context, Each};
use tapline_protocol::Tokens;

/// A string to search for, and a check of the bytes that follow it.
type Needle = (&'static str, fn(&[u8]) -> bool);

/// How much of a prompt is kept as a title.
pub(crate) const TITLE: usize = 160;

/// Variables of the environment, so that nothing here asks for them itself.
pub(crate) type Environment<'e> = &'e dyn Fn(&str) -> Option<PathBuf>;

/// A line that was parsed.
#[derive(Clone, Copy, Debug)]
struct Line<'t> {
    value: Value<'t>,
    /// Its length.
    bytes: usize,
}

/// How one agent writes its transcripts.
struct Format {
    needles: &'static [Needle],
    is_one: fn(Value<'_>) -> bool,
    read: fn(Line<'_>, &mut Reading),
    /// Reads a line without parsing all of it, if it is of a kind that allows it.
    quick: fn(&[u8], &mut Reading) -> bool,
    said: fn(Value<'_>, &mut Context, Each<'_>),
    /// The variable that names its home folder, or several.
    home: &'static str,
    places: fn(Environment<'_>) -> Vec<PathBuf>,
    /// The kind of sub-agent that a file is of, if another file beside it says so.
    subagent: fn(&Path) -> Option<String>,
    /// Whether a line says that the file is of a sub-agent, or that it is not.
    is_side: fn(Value<'_>) -> Option<bool>,
    /// Whether the totals of its streams go on from those of earlier runs of the session, and do not say so.
    adds_up_runs: bool,
    /// Which of the arguments on its command line is the prompt, if one is.
    prompt_in: fn(&[String]) -> Option<usize>,
}

/// Returns how an agent writes its transcripts.
const fn format(agent: Agent) -> &'static Format {
    match agent {
        Agent::Claude => &claude::FORMAT,
        Agent::Codex => &codex::FORMAT,
    }
}

/// Returns the folders in which agents keep transcripts, whether they exist or not.
pub(crate) fn places(environment: Environment<'_>) -> Vec<PathBuf> {
    Agent::ALL.iter().flat_map(|agent| places_of(*agent, environment)).collect()
}

/// Returns the folders in which one agent keeps transcripts, whether they exist or not.
pub(crate) fn places_of(agent: Agent, environment: Environment<'_>) -> Vec<PathBuf> {
    (format(agent).places)(environment)
}

/// Returns whether the totals of this agent's streams go on from those of earlier runs of the session, and do not say so.
pub(crate) fn adds_up_runs(agent: Agent) -> bool {
    format(agent).adds_up_runs
}

/// Returns the home folders that a variable names: one, or several with commas between them.
fn homes(environment: Environment<'_>, variable: &str) -> Option<Vec<PathBuf>> {
    let value = environment(variable)?;
    match value.to_str().filter(|text| text.contains(',') && !value.exists()) {
        Some(list) => Some(list.split(',').map(str::trim).filter(|home| !home.is_empty()).map(PathBuf::from).collect()),
        None => Some(vec![value]),
    }
}

/// Returns the home folders of agents that a variable names beside others and that cannot be read, and why.
pub(crate) fn missing_homes(environment: Environment<'_>) -> Vec<(PathBuf, io::Error)> {
    let lists = Agent::ALL.iter().filter_map(|agent| homes(environment, format(*agent).home)).filter(|homes| homes.len() > 1);
    lists.flatten().filter_map(|home| Some((home.clone(), home.metadata().err()?))).collect()
}

/// Returns the agent that keeps such lines in its transcripts.
pub(crate) fn recognise(line: Value<'_>) -> Option<Agent> {
    Agent::ALL.iter().find(|agent| (format(**agent).is_one)(line)).copied()
}

/// Passes on what a line of this agent says in words.
pub(crate) fn said(agent: Agent, line: Value<'_>, context: &mut Context, each: Each<'_>) {
    (format(agent).said)(line, context, each);
}

/// Returns the kind of sub-agent that a file is of, if another file beside it says so.
pub(crate) fn subagent(agent: &str, path: &Path) -> Option<String> {
    (format(Agent::named(agent)?).subagent)(path)
}

/// Returns which of the arguments on the command line of an agent is the prompt, if one is.
pub(crate) fn prompt_in(agent: Agent, args: &[String]) -> Option<usize> {
    (format(agent).prompt_in)(args)
}

/// Returns which arguments are neither options nor values of options. `flags` have no value, and `lists` have all that follow. Any other
/// option has one, unless another option follows it.
fn positional(args: &[String], flags: &[&str], lists: &[&str]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        if arg == "--" {
            found.extend(at..args.len());
            break;
        }
        if !arg.starts_with('-') || arg == "-" {
            found.push(at - 1);
            continue;
        }
        // `--model=x`, `-mx` and `-pv` have what they need.
        let is_whole = if arg.starts_with("--") { arg.contains('=') } else { arg.len() > 2 };
        if is_whole || flags.contains(&arg.as_str()) {
            continue;
        }
        // A text can begin with a dash, too.
        while args.get(at).is_some_and(|next| !next.starts_with('-') || next.contains(char::is_whitespace)) {
            at += 1;
            if !lists.contains(&arg.as_str()) {
                break;
            }
        }
    }
    found
}

/// Returns whether a file is the transcript of a sub-agent: not a session of its own, but a part of another one. Its first lines say so.
pub fn is_of_subagent(path: &Path) -> bool {
    let Ok(file) = File::open(path).and_then(|file| packed::unpacked(file, path)) else { return false };
    let mut tape = Tape::default();
    // What comes before the first message says nothing about it.
    for line in BufReader::new(file).take(HEAD).split(b'\n').take(HEAD_LINES).map_while(Result::ok) {
        let text = String::from_utf8_lossy(without_mark(&line));
        let Ok(line) = tape.parse(text.trim()) else { continue };
        if let Some(is_one) = recognise(line).and_then(|agent| (format(agent).is_side)(line)) {
            return is_one;
        }
    }
    false
}

/// How much of a file is looked at to see whether it is of a sub-agent.
const HEAD: u64 = 1 << 20;
const HEAD_LINES: usize = 32;

/// Returns what makes a line of this agent matter.
fn needles(agent: Agent) -> &'static Needles {
    static ALL: LazyLock<Vec<Needles>> = LazyLock::new(|| {
        let texts = |agent: &Agent| Needles::new(format(*agent).needles.iter().map(|(text, _)| *text));
        Agent::ALL.iter().map(texts).collect()
    });
    let at = Agent::ALL.iter().position(|known| *known == agent);
    at.and_then(|at| ALL.get(at)).unwrap_or(&Needles::None)
}

/// A transcript that is being read.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) facts: Facts,
    tape: Tape,
    /// Where each message is.
    messages: HashMap<u64, usize, foldhash::fast::FixedState>,
    /// Where each call is: its message, and its place in it.
    calls: HashMap<u64, (usize, usize), foldhash::fast::FixedState>,
    /// The message that is being written, in a stream of pieces, for the main agent and for each sub-agent.
    started: HashMap<u64, u64, foldhash::fast::FixedState>,
    /// Totals so far, with the time and the model at each.
    totals: Vec<Total>,
    /// Whether the message that is being read asks a person something.
    asks: bool,
    /// So many messages come before the first service tier.
    untiered: usize,
    quick: Quick,
    /// Whether it is of a sub-agent. Nobody gave it a prompt, so it has no title.
    pub(crate) is_untitled: bool,
}

/// What reading lines quickly needs.
#[derive(Debug, Default)]
struct Quick {
    /// What further lines of the last message have in common with it, one piece after the other. Empty: there is no such
    /// message.
    same: Vec<u8>,
    lengths: [usize; 4],
    /// The message, without its calls.
    message: Message,
    /// A line without its content.
    rest: Vec<u8>,
}

/// A total that grows.
#[derive(Clone, Copy, Debug)]
struct Total {
    total: Tokens,
    /// What the last answer used.
    last: Tokens,
    time: u64,
    model: Name,
    tier: Option<Marks>,
}

impl Reading {
    /// Goes on where an earlier reading ended.
    pub(crate) fn after(facts: Facts) -> Self {
        let mut reading = Self { facts, ..Self::default() };
        for at in 0..reading.facts.messages.len() {
            reading.index(at);
        }
        reading
    }

    fn index(&mut self, at: usize) {
        let message = &self.facts.messages[at];
        self.messages.insert(message.id, at);
        for (place, call) in message.calls.iter().enumerate() {
            self.calls.insert(call.id, (at, place));
        }
    }

    /// Reads the lines that matter of whole lines.
    pub(crate) fn lines(&mut self, agent: Agent, bytes: &[u8]) {
        let format = format(agent);
        let matters = |needle: usize, behind: &[u8]| (format.needles[needle].1)(behind);
        interesting(bytes, needles(agent), matters, |line| {
            if !(format.quick)(line, self) {
                self.line(format, line);
            }
        });
    }

    /// Reads every one of whole lines: at the beginning of a file, where its title is, and at its end.
    pub(crate) fn every_line(&mut self, agent: Agent, bytes: &[u8]) {
        let format = format(agent);
        lines(bytes).for_each(|line| self.line(format, line));
    }

    fn line(&mut self, format: &Format, line: &[u8]) {
        let line = without_mark(line).trim_ascii();
        // After a crash of the machine, NULs stand where something was lost, and the next line behind them.
        let kept = without_nuls(line);
        self.facts.damaged += u64::from(kept.len() < line.len());
        let line = kept;
        if line.is_empty() {
            return;
        }
        let text = match simdutf8::basic::from_utf8(line) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(line),
        };
        let mut tape = std::mem::take(&mut self.tape);
        match tape.parse(&text) {
            Ok(value) => (format.read)(Line { value, bytes: line.len() }, self),
            Err(_) => self.facts.damaged += 1,
        }
        self.tape = tape;
    }

    /// Notes when a line was written.
    fn written(&mut self, time: u64) {
        if time == 0 {
            return;
        }
        self.facts.first.get_or_insert(time);
        self.facts.last = self.facts.last.max(Some(time));
        if let Some(last) = self.facts.reported.last_mut().filter(|last| last.until == 0) {
            last.until = time;
        }
        for limit in self.facts.limits.iter_mut().filter(|limit| limit.time == 0) {
            limit.time = time;
        }
    }

    /// Adds a message, or a further line of one.
    fn add(&mut self, message: Message) {
        match self.messages.get(&message.id) {
            None => {
                self.facts.messages.push(message);
                self.index(self.facts.messages.len() - 1);
            }
            Some(&at) => {
                self.facts.messages[at].merge(message);
                self.index(at);
            }
        }
    }

    /// Notes the service tier of the requests that follow.
    fn tiered(&mut self, tier: Marks) {
        if self.facts.so_far.tier.replace(tier).is_none() {
            self.untiered = self.facts.messages.len();
        }
    }

    /// Notes how a call ended.
    fn ended(&mut self, id: u64, end: CallEnd) {
        match self.calls.get(&id) {
            None => self.facts.so_far.results.push((id, end)),
            Some(&(message, call)) => {
                let call = &mut self.facts.messages[message].calls[call];
                call.ended = call.ended.max(end);
            }
        }
    }

    /// Adds a total. Only the last one of a session counts, as long as nothing stands between them.
    fn report(&mut self, reported: Reported) {
        self.facts.reported.retain(|other| other.session != reported.session || other.of != reported.of || other.until != 0);
        self.facts.reported.push(reported);
    }

    /// Adds what was read from the following part of the same file.
    pub(crate) fn append(&mut self, part: Self) {
        let mut next = part.facts;
        let names: Vec<_> = next.names.all().iter().map(|name| self.facts.names.add(name)).collect();
        let renamed = |name: Name| names.get(name as usize).copied().unwrap_or(0);
        let (model, tier) = (self.facts.so_far.model, self.facts.so_far.tier);
        let untiered = next.so_far.tier.map_or(usize::MAX, |_| part.untiered);
        for (at, mut message) in std::mem::take(&mut next.messages).into_iter().enumerate() {
            message.rename(renamed);
            message.marks.0 |= tier.filter(|_| at < untiered).unwrap_or_default().0;
            // A part does not know what an earlier one said about the whole file.
            for (mine, of_file) in [
                (&mut message.model, model),
                (&mut message.session, self.facts.session),
                (&mut message.subagent, self.facts.subagent),
            ] {
                *mine = if *mine == 0 { of_file } else { *mine };
            }
            self.add(message);
        }
        for mut reported in std::mem::take(&mut next.reported) {
            if reported.time == 0 {
                reported.time = self.facts.last.unwrap_or(0);
            }
            reported.rename(renamed);
            if reported.session == 0 {
                reported.session = self.facts.session;
            }
            self.report(reported);
        }
        for limit in next.limits.iter_mut().filter(|limit| limit.time == 0) {
            limit.time = self.facts.last.unwrap_or(0);
        }
        let total = |total: Total| Total {
            model: if total.model == 0 { model } else { renamed(total.model) },
            tier: total.tier.or(tier),
            ..total
        };
        self.totals.extend(part.totals.into_iter().map(total));
        self.written(next.first.unwrap_or(0));
        self.written(next.last.unwrap_or(0));
        let so_far = std::mem::take(&mut next.so_far);
        for (id, end) in so_far.results {
            self.ended(id, end);
        }
        let mine = &mut self.facts.so_far;
        mine.has_records |= so_far.has_records;
        mine.made.extend(so_far.made.into_iter().map(|call| Call { tool: renamed(call.tool), ..call }));
        mine.model = if so_far.model == 0 { mine.model } else { renamed(so_far.model) };
        mine.tier = so_far.tier.or(mine.tier);
        mine.root = if so_far.root == 0 { mine.root } else { so_far.root };
        self.facts.continue_with(next, renamed);
    }

    /// Ends the reading.
    pub(crate) fn finish(mut self) -> Facts {
        for total in std::mem::take(&mut self.totals) {
            self.count(total);
        }
        for (id, end) in std::mem::take(&mut self.facts.so_far.results) {
            self.ended(id, end);
        }
        self.facts
    }

    /// Counts what a total grew by.
    fn count(&mut self, total: Total) {
        let so_far = &mut self.facts.so_far;
        // The first total of a fork includes what was spent before. Older versions begin again when they resume.
        let is_first = total.total == total.last;
        let restarts =
            so_far.total.is_some_and(|before| total.total.total() < before.total() || is_first && total.total != before);
        so_far.restarts += u64::from(restarts);
        let before = so_far.total.filter(|_| !restarts).unwrap_or_else(|| total.total.without(total.last));
        so_far.total = Some(total.total);
        let grown = total.total.without(before);
        if so_far.has_records || grown.total() == 0 {
            return;
        }
        let Tokens { input, output, cache_read, .. } = total.total;
        let id = hash(&format!("{:x} {} {input} {output} {cache_read}", so_far.root, so_far.restarts));
        let facts = &self.facts;
        let (session, folder, branch, subagent) = (facts.session, facts.folder, facts.branch, facts.subagent);
        let (time, model) = (total.time, total.model);
        let calls = std::mem::take(&mut self.facts.so_far.made);
        self.add(Message {
            id,
            time,
            session,
            model,
            folder,
            branch,
            subagent,
            tokens: grown,
            marks: Marks(Marks::FINAL.0 | total.tier.unwrap_or_default().0),
            calls,
            ..Message::default()
        });
    }
}

/// Returns a line without the NULs at its beginning and its end.
pub(crate) fn without_nuls(line: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| *byte != 0;
    let start = line.iter().position(is_text).unwrap_or(line.len());
    let end = line.iter().rposition(is_text).map_or(start, |last| last + 1);
    line[start..end].trim_ascii()
}

/// Returns a string, or nothing for another value.
fn text(value: Value<'_>) -> Cow<'_, str> {
    value.as_str().unwrap_or_default()
}

/// Returns a whole number, or 0 for another value.
fn number(value: Value<'_>) -> u64 {
    value.as_number().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Counts of one object, as far as they can be true.
#[derive(Default)]
struct Figures {
    /// Whether one of them cannot be true. Then none of them counts.
    implausible: bool,
}

impl Figures {
    /// Returns a count of tokens, or 0 for another value.
    fn tokens(&mut self, value: Value<'_>) -> u64 {
        self.count(value, plausible::MOST_TOKENS)
    }

    /// Returns a count of web searches, or 0 for another value.
    fn searches(&mut self, value: Value<'_>) -> u64 {
        self.count(value, plausible::MOST_SEARCHES)
    }

    fn count(&mut self, value: Value<'_>, most: u64) -> u64 {
        let count = plausible::count(value, most);
        self.implausible |= count.is_none();
        count.unwrap_or(0)
    }

    /// Returns a cost, if there is one.
    fn cost(&mut self, value: Value<'_>) -> Option<Money> {
        let cost = plausible::cost(value);
        self.implausible |= cost.is_none() && value.kind() == Kind::Number;
        cost.map(Money::from_usd)
    }
}

/// Returns a time in milliseconds since 1970, or 0 for another value.
fn time(value: Value<'_>) -> u64 {
    parse_moment(&text(value)).map_or(0, Moment::as_millis)
}

/// Makes a title of a prompt: its first line that says something, cut.
pub(crate) fn cut_title(prompt: &str) -> String {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(TITLE).collect()
}
