//! Builds a ledger while a stream is read, in bounded memory.

use std::collections::BTreeMap;
use std::ops::Add;

use super::{Basis, Ledger, ModelTotals, TokenCounts, exact_dollars};
use crate::recent::Recent;

/// The usage of a message.
pub(crate) struct MessageUsage<'m> {
    pub(crate) id: Option<&'m str>,
    pub(crate) model: Option<&'m str>,
    pub(crate) counts: Option<TokenCounts>,
}

/// The usage of a turn, and of its process so far, from its result.
pub(crate) struct ResultUsage {
    /// The cost of the process so far, in dollars.
    pub(crate) total_usd: Option<f64>,
    /// The tokens and web searches of the turn. `None` if there is no count.
    pub(crate) turn: Option<(TokenCounts, u64)>,
    /// What each model used in the process so far.
    pub(crate) models: Option<BTreeMap<String, ModelTotals>>,
    /// Whether there is a count for each of them.
    pub(crate) models_counted: bool,
    /// The web searches of the models.
    pub(crate) searches_of_models: u64,
    /// Whether the process continues a session that had another id.
    pub(crate) is_resumed: bool,
}

/// A model name that does not stand for a model.
pub(crate) const SYNTHETIC: &str = "<synthetic>";

/// So many processes of one stream are told apart.
const PROCESSES: usize = 1 << 14;

/// The name if the agent names no model.
const UNNAMED: &str = "unknown";

#[derive(Debug, Default)]
pub(crate) struct LedgerBuilder {
    /// Processes that have ended, in joined streams.
    past: Ledger,
    /// The processes by session or thread. Totals are cumulative in each.
    processes: BTreeMap<Option<String>, Process>,
    session: Option<String>,
    /// Processes are no longer told apart from their like that come later.
    forgot: bool,
    /// The totals of all processes, including those that have ended.
    totals: Totals,
    results: bool,
    /// Whether any result counted tokens.
    counted: bool,
    /// Whether anything was used since the last result.
    since_result: bool,
    /// Whether the next change of the session id is not a new process.
    explained: bool,
    messages: Recent,
    streamed: Recent,
    /// The unfinished message of each thread.
    open: BTreeMap<Option<String>, Open>,
    from_deltas: BTreeMap<String, TokenCounts>,
    from_messages: BTreeMap<String, TokenCounts>,
    deltas: bool,
    /// Whether a message ended without a start, so that its input is unknown.
    unstarted: bool,
    /// Whether the agent started sub-agents whose tokens it does not count.
    sub_agents: bool,
    /// Whether a figure was left out, because it cannot be true.
    refused: bool,
}

/// One process of the agent. Its totals are cumulative.
#[derive(Debug, Default)]
struct Process {
    ended_a_turn: bool,
    total: Option<f64>,
    /// The totals by model, if a result had them.
    models: BTreeMap<String, ModelTotals>,
    /// What the models used, or the turns if no model is named.
    tokens: TokenCounts,
    web_searches: u64,
    /// Whether the counts are complete: they are the totals by model, or nothing was used.
    whole: bool,
}

impl Process {
    /// Adds what one turn used.
    fn add_turn(&mut self, tokens: TokenCounts, web_searches: u64) {
        if self.models.is_empty() {
            self.tokens += tokens;
            self.web_searches = self.web_searches.saturating_add(web_searches);
        }
    }

    /// Replaces what the turns used with the totals by model.
    fn set_models(&mut self, models: BTreeMap<String, ModelTotals>, web_searches: u64) {
        self.tokens = models.values().map(|totals| totals.tokens).fold(TokenCounts::default(), Add::add);
        self.models = models;
        self.web_searches = web_searches;
    }

    fn ledger(&self) -> Ledger {
        Ledger {
            cost_usd: self.total.map(exact_dollars),
            tokens: self.tokens,
            web_searches: self.web_searches,
            exact: self.whole,
            by_model: self.models.clone(),
            basis: Basis::Results,
            ..Ledger::default()
        }
    }
}

/// Sums over all processes that are kept up to date, because every turn needs them and there may be as many processes
/// as turns.
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

    /// Subtracts a process that was added before.
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

/// An unfinished message.
#[derive(Debug)]
struct Open {
    model: String,
    counts: TokenCounts,
    started: bool,
    ended: bool,
}

impl LedgerBuilder {
    /// Notes that the conversation continues under another id in the same process.
    pub(crate) fn expect_new_session_id(&mut self) {
        self.explained = true;
    }

    /// Takes a result and returns what its turn cost.
    pub(crate) fn result(&mut self, used: ResultUsage, session: Option<&str>, repeated: bool) -> Option<f64> {
        self.results = true;
        self.since_result = false;
        let total = used.total_usd;
        if repeated {
            return total.map(|_| 0.0);
        }
        let explained = std::mem::take(&mut self.explained) || used.is_resumed;
        if let Some(session) = session
            && self.session.as_deref() != Some(session)
        {
            // The first id, or a new id that was announced, belongs to the same process.
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
        if let Some((tokens, web_searches)) = used.turn {
            self.counted = true;
            process.add_turn(tokens, web_searches);
        }
        // Empty totals by model are complete if the turn used nothing.
        let idle = used.turn.is_some_and(|(tokens, _)| tokens.total() == 0);
        let was_whole = process.whole || !process.ended_a_turn;
        process.ended_a_turn = true;
        let has_total = used.models.is_some();
        let models = used.models.filter(|models| !models.is_empty());
        process.whole = models.is_some() && used.models_counted || models.is_none() && has_total && idle && was_whole;
        if let Some(models) = models {
            self.counted = true;
            process.set_models(models, used.searches_of_models);
        }
        self.totals.add(process);
        self.forget(None);
        total.map(|total| exact_dollars(total - before))
    }

    /// Counts a complete message: its input once, its output never.
    pub(crate) fn message(&mut self, message: &MessageUsage<'_>) {
        let Some(counts) = message.counts else { return };
        let model = message.model.unwrap_or(UNNAMED);
        // Messages without an id are never the same.
        let id = message.id.unwrap_or_default();
        if model == SYNTHETIC || !id.is_empty() && !self.messages.insert(id) {
            return;
        }
        self.since_result = true;
        if id.is_empty() || !self.streamed.contains(id) {
            let counts = TokenCounts { output: 0, reasoning: 0, ..counts };
            *self.from_messages.entry(model.to_owned()).or_default() += counts;
        }
    }

    /// Starts an unfinished message.
    pub(crate) fn message_start(&mut self, thread: Option<&String>, message: &MessageUsage<'_>) {
        self.message_stop(thread);
        self.since_result = true;
        if let Some(id) = message.id {
            self.streamed.insert(id);
        }
        let counts = TokenCounts { output: 0, reasoning: 0, ..message.counts.unwrap_or_default() };
        let model = message.model.unwrap_or(UNNAMED).to_owned();
        self.open.insert(thread.cloned(), Open { model, counts, started: true, ended: false });
    }

    /// Notes the final counts of an unfinished message.
    pub(crate) fn message_delta(&mut self, thread: Option<&String>, last: TokenCounts) {
        self.deltas = true;
        let fresh = || Open { model: UNNAMED.to_owned(), counts: TokenCounts::default(), started: false, ended: false };
        let open = self.open.entry(thread.cloned()).or_insert_with(fresh);
        open.ended = true;
        open.counts.output = last.output;
        open.counts.reasoning = last.reasoning;
        open.counts.input = open.counts.input.max(last.input);
        open.counts.cache_read = open.counts.cache_read.max(last.cache_read);
        open.counts.cache_write = open.counts.cache_write.max(last.cache_write);
    }

    /// Ends an unfinished message, or drops it because the next one of its thread begins.
    pub(crate) fn message_stop(&mut self, thread: Option<&String>) {
        if let Some(open) = self.open.remove(&thread.cloned()) {
            self.unstarted |= !open.started;
            let sums = if open.ended { &mut self.from_deltas } else { &mut self.from_messages };
            *sums.entry(open.model).or_default() += open.counts;
        }
    }

    /// Notes that a turn began. What it uses is not known until it is completed.
    pub(crate) fn turn_started(&mut self) {
        self.since_result = true;
    }

    /// Notes that the agent started sub-agents whose tokens it does not count.
    pub(crate) fn has_sub_agents(&mut self) {
        self.sub_agents = true;
    }

    /// Notes that a figure was left out, because it cannot be true.
    pub(crate) fn refused(&mut self) {
        self.refused = true;
    }

    /// Ends a turn in a thread, with the thread's total so far if it is known. Returns what the turn used.
    pub(crate) fn thread_turn(&mut self, thread: Option<&str>, used: Option<TokenCounts>) -> TokenCounts {
        self.results = true;
        let Some(now) = used else {
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
        let before = std::mem::replace(&mut process.tokens, now);
        self.totals.add(process);
        self.forget(thread);
        now.without(before)
    }

    /// Counts a process as ended if there are too many: any but the one under way.
    fn forget(&mut self, thread: Option<&str>) {
        let is_past = |key: &&Option<String>| **key != self.session && key.as_deref() != thread;
        if self.processes.len() > PROCESSES
            && let Some(key) = self.processes.keys().find(is_past).cloned()
            && let Some(ended) = self.processes.remove(&key)
        {
            self.past += &ended.ledger();
            self.forgot = true;
        }
    }

    /// Returns the ledger so far without the list of models, in constant time.
    pub(crate) fn totals(&self) -> Ledger {
        if !self.results {
            return Ledger { by_model: BTreeMap::new(), ..self.ledger() };
        }
        self.told_by_results(self.totals.ledger())
    }

    /// Returns the ledger so far.
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
            && !self.refused
            && self.open.values().all(|open| open.ended && open.started);
        ledger
    }

    /// Completes a ledger from results. They count everything up to the last result, but some agents' results leave out
    /// sub-agents.
    fn told_by_results(&self, mut ledger: Ledger) -> Ledger {
        ledger.basis = Basis::Results;
        ledger.exact &= self.counted && !self.since_result && !self.sub_agents && !self.forgot && !self.refused;
        ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ever_new_sessions_take_bounded_memory_and_all_are_counted() {
        let mut builder = LedgerBuilder::default();
        let sessions = u32::try_from(PROCESSES).unwrap() + 1_000;
        for session in 0..sessions {
            let turn = Some((TokenCounts { input: 2, ..TokenCounts::default() }, 0));
            let used = ResultUsage {
                total_usd: Some(0.5),
                turn,
                models: None,
                models_counted: false,
                searches_of_models: 0,
                is_resumed: false,
            };
            builder.result(used, Some(&session.to_string()), false);
        }
        assert!(builder.processes.len() <= PROCESSES, "{}", builder.processes.len());
        for ledger in [builder.ledger(), builder.totals()] {
            assert_eq!((ledger.tokens.input, ledger.exact), (u64::from(2 * sessions), false));
            assert_eq!(ledger.cost_usd, Some(f64::from(sessions) / 2.0));
        }
    }
}
