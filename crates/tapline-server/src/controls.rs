//! Commands for runs that tapline drives: a run that is pushed asks for them, and gets those that were given on the page. Nothing is sent to a
//! process from here.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::row::now;

/// A run that did not ask for this long, in milliseconds, is not there any more. It asks at least every 20 seconds.
const THERE: u64 = 40_000;
/// How many commands wait for a run.
const MOST: usize = 64;

/// A command.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Command {
    n: u64,
    #[serde(flatten)]
    what: Value,
}

/// What waits for one run.
#[derive(Debug, Default)]
struct Line {
    commands: VecDeque<Command>,
    newest: u64,
    /// When the run asked last, in milliseconds since 1970.
    asked: u64,
    /// Whether its agent takes messages.
    takes_messages: bool,
}

/// What waits for all runs, by the names under which they are pushed.
#[derive(Debug)]
pub(crate) struct Controls {
    pub(crate) is_allowed: bool,
    lines: Mutex<HashMap<String, Line>>,
    news: watch::Sender<u64>,
}

impl Controls {
    pub(crate) fn new(is_allowed: bool) -> Arc<Self> {
        Arc::new(Self { is_allowed, lines: Mutex::default(), news: watch::Sender::new(0) })
    }

    fn with<T>(&self, read: impl FnOnce(&mut HashMap<String, Line>) -> T) -> T {
        read(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether a run takes commands now.
    pub(crate) fn reaches(&self, run: &str) -> bool {
        let is_there = |line: &Line| now().as_millis().saturating_sub(line.asked) < THERE;
        self.is_allowed && self.with(|lines| lines.get(run).is_some_and(is_there))
    }

    /// Returns whether the agent of a run takes messages.
    pub(crate) fn takes_messages(&self, run: &str) -> bool {
        self.with(|lines| lines.get(run).is_some_and(|line| line.takes_messages))
    }

    /// Gives a run a command. Returns `false` if nobody takes it.
    pub(crate) fn give(&self, run: &str, what: Value) -> bool {
        if !self.reaches(run) {
            return false;
        }
        let is_given = self.with(|lines| {
            let Some(line) = lines.get_mut(run).filter(|line| line.commands.len() < MOST) else { return false };
            line.newest += 1;
            line.commands.push_back(Command { n: line.newest, what });
            true
        });
        self.news.send_modify(|news| *news += 1);
        is_given
    }

    /// Notes that a run asks, and returns its commands after this one. Those before it have arrived.
    pub(crate) fn take(&self, run: &str, after: u64, takes_messages: bool) -> Vec<Command> {
        self.with(|lines| {
            // Runs that are gone leave nothing behind.
            let time = now().as_millis();
            lines.retain(|_, line| time.saturating_sub(line.asked) < 10 * THERE);
            let line = lines.entry(run.to_owned()).or_default();
            (line.asked, line.takes_messages) = (time, takes_messages);
            // After a new start, the server counts on from what the run has.
            line.newest = line.newest.max(after);
            line.commands.retain(|command| command.n > after);
            line.commands.iter().cloned().collect()
        })
    }

    /// Waits here for commands.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_gets_its_own_commands_until_it_has_them() {
        let controls = Controls::new(true);
        let (one, other) = ("one", "other");
        assert!(!controls.give(one, json!({"command": "stop"})), "nobody asks");
        assert!(controls.take(one, 0, false).is_empty() && controls.take(other, 0, false).is_empty());
        assert!(controls.reaches(one) && controls.give(one, json!({"command": "stop"})));
        let told = |commands: Vec<Command>| serde_json::to_string(&commands).unwrap();
        let stop = r#"[{"n":1,"command":"stop"}]"#;
        assert_eq!(told(controls.take(one, 0, false)), stop);
        assert_eq!(told(controls.take(one, 0, false)), stop, "the answer may have been lost");
        assert_eq!(
            (told(controls.take(one, 1, true)), told(controls.take(other, 0, false))),
            ("[]".to_owned(), "[]".to_owned())
        );
    }

    #[test]
    fn a_new_server_counts_on_from_what_the_run_has() {
        let controls = Controls::new(true);
        let run = "one";
        assert!(controls.take(run, 7, false).is_empty());
        assert!(controls.give(run, json!({"command": "stop"})));
        assert_eq!(controls.take(run, 7, false).iter().map(|command| command.n).collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn without_permission_nothing_is_given() {
        let controls = Controls::new(false);
        controls.take("one", 0, false);
        assert!(!controls.reaches("one") && !controls.give("one", json!({})));
    }
}
