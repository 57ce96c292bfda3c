//! What a recording says that its stream does not: how the run ended, when it ran, what was lost.

use std::path::Path;

use tapline_protocol::StopReason;
use tapline_recording::{Loss, Recording, Redactor, Stop};
use tapline_session::{Ending, Run};

/// Something to tell a person about a source. Match it without a wildcard, so that no new note is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The recording has no end: the program that writes it was killed or is still running.
    NoEnd,
    /// A part of the recording is missing.
    Lost(Loss),
    /// The agent was still running after its final result, and was stopped.
    Lingered(Stop),
    /// The source is not a stream, but a session file that an agent keeps for itself. The text describes it.
    Transcript(&'static str),
    /// No known agent wrote the stream.
    Foreign,
    /// The file has nothing.
    Empty,
}

/// How much of stderr a verdict looks at. A recording may have more.
const STDERR_KEPT: u64 = 64 << 10;

/// The facts that a recording adds.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) ending: Ending,
    pub(crate) run: Run,
    pub(crate) notes: Vec<Note>,
}

/// Returns what a recording says about its run. What the caller knows takes precedence.
pub(crate) fn recorded(recording: &Recording, path: &Path, given: Ending) -> Recorded {
    let (meta, end) = (&recording.meta, recording.end.clone().unwrap_or_default());
    let mut notes: Vec<_> = end.lost.iter().cloned().map(Note::Lost).collect();
    if recording.end.is_none() {
        notes.push(Note::NoEnd);
    }
    notes.extend(end.stop.filter(|stop| stop.reason == StopReason::Linger).map(Note::Lingered));
    let stderr = recording.stderr_head(STDERR_KEPT).ok().filter(|text| !text.is_empty());
    // The verdict quotes it, so it must have no secrets, as in the run's own report.
    let stderr = stderr.map(|text| Redactor::default().text(&text).into_owned());
    let ending = Ending {
        exit_code: given.exit_code.or(end.exit_code),
        signal: given.signal.or(end.signal),
        stderr: given.stderr.or(stderr),
        stopped: given.stopped.or(end.stop.map(|stop| stop.reason)),
        limit_ms: given.limit_ms.or(end.stop.and_then(|stop| stop.limit_ms).filter(|_| given.stopped.is_none())),
        violated: end.violated,
        no_heuristics: given.no_heuristics || meta.no_heuristics,
        no_background_tasks: given.no_background_tasks || meta.no_background_tasks,
        ..given
    };
    let run = Run {
        started_at: end.started_at.or_else(|| meta.started_at.clone()),
        duration_ms: end.duration_ms,
        attempts: end.attempts.unwrap_or(1),
        label: meta.label.clone(),
        recording: Some(path.display().to_string()),
    };
    Recorded { ending, run, notes }
}
