//! The background tasks of a stream, and whether all of them have ended.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tapline_protocol::Moment;

use crate::step::Task;
use crate::text::{head, one_line};
use crate::verdict::TasksEnd;

/// How many tasks that are left are named, and how many characters of each.
const NAMED: (usize, usize) = (5, 60);

/// How many calls that stop a task are remembered.
const STOPS: usize = 1 << 12;

/// Returns whether this status means that somebody ended the task.
pub(super) fn is_killed(status: &str) -> bool {
    ["killed", "stopped", "cancelled"].contains(&status)
}

/// The tasks so far.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Each with its start.
    pub(super) all: BTreeMap<String, (Task, Option<Moment>)>,
    /// Whether events of their own name them.
    pub(super) have_events: bool,
    /// Calls that start a task, as their input says.
    pub(super) launched: BTreeSet<String>,
    /// Calls of the agent's own that stop a task: the id of the call, and of the task.
    stops: Vec<(Option<String>, String)>,
    /// Calls whose tasks run in the foreground, and whether they have a result. That is the end of the task.
    foreground: BTreeMap<String, bool>,
}

impl Tasks {
    /// Notes whether a task runs in the background, as far as its event says so.
    pub(super) fn place(&mut self, call: Option<&String>, in_background: Option<bool>) {
        match (call, in_background) {
            (Some(call), Some(true)) => drop(self.foreground.remove(call)),
            (Some(call), Some(false)) => drop(self.foreground.insert(call.clone(), false)),
            (_, None) | (None, _) => {}
        }
    }

    /// Notes that the agent stops a task.
    pub(super) fn stop(&mut self, call: Option<String>, task: String) {
        if self.stops.len() < STOPS {
            self.stops.push((call, task));
        }
    }

    /// Notes the result of a call. A task that could not be stopped was not stopped.
    pub(super) fn answered(&mut self, call: Option<&String>, failed: bool) {
        let Some(call) = call else { return };
        if let Some(returned) = self.foreground.get_mut(call) {
            *returned = true;
        }
        if failed {
            self.stops.retain(|(stop, _)| stop.as_ref() != Some(call));
        }
    }

    fn has_ended(&self, task: &Task) -> bool {
        if task.terminal && is_killed(&task.status) {
            return self.stops.iter().any(|(_, stopped)| *stopped == task.id);
        }
        task.terminal || task.tool_use_id.as_ref().is_some_and(|call| self.foreground.get(call) == Some(&true))
    }

    /// Returns whether all have ended.
    pub(super) fn end(&self) -> TasksEnd {
        let tasks = || self.all.values().map(|(task, _)| task);
        let left: Vec<&Task> = tasks().filter(|task| self.have_events && !self.has_ended(task)).collect();
        if !left.is_empty() {
            let name = |task: &&Task| {
                let name = task.description.as_ref().filter(|text| !text.trim().is_empty()).unwrap_or(&task.id);
                format!("{} ({})", head(&one_line(name), NAMED.1).0, task.status)
            };
            let more = left.len().saturating_sub(NAMED.0);
            let more = (more > 0).then(|| format!("and {more} more"));
            return TasksEnd::Left(left.iter().take(NAMED.0).map(name).chain(more).collect());
        }
        let calls: HashSet<_> = tasks().filter_map(|task| task.tool_use_id.as_deref()).collect();
        let all_known = !self.launched.is_empty()
            && (self.all.len() >= self.launched.len() || self.launched.iter().all(|call| calls.contains(call.as_str())));
        if all_known { TasksEnd::Ended } else { TasksEnd::Unknown }
    }
}
