//! The redactor of a command. Parts of the configuration that hide nothing are reported once.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use tapline_recording::Redactor;

use crate::{config, output};

/// Returns the redactor with the table and the user's additions.
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
