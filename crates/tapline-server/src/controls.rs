//! Commands for runs that tapline drives: a run that is pushed asks for them, and gets those that were given on the page. Nothing is sent to a
//! process from here.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;
use tapline_protocol::Moment;
use tokio::sync::watch;

use crate::row::{OpenQuestion, now, written};

/// A run that did not ask for this long, in milliseconds, is not there any more. It asks at least every 20 seconds.
const THERE: u64 = 40_000;
/// How many commands, and how many answers, are remembered of a run.
const MOST: usize = 64;

/// A command.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Command {
    n: u64,
    #[serde(flatten)]
    what: Value,
}

/// A question was answered here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// `allowed`, `refused` or `answered`.
    pub(crate) how: &'static str,
    pub(crate) at: Moment,
}

impl Given {
    pub(crate) fn told(self) -> String {
        format!("{} on the page at {}", self.how, written(self.at).unwrap_or_default())
    }
}

/// Why a command is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotGiven {
    /// Nobody takes it.
    OutOfReach,
    /// Somebody answered the question before.
    Answered(Given),
}

/// The id of a question, and its digest.
type QuestionKey = (String, String);

/// What one run was told, and whether it is there.
#[derive(Debug, Default)]
struct Line {
    /// The last commands. Those that arrived stay until others take their places: whoever reads them changes nothing.
    commands: VecDeque<Command>,
    /// The number of the last command that somebody read.
    told: u64,
    /// The questions that were answered here: an id may come again with another question.
    answers: VecDeque<(QuestionKey, Given)>,
    /// When the run asked last, in milliseconds since 1970.
    asked: u64,
    /// Whether its agent takes messages.
    takes_messages: bool,
}

impl Line {
    fn newest(&self) -> u64 {
        self.commands.back().map_or(0, |command| command.n)
    }

    fn push(&mut self, what: Value) -> Result<(), NotGiven> {
        // The first of them was never read, so nobody is there.
        if self.commands.len() >= MOST {
            if self.commands.front().is_some_and(|first| first.n > self.told) {
                return Err(NotGiven::OutOfReach);
            }
            self.commands.pop_front();
        }
        // Numbers begin with the time, so that those of an earlier server are never mistaken for these.
        let n = if self.commands.is_empty() { now().as_millis() } else { self.newest() + 1 };
        self.commands.push_back(Command { n, what });
        Ok(())
    }
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

    /// Gives a run a command.
    pub(crate) fn give(&self, run: &str, what: Value) -> Result<(), NotGiven> {
        self.with_line(run, |line| line.push(what))
    }

    /// Gives a run the answer to a question. The first answer counts.
    pub(crate) fn answer(&self, run: &str, question: QuestionKey, how: &'static str, what: Value) -> Result<(), NotGiven> {
        self.with_line(run, |line| {
            if let Some((_, given)) = line.answers.iter().find(|(known, _)| *known == question) {
                return Err(NotGiven::Answered(*given));
            }
            line.push(what)?;
            if line.answers.len() >= MOST {
                line.answers.pop_front();
            }
            line.answers.push_back((question, Given { how, at: now() }));
            Ok(())
        })
    }

    /// Returns how a question of a run was answered here.
    pub(crate) fn answered(&self, run: &str, id: &str, digest: &str) -> Option<Given> {
        let is_it = |known: &QuestionKey| known.0 == id && known.1 == digest;
        let found = |line: &Line| line.answers.iter().find(|(known, _)| is_it(known)).map(|(_, given)| *given);
        self.with(|lines| lines.get(run).and_then(found))
    }

    /// Notes which questions of a run were answered here: the agent may take a while to go on.
    pub(crate) fn note_answers(&self, run: &str, questions: &mut [OpenQuestion]) {
        for question in questions {
            question.answered = self.answered(run, &question.id, &question.digest).map(|given| given.how);
        }
    }

    fn with_line(&self, run: &str, tell: impl FnOnce(&mut Line) -> Result<(), NotGiven>) -> Result<(), NotGiven> {
        if !self.reaches(run) {
            return Err(NotGiven::OutOfReach);
        }
        let told = self.with(|lines| lines.get_mut(run).map_or(Err(NotGiven::OutOfReach), tell));
        self.news.send_modify(|news| *news += 1);
        told
    }

    /// Notes that a run asks, and returns its commands after this one. They are not forgotten: whoever else asks takes nothing away. A number
    /// that no command has is one of another server: then all of them are new.
    pub(crate) fn read(&self, run: &str, after: u64, takes_messages: Option<bool>) -> Vec<Command> {
        self.with(|lines| {
            // Runs that are gone leave nothing behind.
            let time = now().as_millis();
            lines.retain(|_, line| time.saturating_sub(line.asked) < 10 * THERE);
            let line = lines.entry(run.to_owned()).or_default();
            line.asked = time;
            line.takes_messages = takes_messages.unwrap_or(line.takes_messages);
            let newest = line.newest();
            let after = if after > newest { 0 } else { after };
            line.told = newest;
            line.commands.iter().filter(|command| command.n > after).cloned().collect()
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

    fn told(commands: &[Command]) -> Vec<&Value> {
        commands.iter().map(|command| &command.what).collect()
    }

    #[test]
    fn a_run_gets_its_own_commands_and_reading_them_takes_nothing_away() {
        let controls = Controls::new(true);
        let (one, other) = ("one", "other");
        let stop = json!({"command": "stop"});
        assert_eq!(controls.give(one, stop.clone()), Err(NotGiven::OutOfReach), "nobody asks");
        assert!(controls.read(one, 0, None).is_empty() && controls.read(other, 0, None).is_empty());
        assert!(controls.reaches(one));
        controls.give(one, stop.clone()).unwrap();
        let first = controls.read(one, 0, None);
        assert_eq!(told(&first), [&stop]);
        // Somebody else looks, with any number.
        for after in [first[0].n, first[0].n + 1, u64::MAX] {
            controls.read(one, after, None);
        }
        assert_eq!(told(&controls.read(one, 0, None)), [&stop], "the answer may have been lost");
        assert!(controls.read(one, first[0].n, Some(true)).is_empty() && controls.read(other, 0, None).is_empty());
        // The next one arrives, whatever numbers others named.
        controls.give(one, json!({"command": "interrupt"})).unwrap();
        let next = controls.read(one, first[0].n, None);
        assert_eq!(told(&next), [&json!({"command": "interrupt"})]);
        assert_eq!(next[0].n, first[0].n + 1);
        assert!(controls.takes_messages(one), "who only looks does not say otherwise");
    }

    #[test]
    fn a_run_takes_the_commands_of_a_new_server() {
        let controls = Controls::new(true);
        for of_another in [7, u64::MAX] {
            assert!(controls.read("run", of_another, None).is_empty());
        }
        controls.give("run", json!({"command": "stop"})).unwrap();
        for of_another in [7, u64::MAX] {
            assert_eq!(controls.read("run", of_another, None).len(), 1);
        }
    }

    #[test]
    fn the_first_answer_counts() {
        let controls = Controls::new(true);
        controls.read("run", 0, None);
        let question = || ("q".to_owned(), "d".to_owned());
        controls.answer("run", question(), "refused", json!({"command": "answer", "decision": "deny"})).unwrap();
        let Err(NotGiven::Answered(given)) = controls.answer("run", question(), "allowed", json!({})) else {
            panic!("it was answered")
        };
        assert!(given.told().starts_with("refused on the page at "), "{}", given.told());
        assert_eq!(controls.answered("run", "q", "d"), Some(given));
        for (run, id, digest) in [("run", "p", "d"), ("other", "q", "d"), ("run", "q", "of another question with this id")] {
            assert_eq!(controls.answered(run, id, digest), None);
        }
        assert_eq!(controls.read("run", 0, None).len(), 1);
    }

    #[test]
    fn what_nobody_reads_is_not_piled_up() {
        let controls = Controls::new(true);
        controls.read("run", 0, None);
        let given = (0..2 * MOST).filter(|_| controls.give("run", json!({})).is_ok()).count();
        assert_eq!(given, MOST);
        controls.read("run", 0, None);
        assert!((0..MOST).all(|_| controls.give("run", json!({})).is_ok()), "those that were read make room");
        assert_eq!(controls.read("run", 0, None).len(), MOST);
    }

    #[test]
    fn without_permission_nothing_is_given() {
        let controls = Controls::new(false);
        controls.read("one", 0, None);
        assert!(!controls.reaches("one") && controls.give("one", json!({})).is_err());
    }
}
