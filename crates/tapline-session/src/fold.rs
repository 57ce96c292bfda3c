//! The fold: records in, steps out. This is the only place outside the decoder that matches [`Event`], so a new event
//! is handled here, once. Memory is bounded: the collector holds what grows with the stream.

mod claude;
mod codex;
mod elapsed;
mod prompts;
mod refusals;
mod rejected;
mod sessions;
mod side;
mod sides;
mod spoken;
mod tasks;
mod threads;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tapline_protocol::{Agent, Dialect, Event, LineKind, Malformed, Moment, Record, SyntaxError};

pub use codex::{CodexPart, ItemEntry, TurnCounts};
pub(crate) use refusals::DENIED_BY;
pub use rejected::Rejected;
pub use sessions::SessionFacts;
pub(crate) use sides::Extensions;

use crate::ledger::{Ledger, LedgerBuilder, Pricing, SessionTotals};
use crate::recent::Recent;
use crate::step::{Level, Notice, Odd, Said, Step, Turn, What};
use crate::text::{count_of, head, one_line};
use crate::unwritten::Unwritten;
use crate::verdict::{Ending, Evidence, TextFacts, Verdict, Warnings, judge};
use elapsed::Elapsed;
use prompts::Prompts;
use refusals::Refusals;
use sessions::Ids;
use sides::Sides;
use spoken::Spoken;
use tasks::Tasks;
use threads::{Calls, Messages};

/// Lines by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LineCounts {
    /// All lines.
    pub total: u64,
    /// JSON objects.
    pub objects: u64,
    /// Not JSON, or too long.
    pub malformed: u64,
    /// JSON, but not an object.
    pub non_object: u64,
    /// Only whitespace.
    pub blank: u64,
    /// Objects without a type.
    pub untyped: u64,
}

/// Facts about the stream itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StreamStats {
    /// Lines by kind.
    pub lines: LineCounts,
    /// The numbers of the malformed lines, from 1 (at most a million are listed).
    pub malformed_at: Vec<u64>,
    /// Events by `type`.
    pub types: BTreeMap<String, u64>,
    /// Types, and `system/<subtype>`, that this version does not know.
    pub unknown_types: BTreeSet<String>,
    /// The number of bytes.
    pub bytes: u64,
    /// The number of lines that are events of a known agent.
    #[serde(skip)]
    pub known: Unwritten<u64>,
}

const MALFORMED_LISTED: usize = 1_000_000;
/// How many types are listed.
const TYPES_LISTED: usize = 4_096;
/// How many characters of a line that is not JSON are shown.
const EXCERPT: usize = 120;

/// A run without its texts: everything that a verdict line needs.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use = "it says whether the run succeeded"]
pub struct Summary {
    /// The agent that wrote the stream. `None` if it is not a known one.
    pub agent: Option<Agent>,
    /// The session.
    pub session: SessionFacts,
    /// The verdict.
    pub verdict: Verdict,
    /// What the run used and cost.
    pub ledger: Ledger,
    /// The final answer.
    pub answer: Option<String>,
    /// The last text that is not empty.
    pub last_text: String,
    /// How many turns ended.
    pub turns: usize,
    /// The last turn.
    pub last_turn: Option<Turn>,
    /// The time of all turns.
    pub duration_ms: Option<f64>,
    /// The number of requests to the model in all turns, as the agent counts them.
    pub num_turns: u64,
    /// The number of calls that start a background task.
    pub background_launches: u64,
    /// The denied calls that no step reported: the agent logged them on stderr, which was not read in time.
    pub rejected: Vec<Rejected>,
    /// Which of the report's prompts is the first of the session itself that says something. The others may be what sub-agents
    /// were told.
    pub first_prompt: Option<usize>,
    /// The number of prompts of the session itself.
    pub prompts: usize,
    /// Facts about the stream.
    pub stream: StreamStats,
}

/// Folds records into steps, and remembers in bounded memory what a verdict needs.
///
/// ```
/// use tapline_protocol::Reader;
/// use tapline_session::{Ending, Fold};
///
/// let stream = br#"{"type":"result","subtype":"success","result":"done","num_turns":2}"#;
/// let mut fold = Fold::default();
/// for record in Reader::new(stream.as_slice()) {
///     for step in fold.apply(&record?) {
///         println!("{step:?}");
///     }
/// }
/// let summary = fold.finish(&Ending::default());
/// assert_eq!(summary.answer.as_deref(), Some("done"));
/// assert!(summary.verdict.clean);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Fold {
    /// Which agent writes the stream, as given or as the lines so far show.
    dialect: Dialect,
    session: SessionFacts,
    /// Every `session_id`.
    ids: Ids,
    stats: StreamStats,
    ledger: LedgerBuilder,
    warnings: Warnings,
    calls: Calls,
    messages: Messages,
    asked: TextFacts,
    prompts: Prompts,
    spoken: Spoken,
    turns: Turns,
    tasks: Tasks,
    denied: Recent,
    refusals: Refusals,
    /// The number of tool calls that were denied.
    denials: u64,
    limit_resets_at: Option<String>,
    /// The unfinished text of each thread.
    typing: BTreeMap<Option<String>, String>,
    sides: Sides,
    in_document: bool,
    /// If the stream is from a version that is too old to read: what to tell the user.
    too_old: Option<&'static str>,
    /// The number of lines of unknown types.
    unknown: u64,
}

/// The turns so far.
#[derive(Debug, Default)]
struct Turns {
    /// Whether the only result had nothing that this agent's results have.
    foreign_end: bool,
    /// Whether a turn has begun and not ended, for agents that say when a turn begins.
    open: bool,
    /// Whether a turn was completed despite an error.
    recovered: bool,
    count: usize,
    /// The turn that steps belong to.
    current: usize,
    failed: usize,
    last: Option<Turn>,
    answer: Option<String>,
    /// If the result had no answer: the answer is the last of this many texts.
    answered_by: Option<u64>,
    failure: Option<(crate::verdict::Category, String)>,
    num_turns: Option<u64>,
    all_num_turns: u64,
    stop_reason: Option<String>,
    /// The last stop reason of the current turn.
    this_stop: Option<String>,
    duration_ms: Option<f64>,
    result_index: Option<u64>,
    seen: Recent,
    elapsed: Elapsed,
}

impl Fold {
    /// Creates a fold for a stream of a known agent. Its records come from a
    /// [`Decoder::for_agent`](tapline_protocol::Decoder::for_agent).
    pub fn for_agent(agent: Option<Agent>) -> Self {
        Self { dialect: Dialect::of(agent), ..Self::default() }
    }

    /// Remembers only the last 64 texts, up to 64 KiB, in case they are retracted: for a session that is watched beside many others.
    #[must_use]
    pub fn with_few_texts(mut self) -> Self {
        self.spoken.kept = spoken::Kept::FEW;
        self
    }

    /// Notes that the run resumes a session, and what the session had used before, if that is known. Some agents' totals
    /// contain it.
    pub fn resumes(&mut self, before: Option<SessionTotals>) {
        self.ledger.resumes(before);
    }

    /// Prices requests that the agent does not count, such as those of an interrupted turn.
    #[must_use]
    pub fn priced_by(mut self, pricing: Pricing) -> Self {
        self.ledger.price_by(pricing);
        self
    }

    /// Returns the agent, if it is known.
    pub fn agent(&self) -> Option<Agent> {
        self.dialect.agent()
    }

    /// Returns the ledger so far.
    pub fn ledger(&self) -> Ledger {
        self.ledger.ledger()
    }

    /// Takes the next record and returns its steps.
    pub fn apply(&mut self, record: &Record) -> Vec<Step> {
        self.count(record);
        let depth = self.calls.depth_in(record.envelope.parent.as_deref());
        let mut out = Steps { record, depth, steps: Vec::new() };
        self.event(&record.event, &mut out);
        for step in &mut out.steps {
            step.turn = self.turns.of(step);
        }
        if let Some(step) = out.steps.first_mut() {
            self.name_session(step);
        }
        out.steps
    }

    /// Puts the session's id on a step that is the first to know it.
    fn name_session(&mut self, step: &mut Step) {
        let news = self.ids.news();
        if news.is_none() && !matches!(step.what, What::Session(_)) {
            return;
        }
        step.session_id = match (&step.what, self.sides.of(self.dialect.agent()).session_ids()) {
            (_, None) => news,
            (What::Session(info), Some(_)) => info.id.clone(),
            (_, Some(_)) => None,
        };
    }

    fn count(&mut self, record: &Record) {
        self.stats.bytes += record.bytes.len() as u64;
        let lines = &mut self.stats.lines;
        lines.total = lines.total.max(record.line);
        match record.event.line_kind() {
            LineKind::Object => lines.objects += 1,
            LineKind::NotObject => lines.non_object += 1,
            LineKind::Malformed => lines.malformed += 1,
            LineKind::Blank => lines.blank += 1,
            LineKind::Rest => {}
        }
        self.dialect = record.dialect;
        *self.stats.known += u64::from(record.event.agent().is_some());
        if let Some(kind) = &record.envelope.kind {
            if let Some(count) = self.stats.types.get_mut(kind.as_ref()) {
                *count += 1;
            } else if self.stats.types.len() < TYPES_LISTED {
                self.stats.types.insert(kind.to_string(), 1);
            }
        }
        if let Some(id) = &record.envelope.session_id {
            self.ids.see(id);
        }
    }

    fn untyped(&mut self, out: &mut Steps<'_>) {
        self.stats.lines.untyped += 1;
        if self.too_old.is_some() {
            return out.quiet(None);
        }
        let too_old = out.record.too_old().filter(|(agent, _)| self.agent().is_none_or(|known| known == *agent));
        if let Some((_, why)) = too_old {
            self.too_old = Some(why);
            self.warnings.add("unsupported-version", Some(out.record.line), why);
            return out.notice(Level::Error, why.to_owned());
        }
        let (message, text) = ("an object without a type".to_owned(), self.as_it_is(out));
        out.push(What::Odd(Odd { code: "untyped".into(), message, unknown: None, text }));
    }

    /// Returns the text of the line, as long as the agent is not known.
    fn as_it_is(&self, out: &Steps<'_>) -> Option<String> {
        self.agent().is_none().then(|| out.record.text().into_owned())
    }

    fn changed_shape(&mut self, event: &Event, error: &str, out: &mut Steps<'_>) {
        out.odd("changed-shape", format!("{}: {error}", out.kind()));
        // Another agent's `result` does not say how this run ended, even if the caller named the agent, and takes nothing back.
        let foreign = out.kind() == "result";
        if foreign && self.turns.count > 0 {
            return;
        }
        self.event(event, out);
        self.turns.foreign_end |= foreign;
        if let Some(What::Turn(turn)) = out.steps.last_mut().map(|step| &mut step.what) {
            turn.so_far.foreign = foreign;
        }
    }

    fn malformed(&mut self, why: &Malformed, out: &mut Steps<'_>) {
        if self.stats.malformed_at.len() < MALFORMED_LISTED {
            self.stats.malformed_at.push(out.record.line);
        }
        let message = match why {
            Malformed::Syntax(error) => {
                let text = one_line(head(&out.record.text(), EXCERPT).0);
                match error {
                    // It does not even begin like JSON, so it is text of some program.
                    SyntaxError::At { offset: 0, .. } => format!("not JSON: {text}"),
                    SyntaxError::At { offset, expected } => {
                        format!("not JSON (column {} must be {expected}): {text}", offset + 1)
                    }
                    SyntaxError::Incomplete | SyntaxError::TooLarge => format!("not JSON ({error}): {text}"),
                }
            }
            Malformed::TooLong => "longer than the line limit".to_owned(),
            Malformed::NulRun => "a run of NUL bytes, probably from a crash".to_owned(),
        };
        let line = Some(out.record.line);
        self.warnings.add("malformed-line", line, message.clone());
        let unterminated = !out.record.bytes.ends_with(b"\n");
        if *why == Malformed::TooLong {
            self.warnings.add("line-too-long", line, message.clone());
        } else if unterminated && *why == Malformed::Syntax(SyntaxError::Incomplete) {
            self.warnings.add("truncated-tail", line, "the stream ends in the middle of a line");
        }
        out.odd("malformed-line", message);
    }

    fn unknown(&mut self, kind: &str, out: &mut Steps<'_>) {
        self.unknown += 1;
        let message = format!("tapline does not know `{kind}` yet; its text is kept");
        if self.stats.unknown_types.len() < TYPES_LISTED && self.stats.unknown_types.insert(kind.to_owned()) {
            self.warnings.add("unknown-type", Some(out.record.line), message.clone());
        }
        let text = self.as_it_is(out);
        out.push(What::Odd(Odd { code: "unknown-type".into(), message, unknown: Some(kind.to_owned()), text }));
    }

    /// Takes whole lines that the agent wrote to stderr. Some agents report rejected calls only there; steps report
    /// them when the turn ends.
    pub fn hear_stderr(&mut self, lines: &str) {
        self.sides.hear_stderr(lines);
    }

    /// Returns the text so far of messages that were never finished, to show a stream that was cut off.
    pub fn unfinished(&self) -> Vec<Step> {
        let said = |(parent, text): (&Option<String>, &String)| {
            let said = Said { text: text.clone(), message_id: None, uuid: None, aborted: true };
            let depth = self.calls.depth_in(parent.as_deref());
            Step {
                line: self.stats.lines.total,
                at: None,
                arrived: None,
                parent: parent.clone(),
                depth,
                turn: self.turns.current,
                session_id: None,
                message: None,
                what: What::Text(said),
            }
        };
        self.typing.iter().filter(|(_, text)| !text.trim().is_empty()).map(said).collect()
    }

    /// Returns whether something went wrong, even if the last turn succeeded.
    fn is_blemished(&self) -> bool {
        self.turns.failed > 0 || self.denials > 0 || self.turns.recovered
    }

    /// Ends the stream and returns everything that is known.
    pub fn finish(self, ending: &Ending) -> Summary {
        let (agent, blemished) = (self.agent(), self.is_blemished());
        let Self { mut warnings, turns, spoken, mut session, mut sides, tasks, calls, .. } = self;
        let side = sides.of(agent);
        let texts = TextFacts { last_of_main: spoken.ends_with(), waiting: spoken.is_waiting(), ..self.asked };
        if agent.is_none() && self.unknown > 0 {
            // If nothing is known, one sentence says as much as a list.
            let (lines, types) = (self.unknown, self.stats.unknown_types.len());
            let lines = count_of(usize::try_from(lines).unwrap_or(usize::MAX), "line");
            let message = format!("{lines} of {} that tapline does not know; the text is kept", count_of(types, "type"));
            warnings.join("unknown-type", message);
        }
        session.ids = side.session_ids().map_or(self.ids.list, <[String]>::to_vec);
        for (id, line) in calls.orphans() {
            warnings.add("orphan-result", Some(line), format!("a result for {id}, but there is no such call"));
        }
        if calls.forgotten > 0 {
            warnings.add("orphan-result", None, format!("and {} more before these", calls.forgotten));
        }
        for (id, open) in calls.pending() {
            warnings.add("pending-call", Some(open.line), format!("{} ({id}) has no result", open.name));
        }
        let (rejected, in_steps) = side.rejected(ending.stderr.as_deref());
        for call in &rejected {
            let who = agent.map_or("the agent", Agent::title);
            warnings.add("permission-denied", None, format!("{who} rejected {call}"));
        }
        let last_failed = turns.failure.is_some();
        if !last_failed && turns.failed > 0 {
            warnings.add(
                "earlier-turn-failed",
                None,
                format!("{} of {} turns failed before the last", turns.failed, turns.count),
            );
        }
        let aborted = turns.last.as_ref().is_some_and(Turn::is_aborted);
        let (answer, last_text) = side.answer(&turns, spoken.last(), ending, &mut warnings);
        let evidence = Evidence {
            known: agent.is_some() || self.stats.lines.objects == 0,
            empty: self.stats.lines.total == 0,
            objects: self.stats.lines.objects > 0,
            result: agent.is_some() && turns.count > 0 && !turns.foreign_end && !turns.open,
            failure: turns.failure.or_else(|| side.failure()),
            aborted,
            blemished: blemished || !rejected.is_empty(),
            denials: self.denials + (rejected.len() - in_steps) as u64,
            texts,
            num_turns: turns.num_turns,
            stop_reason: turns.stop_reason.as_deref(),
            tasks: tasks.end(),
            resets_at: self.limit_resets_at,
            unsupported: self.too_old,
        };
        Summary {
            agent,
            session,
            answer,
            last_text,
            background_launches: evidence.texts.launches,
            rejected: rejected[in_steps..].to_vec(),
            verdict: judge(&evidence, ending, warnings),
            ledger: match agent {
                Some(_) => self.ledger.ledger(),
                None => Ledger { unreported: true, ..Ledger::default() },
            },
            turns: turns.count,
            last_turn: turns.last,
            duration_ms: turns.duration_ms,
            num_turns: turns.all_num_turns,
            first_prompt: self.prompts.first,
            prompts: self.prompts.own,
            stream: self.stats,
        }
    }
}

/// The steps of one record while they are made.
pub(crate) struct Steps<'r> {
    pub(crate) record: &'r Record,
    depth: usize,
    steps: Vec<Step>,
}

impl Steps<'_> {
    #[inline]
    pub(crate) fn push(&mut self, what: What) {
        self.push_at(self.record.line, self.record.arrived, what);
    }

    #[inline]
    fn push_at(&mut self, line: u64, arrived: Option<Moment>, what: What) {
        if self.steps.capacity() == 0 {
            // Most records are one step, and the usual room for four costs the allocator much more.
            self.steps.reserve_exact(1);
        }
        self.steps.push(Step {
            line,
            at: self.record.envelope.timestamp.clone(),
            arrived,
            parent: self.record.envelope.parent.clone(),
            depth: self.depth,
            turn: 0,
            session_id: None,
            message: None,
            what,
        });
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn is_main(&self) -> bool {
        self.record.envelope.parent.is_none()
    }

    /// Returns the event's type, or `system/<subtype>`.
    fn kind(&self) -> String {
        self.record.tag().unwrap_or_default()
    }

    fn odd(&mut self, code: &'static str, message: impl Into<String>) {
        self.push(What::Odd(Odd { code: code.into(), message: message.into(), unknown: None, text: None }));
    }

    fn notice(&mut self, level: Level, text: String) {
        let kind = self.kind();
        self.push(What::Notice(Notice { level, kind, text }));
    }

    /// Adds a notice, if there is something to say.
    fn say(&mut self, level: Level, text: Option<&str>) {
        match text.filter(|text| !text.trim().is_empty()) {
            Some(text) => self.notice(level, text.to_owned()),
            None => self.quiet(None),
        }
    }

    fn quiet(&mut self, detail: Option<&String>) {
        let kind = self.kind();
        self.push(What::Quiet { kind, detail: detail.cloned() });
    }
}
