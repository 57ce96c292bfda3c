//! Hooks of others (a project's, a plugin's) run beside ours and may rewrite a call. The agent tells when they begin and what they
//! answered, so that a call is decided here only when all of them are done, by what may run then.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tapline_protocol::Json;
use tapline_protocol::control::Hook;
use tokio::sync::Notify;

/// A hook that takes longer may be one that runs in the background, which nobody waits for.
const WAITS: Duration = Duration::from_secs(10);
/// So many calls are kept.
const KEPT: usize = 16_384;

/// What is known of the hooks of others in one run.
#[derive(Clone, Default)]
pub(crate) struct Others(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// The agent tells when hooks begin and end.
    are_told: bool,
    /// Some of them answer permission questions.
    answer_questions: bool,
    /// Those that hold up a call, by their id.
    running: HashMap<String, Running>,
    /// What they want to run instead.
    rewrites: Vec<(String, Rewrite)>,
    /// How many calls wait for hooks of this name.
    waiting: HashMap<String, usize>,
    /// How many have begun for the call that is asked about next, by their name.
    begun: HashMap<String, usize>,
    /// Those that run in the background: their name, and their place among those of a call.
    background: HashSet<(String, usize)>,
    /// Calls as they were held against the rules.
    calls: HashMap<String, Held>,
    /// The same in the order in which they came, also those that are done.
    order: VecDeque<String>,
}

struct Running {
    /// `PreToolUse:Bash`
    name: String,
    place: usize,
    /// The call, once it was asked about.
    call: Option<String>,
}

/// A call, as it was held against the rules.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) input: Option<Json>,
    pub(crate) cwd: Option<String>,
    pub(crate) standing: Standing,
}

/// What was said of a call here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing: the agent decides.
    Left,
    /// It is to be asked about, and has no answer yet.
    Asked,
    /// Somebody here let it run.
    Allowed,
    /// It may not run.
    Denied,
}

/// What a hook wants to run instead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rewrite {
    /// The same tool with this input.
    Input(Json),
    /// What it says cannot be read here; the agent may be able to.
    Unreadable,
}

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Others").finish_non_exhaustive()
    }
}

impl Others {
    /// `are_told`: the agent tells when hooks begin and end.
    pub(crate) fn new(are_told: bool) -> Self {
        let others = Self::default();
        others.state().are_told = are_told;
        others
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether rewrites are seen before they run.
    pub(super) fn are_told(&self) -> bool {
        self.state().are_told
    }

    /// Whether somebody else's hook may answer a permission question before we do.
    pub(super) fn answer_questions(&self) -> bool {
        self.state().answer_questions
    }

    /// There is a hook that may.
    pub(crate) fn set_answer_questions(&self) {
        self.state().answer_questions = true;
    }

    /// A hook of somebody else's begins.
    pub(crate) fn begins(&self, hook: &Hook) {
        let mut state = self.state();
        match hook.hook_event.as_deref() {
            Some("PermissionRequest") => state.answer_questions = true,
            Some("PreToolUse") => {
                let name = hook.hook_name.clone().unwrap_or_default();
                // What hooks said of calls that are over is of no interest.
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

    /// It ended. A rewrite of a call that was left to the agent already: of which tool, and what.
    pub(crate) fn ends(&self, hook: &Hook) -> Option<(String, Rewrite)> {
        if hook.hook_event.as_deref() != Some("PreToolUse") {
            return None;
        }
        let mut state = self.state();
        // Nobody waits for those in the background, nor for what they say.
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

    /// A call is asked about: from now on its hooks are waited for.
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

    /// A call goes on: hooks of it that still run do so in the background.
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

    /// Keeps a call as it was held against the rules.
    pub(super) fn hold(&self, call: Option<&String>, held: Held) {
        let Some(call) = call else { return };
        let State { calls, order, .. } = &mut *self.state();
        if calls.insert(call.clone(), held).is_none() {
            order.push_back(call.clone());
        }
        // Calls that never ran are never looked back at: the oldest goes.
        if order.len() > KEPT {
            order.pop_front().map(|oldest| calls.remove(&oldest));
        }
    }

    /// Where the agent was when it made a call.
    pub(crate) fn cwd_of(&self, call: &str) -> Option<String> {
        self.state().calls.get(call)?.cwd.clone()
    }

    /// What was said of a call in the end.
    pub(super) fn settle(&self, call: Option<&String>, now: Standing) {
        let mut state = self.state();
        if let Some(held) = call.and_then(|call| state.calls.get_mut(call)) {
            held.standing = now;
        }
    }

    /// The call, as it was held against the rules; it has run.
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
    /// What the others want to run instead, once they are done; none if one of them takes too long.
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

/// What a hook's output wants to run instead, as the agent reads it: of a key that is there twice the last counts.
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

    /// A long session forgot calls that were denied a moment ago, and then passed what ran.
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
