//! Sub-agents. They work in threads of their own; the items of calls about them say how they stand, and they become tasks of the call
//! that started them.

use tapline_protocol::Value;
use tapline_protocol::codex::Item as WireItem;

use super::{Fold, Steps};
use crate::step::{Task, What};

/// How many sub-agents are told apart.
const MOST: usize = 1 << 14;

impl Fold {
    /// Reports which sub-agents an item starts or ends. A call is known by this key.
    pub(super) fn sub_agents(&mut self, item: &WireItem, key: Option<&String>, out: &mut Steps<'_>) {
        let states = item.get("agents_states").and_then(|states| states.with(states_of)).unwrap_or_default();
        let starts = item.text("tool").is_some_and(|tool| tool == "spawn_agent");
        for (thread, status) in states {
            if starts && !self.tasks.all.contains_key(&thread) && self.tasks.all.len() < MOST {
                let task = Task {
                    id: thread.clone(),
                    status: "running".to_owned(),
                    terminal: false,
                    description: item.text("prompt"),
                    kind: Some("agent".to_owned()),
                    tool_use_id: key.cloned(),
                    summary: None,
                    duration_ms: None,
                };
                self.tasks.all.insert(thread.clone(), (task.clone(), out.record.arrived));
                out.push(What::Task(task));
            }
            // It has more work to do.
            if let Some((task, began)) =
                self.tasks.all.get_mut(&thread).filter(|(task, _)| task.terminal && status == "running")
            {
                (task.terminal, task.status, task.duration_ms) = (false, "running".to_owned(), None);
                *began = out.record.arrived;
                out.push(What::Task(task.clone()));
            }
            let ended = match status.as_str() {
                "completed" => "completed",
                "errored" | "failed" | "not_found" => "failed",
                "interrupted" | "shutdown" => "stopped",
                _ => continue,
            };
            if let Some((task, began)) = self.tasks.all.get_mut(&thread).filter(|(task, _)| !task.terminal) {
                (task.terminal, task.status) = (true, ended.to_owned());
                task.duration_ms = out.record.arrived.zip(*began).and_then(|(end, began)| end.millis_since(began));
                out.push(What::Task(task.clone()));
            }
        }
    }
}

/// Returns the threads, and how each stands.
fn states_of(states: Value<'_>) -> Vec<(String, String)> {
    let state = |value: Value<'_>| value.get("status").and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    states.entries().into_iter().flatten().filter_map(|(thread, value)| Some((thread.into_owned(), state(value)?))).collect()
}
