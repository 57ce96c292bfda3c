//! The host of a replay: reads what it sends and compares it with the recording.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::frame::{Frame, Ids, Line, departure};
use super::order::{Inputs, Sent};

/// What the host has sent so far.
#[derive(Debug)]
pub(super) struct Host {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether something must be done before the next line. Cheap to check.
    urgent: AtomicBool,
    /// Whether some id differs from the recorded one. Cheap to check.
    differs: AtomicBool,
}

#[derive(Debug)]
struct State {
    recorded: Vec<Line>,
    text: Option<Vec<u8>>,
    /// For each kind: the recorded lines that were not sent yet.
    open: HashMap<Frame, VecDeque<usize>>,
    sent: Vec<bool>,
    /// All lines before this one were sent.
    all_before: usize,
    ids: Ids,
    /// The recorded ids of the host's requests that are not answered yet.
    asked: Vec<String>,
    /// The error responses to requests that are not in the recording.
    refusals: Vec<String>,
    /// The last line that is not in the recording.
    unknown: Option<String>,
    closed: bool,
    departed: Option<String>,
    bytes: u64,
}

/// Why waiting ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The input has arrived, will not arrive any more, or it is time.
    Ready,
    /// These lines must be written first.
    Refusals(Vec<String>),
    /// The input does not arrive, and the host waits for the answers to these requests.
    Ahead(Vec<String>),
    /// The input does not arrive. The text says what is missing; it is reported once.
    Stuck(String),
    /// The host does not follow the recording.
    Departed(String),
}

/// How long a host waits for another answer than the next recorded one before it gets that answer.
const PATIENCE: Duration = Duration::from_millis(200);
/// After this time, it is reported what the replay waits for.
const LONG: Duration = Duration::from_secs(5);
/// How many lines of a kind are searched for one that says the same.
const LOOKED_AT: usize = 16;

impl Host {
    pub(super) fn new(inputs: Inputs) -> Arc<Self> {
        let sent = vec![false; inputs.lines.len()];
        let mut open: HashMap<Frame, VecDeque<usize>> = HashMap::new();
        for (at, line) in inputs.lines.iter().enumerate() {
            open.entry(line.frame.clone()).or_default().push_back(at);
        }
        let state = State {
            recorded: inputs.lines,
            text: inputs.text,
            open,
            sent,
            all_before: 0,
            ids: Ids::default(),
            asked: Vec::new(),
            refusals: Vec::new(),
            unknown: None,
            closed: false,
            departed: None,
            bytes: 0,
        };
        let (urgent, differs) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), urgent, differs })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, state: &State) {
        self.urgent.store(state.departed.is_some() || !state.refusals.is_empty(), Ordering::Release);
        self.differs.store(!state.ids.is_empty(), Ordering::Release);
        self.changed.notify_all();
    }

    /// Reads what the host sends until it closes its end.
    pub(super) fn listen(&self, stdin: Box<dyn Read + Send>, strict: bool) {
        let mut reader = BufReader::with_capacity(64 << 10, stdin);
        let is_text = self.state().text.is_some();
        let (mut line, mut text, mut number) = (Vec::new(), Vec::new(), 0);
        loop {
            line.clear();
            // Plain text has no lines to compare, and may end without a newline.
            let read = if is_text {
                reader.fill_buf().map(|bytes| line.extend_from_slice(bytes)).map(|()| reader.consume(line.len()))
            } else {
                reader.read_until(b'\n', &mut line).map(|_| ())
            };
            if read.is_err() || line.is_empty() {
                break;
            }
            let mut state = self.state();
            state.bytes += line.len() as u64;
            number += 1;
            if is_text && strict {
                text.extend_from_slice(&line);
            } else if !is_text && !line.trim_ascii().is_empty() {
                state.accept(&Line::read(&line), number, strict);
            }
            self.tell(&state);
        }
        let mut state = self.state();
        state.closed = true;
        if strict && state.departed.is_none() {
            state.departed = state.missing(&text);
        }
        self.tell(&state);
    }

    /// Returns the line with the host's own ids.
    pub(super) fn with_ids<'l>(&self, line: &'l [u8]) -> std::borrow::Cow<'l, [u8]> {
        if self.differs.load(Ordering::Acquire) { self.state().ids.apply(line) } else { line.into() }
    }

    /// Returns whether ids of messages are mapped, which may occur anywhere.
    pub(super) fn maps_messages(&self) -> bool {
        self.differs.load(Ordering::Acquire) && self.state().ids.has_messages()
    }

    /// Notes that a request was answered.
    pub(super) fn answered(&self, id: &str) {
        self.state().asked.retain(|asked| asked != id);
    }

    /// Returns what must be done before anything else.
    pub(super) fn urgent(&self) -> Option<Woken> {
        self.urgent.load(Ordering::Acquire).then(|| self.state().urgent()).flatten().inspect(|_| {
            let state = self.state();
            self.tell(&state);
        })
    }

    /// Waits at most this long for the host to close its end.
    pub(super) fn settle(&self, patience: Duration) {
        let state = self.state();
        let waited = self.changed.wait_timeout_while(state, patience, |state| !state.closed && state.departed.is_none());
        drop(waited);
    }

    /// Waits until this time, unless something must be done first.
    pub(super) fn pause(&self, until: Instant) -> Woken {
        let mut state = self.state();
        loop {
            if let Some(urgent) = state.urgent() {
                return urgent;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woken::Ready;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns whether this input arrives soon.
    pub(super) fn comes_soon(&self, sent: Sent) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), PATIENCE, |state| !state.has(sent));
        waited.unwrap_or_else(PoisonError::into_inner).0.has(sent)
    }

    /// Waits until this input has arrived, or something must be done first. `may_answer` says whether a request can be
    /// answered early.
    pub(super) fn wait(&self, sent: Sent, may_answer: impl Fn(&str) -> bool, told: bool) -> Woken {
        let mut state = self.state();
        let since = Instant::now();
        loop {
            if let Some(urgent) = state.urgent() {
                return urgent;
            }
            if state.has(sent) {
                return Woken::Ready;
            }
            let waited = since.elapsed();
            let ahead: Vec<String> = state.asked.iter().filter(|id| may_answer(id)).cloned().collect();
            if !ahead.is_empty() && waited >= PATIENCE {
                return Woken::Ahead(ahead);
            }
            if matches!(sent, Sent::Soon(_)) && waited >= PATIENCE {
                return Woken::Ready;
            }
            if !told && waited >= LONG {
                return Woken::Stuck(state.wanted(sent));
            }
            let next = if ahead.is_empty() && !matches!(sent, Sent::Soon(_)) { LONG } else { PATIENCE };
            // After that there is nothing to time, so look only now and then.
            let left = if waited < next { next.saturating_sub(waited) } else { LONG };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn urgent(&mut self) -> Option<Woken> {
        if let Some(why) = &self.departed {
            return Some(Woken::Departed(why.clone()));
        }
        (!self.refusals.is_empty()).then(|| Woken::Refusals(std::mem::take(&mut self.refusals)))
    }

    fn has(&self, sent: Sent) -> bool {
        match sent {
            _ if self.closed => true,
            Sent::All => false,
            Sent::Bytes(count) => self.bytes >= count,
            Sent::Lines(count) | Sent::Soon(count) => self.all_before >= count,
        }
    }

    /// Says what the replay waits for.
    fn wanted(&self, sent: Sent) -> String {
        let wanted = match sent {
            Sent::All => "the host to close its end".to_owned(),
            Sent::Bytes(count) => format!("{count} bytes from the host, of which {} arrived", self.bytes),
            Sent::Lines(_) | Sent::Soon(_) => match self.recorded.get(self.all_before) {
                Some(line) => format!("{} from the host (line {} of the recorded stdin)", line.name(), self.all_before + 1),
                None => "the host".to_owned(),
            },
        };
        self.unknown.as_ref().map_or(wanted.clone(), |unknown| format!("{wanted}; {unknown}"))
    }

    fn accept(&mut self, line: &Line, number: usize, strict: bool) {
        let Some(found) = self.take(line) else {
            if let (Frame::Request(asked), Some(id)) = (&line.frame, &line.id) {
                let error = format!("tapline replay: the recording has no further request {asked}");
                let id: Value = serde_json::from_str(id.as_str()).unwrap_or_default();
                let answer = json!({ "subtype": "error", "request_id": id, "error": error });
                self.refusals.push(format!("{}\n", json!({ "type": "control_response", "response": answer })));
            }
            let unknown = format!("line {number} of stdin, {}, was not recorded", line.name());
            if strict {
                self.depart(unknown.clone());
            }
            self.unknown = Some(unknown);
            return;
        };
        self.sent[found] = true;
        while self.sent.get(self.all_before) == Some(&true) {
            self.all_before += 1;
        }
        let recorded = &self.recorded[found];
        // A reference to another message of the host uses that message's own id.
        let with_ids = || Line::read(&self.ids.apply(recorded.json.as_ref()?.as_str().as_bytes())).json;
        let differs = || with_ids().zip(line.json.as_ref()).and_then(|(one, other)| departure(&one, other));
        if let Some(place) = strict.then(differs).flatten() {
            let name = line.name();
            self.depart(format!("line {number} of stdin, {name}: {place}"));
        }
        let recorded = &self.recorded[found];
        self.ids.insert(recorded, line);
        if matches!(line.frame, Frame::Request(_)) {
            self.asked.extend(recorded.id_word());
        }
    }

    /// Finds the recorded line that this one stands for: the first of its kind that says the same, or else the first of
    /// its kind.
    fn take(&mut self, line: &Line) -> Option<usize> {
        let open = self.open.get_mut(&line.frame)?;
        let same = |at: &usize| {
            let both = self.recorded[*at].json.as_ref().zip(line.json.as_ref());
            both.is_some_and(|(recorded, sent)| departure(recorded, sent).is_none())
        };
        let found = open.iter().take(LOOKED_AT).position(same).unwrap_or(0);
        open.remove(found)
    }

    fn depart(&mut self, why: String) {
        self.departed.get_or_insert(why);
    }

    /// Says what was recorded and never sent.
    fn missing(&self, text: &[u8]) -> Option<String> {
        if let Some(recorded) = self.text.as_ref().filter(|recorded| recorded.as_slice() != text) {
            let at = recorded.iter().zip(text).take_while(|(one, other)| one == other).count();
            let (was, is) = (recorded.len(), text.len());
            return Some(format!("stdin differs from byte {at} on: {was} bytes were recorded, {is} sent"));
        }
        let line = self.recorded.get(self.all_before)?;
        Some(format!("stdin was closed before {} (line {} of the recorded stdin)", line.name(), self.all_before + 1))
    }
}
