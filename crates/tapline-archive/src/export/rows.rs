//! Makes rows of what the loader counts. Messages, calls and costs are written as they come. Sessions are added up,
//! because a request can count for a session whose own file comes later.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use jiff::civil::{Date, date};
use tapline_recording::Redactor;
use tapline_session::SessionPhase;

use super::ExportError;
use super::cell::{Cell, Rows};
use super::tables::ExportTable;
use crate::cost::CostBasis;
use crate::facts::CallEnd;
use crate::load::{Reader, Request, SessionFacts};
use crate::money::Money;
use crate::shares::{CallShare, shares};
use crate::stats::{Query, Totals};
use crate::transcripts::TITLE;
use tapline_protocol::Tokens;

/// No zone is off by less than a quarter of an hour, so all moments in one are of the same day.
const QUARTER: u64 = 15 * 60 * 1_000;
/// How many texts without secrets are remembered.
const REMEMBERED: usize = 4_096;

pub(super) struct Exporter<'e> {
    query: &'e Query,
    clean: Clean<'e>,
    outputs: Vec<Output<'e>>,
    sessions: BTreeMap<String, Session>,
    /// The last quarter of an hour, and its day.
    day: Option<(u64, i32)>,
    failed: Option<ExportError>,
}

struct Output<'e> {
    table: ExportTable,
    rows: Box<dyn Rows + 'e>,
    count: u64,
}

/// A session that is being added up.
#[derive(Default)]
struct Session {
    totals: Totals,
    /// The agent and folder of its requests, in case no file is its own.
    agent: String,
    folder: String,
    about: Option<SessionFacts>,
}

impl<'e> Exporter<'e> {
    pub(super) fn new(query: &'e Query, redactor: Option<&'e Redactor>) -> Self {
        let clean = Clean { redactor, known: HashMap::default() };
        Self { query, clean, outputs: Vec::new(), sessions: BTreeMap::new(), day: None, failed: None }
    }

    pub(super) fn add(&mut self, table: ExportTable, rows: Box<dyn Rows + 'e>) {
        self.outputs.push(Output { table, rows, count: 0 });
    }

    fn wants(&self, table: ExportTable) -> bool {
        self.failed.is_none() && self.outputs.iter().any(|output| output.table == table)
    }

    fn write(&mut self, table: ExportTable, cells: &[Cell<'_>]) {
        debug_assert_eq!(cells.len(), table.columns().len(), "{table:?}");
        for output in self.outputs.iter_mut().filter(|output| output.table == table) {
            match output.rows.row(cells) {
                Ok(()) => output.count += 1,
                Err(error) => self.failed = self.failed.take().or(Some(ExportError::Write { table, error })),
            }
        }
    }

    pub(super) fn finish(mut self) -> Result<Vec<(ExportTable, u64)>, ExportError> {
        if self.wants(ExportTable::Sessions) {
            for (id, session) in std::mem::take(&mut self.sessions) {
                self.session_row(&id, &session);
            }
        }
        if let Some(error) = self.failed {
            return Err(error);
        }
        let finish = |mut output: Output<'_>| match output.rows.finish() {
            Ok(()) => Ok((output.table, output.count)),
            Err(error) => Err(ExportError::Write { table: output.table, error }),
        };
        self.outputs.into_iter().map(finish).collect()
    }

    /// Returns the day of a moment, where days begin for the user.
    fn day(&mut self, time: u64) -> i32 {
        let quarter = time / QUARTER;
        if let Some((_, day)) = self.day.filter(|(known, _)| *known == quarter) {
            return day;
        }
        let moment = Timestamp::from_millisecond(time.cast_signed()).unwrap_or_default();
        let day = days(moment.to_zoned(self.query.zone.clone()).date());
        self.day = Some((quarter, day));
        day
    }

    fn session_row(&mut self, id: &str, session: &Session) {
        let none = SessionFacts::default();
        let about = session.about.as_ref().unwrap_or(&none);
        let or = |text: &'_ str, other: &'_ str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
        let clean = &mut self.clean;
        let agent = or(&about.agent, &session.agent);
        let title = clean.title(&about.title);
        let folder = or(&about.folder, &session.folder);
        let (id, folder) = (clean.text(id), clean.text(&folder));
        let (version, branch) = (clean.text(&about.version), clean.text(&about.branch));
        let parent = clean.text(about.forked_from.as_deref().unwrap_or_default());
        let file = about.own().map(|file| file.path.to_string_lossy().into_owned()).unwrap_or_default();
        let file = clean.text(&file);
        let gone = about.files.iter().filter(|file| file.gone).count();
        let time = |time: Option<u64>| time.map_or(Cell::Nothing, Cell::Time);
        let totals = &session.totals;
        let cells = [
            Cell::Text(&id),
            Cell::Text(&agent),
            Cell::text(&version),
            Cell::text(&title),
            Cell::text(&folder),
            Cell::text(&branch),
            Cell::text(&parent),
            time(about.first),
            time(about.last),
            Cell::text(phase(about.phase)),
            about.prompts.into(),
            about.busy_ms.into(),
            totals.requests.into(),
            totals.request_errors.into(),
            totals.unlisted.into(),
            totals.calls.into(),
            totals.call_errors.into(),
            totals.call_denials.into(),
            totals.web_searches.into(),
            totals.input.into(),
            totals.output.into(),
            totals.cache_read.into(),
            totals.cache_write.into(),
            totals.cache_write_1h.into(),
            totals.reasoning.into(),
            totals.cost_usd.into(),
            totals.cost_reported_usd.into(),
            totals.cost_computed_usd.into(),
            totals.cost_unknown.into(),
            totals.exact.into(),
            about.damaged.into(),
            Cell::text(&file),
            (about.files.len() as u64).into(),
            (gone as u64).into(),
        ];
        self.write(ExportTable::Sessions, &cells);
    }
}

impl Reader for Exporter<'_> {
    fn request(&mut self, request: &Request<'_>) {
        if self.failed.is_some() || !self.query.takes(request) {
            return;
        }
        if self.wants(ExportTable::Sessions) {
            if !self.sessions.contains_key(request.session) {
                let (agent, folder) = (request.agent.to_owned(), request.folder.to_owned());
                self.sessions.insert(request.session.to_owned(), Session { agent, folder, ..Session::default() });
            }
            if let Some(session) = self.sessions.get_mut(request.session) {
                session.totals.add_request(request);
            }
        }
        let day = self.day(request.time);
        let id = if request.id == 0 { String::new() } else { format!("{:016x}", request.id) };
        let Self { clean, .. } = self;
        let texts = [request.session, request.agent, request.model, request.folder, request.branch, request.subagent]
            .map(|text| clean.text(text));
        let [session, agent, model, folder, branch, subagent] = &texts;
        let about = [
            Cell::Text(session),
            Cell::Time(request.time),
            Cell::Day(day),
            Cell::Text(agent),
            Cell::text(model),
            Cell::text(folder),
            Cell::text(branch),
            Cell::text(subagent),
        ];
        if self.wants(ExportTable::Messages) {
            let mut cells = vec![Cell::text(&id)];
            cells.extend(about);
            cells.extend(tokens(request.tokens));
            cells.extend([
                Cell::Whole(request.searches),
                Cell::Whole(request.calls.len() as u64),
                request.cost.into(),
                request.computed.into(),
                Cell::Text(basis(request.basis)),
                request.exact.into(),
                request.unlisted.into(),
                request.error.into(),
            ]);
            self.write(ExportTable::Messages, &cells);
        }
        let tools: Vec<Cow<'_, str>> = request.calls.iter().map(|(tool, _)| self.clean.text(tool)).collect();
        if self.wants(ExportTable::Calls) {
            for ((number, tool), (_, end)) in (1..).zip(&tools).zip(&request.calls) {
                let mut cells = vec![Cell::text(&id), Cell::Whole(number)];
                cells.extend(about);
                cells.extend([Cell::Text(tool), Cell::Text(ended(*end))]);
                self.write(ExportTable::Calls, &cells);
            }
        }
        if self.wants(ExportTable::Costs) {
            let mut row = |number: Cell<'_>, tool: &str, end: &str, share: &CallShare| {
                let mut cells = vec![Cell::text(&id), number];
                cells.extend(about);
                cells.extend([Cell::Text(tool), Cell::text(end)]);
                cells.extend(tokens(share.tokens));
                cells.extend([share.cost.into(), share.computed.into(), Cell::Text(basis(request.basis))]);
                self.write(ExportTable::Costs, &cells);
            };
            for (((number, tool), (_, end)), share) in (1..).zip(&tools).zip(&request.calls).zip(shares(request)) {
                row(Cell::Whole(number), tool, ended(*end), &share);
            }
            if tools.is_empty() {
                let (cost, computed): (Option<Money>, _) = (request.cost, request.computed);
                let tool = if request.unlisted { "(unlisted)" } else { "(answer)" };
                row(Cell::Nothing, tool, "", &CallShare { tokens: request.tokens, cost, computed });
            }
        }
    }

    fn session(&mut self, session: SessionFacts) {
        if let Some(known) = self.sessions.get_mut(&session.id) {
            known.about = Some(session);
        }
    }
}

/// Removes secrets from texts, and remembers what it did: the same few texts come again and again.
struct Clean<'e> {
    redactor: Option<&'e Redactor>,
    known: HashMap<String, String, foldhash::fast::FixedState>,
}

impl Clean<'_> {
    fn text<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let Some(redactor) = self.redactor else { return Cow::Borrowed(text) };
        if let Some(known) = self.known.get(text) {
            return Cow::Owned(known.clone());
        }
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let clean = redactor.text(text).into_owned();
        self.known.insert(text.to_owned(), clean.clone());
        Cow::Owned(clean)
    }

    /// Removes secrets from a title. One that was cut can end within a secret, which is then not recognised, so its last
    /// word is left out.
    fn title<'t>(&mut self, title: &'t str) -> Cow<'t, str> {
        let Some(redactor) = self.redactor else { return Cow::Borrowed(title) };
        if title.chars().count() < TITLE {
            return redactor.text(title);
        }
        let whole = title.rfind(char::is_whitespace).map_or("", |end| &title[..end]);
        Cow::Owned(format!("{} …", redactor.text(whole.trim_end())))
    }
}

fn tokens(tokens: Tokens) -> [Cell<'static>; 6] {
    let Tokens { input, output, cache_read, cache_write_1h, reasoning, .. } = tokens;
    [input, output, cache_read, tokens.cache_write(), cache_write_1h, reasoning].map(Cell::Whole)
}

fn days(day: Date) -> i32 {
    day.since(date(1970, 1, 1)).map_or(0, |span| span.get_days())
}

const fn basis(basis: CostBasis) -> &'static str {
    match basis {
        CostBasis::Reported => "reported",
        CostBasis::Computed => "computed",
        CostBasis::Unknown => "unknown",
    }
}

const fn ended(end: CallEnd) -> &'static str {
    match end {
        CallEnd::Ok => "ok",
        CallEnd::Failed => "failed",
        CallEnd::Denied => "denied",
    }
}

const fn phase(phase: SessionPhase) -> &'static str {
    match phase {
        SessionPhase::Finished => "finished",
        SessionPhase::Failed => "failed",
        SessionPhase::Interrupted => "interrupted",
        SessionPhase::Limited => "limited",
        SessionPhase::InCall => "in_call",
        SessionPhase::Asking => "asking",
        SessionPhase::Working => "working",
        _ => "",
    }
}
