//! The recording of a run, shared by those who write to it. It may fail: the run goes on, and the loss is kept to be told.
//! Where it is to hold no secrets, they are taken out here: what is said to the agent and decided about it is not changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::answers::Settled;
use tapline_protocol::Json;
use tapline_recording::{End, Loss, PieceRedactor, Recorder, RecordingError, Redactor, Stream};

/// A recording, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Option<Arc<Mutex<Open>>>);

#[derive(Debug)]
struct Open {
    recorder: Option<Recorder>,
    untold: Vec<Loss>,
    redaction: Option<Redaction>,
}

#[derive(Debug)]
struct Redaction {
    redactor: Redactor,
    /// One a stream.
    streams: [PieceRedactor; 3],
}

impl Open {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let Some(recorder) = &mut self.recorder else { return };
        let losses = match &mut self.redaction {
            Some(redaction) => recorder.write(stream, &redaction.streams[stream as usize].push(bytes)),
            None => recorder.write(stream, bytes),
        };
        self.untold.extend(losses);
    }

    /// Writes what a redactor still holds back.
    fn flush(&mut self, stream: Stream) {
        if let (Some(recorder), Some(redaction)) = (&mut self.recorder, &mut self.redaction) {
            let losses = recorder.write(stream, &redaction.streams[stream as usize].finish());
            self.untold.extend(losses);
        }
    }
}

impl Journal {
    /// Keeps what is written; without secrets, if somebody takes them out.
    pub(crate) fn new(recorder: Option<Recorder>, redactor: Option<Redactor>) -> Self {
        let streams = |redactor: &Redactor| [redactor.pieces(), redactor.pieces(), redactor.pieces()];
        let redaction = redactor.map(|redactor| Redaction { streams: streams(&redactor), redactor });
        Self(recorder.map(|recorder| Arc::new(Mutex::new(Open { recorder: Some(recorder), untold: Vec::new(), redaction }))))
    }

    fn open(&self) -> Option<MutexGuard<'_, Open>> {
        self.0.as_ref().map(|open| open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps a piece that came or was sent just now.
    pub(crate) fn write(&self, stream: Stream, bytes: &[u8]) {
        if let Some(mut open) = self.open() {
            open.write(stream, bytes);
        }
    }

    /// Notes that a stream was closed just now.
    pub(crate) fn close(&self, stream: Stream) {
        let Some(mut open) = self.open() else { return };
        open.flush(stream);
        let losses = open.recorder.as_mut().map(|recorder| recorder.close(stream)).unwrap_or_default();
        open.untold.extend(losses);
    }

    /// Keeps how a permission question was settled.
    pub(crate) fn decide(&self, settled: &Settled) {
        let Some(mut open) = self.open() else { return };
        let Open { recorder: Some(recorder), untold, redaction } = &mut *open else { return };
        let clean = redaction.as_ref().and_then(|redaction| clean(&redaction.redactor, &Json::of(settled)));
        untold.extend(match clean.and_then(|json| json.to::<serde_json::Value>().ok()) {
            Some(clean) => recorder.decide(&clean),
            None => recorder.decide(settled),
        });
    }

    /// What was lost since this was last asked.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        self.open().map(|mut open| std::mem::take(&mut open.untold)).unwrap_or_default()
    }

    /// Writes how it ended, once, and says what was lost last.
    pub(crate) fn finish(&self, end: &End) -> Result<Vec<Loss>, RecordingError> {
        let Some(mut open) = self.open() else { return Ok(Vec::new()) };
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Stdin] {
            open.flush(stream);
        }
        let mut end = end.clone();
        if let Some(Redaction { redactor, .. }) = &open.redaction {
            end.violated = end.violated.map(|rule| redactor.text(&rule).into_owned());
            end.verdict = end.verdict.and_then(|verdict| clean(redactor, &verdict));
        }
        let (recorder, untold) = (open.recorder.take(), std::mem::take(&mut open.untold));
        drop(open);
        let mut losses = recorder.map_or(Ok(Vec::new()), |recorder| recorder.finish(&end))?;
        losses.splice(..0, untold);
        Ok(losses)
    }
}

/// The same value without its secrets.
fn clean(redactor: &Redactor, json: &Json) -> Option<Json> {
    let clean = redactor.line(json.as_str().as_bytes());
    Json::parse(std::str::from_utf8(&clean).ok()?).ok()
}
