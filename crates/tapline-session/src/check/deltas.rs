//! Compares partial messages with complete ones: every delta has a start and a stop, and they add up to the complete
//! text.

use std::collections::BTreeMap;

use tapline_protocol::{Json, Kind, Value};

use crate::step::{DeltaKind, Partial, Step, What};

type Odd = (&'static str, String);

/// The unfinished message of each thread.
#[derive(Debug, Default)]
pub(super) struct Deltas {
    threads: BTreeMap<Option<String>, Message>,
}

#[derive(Debug, Default)]
struct Message {
    id: Option<String>,
    started: bool,
    stopped: bool,
    blocks: BTreeMap<u64, Block>,
}

#[derive(Debug)]
struct Block {
    kind: Option<DeltaKind>,
    text: String,
    started: bool,
    stopped: bool,
    compared: bool,
}

impl Deltas {
    pub(super) fn accept(&mut self, step: &Step) -> Vec<Odd> {
        let mut odd = Vec::new();
        if let What::Partial(part) = &step.what {
            let message = self.threads.entry(step.parent.clone()).or_default();
            message.part(part, &mut odd);
        } else if let Some(message) = self.threads.get_mut(&step.parent) {
            if let What::Text(said) = &step.what
                && !said.aborted
            {
                message.compare(DeltaKind::Text, said.message_id.as_ref(), |text| text == said.text, &mut odd);
            } else if let What::Thinking(said) = &step.what
                && !said.aborted
            {
                message.compare(DeltaKind::Thinking, said.message_id.as_ref(), |text| text == said.text, &mut odd);
            } else if let What::Call(call) = &step.what {
                let same = |text: &str| same_json(text, call.input.as_ref());
                message.compare(DeltaKind::Json, call.message_id.as_ref(), same, &mut odd);
            }
        }
        odd
    }

    pub(super) fn finish(&mut self) -> Vec<Odd> {
        let mut odd = Vec::new();
        for message in self.threads.values() {
            if message.started && !message.stopped {
                odd.push(("delta-without-stop", format!("message {} was never finished", message.name())));
            }
        }
        odd
    }
}

impl Message {
    fn name(&self) -> &str {
        self.id.as_deref().unwrap_or("(no id)")
    }

    fn part(&mut self, part: &Partial, odd: &mut Vec<Odd>) {
        match part {
            Partial::MessageStart { message_id } => {
                if self.started && !self.stopped {
                    odd.push(("delta-without-stop", format!("message {} was never finished", self.name())));
                }
                *self = Self { id: message_id.clone(), started: true, ..Self::default() };
            }
            Partial::BlockStart { index, kind, .. } => {
                if !self.started {
                    self.started = true;
                    odd.push(("delta-without-start", format!("block {index} starts, but its message never did")));
                }
                if self.blocks.get(index).is_some_and(|block| block.started && !block.stopped) {
                    odd.push(("delta-without-stop", format!("block {index} starts again before it stopped")));
                }
                let kind = match kind.as_str() {
                    "text" => Some(DeltaKind::Text),
                    "thinking" => Some(DeltaKind::Thinking),
                    "tool_use" => Some(DeltaKind::Json),
                    _ => None,
                };
                let block = Block { kind, text: String::new(), started: true, stopped: false, compared: false };
                self.blocks.insert(*index, block);
            }
            Partial::Delta { index, kind, text } => {
                let fresh =
                    || Block { kind: Some(*kind), text: String::new(), started: false, stopped: false, compared: false };
                let known = self.blocks.contains_key(index);
                if !known {
                    odd.push(("delta-without-start", format!("block {index} has no start")));
                }
                let block = self.blocks.entry(*index).or_insert_with(fresh);
                if block.stopped {
                    odd.push(("delta-without-start", format!("block {index} has a delta after it stopped")));
                }
                if block.kind.is_some_and(|known| known != *kind) {
                    odd.push(("delta-differs", format!("block {index} has a delta of another kind")));
                }
                block.text.push_str(text);
            }
            Partial::BlockStop { index } => match self.blocks.get_mut(index) {
                Some(block) => block.stopped = true,
                None => odd.push(("stop-without-start", format!("block {index} stops, but never started"))),
            },
            Partial::MessageDelta { .. } => {}
            Partial::MessageStop => {
                self.stopped = true;
                for (index, block) in &self.blocks {
                    if block.started && !block.stopped {
                        odd.push(("delta-without-stop", format!("block {index} has no stop")));
                    }
                }
            }
        }
    }

    /// Checks that the deltas of the next block of this kind add up to the complete block.
    fn compare(&mut self, kind: DeltaKind, id: Option<&String>, same: impl Fn(&str) -> bool, odd: &mut Vec<Odd>) {
        if self.id.as_ref() != id {
            return;
        }
        let next = self.blocks.iter_mut().find(|(_, block)| block.kind == Some(kind) && !block.compared);
        if let Some((index, block)) = next {
            block.compared = true;
            if !same(&block.text) {
                odd.push(("delta-differs", format!("block {index} differs from its deltas")));
            }
        }
    }
}

/// Returns whether a call's input contains the input in its deltas. The agent adds defaults of its own (`replace_all:
/// false`).
fn same_json(deltas: &str, input: Option<&Json>) -> bool {
    let deltas = if deltas.trim().is_empty() { "{}" } else { deltas };
    let Some(input) = input else { return true };
    let Ok(deltas) = Json::parse(deltas) else { return false };
    let within = |one: Value<'_>, other: Value<'_>| {
        one.entries()?.all(|(key, value)| other.get(&key).is_some_and(|other| same(value, other, 0))).then_some(())
    };
    deltas.with(|one| input.with(|other| within(one, other))).flatten().flatten().is_some()
}

/// Anything deeper is not compared.
const DEEPEST: usize = 64;

fn same(one: Value<'_>, other: Value<'_>, depth: usize) -> bool {
    if one.kind() != other.kind() || depth > DEEPEST {
        return one.kind() == other.kind();
    }
    match one.kind() {
        Kind::Null | Kind::True | Kind::False => true,
        Kind::Number => one.raw().parse::<f64>() == other.raw().parse::<f64>(),
        Kind::String => one.as_str() == other.as_str(),
        Kind::Array => match (one.items(), other.items()) {
            (Some(ones), Some(others)) => {
                ones.clone().count() == others.clone().count()
                    && ones.zip(others).all(|(one, other)| same(one, other, depth + 1))
            }
            _ => false,
        },
        Kind::Object => match (one.entries(), other.entries()) {
            (Some(ones), Some(others)) => {
                ones.clone().count() == others.count()
                    && ones.into_iter().all(|(key, value)| other.get(&key).is_some_and(|other| same(value, other, depth + 1)))
            }
            _ => false,
        },
    }
}
