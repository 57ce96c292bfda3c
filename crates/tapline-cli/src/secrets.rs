//! The redactor of a command. What of the configuration hides nothing is told once.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use tapline_recording::Redactor;

use crate::{config, output};

/// Finds secrets: the table, and what the user adds to it.
pub(crate) fn redactor() -> Result<Redactor> {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let (redactor, idle) = config::redactor()?;
    if !idle.is_empty() && !TOLD.swap(true, Ordering::Relaxed) {
        for note in &idle {
            output::tell(note);
        }
    }
    Ok(redactor)
}
