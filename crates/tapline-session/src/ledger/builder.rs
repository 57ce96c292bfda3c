//! Builds a ledger while a stream is read, in bounded memory.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use tapline_protocol::Tokens;

use super::{Basis, Ledger, ModelTotals, Pricing, SessionTotals, add_costs, exact_dollars};
use crate::recent::Recent;

/// What requests used that no result counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) tokens: Tokens,
    pub(super) searches: u64,
}

impl AddAssign for Used {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.searches = self.searches.saturating_add(other.searches);
    }
}

/// The usage of a message.
pub(crate) struct MessageUsage<'m> {
    pub(crate) id: Option<&'m str>,
    pub(crate) model: Option<&'m str>,
    pub(crate) counts: Option<Tokens>,
    /// Web searches that the API ran.
    pub(crate) searches: u64,
}

/// The usage of a turn, and of its process so far, from its result.
pub(crate) struct ResultUsage {
    /// The cost of the process so far, in dollars.
    pub(crate) total_usd: Option<f64>,
    /// The tokens and web searches of the turn. `None` if there is no count.
    pub(crate) turn: Option<(Tokens, u64)>,
    /// What the models used in the session so far.
    pub(crate) models: Option<ModelsUsage>,
    /// What they used since the last result of the process, or since it started.
    pub(crate) since_last: Option<ModelsUsage>,
    /// Whether the process continues a session that had another id.
    pub(crate) is_resumed: bool,
    /// Whether the turn failed.
    pub(crate) is_failed: bool,
}

/// What models used.
#[derive(Debug, Default)]
pub(crate) struct ModelsUsage {
    pub(crate) models: BTreeMap<String, ModelTotals>,
    pub(crate) web_searches: u64,
    /// Whether there is a count for each of them.
    pub(crate) are_counted: bool,
}

impl ModelsUsage {
    /// Subtracts what other counts contain. A model of which nothing is left is not part of the rest.
    fn without(&self, other: &Self) -> Self {
        let rest = |(model, totals): (&String, &ModelTotals)| match other.models.get(model) {
            Some(used) => Some(totals.without(*used)).filter(|rest| !rest.is_nothing()).map(|rest| (model.clone(), rest)),
            None => Some((model.clone(), *totals)),
        };
        Self {
            models: self.models.iter().filter_map(rest).collect(),
            web_searches: self.web_searches.saturating_sub(other.web_searches),
            are_counted: self.are_counted,
        }
    }

    fn totals(&self) -> ModelTotals {
        self.models.values().fold(ModelTotals::default(), |mut sum, totals| {
            sum += *totals;
            sum
        })
    }
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
    from_deltas: BTreeMap<String, Used>,
    from_messages: BTreeMap<String, Used>,
    deltas: bool,
    /// Whether a message ended without a start, so that its input is unknown.
    unstarted: bool,
    /// Whether the agent started sub-agents whose tokens it does not count.
    sub_agents: bool,
    /// Whether a figure was left out, because it cannot be true.
    refused: bool,
    /// Whether the run resumed a session.
    resumes: bool,
    /// What that session had used before, if the caller knows it.
    resumed: Option<SessionTotals>,
    /// Whether totals may contain what a session had used before the run.
    is_vague: bool,
    /// What the messages of each model had shown at the last result.
    shown: BTreeMap<String, Used>,
    /// Requests of turns that failed, for example because they were interrupted. The agent counts them nowhere.
    uncounted: BTreeMap<String, Used>,
    pricing: Option<Pricing>,
}

/// One process of the agent. The agent's totals are cumulative: they begin with what its session had used before.
#[derive(Debug, Default)]
struct Process {
    ended_a_turn: bool,
    /// The cost of the session so far.
    total: Option<f64>,
    /// What the session had used before this process.
    before: ModelsUsage,
    /// The sum of it, and whether the process resumed a session of which that is known.
    before_sum: Option<ModelTotals>,
    /// The totals by model, if a result had them.
    models: BTreeMap<String, ModelTotals>,
    /// What the models used, or the turns if no model is named.
    tokens: Tokens,
    web_searches: u64,
    /// Whether the counts are complete: they are the totals by model, or nothing was used.
    whole: bool,
}

impl Process {
    /// Adds what one turn used.
    fn add_turn(&mut self, tokens: Tokens, web_searches: u64) {
        if self.models.is_empty() {
            self.tokens += tokens;
            self.web_searches = self.web_searches.saturating_add(web_searches);
        }
    }

    /// Takes from the first result what the session had used before.
    fn set_before(&mut self, so_far: &ModelsUsage, since: &ModelsUsage) {
        self.before = so_far.without(since);
        self.before_sum = (!self.before.models.is_empty()).then(|| self.before.totals());
    }

    /// Replaces what the turns used with the totals by model.
    fn set_models(&mut self, so_far: &ModelsUsage) {
        let used = so_far.without(&self.before);
        self.tokens = used.totals().tokens;
        self.models = used.models;
        self.web_searches = used.web_searches;
    }

    /// Takes from the caller what the session had used before.
    fn resume(&mut self, before: SessionTotals) {
        self.before_sum = Some(ModelTotals { tokens: before.tokens, cost_usd: before.cost_usd });
    }

    /// Returns the cost of the session before this process.
    fn cost_before(&self) -> f64 {
        self.before_sum.and_then(|before| before.cost_usd).unwrap_or(0.0)
    }

    /// Returns the cost of this process.
    fn cost(&self) -> Option<f64> {
        self.total.map(|total| exact_dollars((total - self.cost_before()).max(0.0)))
    }

    fn ledger(&self) -> Ledger {
        Ledger {
            cost_usd: self.cost(),
            tokens: self.tokens,
            web_searches: self.web_searches,
            exact: self.whole,
            by_model: self.models.clone(),
            basis: Basis::Results,
            session: self.before_sum.map(|before| SessionTotals {
                cost_usd: add_costs(self.cost(), before.cost_usd),
                tokens: self.tokens + before.tokens,
                exact: self.whole,
            }),
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
    tokens: Tokens,
    web_searches: u64,
}

impl Totals {
    fn add(&mut self, process: &Process) {
        self.processes += 1;
        self.with_cost += usize::from(process.total.is_some());
        self.whole += usize::from(process.whole);
        self.cost = exact_dollars(self.cost + process.cost().unwrap_or(0.0));
        self.tokens += process.tokens;
        self.web_searches = self.web_searches.saturating_add(process.web_searches);
    }

    /// Subtracts a process that was added before.
    fn remove(&mut self, process: &Process) {
        self.processes -= 1;
        self.with_cost -= usize::from(process.total.is_some());
        self.whole -= usize::from(process.whole);
        self.cost = exact_dollars(self.cost - process.cost().unwrap_or(0.0));
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
    used: Used,
    started: bool,
    ended: bool,
}

impl LedgerBuilder {
    /// Prices requests that the agent does not count.
    pub(crate) fn price_by(&mut self, pricing: Pricing) {
        self.pricing = Some(pricing);
    }

    /// Returns what the messages of each model show so far.
    fn shown(&self) -> BTreeMap<String, Used> {
        let mut shown = self.from_messages.clone();
        let open = self.open.values().map(|open| (&open.model, &open.used));
        for (model, counts) in self.from_deltas.iter().chain(open) {
            *shown.entry(model.clone()).or_default() += *counts;
        }
        shown
    }

    /// At a result: if its turn failed and counts nothing, what its messages show is counted nowhere.
    fn note_uncounted(&mut self, counts_nothing: bool) {
        let shown = self.shown();
        for (model, now) in shown.iter().filter(|_| counts_nothing) {
            let before = self.shown.get(model).copied().unwrap_or_default();
            let (tokens, searches) = (now.tokens.without(before.tokens), now.searches.saturating_sub(before.searches));
            let more = Used { tokens, searches };
            if more.tokens.total() > 0 {
                *self.uncounted.entry(model.clone()).or_default() += more;
            }
        }
        self.shown = shown;
    }

    /// Notes that the run resumed a session, and what that session had used before, if that is known.
    pub(crate) fn resumes(&mut self, before: Option<SessionTotals>) {
        self.resumes = true;
        self.resumed = before;
    }

    /// Returns whether the messages so far, and what the result says of its turn, show much less than these totals: then a
    /// session used the rest before. Some versions make requests that the stream does not show, so that a little more proves
    /// nothing.
    fn shows_less_than(&self, so_far: &ModelsUsage, of_turn: u64) -> bool {
        let (mut shown, mut said) = (0_u64, 0_u64);
        for (model, totals) in &so_far.models {
            let of_model =
                [&self.from_messages, &self.from_deltas].map(|sums| sums.get(model).map_or(0, |used| used.tokens.prompt()));
            let of_model = of_model[0].saturating_add(of_model[1]);
            // Of some models the stream shows no request.
            if of_model > 0 {
                shown = shown.saturating_add(of_model);
                said = said.saturating_add(totals.tokens.prompt());
            }
        }
        said / 2 > shown.max(of_turn)
    }

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
        let of_turn = used.turn.map_or(0, |(tokens, _)| tokens.prompt());
        let shows_less = used.models.as_ref().is_some_and(|so_far| self.shows_less_than(so_far, of_turn));
        let process = self.processes.entry(self.session.clone()).or_default();
        if process.ended_a_turn {
            self.totals.remove(process);
        }
        if matches!((total, process.total), (Some(now), Some(before)) if now < before - 1e-9) {
            let ended = std::mem::take(process);
            self.totals.add(&ended);
            self.past += &ended.ledger();
        }
        if !process.ended_a_turn {
            match (&used.models, used.since_last) {
                (Some(so_far), Some(since)) => process.set_before(so_far, &since),
                _ => self.is_vague |= self.resumes || shows_less,
            }
        }
        let before = process.total.unwrap_or_else(|| process.cost_before());
        process.total = total.or(process.total);
        if let Some((tokens, web_searches)) = used.turn {
            self.counted = true;
            process.add_turn(tokens, web_searches);
        }
        // Empty totals by model are complete if the turn used nothing.
        let idle = used.turn.is_some_and(|(tokens, _)| tokens.total() == 0);
        let was_whole = process.whole || !process.ended_a_turn;
        process.ended_a_turn = true;
        let is_cut = used.is_failed && used.turn.is_none_or(|(tokens, _)| tokens.total() == 0);
        let has_total = used.models.is_some();
        let models = used.models.filter(|used| !used.models.is_empty());
        process.whole =
            models.as_ref().is_some_and(|used| used.are_counted) || models.is_none() && has_total && idle && was_whole;
        let tokens_before = process.tokens;
        if let Some(models) = models {
            self.counted = true;
            process.set_models(&models);
        }
        let counts_nothing = is_cut && process.tokens.is_within(tokens_before);
        self.totals.add(process);
        self.note_uncounted(counts_nothing);
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
            let used = Used { tokens: Tokens { output: 0, reasoning: 0, ..counts }, searches: message.searches };
            *self.from_messages.entry(model.to_owned()).or_default() += used;
        }
    }

    /// Starts an unfinished message.
    pub(crate) fn message_start(&mut self, thread: Option<&String>, message: &MessageUsage<'_>) {
        self.message_stop(thread);
        self.since_result = true;
        if let Some(id) = message.id {
            self.streamed.insert(id);
        }
        let tokens = Tokens { output: 0, reasoning: 0, ..message.counts.unwrap_or_default() };
        let (model, used) = (message.model.unwrap_or(UNNAMED).to_owned(), Used { tokens, searches: message.searches });
        self.open.insert(thread.cloned(), Open { model, used, started: true, ended: false });
    }

    /// Notes the final counts of an unfinished message.
    pub(crate) fn message_delta(&mut self, thread: Option<&String>, last: Tokens, searches: u64) {
        self.deltas = true;
        let fresh = || Open { model: UNNAMED.to_owned(), used: Used::default(), started: false, ended: false };
        let open = self.open.entry(thread.cloned()).or_insert_with(fresh);
        open.ended = true;
        let Used { tokens, searches: so_far } = &mut open.used;
        (tokens.output, tokens.reasoning) = (last.output, last.reasoning);
        (tokens.input, tokens.cache_read) = (tokens.input.max(last.input), tokens.cache_read.max(last.cache_read));
        tokens.raise_cache_write(last.cache_write());
        *so_far = searches.max(*so_far);
    }

    /// Ends an unfinished message, or drops it because the next one of its thread begins.
    pub(crate) fn message_stop(&mut self, thread: Option<&String>) {
        if let Some(open) = self.open.remove(&thread.cloned()) {
            self.unstarted |= !open.started;
            let sums = if open.ended { &mut self.from_deltas } else { &mut self.from_messages };
            *sums.entry(open.model).or_default() += open.used;
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
    pub(crate) fn thread_turn(&mut self, thread: Option<&str>, used: Option<Tokens>) -> Tokens {
        self.results = true;
        let Some(now) = used else {
            self.since_result = true;
            return Tokens::default();
        };
        self.counted = true;
        self.since_result = false;
        let is_first = self.processes.is_empty();
        let process = self.processes.entry(thread.map(str::to_owned)).or_default();
        if std::mem::replace(&mut process.ended_a_turn, true) {
            self.totals.remove(process);
        } else if self.resumes && is_first {
            match self.resumed.take().filter(|before| before.tokens.is_within(now)) {
                Some(before) => process.resume(before),
                None => self.is_vague = true,
            }
        }
        process.whole = true;
        let now = now.without(process.before_sum.unwrap_or_default().tokens);
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
        let mut ledger = self.told_by_results(self.totals.ledger());
        ledger.by_model.clear();
        ledger
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
        let open = self.open.values().map(|open| (&open.model, &open.used));
        for (model, Used { tokens, searches }) in self.from_deltas.iter().chain(&self.from_messages).chain(open) {
            let (tokens, searches) = (*tokens, *searches);
            let cost_usd = self.pricing.and_then(|price| price(model, &tokens, searches));
            ledger.web_searches = ledger.web_searches.saturating_add(searches);
            *ledger.by_model.entry(model.clone()).or_default() += ModelTotals { tokens, cost_usd };
            ledger.tokens += tokens;
            ledger.cost_usd = add_costs(ledger.cost_usd, cost_usd);
        }
        ledger.at_least = ledger.cost_usd.is_some();
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
        let is_whole =
            self.counted && !self.since_result && !self.sub_agents && !self.forgot && !self.refused && !self.is_vague;
        ledger.exact &= is_whole;
        if let Some(session) = &mut ledger.session {
            session.exact &= is_whole;
        }
        ledger.add_uncounted(&self.uncounted, self.pricing);
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
            let turn = Some((Tokens { input: 2, ..Tokens::default() }, 0));
            let used =
                ResultUsage { total_usd: Some(0.5), turn, models: None, since_last: None, is_resumed: false, is_failed: false };
            builder.result(used, Some(&session.to_string()), false);
        }
        assert!(builder.processes.len() <= PROCESSES, "{}", builder.processes.len());
        for ledger in [builder.ledger(), builder.totals()] {
            assert_eq!((ledger.tokens.input, ledger.exact), (u64::from(2 * sessions), false));
            assert_eq!(ledger.cost_usd, Some(f64::from(sessions) / 2.0));
        }
    }
}
