//! Builds a ledger while a stream is read, in bounded memory.

use std::collections::BTreeMap;
use std::ops::Add;

use tapline_protocol::claude::message::{Message, Usage};
use tapline_protocol::claude::result::{ModelUsage, TurnResult};
use tapline_protocol::codex::CodexUsage;

use super::{Basis, Ledger, ModelTotals, TokenCounts, exact_dollars};
use crate::recent::Recent;

/// Model names that stand for no model.
const SYNTHETIC: &str = "<synthetic>";

/// Where the agent names no model.
const UNNAMED: &str = "unknown";

#[derive(Debug, Default)]
pub(crate) struct LedgerBuilder {
    /// Processes that have ended, where streams were joined.
    past: Ledger,
    /// The processes by session, or by thread: totals are cumulative in each.
    processes: BTreeMap<Option<String>, Process>,
    session: Option<String>,
    /// What all of them add up to, those that have ended too.
    totals: Totals,
    results: bool,
    /// Whether any result counted tokens.
    counted: bool,
    /// Something was used since the last result.
    since_result: bool,
    /// A change of session id that is no new process.
    explained: bool,
    messages: Recent,
    streamed: Recent,
    /// Messages being written, by the thread that writes them.
    open: BTreeMap<Option<String>, Open>,
    from_deltas: BTreeMap<String, TokenCounts>,
    from_messages: BTreeMap<String, TokenCounts>,
    deltas: bool,
    /// A message ended whose start, and so its input, was never seen.
    unstarted: bool,
    /// Codex counts its own tokens, not those of the agents it starts.
    sub_agents: bool,
}

/// One process of the agent: its totals are cumulative.
#[derive(Debug, Default)]
struct Process {
    ended_a_turn: bool,
    total: Option<f64>,
    /// The total by model, where a result had one.
    models: BTreeMap<String, ModelUsage>,
    /// What the models used; where none is named, what the turns did.
    tokens: TokenCounts,
    web_searches: u64,
    /// What was counted is all that was used: it is the total by model, or nothing was used.
    whole: bool,
}

impl Process {
    /// Counts what one turn used.
    fn add_turn(&mut self, usage: &Usage) {
        if self.models.is_empty() {
            let searches = usage.server_tool_use.as_ref().map_or(0, |counts| counts.web_search_requests.0);
            self.tokens += TokenCounts::from(usage);
            self.web_searches = self.web_searches.saturating_add(searches);
        }
    }

    /// Takes the total by model in place of what the turns used.
    fn set_models(&mut self, models: &BTreeMap<String, ModelUsage>) {
        self.models.clone_from(models);
        self.tokens = models.values().map(TokenCounts::from).fold(TokenCounts::default(), Add::add);
        let searches = models.values().map(|usage| usage.web_search_requests.0);
        self.web_searches = searches.fold(0, u64::saturating_add);
    }

    fn ledger(&self) -> Ledger {
        let cost_of = |usage: &ModelUsage| usage.cost_usd.as_ref().map(|cost| exact_dollars(cost.usd));
        let of = |usage| ModelTotals { tokens: TokenCounts::from(usage), cost_usd: cost_of(usage) };
        Ledger {
            cost_usd: self.total.map(exact_dollars),
            tokens: self.tokens,
            web_searches: self.web_searches,
            exact: self.whole,
            by_model: self.models.iter().map(|(model, usage)| (model.clone(), of(usage))).collect(),
            basis: Basis::Results,
            ..Ledger::default()
        }
    }
}

/// Sums that are kept up to date, process by process: a turn asks for them, and there may be as many processes as turns.
#[derive(Debug, Default)]
struct Totals {
    processes: usize,
    with_cost: usize,
    whole: usize,
    cost: f64,
    tokens: TokenCounts,
    web_searches: u64,
}

impl Totals {
    fn add(&mut self, process: &Process) {
        self.processes += 1;
        self.with_cost += usize::from(process.total.is_some());
        self.whole += usize::from(process.whole);
        self.cost = exact_dollars(self.cost + process.total.unwrap_or(0.0));
        self.tokens += process.tokens;
        self.web_searches = self.web_searches.saturating_add(process.web_searches);
    }

    /// Takes out a process that was added before.
    fn remove(&mut self, process: &Process) {
        self.processes -= 1;
        self.with_cost -= usize::from(process.total.is_some());
        self.whole -= usize::from(process.whole);
        self.cost = exact_dollars(self.cost - process.total.unwrap_or(0.0));
        self.tokens = self.tokens.without(process.tokens);
        self.web_searches = self.web_searches.saturating_sub(process.web_searches);
    }

    fn ledger(&self) -> Ledger {
        Ledger {
            cost_usd: (self.with_cost > 0).then_some(self.cost),
            tokens: self.tokens,
            web_searches: self.web_searches,
            exact: self.processes > 0 && self.whole == self.processes,
            ..Ledger::default()
        }
    }
}

/// A message while it is written.
#[derive(Debug)]
struct Open {
    model: String,
    counts: TokenCounts,
    started: bool,
    ended: bool,
}

impl LedgerBuilder {
    /// The conversation continues under another id, in the same process.
    pub(crate) fn expect_new_session_id(&mut self) {
        self.explained = true;
    }

    /// Takes a result and returns what its turn cost.
    pub(crate) fn result(&mut self, turn: &TurnResult, session: Option<&str>, repeated: bool) -> Option<f64> {
        self.results = true;
        self.since_result = false;
        let total = turn.total_cost().map(|cost| cost.usd);
        if repeated {
            return total.map(|_| 0.0);
        }
        let explained = std::mem::take(&mut self.explained) || turn.resume_reason.is_some();
        if let Some(session) = session
            && self.session.as_deref() != Some(session)
        {
            // The first id, or one that goes on under another name, is the same process.
            let before = self.session.replace(session.to_owned());
            if (explained || before.is_none())
                && let Some(process) = self.processes.remove(&before)
                && let Some(ended) = self.processes.insert(self.session.clone(), process)
            {
                self.past += &ended.ledger();
            }
        }
        let process = self.processes.entry(self.session.clone()).or_default();
        if process.ended_a_turn {
            self.totals.remove(process);
        }
        if matches!((total, process.total), (Some(now), Some(before)) if now < before - 1e-9) {
            let ended = std::mem::take(process);
            self.totals.add(&ended);
            self.past += &ended.ledger();
        }
        let before = process.total.unwrap_or(0.0);
        process.total = total.or(process.total);
        let models = turn.model_usage.as_ref().filter(|models| !models.by_model.is_empty());
        if let Some(usage) = &turn.usage {
            self.counted = true;
            process.add_turn(&usage.counts);
        }
        // A total by model that has no model is whole where the turn used nothing.
        let idle = turn.usage.as_ref().is_none_or(|usage| TokenCounts::from(&usage.counts).total() == 0);
        let was_whole = process.whole || !process.ended_a_turn;
        process.ended_a_turn = true;
        process.whole = models.is_some() || turn.model_usage.is_some() && idle && was_whole;
        if let Some(models) = models {
            self.counted = true;
            process.set_models(&models.by_model);
        }
        self.totals.add(process);
        total.map(|total| exact_dollars(total - before))
    }

    /// An `assistant` event: its input counts once a message, its output never.
    pub(crate) fn message(&mut self, message: &Message) {
        let Some(usage) = &message.usage else { return };
        let model = message.model.as_deref().unwrap_or(UNNAMED);
        // A message without an id is its own.
        let id = message.id.as_deref().unwrap_or_default();
        if model == SYNTHETIC || !id.is_empty() && !self.messages.insert(id) {
            return;
        }
        self.since_result = true;
        if id.is_empty() || !self.streamed.contains(id) {
            let counts = TokenCounts { output: 0, reasoning: 0, ..TokenCounts::from(usage) };
            *self.from_messages.entry(model.to_owned()).or_default() += counts;
        }
    }

    /// `message_start`
    pub(crate) fn message_start(&mut self, thread: Option<&String>, message: &Message) {
        self.message_stop(thread);
        self.since_result = true;
        if let Some(id) = &message.id {
            self.streamed.insert(id.as_str());
        }
        let counts = message.usage.as_ref().map(TokenCounts::from).unwrap_or_default();
        let counts = TokenCounts { output: 0, reasoning: 0, ..counts };
        let model = message.model.as_deref().unwrap_or(UNNAMED).to_owned();
        self.open.insert(thread.cloned(), Open { model, counts, started: true, ended: false });
    }

    /// `message_delta`: what the message took in the end.
    pub(crate) fn message_delta(&mut self, thread: Option<&String>, usage: &Usage) {
        self.deltas = true;
        let fresh = || Open { model: UNNAMED.to_owned(), counts: TokenCounts::default(), started: false, ended: false };
        let open = self.open.entry(thread.cloned()).or_insert_with(fresh);
        let last = TokenCounts::from(usage);
        open.ended = true;
        open.counts.output = last.output;
        open.counts.reasoning = last.reasoning;
        open.counts.input = open.counts.input.max(last.input);
        open.counts.cache_read = open.counts.cache_read.max(last.cache_read);
        open.counts.cache_write = open.counts.cache_write.max(last.cache_write);
    }

    /// `message_stop`, or the next message of the thread.
    pub(crate) fn message_stop(&mut self, thread: Option<&String>) {
        if let Some(open) = self.open.remove(&thread.cloned()) {
            self.unstarted |= !open.started;
            let sums = if open.ended { &mut self.from_deltas } else { &mut self.from_messages };
            *sums.entry(open.model).or_default() += open.counts;
        }
    }

    /// A turn of Codex's began: until it is completed, what it uses is not known.
    pub(crate) fn codex_started(&mut self) {
        self.since_result = true;
    }

    /// Codex started agents of its own.
    pub(crate) fn codex_sub_agents(&mut self) {
        self.sub_agents = true;
    }

    /// Codex's cumulative usage, where it is told. Returns what this turn used.
    pub(crate) fn codex_turn(&mut self, thread: Option<&str>, usage: Option<&CodexUsage>) -> TokenCounts {
        self.results = true;
        let Some(usage) = usage else {
            self.since_result = true;
            return TokenCounts::default();
        };
        self.counted = true;
        self.since_result = false;
        let process = self.processes.entry(thread.map(str::to_owned)).or_default();
        if std::mem::replace(&mut process.ended_a_turn, true) {
            self.totals.remove(process);
        }
        process.whole = true;
        let now = TokenCounts::from(usage);
        let before = std::mem::replace(&mut process.tokens, now);
        self.totals.add(process);
        now.without(before)
    }

    /// The ledger so far without the list of models, in a time that does not grow with the stream.
    pub(crate) fn totals(&self) -> Ledger {
        if !self.results {
            return Ledger { by_model: BTreeMap::new(), ..self.ledger() };
        }
        self.told_by_results(self.totals.ledger())
    }

    /// The ledger so far.
    pub(crate) fn ledger(&self) -> Ledger {
        if self.results {
            let mut ledger = self.past.clone();
            for process in self.processes.values() {
                ledger += &process.ledger();
            }
            return self.told_by_results(ledger);
        }
        let mut ledger = Ledger::default();
        let open = self.open.values().map(|open| (&open.model, open.counts));
        let sums = self.from_deltas.iter().chain(&self.from_messages).map(|(model, counts)| (model, *counts));
        for (model, tokens) in sums.chain(open) {
            *ledger.by_model.entry(model.clone()).or_default() += ModelTotals { tokens, cost_usd: None };
            ledger.tokens += tokens;
        }
        ledger.basis = match (self.deltas, ledger.by_model.is_empty()) {
            (true, _) => Basis::Deltas,
            (false, false) => Basis::Messages,
            (false, true) => Basis::None,
        };
        ledger.exact = self.deltas
            && self.from_messages.is_empty()
            && !self.unstarted
            && self.open.values().all(|open| open.ended && open.started);
        ledger
    }

    /// Results count what was used until the last of them, and Codex's not what its sub-agents used.
    fn told_by_results(&self, mut ledger: Ledger) -> Ledger {
        ledger.basis = Basis::Results;
        ledger.exact &= self.counted && !self.since_result && !self.sub_agents;
        ledger
    }
}
