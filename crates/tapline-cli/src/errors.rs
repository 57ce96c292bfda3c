//! Errors of the library in the words of the commands: with their causes, and advice that names our own flags.

use std::error::Error;
use std::iter::successors;

use tapline_recording::RecordingError;
use tapline_runner::{Failure, StartError};
use tapline_session::render::OutputError;
use tapline_session::text::with_causes;
use tapline_sim::SimError;

pub(crate) fn told(error: &(dyn Error + 'static)) -> String {
    let advice = successors(Some(error), |&error| error.source()).find_map(advice).unwrap_or_default();
    with_causes(error) + advice
}

fn advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
    // These only wrap another error, so they are not in the chain of causes.
    if let Some(Failure::NotStarted(error)) = error.downcast_ref() {
        return advice(error);
    }
    if let Some(StartError::Recording(error)) = error.downcast_ref() {
        return advice(error);
    }
    if let Some(RecordingError::Create { .. }) = error.downcast_ref() {
        return Some("; use another folder (--record, TAPLINE_HOME) or --no-record");
    }
    if let Some(OutputError::NoSuchMode(_)) = error.downcast_ref() {
        return Some(": use --to text, steps, markdown or html");
    }
    if let Some(SimError::Listen { .. }) = error.downcast_ref() {
        return Some(" (port 0 picks a free port)");
    }
    None
}
