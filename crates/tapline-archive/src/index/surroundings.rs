//! What other files beside a session's file say: when a recording's run began and ended, where it ran, how it ended and what
//! was asked in it; of what kind a sub-agent is.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use tapline_protocol::{Agent, Read as _, StopReason};
use tapline_recording::Recording;
use tapline_session::{Outcome, SessionPhase};

use crate::facts::{Facts, RecordedRun, SoFar};
use crate::places::Found;
use crate::prompts::each_prompt;
use crate::scan::Scanned;
use crate::transcripts::{cut_title, subagent};

/// The file that says that a recording was pushed to this machine.
pub(crate) const PUSHED_HERE: &str = "push.json";

/// Returns when the end of a recording was written, in nanoseconds since 1970. 0: it has none, or is no recording.
pub(super) fn end_written(found: &Found) -> i64 {
    let end = found.recording.as_ref().and_then(|folder| std::fs::metadata(folder.join("end.json")).ok());
    end.map_or(0, |end| end.mtime().saturating_mul(1_000_000_000).saturating_add(end.mtime_nsec()).max(1))
}

/// Adds what other files beside this one say. A run that wrote nothing that an agent writes is a session, too, once it has ended.
pub(super) fn with_surroundings(found: &Found, scanned: Option<Scanned>) -> Option<Scanned> {
    let recording = found.recording.as_ref().and_then(|folder| Some((folder, Recording::open(folder).ok()?)));
    let mut scanned = match (scanned, &recording) {
        (Some(scanned), _) => scanned,
        (None, Some((_, recording))) if recording.end.is_some() => {
            let agent = Agent::named(recording.meta.agent.as_deref()?)?.name().to_owned();
            Scanned { facts: Facts { agent, ..Facts::default() }, ..Scanned::default() }
        }
        (None, _) => return None,
    };
    let facts = &mut scanned.facts;
    if let Some((folder, recording)) = recording {
        add_run(facts, folder, &recording);
    }
    if facts.subagent == 0
        && let Some(kind) = subagent(&facts.agent, &found.path)
    {
        facts.subagent = facts.names.add(&kind);
    }
    Some(scanned)
}

fn add_run(facts: &mut Facts, folder: &Path, recording: &Recording) {
    facts.run = run(folder, recording);
    if facts.first.is_none() {
        facts.first = facts.run.map(|run| run.began);
    }
    if facts.folder == 0 {
        facts.folder = facts.names.add(recording.meta.cwd.as_deref().unwrap_or_default());
    }
    if let Some(end) = &recording.end {
        facts.phase = how_it_ended(end, facts.phase);
        if facts.session == 0 {
            facts.session = facts.names.add(&folder.file_name().unwrap_or_default().to_string_lossy());
        }
    }
    let label = cut_title(recording.meta.label.as_deref().unwrap_or_default());
    let Facts { title, so_far: SoFar { sent: (read, prompts), .. }, .. } = facts;
    *read = each_prompt(recording, *read, |prompt| {
        *prompts += u64::from(!prompt.is_piped);
        if title.is_empty() || *title == label {
            *title = cut_title(&prompt.text);
        }
        true
    });
    if title.is_empty() {
        // As long as nothing was asked, or where that was not recorded. Who pushes a run says what it is about.
        *title = label;
    }
}

/// Returns when a run began and was last heard of. `None` if its recording does not say when it began.
fn run(folder: &Path, recording: &Recording) -> Option<RecordedRun> {
    let began = Some(recording.started().as_millis()).filter(|began| *began > 0)?;
    let ended = recording.end.as_ref().and_then(|end| {
        // Where there were several attempts, the last one says how long all of them took.
        let first = end.started_at.as_ref().and_then(|time| time.parse::<Timestamp>().ok()?.as_millisecond().try_into().ok());
        Some(first.unwrap_or(began).saturating_add(end.duration_ms?))
    });
    let last = ended.or_else(|| Some(recording.last_arrival()?.as_millis())).unwrap_or(began);
    Some(RecordedRun { began, last, is_pushed: folder.join(PUSHED_HERE).exists() })
}

/// Returns how a run ended, by the verdict on it. Without a verdict, the process counts, and `said`, which is what its stream says.
fn how_it_ended(end: &tapline_recording::End, said: SessionPhase) -> SessionPhase {
    let outcome = end.verdict.as_ref().and_then(|verdict| verdict.with(|it| it.get("outcome").and_then(String::read))?);
    let is_stopped = |is: fn(StopReason) -> bool| end.stop.is_some_and(|stop| is(stop.reason));
    // Who lingers is ended by us, after its result.
    let is_bad = end.violated.is_some()
        || is_stopped(StopReason::is_timeout)
        || !is_stopped(|reason| reason == StopReason::Linger)
            && (end.signal.is_some() || end.exit_code.is_some_and(|code| code != 0));
    match outcome.and_then(|outcome| outcome.parse::<Outcome>().ok()) {
        Some(outcome) => outcome.into(),
        None if is_stopped(StopReason::is_interrupt) => SessionPhase::Interrupted,
        None if matches!(said, SessionPhase::Finished | SessionPhase::Interrupted) && !is_bad => said,
        None => SessionPhase::Failed,
    }
}
