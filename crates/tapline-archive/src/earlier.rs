//! What a session had used before a run resumes it, as the transcript says that the agent keeps of it.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use tapline_protocol::Agent;
use tapline_recording::Recording;
use tapline_session::{Fold, SessionTotals, resumes};

use crate::packed;
use crate::places::Places;
use crate::scan::{Job, scan};
use crate::transcripts;

/// Tells a fold whether the run of a recording resumed a session, and what the session had used before.
pub fn fold_resumes(fold: &mut Fold, recording: &Recording) {
    if fold.agent().is_some_and(|agent| resumes(agent, &recording.meta.argv)) {
        fold.resumes(recording.meta.session_before.as_ref().and_then(|before| before.to().ok()));
    }
}

/// Returns what a session had used so far, for an agent whose next run counts it again without saying so. The environment is the agent's.
pub fn used_before(agent: Agent, session: &str, environment: &dyn Fn(&str) -> Option<PathBuf>) -> Option<SessionTotals> {
    if !transcripts::adds_up_runs(agent) || session.is_empty() {
        return None;
    }
    let places = Places::of_agent(agent, environment);
    let is_its = |path: &PathBuf| {
        let name = packed::unpacked_name(path);
        name.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with(session))
    };
    let file = places.files.iter().filter(|file| is_its(&file.path)).max_by_key(|file| file.mtime)?;
    let job = Job { places: &places, path: &file.path, len: file.len, earlier: None };
    let mut total = None;
    scan(&[job], &AtomicBool::new(false), |_, read| {
        total = read.ok().flatten().and_then(|scanned| scanned.facts.so_far.total);
    });
    Some(SessionTotals { cost_usd: None, tokens: total?, exact: true })
}
