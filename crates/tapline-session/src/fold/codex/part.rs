//! The part of a report that only Codex has: its items and its counts.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use tapline_protocol::codex::{CodexUsage, Item as WireItem, Todo};
use tapline_protocol::{Json, Number, Read};

use super::item::{dropped_events, is_ok, merge};
use crate::fold::turns::{NO_DETAIL, words_of};
use crate::step::{Item, Phase, Step, Turn, What};

/// What only Codex reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "docs/REPORT.md describes each key")]
pub struct CodexPart {
    pub items: Vec<ItemEntry>,
    pub reasoning: Vec<String>,
    pub turns: TurnCounts,
    pub turn_failures: Vec<String>,
    pub stream_errors: Vec<String>,
    pub reconnects: Vec<(Number, Number)>,
    pub item_errors: Vec<String>,
    pub dropped_events: u64,
    pub usage: Option<CodexUsage>,
}

/// How many turns started, and how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "docs/REPORT.md describes each key")]
pub struct TurnCounts {
    pub started: u64,
    pub completed: u64,
    pub failed: u64,
}

/// An item: its merged fields and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ItemEntry {
    /// The merged fields.
    #[serde(flatten)]
    pub fields: BTreeMap<String, Json>,
    /// The phase that each event about the item reported.
    pub phases: Vec<Phase>,
    /// Whether it succeeded.
    pub ok: bool,
    /// For a plan: how many entries are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todo_done: Option<usize>,
    /// For a plan: how many entries there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todo_total: Option<usize>,
}

/// Collects the part.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    part: CodexPart,
    items: Vec<(WireItem, Vec<Phase>)>,
    item_at: HashMap<(usize, String), usize>,
}

impl Collected {
    /// Takes the next step.
    pub(crate) fn accept(&mut self, step: &Step) {
        if let What::Item(item) = &step.what {
            self.item(item);
        } else if let What::Turn(turn) = &step.what {
            self.turn(turn);
        } else if let What::Error { text } = &step.what {
            self.part.stream_errors.push(text.clone());
        } else if let What::Retry(retry) = &step.what {
            self.part.reconnects.extend(retry.attempt.clone().zip(retry.max.clone()));
        } else if let What::Quiet { kind, .. } = &step.what {
            self.part.turns.started += u64::from(kind == "turn.started");
        }
    }

    fn turn(&mut self, turn: &Turn) {
        if turn.is_error {
            self.part.turns.failed += 1;
            let words = turn.error.as_ref().and_then(words_of).filter(|words| !words.trim().is_empty());
            self.part.turn_failures.push(words.unwrap_or_else(|| NO_DETAIL.to_owned()));
        } else {
            self.part.turns.completed += 1;
            let usage = turn.thread_usage.as_ref().and_then(|usage| usage.with(CodexUsage::read).flatten());
            // A turn that does not say leaves what is known.
            self.part.usage = usage.or(self.part.usage.take()).or_else(|| Some(CodexUsage::default()));
        }
    }

    fn item(&mut self, item: &Item) {
        let news = WireItem { fields: item.item.clone() };
        if news.kind().as_deref() == Some("error") && item.phase == Phase::Completed {
            let message = news.text("message");
            let dropped = message.as_deref().and_then(dropped_events).unwrap_or(0);
            self.part.dropped_events = self.part.dropped_events.saturating_add(dropped);
            self.part.item_errors.extend(message);
        }
        if news.kind().as_deref() == Some("reasoning") && item.phase == Phase::Completed {
            self.part.reasoning.extend(news.text("text"));
        }
        let at = news.text("id").map(|id| *self.item_at.entry((item.thread, id)).or_insert(self.items.len()));
        match at.and_then(|at| self.items.get_mut(at)) {
            Some((known, phases)) => {
                merge(&mut known.fields, &news.fields);
                phases.push(item.phase);
            }
            None => self.items.push((news, vec![item.phase])),
        }
    }

    /// Returns the part.
    pub(crate) fn finish(self) -> CodexPart {
        CodexPart { items: self.items.into_iter().map(|(item, phases)| entry(item, phases)).collect(), ..self.part }
    }
}

fn entry(item: WireItem, phases: Vec<Phase>) -> ItemEntry {
    let completed = phases.contains(&Phase::Completed);
    let todos = (item.kind().as_deref() == Some("todo_list"))
        .then(|| item.get("items").and_then(|items| items.with(Vec::<Todo>::read).flatten()).unwrap_or_default());
    ItemEntry {
        ok: is_ok(&item, completed),
        phases,
        todo_done: todos.as_ref().map(|todos| todos.iter().filter(|todo| todo.completed).count()),
        todo_total: todos.as_ref().map(Vec::len),
        fields: item.fields.into_iter().collect(),
    }
}
