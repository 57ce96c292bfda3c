//! A session that is read as it grows: its steps go to the spool and to the feed, and what they add up to becomes its row.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tapline_archive::{Source, SourceOptions, project};
use tapline_protocol::Tokens;
use tapline_recording::Recording;
use tapline_session::otlp::{AgentSpan, Spans};
use tapline_session::render::html::{self, Card, Cards};
use tapline_session::{SessionPhase, Step};

use crate::questions::Questions;
use crate::row::{Details, Origin, Row, StepRow, cut, now, written};
use crate::spool::Spool;
use crate::track::{Track, agent_name};

/// How many records are read before others have their turn.
const SLICE: usize = 500;

/// A file that was written this long ago, in milliseconds, may still grow.
pub(crate) const RECENT: u64 = 30 * 60 * 1_000;
/// A recording without an end may be of a run that waits.
const RECORDED: u64 = 24 * 60 * 60 * 1_000;

/// How many bytes of steps that changed stay in memory until they are told.
const TOLD: usize = 256 << 10;

/// How many characters of a folder a row has.
const LONGEST_PATH: usize = 4_096;

/// Where a session is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionFile {
    /// The file that grows.
    pub(crate) path: PathBuf,
    /// The folder of the recording, if it is one.
    pub(crate) recording: Option<PathBuf>,
}

impl SessionFile {
    /// Returns what is opened: a recording's folder, or the file.
    pub(crate) fn opens(&self) -> &Path {
        self.recording.as_ref().unwrap_or(&self.path)
    }

    /// Returns whether it may grow, if it was written this long ago, in milliseconds.
    pub(crate) fn may_grow(&self, age: u64) -> bool {
        match &self.recording {
            Some(_) => age < RECORDED && !self.has_end(),
            None => age < RECENT && self.path.extension().is_none_or(|ending| ending != "zst"),
        }
    }

    /// Returns whether it is a recording of a run that has ended.
    pub(crate) fn has_end(&self) -> bool {
        self.recording.as_ref().is_some_and(|folder| folder.join("end.json").exists())
    }

    /// Returns what changes when something other than the output of a recording does: how long its list of times is, which grows with
    /// all that is recorded, how long that of decisions is, and whether it has ended.
    pub(crate) fn beside(&self) -> u64 {
        let length = |name: &str| std::fs::metadata(self.recording.as_ref()?.join(name)).ok().map(|file| file.len());
        ["times", "decisions"].into_iter().filter_map(length).sum::<u64>() * 2 + u64::from(self.has_end())
    }

    /// Returns whether others pushed it.
    pub(crate) fn is_push(&self) -> bool {
        self.recording.as_ref().is_some_and(|folder| folder.join(crate::ingest::MARK).exists())
    }

    /// Returns how long ago it was written, in milliseconds.
    pub(crate) fn age(&self) -> Option<u64> {
        let changed = std::fs::metadata(&self.path).and_then(|meta| meta.modified()).ok()?;
        changed.elapsed().ok().map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the name that it has before its session is known.
    pub(crate) fn name(&self) -> String {
        let name = if self.recording.is_some() { self.opens().file_name() } else { self.path.file_stem() };
        name.unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A session that is read.
pub(crate) struct Follower {
    pub(crate) file: SessionFile,
    /// `None` once it has ended.
    source: Option<Source<Box<dyn Read + Send>>>,
    track: Track,
    cards: Cards,
    /// The lines of the file with which the steps began that are not in the spool yet.
    lines: Vec<u64>,
    spool: Spool,
    agent: String,
    origin: Origin,
    tokens: Tokens,
    cost: Option<(f64, bool)>,
    branch: Option<String>,
    label: Option<String>,
    /// The verdict as HTML, once the run has ended.
    ending: String,
    /// What becomes spans, if they are exported.
    spans: Option<Spans>,
    /// Whether everything that is there was read.
    pub(crate) is_current: bool,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("file", &self.file).finish_non_exhaustive()
    }
}

/// How a question was decided, as a recording has it.
#[derive(Deserialize)]
struct Decision {
    request_id: String,
    ruling: String,
    #[serde(default)]
    by: String,
}

impl Decision {
    /// Says how the question was decided, and by whom.
    fn how(&self) -> String {
        let ruling = if self.ruling == "allow" { "allowed" } else { "refused" };
        match self.by.as_str() {
            "rule" => format!("{ruling} by a rule"),
            "deadline" => "refused, because nobody answered in time".to_owned(),
            "withdrawn" => "withdrawn by the agent".to_owned(),
            _ => format!("{ruling} where the session runs"),
        }
    }
}

/// What a slice of reading changed.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// The steps, new ones and others.
    pub(crate) steps: BTreeSet<usize>,
    /// The first of them as JSON, as long as they have few bytes: whoever tells them need not read them again.
    pub(crate) json: Vec<String>,
}

impl Follower {
    /// Opens a session. One that may grow is followed.
    pub(crate) fn open(file: SessionFile, grows: bool, spools: &Path, spans: Option<Spans>) -> io::Result<Self> {
        let recording = file.recording.as_deref().and_then(|folder| Recording::open(folder).ok());
        let has_ended = recording.as_ref().is_some_and(|recording| recording.end.is_some());
        let open = if grows && !has_ended { Source::follow } else { Source::open };
        let source = open(file.opens(), SourceOptions::default()).map_err(io::Error::other)?;
        let source = if recording.is_some() && grows { source.timed_by(now) } else { source };
        let mut track = Track::new(spools.to_owned());
        let mut label = None;
        if let Some(recording) = &recording {
            track.folder.clone_from(&recording.meta.cwd);
            track.first = recording.meta.started_at.is_some().then(|| recording.started());
            label.clone_from(&recording.meta.label);
        }
        let origin = match &file.recording {
            Some(_) if file.is_push() => Origin::Push,
            Some(_) => Origin::Recording,
            None => Origin::Transcript,
        };
        // A stream that was pushed names folders of another machine.
        let branch = track.folder.as_deref().filter(|_| origin == Origin::Recording).and_then(branch_of);
        let spool = Spool::create(spools)?;
        let agent = recording.and_then(|recording| recording.meta.agent).unwrap_or_default();
        Ok(Self {
            file,
            source: Some(source),
            track,
            cards: Cards::default(),
            lines: Vec::new(),
            spool,
            agent,
            origin,
            tokens: Tokens::default(),
            cost: None,
            branch,
            label,
            ending: String::new(),
            spans,
            is_current: false,
        })
    }

    /// Reads on, for a while.
    pub(crate) fn advance(&mut self) -> io::Result<Changed> {
        let mut changed = Changed::default();
        let Some(mut source) = self.source.take() else {
            self.is_current = true;
            return Ok(changed);
        };
        for _ in 0..SLICE {
            match source.advance() {
                Ok(Some((_, steps))) => steps.iter().for_each(|step| self.accept(step, &mut changed)),
                Ok(None) => {
                    self.note_ledger(&source);
                    self.hear_decisions(&mut changed);
                    self.end(source, &mut changed)?;
                    return Ok(changed);
                }
                Err(error) if error.is_pending() => {
                    self.is_current = true;
                    break;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
            self.is_current = false;
        }
        self.hear_decisions(&mut changed);
        self.keep(&mut changed)?;
        if let Some(phase) = source.untold_end().filter(|_| self.is_current) {
            self.track.note_end(phase);
            self.spans.iter_mut().for_each(|spans| spans.note_end(phase == SessionPhase::Failed));
        }
        self.note_ledger(&source);
        self.source = Some(source);
        Ok(changed)
    }

    fn accept(&mut self, step: &Step, changed: &mut Changed) {
        // A recording may have been found before it was marked as pushed. Its first byte comes after that.
        if self.cards.is_empty() && self.origin == Origin::Recording && self.file.is_push() {
            (self.origin, self.branch) = (Origin::Push, None);
        }
        let cards = self.cards.accept(step);
        self.track.accept(step, cards.first().and_then(|n| self.cards.get(*n)));
        self.spans.iter_mut().for_each(|spans| spans.accept(step));
        self.lines.resize(self.cards.len() - self.spool.len(), step.line);
        changed.steps.extend(cards);
    }

    /// Notes how questions were decided that the stream shows as open. The recording says it before the call has its result.
    fn hear_decisions(&mut self, changed: &mut Changed) {
        let open = self.track.questions.ids();
        let recording = self.file.recording.as_deref().filter(|_| !open.is_empty());
        let Some(recording) = recording.and_then(|folder| Recording::open(folder).ok()) else { return };
        for decision in recording.decisions() {
            let decided = serde_json::from_str::<Decision>(decision.as_str()).ok();
            if let Some(decision) = decided.filter(|decided| open.contains(&decided.request_id)) {
                self.track.questions.settle(&decision.request_id, &decision.how());
                changed.steps.extend(self.cards.note_decision(&decision.request_id, decision.ruling == "allow"));
            }
        }
    }

    /// Returns the step that a line of the file belongs to: the last one that began by then.
    pub(crate) fn step_at(&self, line: u64) -> Option<usize> {
        self.spool.step_at(line).ok()?
    }

    /// Keeps what changed as JSON, and forgets it.
    fn keep(&mut self, changed: &mut Changed) -> io::Result<()> {
        let mut room = TOLD;
        let first = self.spool.len();
        for n in &changed.steps {
            let card = &self.cards[*n];
            let (agent, html) = (card.parent.map(agent_name), card.html());
            let row = StepRow {
                n: *n,
                kind: kind_of(card),
                time: card.arrived.and_then(written),
                agent: agent.as_deref(),
                html: &html,
            };
            let line = n.checked_sub(first).and_then(|at| self.lines.get(at)).copied().unwrap_or_default();
            let json = serde_json::to_string(&row)?;
            self.spool.put(*n, line, &json)?;
            self.cards.release(*n);
            room = room.saturating_sub(json.len());
            if room > 0 {
                changed.json.push(json);
            }
        }
        self.lines = Vec::new();
        self.spool.settle()
    }

    fn note_ledger(&mut self, source: &Source<Box<dyn Read + Send>>) {
        if let Some(agent) = source.agent() {
            agent.name().clone_into(&mut self.agent);
            if let Some(spans) = &mut self.spans {
                spans.note_agent(Some(agent));
                spans.note_fork(source.goes_on());
            }
        }
        // Of a transcript, only the archive can tell it: what a fork copied does not count.
        if !source.is_transcript() {
            let ledger = source.ledger();
            self.tokens = ledger.tokens;
            self.cost = ledger.cost_usd.map(|cost| (cost, ledger.exact));
        }
    }

    fn end(&mut self, source: Source<Box<dyn Read + Send>>, changed: &mut Changed) -> io::Result<()> {
        self.is_current = true;
        if self.file.recording.is_some() {
            // Text that was never finished is on the page already, if its parts were told.
            let summary = source.finish().summary;
            self.ending = html::verdict(&summary);
            self.track.note_verdict(&summary.verdict);
            self.spans.iter_mut().for_each(|spans| spans.note_cost(summary.ledger.cost_usd));
            self.finish_spans(summary.verdict.error_class());
            changed.steps.extend(self.cards.close());
        }
        self.keep(changed)
    }

    /// Ends the spans that are open.
    fn finish_spans(&mut self, error: Option<&str>) {
        self.spans.iter_mut().for_each(|spans| spans.finish(error));
    }

    /// Takes the spans that have ended.
    pub(crate) fn take_spans(&mut self) -> Vec<AgentSpan> {
        self.spans.as_mut().map(Spans::take).unwrap_or_default()
    }

    /// Takes all spans, because nobody reads on. A turn that is under way stays open: whoever reads the session next tells it.
    pub(crate) fn last_spans(&mut self) -> Vec<AgentSpan> {
        if self.source.is_some() && self.spans.as_ref().is_some_and(Spans::is_idle) {
            self.finish_spans(None);
        }
        self.take_spans()
    }

    /// Returns whether nothing more will come.
    pub(crate) fn has_ended(&self) -> bool {
        self.source.is_none()
    }

    /// Returns whether it is a session: a recording, or a file with a session of an agent. It is the archive's rule, too.
    pub(crate) fn is_session(&self) -> bool {
        self.file.recording.is_some() || !self.agent.is_empty() && self.session().is_some_and(|id| !id.is_empty())
    }

    /// Returns the id of the session, as far as it is known.
    pub(crate) fn session(&self) -> Option<&str> {
        self.track.session.as_deref()
    }

    /// Returns where the session was seen.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns how many steps there are.
    pub(crate) fn len(&self) -> usize {
        self.spool.len()
    }

    /// Appends steps as JSON.
    pub(crate) fn page(&mut self, from: usize, limit: usize, out: &mut Vec<u8>) -> io::Result<()> {
        self.spool.page(from, limit, out)
    }

    /// Returns a step as JSON.
    pub(crate) fn step(&mut self, n: usize) -> io::Result<String> {
        self.spool.get(n)
    }

    /// Returns how many things about the steps so far are in memory.
    #[cfg(test)]
    fn kept(&self) -> usize {
        self.lines.len() + self.spool.kept() + self.cards.kept() + self.track.kept()
    }

    /// Returns what the agent asks.
    pub(crate) fn questions(&self) -> &Questions {
        &self.track.questions
    }

    /// Returns what the side panel shows.
    pub(crate) fn details(&self) -> Details {
        Details { ending: self.ending.clone(), ..self.track.details() }
    }

    /// Returns the row of the session. What the archive knows better comes from there.
    pub(crate) fn row(&self, id: &str, archived: Option<&Row>) -> Row {
        let track = &self.track;
        let text = |of: fn(&Row) -> Option<&String>| archived.and_then(of).cloned();
        let folder = track.folder.clone().or_else(|| text(|row| row.folder.as_ref()));
        let folder = folder.map(|folder| folder.chars().take(LONGEST_PATH).collect::<String>());
        // Of a session that was gone on with, this is only the last run.
        let earlier = archived.map(|row| row.earlier.clone()).unwrap_or_default();
        let (cost, tokens) = match (self.cost.filter(|_| earlier.is_empty()), archived) {
            (Some(cost), _) => (Some(cost), self.tokens),
            (None, Some(row)) => (row.cost_usd.map(|cost| (cost, row.cost_exact)), row.tokens),
            (None, None) => (None, self.tokens),
        };
        let label = || self.label.clone().filter(|label| !label.is_empty());
        let title = archived.map(|row| row.title.clone()).filter(|title| !title.is_empty());
        let first = title.clone().filter(|_| !earlier.is_empty());
        Row {
            id: id.to_owned(),
            agent: self.agent.clone(),
            title: first.or_else(|| track.title.clone()).or(title).or_else(label).map(|title| cut(&title)).unwrap_or_default(),
            project: folder.as_deref().map(|folder| project(folder).to_owned()),
            folder,
            branch: text(|row| row.branch.as_ref()).or_else(|| self.branch.clone()).map(|branch| cut(&branch)),
            model: track.model.clone().or_else(|| text(|row| row.model.as_ref())).map(|model| cut(&model)),
            state: track.state(),
            now: track.doing(),
            cost_usd: cost.map(|(cost, _)| cost),
            cost_exact: cost.is_some_and(|(_, exact)| exact),
            tokens,
            context_used: track.context_used(),
            started_at: track.first.and_then(written),
            updated_at: track.last.or(track.first).and_then(written),
            source: self.origin,
            steps: self.spool.len(),
            questions: track.questions.rows(),
            controllable: false,
            messages: false,
            earlier,
        }
    }
}

/// Returns what a step is, in one word. `session` is what all of them are in.
fn kind_of(card: &Card) -> &'static str {
    match card.kind() {
        "session" => "start",
        kind => kind,
    }
}

/// Returns the branch that a folder is on.
fn branch_of(folder: &str) -> Option<String> {
    let head = std::fs::read_to_string(Path::new(folder).join(".git/HEAD")).ok()?;
    head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use tapline_testkit::TempFolder;

    use super::*;
    use crate::row::now;

    /// A session of rounds: a text, a call and its result in each.
    fn session(rounds: usize) -> String {
        let mut text = String::new();
        for n in 0..rounds {
            let _ = write!(
                text,
                r#"{{"type":"assistant","session_id":"s","message":{{"id":"m{n}","role":"assistant","content":[{{"type":"text","text":"Now {n}."}},{{"type":"tool_use","id":"t{n}","name":"Bash","input":{{"command":"make {n}"}}}}]}}}}
{{"type":"user","session_id":"s","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{n}","content":"ok"}}]}}}}
"#
            );
        }
        text
    }

    fn read(folder: &Path, rounds: usize) -> Follower {
        let path = folder.join(format!("{rounds}.jsonl"));
        std::fs::write(&path, session(rounds)).unwrap();
        let mut follower = Follower::open(SessionFile { path, recording: None }, false, folder, None).unwrap();
        // The lines have no times, and only calls with times are in the timeline.
        follower.source = follower.source.map(|source| source.timed_by(now));
        while !follower.has_ended() {
            follower.advance().unwrap();
        }
        follower
    }

    #[test]
    fn memory_does_not_grow_with_the_steps() {
        let folder = TempFolder::new();
        let few = read(&folder, 20_000);
        let many = read(&folder, 60_000);
        assert_eq!((few.len(), many.len()), (40_000, 120_000));
        assert!(many.kept() <= few.kept() + 4_096, "{} and {} things in memory", few.kept(), many.kept());
        assert!(
            many.spool.room() <= 2_048 && many.cards.kept() < 1_024,
            "{} bytes, {} cards",
            many.spool.room(),
            many.cards.kept()
        );
        assert!(many.kept() < 32_768, "{}", many.kept());
        // Everything can be found all the same.
        let mut many = many;
        for n in [0, 1, 777, 60_001, 119_998, 119_999] {
            let step = many.step(n).unwrap();
            assert!(step.starts_with(&format!("{{\"n\":{n},")), "{step}");
            assert!(step.contains(&if n % 2 == 0 { format!("Now {}.", n / 2) } else { format!("make {}", n / 2) }), "{step}");
            // Each round has two lines.
            assert_eq!(many.step_at(n as u64 / 2 * 2 + 1), Some(n / 2 * 2 + 1));
        }
        let mut page = Vec::new();
        many.page(59_999, 3, &mut page).unwrap();
        let page: serde_json::Value = serde_json::from_slice(&[b"[", page.as_slice(), b"]"].concat()).unwrap();
        assert_eq!(
            page.as_array().unwrap().iter().map(|step| step["n"].as_u64().unwrap()).collect::<Vec<_>>(),
            [59_999, 60_000, 60_001]
        );
        // The timeline has the calls of the end.
        assert_eq!(many.details().spans.last().map(|span| span.step), Some(119_999));
    }
}
