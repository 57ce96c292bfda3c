//! The recording of a run, shared by those who write to it. It may fail: the run goes on, and the loss is kept to be told.

use std::sync::{Arc, Mutex, PoisonError};

use crate::answers::Settled;
use tapline_recording::{End, Loss, Recorder, RecordingError, Stream};

/// A recording, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Option<Arc<Mutex<Open>>>);

#[derive(Debug)]
struct Open {
    recorder: Option<Recorder>,
    untold: Vec<Loss>,
}

impl Journal {
    pub(crate) fn new(recorder: Option<Recorder>) -> Self {
        Self(recorder.map(|recorder| Arc::new(Mutex::new(Open { recorder: Some(recorder), untold: Vec::new() }))))
    }

    /// Keeps a piece that came or was sent just now.
    pub(crate) fn write(&self, stream: Stream, bytes: &[u8]) {
        let Some(open) = &self.0 else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let losses = open.recorder.as_mut().map(|recorder| recorder.write(stream, bytes)).unwrap_or_default();
        open.untold.extend(losses);
    }

    /// Notes that a stream was closed just now.
    pub(crate) fn close(&self, stream: Stream) {
        let Some(open) = &self.0 else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let losses = open.recorder.as_mut().map(|recorder| recorder.close(stream)).unwrap_or_default();
        open.untold.extend(losses);
    }

    /// Keeps how a permission question was settled.
    pub(crate) fn decide(&self, settled: &Settled) {
        let Some(open) = &self.0 else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let losses = open.recorder.as_mut().map(|recorder| recorder.decide(settled)).unwrap_or_default();
        open.untold.extend(losses);
    }

    /// What was lost since this was last asked.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let Some(open) = &self.0 else { return Vec::new() };
        std::mem::take(&mut open.lock().unwrap_or_else(PoisonError::into_inner).untold)
    }

    /// Writes how it ended, once, and says what was lost last.
    pub(crate) fn finish(&self, end: &End) -> Result<Vec<Loss>, RecordingError> {
        let Some(open) = &self.0 else { return Ok(Vec::new()) };
        let recorder = open.lock().unwrap_or_else(PoisonError::into_inner).recorder.take();
        recorder.map_or(Ok(Vec::new()), |recorder| recorder.finish(end))
    }
}
