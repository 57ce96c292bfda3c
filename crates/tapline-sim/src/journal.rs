//! What was asked and answered so far: the position in the script, the requests, the tokens.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use tapline_protocol::Json;
use tapline_recording::Redactor;

use crate::asked::{Api, Asked};
use crate::scenario::{Facts, Lane, Scenario, Usage};
use crate::script::{Choice, Script};

/// A request and its outcome.
#[derive(Clone, Debug)]
pub struct Logged {
    /// When it arrived, in milliseconds from the start.
    pub at_ms: u64,
    /// The method.
    pub method: String,
    /// The path and query.
    pub path: String,
    /// The headers, without keys.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
    /// What it asks, if it is a request to the model.
    pub facts: Option<Facts>,
    /// The turn that answered it, from 1.
    pub turn: Option<usize>,
    /// The fault that was used, if any.
    pub fault: Option<&'static str>,
    /// The answer, if it has one. With a fault, or if the client disconnects, only a part of it is sent.
    pub answer: Option<Answered>,
    /// The status of the answer.
    pub status: u16,
    /// Why the scenario has no answer for it.
    pub failure: Option<String>,
}

/// An answer of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// The id of the message or response.
    pub id: String,
    /// The model that it names.
    pub model: String,
    /// The usage that it reports.
    pub usage: Usage,
}

/// Parts of the names of headers that hold a key.
const SECRET: &[&str] = &["auth", "key", "token", "cookie", "secret"];

impl Logged {
    pub(crate) fn new(at_ms: u64, method: String, path: String, mut headers: BTreeMap<String, String>, body: String) -> Self {
        for (name, value) in &mut headers {
            if SECRET.iter().any(|word| name.contains(word)) {
                tapline_recording::REDACTED.clone_into(value);
            }
        }
        Self {
            at_ms,
            method,
            path,
            headers,
            body,
            facts: None,
            turn: None,
            fault: None,
            answer: None,
            status: 0,
            failure: None,
        }
    }

    /// Formats it as one line of JSON.
    pub fn to_line(&self) -> String {
        let facts = self.facts.as_ref();
        let head = json!({
            "at_ms": self.at_ms, "method": self.method, "path": self.path, "agent": facts.map(|facts| facts.lane.name()),
            "count": facts.map(|facts| facts.count), "model": facts.map(|facts| &facts.model), "last": facts.map(|facts| &facts.last),
            "turn": self.turn, "fault": self.fault, "answer": self.answer, "status": self.status, "failure": self.failure, "headers": self.headers,
        });
        // A client may send more than serde_json can represent, so the body is written unchanged.
        let body = Json::parse(&self.body).map_or_else(|_| json!(self.body).to_string(), |json| json.as_str().to_owned());
        let mut line = head.to_string();
        line.pop();
        line += ",\"body\":";
        line += &body;
        line += "}\n";
        line
    }
}

/// What was asked and answered.
#[derive(Debug)]
pub(crate) struct Journal {
    started: Instant,
    keep: bool,
    on_request: Option<fn(&Logged)>,
    /// What the ids of its answers begin with.
    pub(crate) ids: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    script: Script,
    /// Where requests are logged, and the redactor for them.
    log: Option<(File, Redactor)>,
    log_failed: Option<io::Error>,
    kept: Vec<Logged>,
    failures: Vec<String>,
    notes: Vec<String>,
    /// Whether any request to the model arrived.
    asked: bool,
    /// The tokens of each lane.
    tokens: BTreeMap<Lane, Usage>,
    answers: u64,
}

impl Journal {
    pub(crate) fn new(scenario: Scenario, log: Option<(File, Redactor)>, keep: bool, on_request: Option<fn(&Logged)>) -> Self {
        let tokens = BTreeMap::new();
        let state = State {
            script: Script::new(scenario),
            log,
            log_failed: None,
            kept: Vec::new(),
            failures: Vec::new(),
            notes: Vec::new(),
            asked: false,
            tokens,
            answers: 0,
        };
        Self { started: Instant::now(), keep, on_request, ids: "sim".to_owned(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what a request asks.
    pub(crate) fn read(&self, api: Api, headers: &BTreeMap<String, String>, body: &Json) -> Option<Asked> {
        Asked::of(api, headers, body, self.state().script.given())
    }

    /// Returns the answer to a request, and its number.
    pub(crate) fn choose(&self, facts: &Facts) -> (Choice, u64) {
        let mut state = self.state();
        state.answers += 1;
        (state.script.choose(facts), state.answers)
    }

    /// Returns how long it has been serving.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn log(&self, logged: Logged) {
        if let Some(on_request) = self.on_request {
            on_request(&logged);
        }
        let mut state = self.state();
        state.asked |= logged.facts.is_some();
        // A program may try again with other words. One failure is enough.
        if let Some(failure) = logged.failure.as_ref().filter(|failure| state.failures.last() != Some(failure)) {
            state.failures.push(failure.clone());
        }
        if let Some((file, redactor)) = &mut state.log
            && let Err(error) = file.write_all(&redactor.line(logged.to_line().as_bytes()))
        {
            state.log = None;
            state.log_failed = Some(error);
        }
        if self.keep {
            state.kept.push(logged);
        }
    }

    /// Counts an answer that was sent completely.
    pub(crate) fn count(&self, lane: Lane, usage: Usage) {
        *self.state().tokens.entry(lane).or_insert(Usage::NONE) += usage;
    }

    pub(crate) fn scenario_usage(&self) -> Usage {
        self.state().script.scenario().usage
    }

    pub(crate) fn model(&self) -> Option<String> {
        self.state().script.scenario().model.clone()
    }

    pub(crate) fn kept(&self) -> Vec<Logged> {
        self.state().kept.clone()
    }

    pub(crate) fn tokens(&self) -> BTreeMap<Lane, Usage> {
        self.state().tokens.clone()
    }

    /// Notes a possible mistake.
    pub(crate) fn note(&self, note: String) {
        let mut state = self.state();
        if !state.notes.contains(&note) {
            state.notes.push(note);
        }
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        let state = self.state();
        let unasked = (!state.asked).then(|| "no request reached the model".to_owned());
        state.notes.iter().cloned().chain(unasked).collect()
    }

    /// Returns what differs from the scenario, so far or, once all is over, in total.
    pub(crate) fn failures(&self) -> Vec<String> {
        let state = self.state();
        let log = state.log_failed.iter().map(|error| format!("the log could not be written: {error}"));
        state.failures.iter().cloned().chain(state.script.unmet()).chain(log).collect()
    }
}
