//! What happens in the turns of every agent: a text, a denied call, the end of the turn.

use tapline_protocol::{Json, Read as _};

use super::refusals::of_own_rule;
use super::{Fold, Steps, Turns};
use crate::agents::asks_a_person;
use crate::call::describe;
use crate::step::{Denial, Denied, DeniedBy, SoFar, Step, Turn, What};

/// The text of a failure without one.
pub(super) const NO_DETAIL: &str = "API error (no detail)";

/// Returns the text of an error: a string, or an object's `message`.
pub(super) fn words_of(error: &Json) -> Option<String> {
    error.with(String::read).flatten().or_else(|| error.text_of("message"))
}

impl Turns {
    /// Returns the turn that a step belongs to. The main thread begins one; what comes behind its end still belongs to it.
    pub(super) fn of(&mut self, step: &Step) -> usize {
        let begins = |what: &What| {
            matches!(
                what,
                What::Session(_)
                    | What::Prompt { .. }
                    | What::Text(_)
                    | What::Thinking(_)
                    | What::Call(_)
                    | What::ServerCall(_)
                    | What::Partial(_)
            )
        };
        if let What::Turn(turn) = &step.what {
            self.current = turn.index;
        } else if step.parent.is_none() && begins(&step.what) {
            self.current = self.count;
        }
        self.current
    }
}

impl Fold {
    /// Remembers a text as the last one.
    pub(super) fn say(&mut self, text: &str, out: &Steps<'_>) {
        self.typing.remove(&out.record.envelope.parent);
        self.spoken.add(text, out.record.envelope.uuid.as_ref(), out.is_main());
    }

    /// Reports a denial once, whichever event reports it.
    pub(super) fn deny(
        &mut self,
        id: Option<String>,
        name: Option<String>,
        input: Option<&Json>,
        message: Option<String>,
        mut denial: Denial,
        out: &mut Steps<'_>,
    ) {
        let id = id.filter(|id| !id.is_empty());
        let known = id.as_ref().and_then(|id| self.calls.named(id));
        let name = name.or_else(|| known.map(|(name, _)| name.to_owned()));
        self.asked.refused |= name.as_deref().is_some_and(asks_a_person);
        if id.as_ref().is_some_and(|id| !self.denied.insert(id)) {
            return;
        }
        self.denials += 1;
        if let Some(why) = denial.reason.as_deref().and_then(of_own_rule) {
            denial = Denial { by: DeniedBy::Rule, reason: why.map(str::to_owned) };
        } else if id.as_ref().is_some_and(|id| self.refusals.is_refused(id)) {
            denial.by = DeniedBy::Host;
        }
        let tool = name.as_deref().unwrap_or("a tool");
        let title = match known {
            Some((_, title)) if !title.is_empty() => title.to_owned(),
            _ => input.map(|input| describe(tool, Some(input)).title).unwrap_or_default(),
        };
        let title = Some(title).filter(|title| !title.is_empty() && title != tool);
        let about = title.as_ref().map(|title| format!(": {title}")).unwrap_or_default();
        self.warnings.add("permission-denied", Some(out.record.line), format!("{tool} was not permitted{about}"));
        let answer_follows = self.calls.is_pending(id.as_ref());
        if let Some(id) = &id {
            self.calls.deny(id, &denial);
        }
        out.push(What::Denied(Denied { id, name, title, message, denial, answer_follows }));
    }

    /// Reports the end of a turn, with the totals of all turns. One that is repeated took no time.
    pub(super) fn push_turn(&mut self, mut turn: Turn, is_repeated: bool, out: &mut Steps<'_>) {
        let blemished = self.is_blemished();
        let turns = &mut self.turns;
        turn.elapsed_ms = turns.elapsed.end(out.record.arrived);
        if let Some(ms) = turn.took_ms().filter(|_| !is_repeated) {
            turns.duration_ms = Some((turns.duration_ms.unwrap_or(0.0) + ms).clamp(f64::MIN, f64::MAX));
        }
        let count = if turns.all_num_turns > 0 { turns.all_num_turns } else { turns.count as u64 };
        turn.so_far = SoFar {
            turns: count,
            duration_ms: turns.duration_ms,
            // A list of models in every turn would take unbounded memory.
            ledger: self.ledger.totals(),
            denials: self.denials,
            blemished,
            foreign: false,
        };
        turns.last = Some(turn.clone());
        out.push(What::Turn(Box::new(turn)));
    }
}
