//! Hooks of others (of a project or a plugin) run beside ours and may rewrite a call. The agent reports when they begin
//! and what they answered, so a call is decided here only after all of them are done, from what may run then.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tapline_protocol::Json;
use tapline_protocol::control::Hook;
use tokio::sync::Notify;

/// A hook that takes longer may be a background hook, which nobody waits for.
const WAITS: Duration = Duration::from_secs(10);
/// How many calls are kept.
const KEPT: usize = 16_384;

/// What is known about the hooks of others in one run.
#[derive(Clone, Default)]
pub(crate) struct Others(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Whether the agent reports when hooks begin and end.
    are_told: bool,
    /// Whether some of them answer permission requests.
    answer_questions: bool,
    /// Hooks that delay a call, by their id.
    running: HashMap<String, Running>,
    /// What they want to run instead.
    rewrites: Vec<(String, Rewrite)>,
    /// How many calls wait for hooks with this name.
    waiting: HashMap<String, usize>,
    /// How many hooks of each name have begun for the next call.
    begun: HashMap<String, usize>,
    /// Background hooks: their name, and their position among the hooks of a call.
    background: HashSet<(String, usize)>,
    /// The calls that were checked against the rules.
    calls: HashMap<String, Held>,
    /// The ids of these calls in order, including finished ones.
    order: VecDeque<String>,
}

struct Running {
    /// `PreToolUse:Bash`
    name: String,
    place: usize,
    /// The call, once the rules were checked for it.
    call: Option<String>,
}

/// A call that was checked against the rules.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) input: Option<Json>,
    pub(crate) cwd: Option<String>,
    pub(crate) standing: Standing,
}

/// What was decided about a call here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing: the agent decides.
    Left,
    /// It needs permission, and there is no answer yet.
    Asked,
    /// It was allowed here.
    Allowed,
    /// It was denied.
    Denied,
}

/// What a hook wants to run instead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rewrite {
    /// The same tool with this input.
    Input(Json),
    /// The output cannot be read here, but the agent may be able to.
    Unreadable,
}

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Others").finish_non_exhaustive()
    }
}

impl Others {
    /// Creates the state. `are_told` says whether the agent reports when hooks begin and end.
    pub(crate) fn new(are_told: bool) -> Self {
        let others = Self::default();
        others.state().are_told = are_told;
        others
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether rewrites are seen before they run.
    pub(super) fn are_told(&self) -> bool {
        self.state().are_told
    }

    /// Returns whether another hook may answer a permission request before us.
    pub(super) fn answer_questions(&self) -> bool {
        self.state().answer_questions
    }

    /// Notes that there is such a hook.
    pub(crate) fn set_answer_questions(&self) {
        self.state().answer_questions = true;
    }

    /// Notes that a hook of others begins.
    pub(crate) fn begins(&self, hook: &Hook) {
        let mut state = self.state();
        match hook.hook_event.as_deref() {
            Some("PermissionRequest") => state.answer_questions = true,
            Some("PreToolUse") => {
                let name = hook.hook_name.clone().unwrap_or_default();
                // What hooks said about finished calls does not matter.
                let is_first = !state.begun.contains_key(&name) && !state.waiting.contains_key(&name);
                if is_first && !state.running.values().any(|running| running.name == name) {
                    state.rewrites.retain(|(of, _)| *of != name);
                }
                let begun = state.begun.entry(name.clone()).or_default();
                let place = *begun;
                *begun += 1;
                if !state.background.contains(&(name.clone(), place)) {
                    state.running.insert(hook.hook_id.clone().unwrap_or_default(), Running { name, place, call: None });
                }
            }
            _ => {}
        }
    }

    /// Notes that a hook ended. If it rewrote a call that was already left to the agent, returns the tool and the
    /// rewrite.
    pub(crate) fn ends(&self, hook: &Hook) -> Option<(String, Rewrite)> {
        if hook.hook_event.as_deref() != Some("PreToolUse") {
            return None;
        }
        let mut state = self.state();
        // Nobody waits for background hooks, nor for their output.
        let running = state.running.remove(hook.hook_id.as_deref().unwrap_or_default())?;
        self.0.changed.notify_waiters();
        let rewrite = rewrite(hook.output.as_deref().or(hook.stdout.as_deref()).unwrap_or_default())?;
        let name = hook.hook_name.clone().unwrap_or_default();
        if let Some(call) = running.call.filter(|_| !state.waiting.contains_key(&name)) {
            if state.calls.get(&call).is_some_and(|held| held.standing != Standing::Left) {
                return None;
            }
            let tool = name.split_once(':').map_or("", |(_, tool)| tool).to_owned();
            return Some((tool, rewrite));
        }
        state.rewrites.push((name, rewrite));
        None
    }

    /// Starts waiting for the hooks of a call.
    pub(crate) fn wait(&self, tool: &str, call: Option<&str>) -> Waiting {
        let name = format!("PreToolUse:{tool}");
        let mut state = self.state();
        *state.waiting.entry(name.clone()).or_default() += 1;
        state.begun.remove(&name);
        for running in state.running.values_mut().filter(|running| running.name == name && running.call.is_none()) {
            running.call = Some(call.unwrap_or_default().to_owned());
        }
        Waiting { others: self.clone(), name }
    }

    /// Notes that a call continues. Hooks of it that still run are background hooks.
    pub(crate) fn goes_on(&self, call: &str) {
        let mut state = self.state();
        let State { running, background, .. } = &mut *state;
        running.retain(|_, running| {
            let is_behind = running.call.as_deref() == Some(call);
            if is_behind {
                background.insert((running.name.clone(), running.place));
            }
            !is_behind
        });
    }

    /// Keeps a call that was checked against the rules.
    pub(super) fn hold(&self, call: Option<&String>, held: Held) {
        let Some(call) = call else { return };
        let State { calls, order, .. } = &mut *self.state();
        if calls.insert(call.clone(), held).is_none() {
            order.push_back(call.clone());
        }
        // A call that never runs is never taken again, so the oldest is dropped.
        if order.len() > KEPT {
            order.pop_front().map(|oldest| calls.remove(&oldest));
        }
    }

    /// Returns the agent's folder at the time of a call.
    pub(crate) fn cwd_of(&self, call: &str) -> Option<String> {
        self.state().calls.get(call)?.cwd.clone()
    }

    /// Sets the final decision about a call.
    pub(super) fn settle(&self, call: Option<&String>, now: Standing) {
        let mut state = self.state();
        if let Some(held) = call.and_then(|call| state.calls.get_mut(call)) {
            held.standing = now;
        }
    }

    /// Takes a call that was checked against the rules, after it has run.
    pub(super) fn take(&self, call: &str) -> Option<Held> {
        self.state().calls.remove(call)
    }
}

/// A call that waits for the hooks of others.
pub(crate) struct Waiting {
    others: Others,
    name: String,
}

impl Waiting {
    /// Returns what the others want to run instead, once they are done, or `None` if one of them takes too long.
    pub(super) async fn rewrites(&self) -> Option<Vec<Rewrite>> {
        let all = async {
            loop {
                let changed = self.others.0.changed.notified();
                {
                    let state = self.others.state();
                    if !state.running.values().any(|running| running.name == self.name) {
                        let of_it = state.rewrites.iter().filter(|(name, _)| *name == self.name);
                        return of_it.map(|(_, rewrite)| rewrite.clone()).collect();
                    }
                }
                changed.await;
            }
        };
        tokio::time::timeout(WAITS, all).await.ok()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.others.state();
        if let Some(count) = state.waiting.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                state.waiting.remove(&self.name);
            }
        }
    }
}

/// Returns what a hook's output wants to run instead, as the agent reads it. If a key is repeated, the last one counts.
fn rewrite(output: &str) -> Option<Rewrite> {
    let output = output.trim();
    let Ok(said) = serde_json::from_str::<serde_json::Value>(output) else {
        let may_be_one = output.starts_with('{') && (output.contains("updatedInput") || output.contains('\\'));
        return may_be_one.then_some(Rewrite::Unreadable);
    };
    Some(Rewrite::Input(Json::of(said.get("hookSpecificOutput")?.get("updatedInput")?)))
}

#[cfg(test)]
mod tests {
    use super::{Held, KEPT, Others, Standing};

    /// A long session once forgot calls that had just been denied, and then let them pass.
    #[test]
    fn only_the_oldest_calls_are_forgotten() {
        let others = Others::new(true);
        for number in 0..=KEPT {
            let held = Held { input: None, cwd: None, standing: Standing::Denied };
            others.hold(Some(&number.to_string()), held);
        }
        assert!(others.take("0").is_none());
        for number in 1..=KEPT {
            assert!(others.take(&number.to_string()).is_some(), "{number}");
        }
    }
}
