//! Sends spans and measures of live sessions to a receiver of OTLP, from a thread of its own. A receiver that is slow or away holds up nobody: what
//! waits is bounded, and what is dropped is counted.

mod target;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tapline_archive::telemetry::session_span;
use tapline_protocol::Moment;
use tapline_recording::{Redactor, Stream};
use tapline_session::otlp::{
    AgentSpan, Clean, Measures, Operation, OtlpResource, Spans, encode_metrics, encode_span, encode_traces,
};

use uuid::Uuid;

pub use target::{OtlpError, OtlpTarget};

use crate::row::now;
use crate::shelf::Shelf;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much waits for the receiver.
const MOST_SPANS: usize = 16_384;
const MOST_BYTES: usize = 8 << 20;
/// How much is sent at once.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 1 << 20;
/// How long spans wait for others to go with them.
const GATHER: Duration = Duration::from_secs(1);
/// Runs of a session that have more bytes together are not read again at the end of one of them.
const REREAD: u64 = 64 << 20;
/// How many runs are remembered that the archive may not know yet.
const TOLD: usize = 1_024;
/// How long the same spans are sent again.
const PATIENCE: Duration = Duration::from_secs(5 * 60);
/// How long to wait before the same spans are sent again when the server ends.
const HURRIED: Duration = Duration::from_millis(200);
/// How many spans are remembered, so that none is sent twice.
const REMEMBERED: usize = 1 << 17;

/// Where and how to export.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OtlpOptions {
    /// The receiver.
    pub target: OtlpTarget,
    /// Who sends.
    pub resource: OtlpResource,
    /// Exports prompts, texts, arguments and results, too, without what this finds.
    pub content: Option<Redactor>,
    /// How often measures are sent.
    pub interval: Duration,
    /// How long the end may take.
    pub grace: Duration,
    /// Takes what the person who runs the server should know.
    pub tell: Option<fn(&str)>,
}

impl OtlpOptions {
    /// Exports to this receiver: measures once a minute, and no texts.
    pub fn new(target: OtlpTarget, resource: OtlpResource) -> Self {
        let (interval, grace) = (Duration::from_secs(60), Duration::from_secs(5));
        Self { target, resource, content: None, interval, grace, tell: None }
    }

    /// Returns what makes spans of steps.
    pub fn spans(&self) -> Spans {
        match self.content.clone() {
            Some(redactor) => Spans::default().with_content(cleaner(redactor)),
            None => Spans::default(),
        }
    }
}

/// Returns what removes secrets from texts. JSON stays JSON.
fn cleaner(redactor: Redactor) -> Clean {
    Clean::new(move |text| {
        if text.starts_with('{') && !text.contains('\n') {
            String::from_utf8_lossy(&redactor.line(text.as_bytes())).into_owned()
        } else {
            redactor.text(text).into_owned()
        }
    })
}

/// Sends spans and measures at once, and waits for the receiver: for exports that have an end.
#[derive(Debug)]
pub struct OtlpSender {
    options: OtlpOptions,
    waiting: Vec<Vec<u8>>,
    bytes: usize,
    /// Until when a receiver that does not answer may come back.
    patience: Duration,
    /// Whether something was sent.
    has_begun: bool,
    /// How many spans the receiver took.
    pub taken: u64,
    /// How many it refused, and why.
    pub refused: Option<(u64, String)>,
}

impl OtlpSender {
    /// Sends to this receiver. One that does not answer has this long to come back.
    pub fn new(options: OtlpOptions, patience: Duration) -> Self {
        Self { options, waiting: Vec::new(), bytes: 0, patience, has_begun: false, taken: 0, refused: None }
    }

    /// Sends a span, together with others.
    pub fn span(&mut self, span: &AgentSpan) -> Result<(), OtlpError> {
        let span = encode_span(span);
        self.bytes += span.len();
        self.waiting.push(span);
        if self.waiting.len() >= BATCH || self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Sends the spans that wait.
    pub fn flush(&mut self) -> Result<(), OtlpError> {
        let spans = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        if !spans.is_empty() {
            let body = encode_traces(&self.options.resource, spans.iter().map(Vec::as_slice));
            let refused = self.send("/v1/traces", &body)?;
            self.taken += (spans.len() as u64).saturating_sub(refused);
        }
        Ok(())
    }

    /// Sends measures.
    pub fn measures(&mut self, measures: &Measures, start: Moment, end: Moment) -> Result<(), OtlpError> {
        let body = encode_metrics(&self.options.resource, measures, start, end);
        self.send("/v1/metrics", &body).map(drop)
    }

    fn send(&mut self, path: &str, body: &[u8]) -> Result<u64, OtlpError> {
        let end = Instant::now() + self.patience;
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let refused = self.options.target.deliver(path, body, |error, time| {
            // Whoever gives a wrong address should know it at once.
            let is_wrong = is_first && matches!(error, OtlpError::Unreachable { .. });
            let goes_on = !is_wrong && Instant::now() + time <= end;
            if goes_on {
                thread::sleep(time);
            }
            goes_on
        })?;
        let count = refused.as_ref().map_or(0, |(count, _)| *count);
        if let Some((more, why)) = refused {
            let (known, first) = self.refused.take().unwrap_or((0, why));
            self.refused = Some((known + more, first));
        }
        Ok(count)
    }
}

/// What was sent, and what was not.
#[derive(Debug, Default)]
pub(crate) struct OtlpCounts {
    pub(crate) sent: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) waiting: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    spans: VecDeque<Vec<u8>>,
    bytes: usize,
    /// When the first of them goes, with those that came after it.
    due: Option<Instant>,
    seen: HashSet<([u8; 8], u64)>,
    order: VecDeque<([u8; 8], u64)>,
    /// Until when everything must be sent, once the server ends.
    end: Option<Instant>,
}

impl Queue {
    /// Remembers a span. Returns whether it is new.
    fn is_new(&mut self, key: ([u8; 8], u64)) -> bool {
        if !self.seen.insert(key) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        true
    }

    fn batch(&mut self) -> Vec<Vec<u8>> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(length) = self.spans.front().map(Vec::len) {
            if batch.len() >= BATCH || !batch.is_empty() && bytes + length > BATCH_BYTES {
                break;
            }
            bytes += length;
            batch.extend(self.spans.pop_front());
        }
        self.bytes -= bytes;
        // The rest has waited already.
        self.due = if self.spans.is_empty() { None } else { Some(Instant::now()) };
        batch
    }

    fn is_due(&self, time: Instant) -> bool {
        self.is_full_batch() || self.end.is_some() || self.due.is_some_and(|due| time >= due)
    }

    fn is_full_batch(&self) -> bool {
        self.spans.len() >= BATCH || self.bytes >= BATCH_BYTES
    }
}

/// What the server and the sending thread share.
#[derive(Debug)]
struct Shared {
    options: OtlpOptions,
    started: Moment,
    queue: Mutex<Queue>,
    changed: Condvar,
    counts: OtlpCounts,
    durations: Mutex<Measures>,
    has_failed: AtomicBool,
    has_dropped: AtomicBool,
    /// Whether there is no more time.
    is_over: AtomicBool,
}

/// Sends what happens from now on.
#[derive(Debug)]
pub(crate) struct Otlp {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The last recordings whose sessions were told, and the ids of these.
    told: Mutex<VecDeque<(String, PathBuf)>>,
}

impl Otlp {
    pub(crate) fn start(mut options: OtlpOptions, shelf: &Arc<Shelf>) -> io::Result<Self> {
        // Sums since the start of this server must not be mixed with those of another one.
        let instance = ("service.instance.id".to_owned(), Uuid::new_v4().to_string());
        let OtlpResource { version, attributes, .. } = options.resource;
        options.resource = OtlpResource::new(version, std::iter::once(instance).chain(attributes));
        let shared = Arc::new(Shared {
            options,
            started: now(),
            queue: Mutex::default(),
            changed: Condvar::new(),
            counts: OtlpCounts::default(),
            durations: Mutex::default(),
            has_failed: AtomicBool::new(false),
            has_dropped: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let (sending, shelf) = (Arc::clone(&shared), Arc::clone(shelf));
        let thread = thread::Builder::new().name("otlp".to_owned()).spawn(move || sending.run(&shelf))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)), told: Mutex::default() })
    }

    /// Returns what makes spans of a session's steps.
    pub(crate) fn spans(&self) -> Spans {
        self.shared.options.spans()
    }

    pub(crate) fn counts(&self) -> &OtlpCounts {
        &self.shared.counts
    }

    /// Takes spans to send. What ended before the server started is no news, and what was sent is not sent again. Never waits.
    pub(crate) fn offer(&self, spans: Vec<AgentSpan>) {
        for span in spans.into_iter().filter(|span| span.end >= self.shared.started) {
            self.shared.offer(&span);
        }
    }

    /// Takes spans of a session. If it has several runs, its own span counts all of them: each has a recording, and whoever reads it knows
    /// only that one.
    pub(crate) fn offer_of(&self, archive: &Shelf, recording: Option<&Path>, id: Option<&str>, mut spans: Vec<AgentSpan>) {
        if let Some((own, id)) = recording.zip(id) {
            for span in spans.iter_mut().filter(|span| span.operation == Operation::Session) {
                let runs = self.runs_with(archive, own, id);
                // What is not sent need not be read again.
                if runs.len() > 1 && span.end >= self.shared.started {
                    count_all(span, whole_span(&runs));
                }
            }
        }
        self.offer(spans);
    }

    /// Returns the recordings of a session's runs so far, the oldest first: those that the archive knows, those that were told since, and this one.
    fn runs_with(&self, archive: &Shelf, own: &Path, id: &str) -> Vec<PathBuf> {
        let mut told = locked(&self.told);
        let mut runs = archive.runs(id);
        for (_, run) in told.iter().filter(|(session, _)| session == id) {
            if !runs.contains(run) {
                runs.push(run.clone());
            }
        }
        runs.retain(|run| run != own);
        runs.push(own.to_owned());
        told.retain(|(_, run)| run != own);
        told.push_back((id.to_owned(), own.to_owned()));
        if told.len() > TOLD {
            told.pop_front();
        }
        runs
    }

    /// Sends what waits, and ends.
    pub(crate) fn finish(&self) {
        let Some(thread) = locked(&self.thread).take() else { return };
        let end = Instant::now() + self.shared.options.grace;
        let mut queue = locked(&self.shared.queue);
        queue.end = Some(end);
        self.shared.changed.notify_all();
        // A request under way ends by itself a little later, without anybody waiting for it.
        while !thread.is_finished() && Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now()).min(Duration::from_millis(20));
            queue = match self.shared.changed.wait_timeout(queue, left) {
                Ok((queue, _)) => queue,
                Err(error) => error.into_inner().0,
            };
        }
        // Nor does reading go on.
        self.shared.is_over.store(true, Ordering::Relaxed);
        let left = queue.spans.len() as u64;
        drop(queue);
        if left > 0 || !thread.is_finished() {
            self.shared.tell("OTLP: the receiver did not take everything before the end");
        }
    }
}

/// Makes the span of the last run that of the whole session. If that is not known, it does not say what only the last run counted.
fn count_all(span: &mut AgentSpan, whole: Option<AgentSpan>) {
    if let Some(whole) = whole.filter(|whole| whole.span_id == span.span_id) {
        (span.start, span.attributes) = (whole.start.min(span.start), whole.attributes);
        (span.error, span.message) = (whole.error, whole.message);
    } else {
        span.attributes.retain(|(key, _)| !["tapline.turns", "tapline.cost_usd"].contains(key));
    }
}

/// Returns the span of a session with several runs, unless they have too many bytes to be read again.
fn whole_span(runs: &[PathBuf]) -> Option<AgentSpan> {
    let length = |run: &PathBuf| std::fs::metadata(run.join(Stream::Stdout.file_name())).map_or(0, |meta| meta.len());
    let is_small = runs.iter().map(length).sum::<u64>() <= REREAD;
    if is_small { session_span(runs) } else { None }
}

impl Shared {
    fn offer(&self, span: &AgentSpan) {
        // A session that goes on has a new end, and is sent again.
        let key = (span.span_id, if span.operation == Operation::Session { span.end.as_millis() } else { 0 });
        let mut queue = locked(&self.queue);
        if !queue.is_new(key) {
            return;
        }
        locked(&self.durations).duration(span);
        let bytes = encode_span(span);
        if queue.spans.len() >= MOST_SPANS || queue.bytes + bytes.len() > MOST_BYTES {
            drop(queue);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            if !self.has_dropped.swap(true, Ordering::Relaxed) {
                self.tell(
                    "OTLP: the receiver is too slow, and too many spans wait: new ones are dropped, and /metrics counts them",
                );
            }
            return;
        }
        queue.bytes += bytes.len();
        queue.spans.push_back(bytes);
        queue.due.get_or_insert_with(|| Instant::now() + GATHER);
        self.counts.waiting.store(queue.spans.len() as u64, Ordering::Relaxed);
        if queue.spans.len() == 1 || queue.is_full_batch() {
            self.changed.notify_all();
        }
    }

    fn tell(&self, text: &str) {
        if let Some(tell) = self.options.tell {
            tell(text);
        }
    }

    fn run(&self, archive: &Shelf) {
        let mut measured = Measures::default();
        let mut due = Instant::now() + self.options.interval;
        loop {
            let (batch, is_end) = self.next(due);
            if !batch.is_empty() {
                self.send_spans(&batch);
            }
            let is_empty = locked(&self.queue).spans.is_empty();
            if Instant::now() >= due || is_end && is_empty {
                self.send_measures(archive, &mut measured, is_end);
                due = Instant::now() + self.options.interval;
            }
            if is_end && (is_empty || self.is_late()) {
                self.changed.notify_all();
                return;
            }
        }
    }

    fn is_late(&self) -> bool {
        locked(&self.queue).end.is_some_and(|end| Instant::now() >= end)
    }

    /// Waits until there is something to do. Returns spans to send, and whether the server ends.
    fn next(&self, due: Instant) -> (Vec<Vec<u8>>, bool) {
        let mut queue = locked(&self.queue);
        loop {
            let time = Instant::now();
            let is_due = queue.is_due(time);
            if is_due || time >= due {
                let batch = if is_due { queue.batch() } else { Vec::new() };
                self.counts.waiting.store(queue.spans.len() as u64, Ordering::Relaxed);
                return (batch, queue.end.is_some());
            }
            let until = queue.due.map_or(due, |spans| spans.min(due));
            queue = match self.changed.wait_timeout(queue, until.saturating_duration_since(time)) {
                Ok((queue, _)) => queue,
                Err(error) => error.into_inner().0,
            };
        }
    }

    /// Waits before a request is tried again. Returns whether to try.
    fn wait(&self, time: Duration, patience: Instant) -> bool {
        let mut until = Instant::now() + time;
        let mut is_hurried = false;
        let mut queue = locked(&self.queue);
        loop {
            let now = Instant::now();
            let limit = queue.end.map_or(patience, |end| end.min(patience));
            // At the end there is no time for long waits.
            if queue.end.is_some() && !std::mem::replace(&mut is_hurried, true) {
                until = until.min(now + HURRIED);
            }
            if now >= until || now >= limit {
                return now < limit;
            }
            queue = match self.changed.wait_timeout(queue, until.min(limit).saturating_duration_since(now)) {
                Ok((queue, _)) => queue,
                Err(error) => error.into_inner().0,
            };
        }
    }

    fn deliver(&self, path: &str, body: &[u8], patience: Duration) -> Result<u64, OtlpError> {
        let patience = Instant::now() + patience;
        let sent = self.options.target.deliver(path, body, |_, time| {
            self.failed(None);
            self.wait(time, patience)
        });
        match sent {
            Ok(refused) => Ok(refused.map_or(0, |(count, why)| {
                self.failed(Some(&format!("the receiver refuses some of it ({why})")));
                count
            })),
            Err(error) => {
                self.failed(Some(&error.to_string()));
                Err(error)
            }
        }
    }

    /// Counts a failure, and says the first one.
    fn failed(&self, why: Option<&str>) {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        let Some(why) = why else { return };
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            self.tell(&format!("OTLP: {why}. Sessions are served all the same, and /metrics counts what is not sent"));
        }
    }

    fn send_spans(&self, batch: &[Vec<u8>]) {
        let body = encode_traces(&self.options.resource, batch.iter().map(Vec::as_slice));
        let count = batch.len() as u64;
        match self.deliver("/v1/traces", &body, PATIENCE) {
            Ok(refused) => {
                self.counts.refused.fetch_add(refused.min(count), Ordering::Relaxed);
                self.counts.sent.fetch_add(count.saturating_sub(refused), Ordering::Relaxed);
            }
            Err(_) => {
                self.counts.dropped.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Sends what was measured since the start. If it fails, the next time has all of it.
    fn send_measures(&self, archive: &Shelf, last: &mut Measures, is_end: bool) {
        let Ok(mut measures) = archive.measures(self.started, is_end, &self.is_over) else { return };
        measures += &*locked(&self.durations);
        measures.keep_larger(last);
        if measures.is_empty() {
            return;
        }
        let body = encode_metrics(&self.options.resource, &measures, self.started, now());
        let _ = self.deliver("/v1/metrics", &body, self.options.interval.min(PATIENCE));
        *last = measures;
    }
}
