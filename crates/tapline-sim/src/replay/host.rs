//! The host of a replay: what it sends is read as it comes, and held against what was recorded.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::frame::{Frame, Ids, Line, departure};
use super::order::Inputs;

/// What the host has sent so far.
#[derive(Debug)]
pub(super) struct Host {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    recorded: Vec<Line>,
    text: Option<Vec<u8>>,
    /// Of the recorded lines: which were sent.
    sent: Vec<bool>,
    ids: Ids,
    /// Requests that were never recorded, and are answered so.
    refusals: Vec<String>,
    closed: bool,
    departed: Option<String>,
    bytes: usize,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// So many recorded lines were sent.
    Lines(usize),
    /// The host has closed its end.
    Closed,
}

/// Why waiting has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// It has come, or will come no more.
    Ready,
    /// These lines are to be written first.
    Refusals(Vec<String>),
    /// It does not come, and the host waits for the answers to these requests of its own.
    Ahead(Vec<String>),
    /// The host has departed from what was recorded.
    Departed(String),
}

/// A host that waits for another answer than the recording's next gets it after this time.
const PATIENCE: Duration = Duration::from_millis(200);

impl Host {
    pub(super) fn new(inputs: Inputs) -> Arc<Self> {
        let sent = vec![false; inputs.lines.len()];
        let state = State {
            recorded: inputs.lines,
            text: inputs.text,
            sent,
            ids: Ids::default(),
            refusals: Vec::new(),
            closed: false,
            departed: None,
            bytes: 0,
        };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what the host sends until it closes its end.
    pub(super) fn listen(&self, stdin: Box<dyn Read + Send>, strict: bool) {
        let mut reader = BufReader::with_capacity(64 << 10, stdin);
        let is_text = self.state().text.is_some();
        let (mut line, mut text, mut number) = (Vec::new(), Vec::new(), 0);
        loop {
            line.clear();
            match reader.read_until(b'\n', &mut line) {
                Ok(count) if count > 0 => {}
                _ => break,
            }
            let mut state = self.state();
            state.bytes += line.len();
            number += 1;
            if is_text {
                if strict {
                    text.extend_from_slice(&line);
                }
            } else if !line.trim_ascii().is_empty() {
                state.accept(&Line::read(&line), number, strict);
            }
            self.changed.notify_all();
        }
        let mut state = self.state();
        state.closed = true;
        if strict && state.departed.is_none() {
            state.departed = state.missing(&text);
        }
        self.changed.notify_all();
    }

    /// The line with the host's own ids.
    pub(super) fn with_ids<'l>(&self, line: &'l [u8]) -> std::borrow::Cow<'l, [u8]> {
        self.state().ids.apply(line)
    }

    /// Whether the host has departed.
    pub(super) fn departed(&self) -> Option<String> {
        self.state().departed.clone()
    }

    /// Waits until it has come, or something else must be done first. `open` are the recorded requests whose answers have not been
    /// given.
    pub(super) fn wait(&self, until: Until, is_open: impl Fn(&str) -> bool) -> Woken {
        let mut state = self.state();
        let since = Instant::now();
        loop {
            if let Some(why) = &state.departed {
                return Woken::Departed(why.clone());
            }
            if !state.refusals.is_empty() {
                return Woken::Refusals(std::mem::take(&mut state.refusals));
            }
            if state.has(until) {
                return Woken::Ready;
            }
            let waited = since.elapsed();
            let ahead = state.asked_ahead(&is_open);
            if !ahead.is_empty() && waited >= PATIENCE {
                return Woken::Ahead(ahead);
            }
            state = if ahead.is_empty() {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                let woken = self.changed.wait_timeout(state, PATIENCE.saturating_sub(waited));
                woken.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

impl State {
    fn has(&self, until: Until) -> bool {
        let whole = |text: &Vec<u8>| self.bytes >= text.len() && !text.is_empty();
        match until {
            _ if self.closed => true,
            Until::Closed => false,
            Until::Lines(_) if self.text.is_some() => self.text.as_ref().is_some_and(whole),
            Until::Lines(count) => self.sent.iter().take(count).all(|sent| *sent),
        }
    }

    /// The recorded ids of requests that the host has made and that have no answer yet.
    fn asked_ahead(&self, is_open: impl Fn(&str) -> bool) -> Vec<String> {
        let asked =
            self.recorded.iter().zip(&self.sent).filter(|(line, sent)| **sent && matches!(line.frame, Frame::Request(_)));
        asked.filter_map(|(line, _)| line.id.clone()).filter(|id| is_open(id)).collect()
    }

    fn accept(&mut self, line: &Line, number: usize, strict: bool) {
        let open = self.recorded.iter().zip(&self.sent).position(|(recorded, sent)| !sent && recorded.frame == line.frame);
        let Some(found) = open else {
            if let (Frame::Request(asked), Some(id)) = (&line.frame, &line.id) {
                let error = format!("tapline replay: the recording has no further request {asked}");
                let refusal =
                    json!({ "type": "control_response", "response": { "subtype": "error", "request_id": id, "error": error } });
                self.refusals.push(format!("{refusal}\n"));
            }
            if strict {
                self.depart(format!("line {number} of stdin, {}, was not recorded", line.name()));
            }
            return;
        };
        self.sent[found] = true;
        let recorded = &self.recorded[found];
        if strict
            && let (Some(one), Some(other)) = (&recorded.json, &line.json)
            && let Some(where_it_differs) = departure(one, other)
        {
            let name = line.name();
            self.depart(format!("line {number} of stdin, {name}: {where_it_differs}"));
        }
        if let (Some(recorded), Some(here)) = (self.recorded[found].id.clone(), line.id.clone()) {
            self.ids.insert(recorded, here);
        }
    }

    fn depart(&mut self, why: String) {
        self.departed.get_or_insert(why);
    }

    /// What was recorded and never sent.
    fn missing(&self, text: &[u8]) -> Option<String> {
        if let Some(recorded) = self.text.as_ref().filter(|recorded| recorded.as_slice() != text) {
            let at = recorded.iter().zip(text).take_while(|(one, other)| one == other).count();
            return Some(format!(
                "stdin differs from byte {at} on: {} bytes were recorded, {} sent",
                recorded.len(),
                text.len()
            ));
        }
        let at = self.sent.iter().position(|sent| !sent)?;
        Some(format!("stdin was closed before {} (line {} of what was recorded)", self.recorded[at].name(), at + 1))
    }
}
