//! An earlier run, put before a prompt: what was said and called, with the results.

use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tapline_session::earlier_run;
use tapline_session::render::RenderAs;

use crate::args::Facts;
use crate::source::{Source, is_stdin, tell_of_typing};

/// Returns the text before the prompt: a transcript of a stream or recording, or plain text unchanged.
pub(super) fn told(path: &PathBuf) -> Result<Vec<u8>> {
    let facts = Facts::default();
    let told = if path.is_dir() {
        transcript(Source::open(Some(path), &facts)?)?.unwrap_or_default()
    } else {
        let bytes = bytes_of(path).with_context(|| format!("--context: cannot read {}", path.display()))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let source = Source::of(path.display().to_string(), Box::new(Cursor::new(bytes)), &facts)?;
        transcript(source.of_whomever())?.unwrap_or(text)
    };
    Ok(earlier_run(&told).into_bytes())
}

fn bytes_of(path: &Path) -> std::io::Result<Vec<u8>> {
    if !is_stdin(Some(path)) {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    tell_of_typing("the context");
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the transcript. `None` if it is not a stream.
fn transcript(mut source: Source) -> Result<Option<String>> {
    let mut renderer = RenderAs::Transcript.renderer();
    let mut out = String::new();
    while let Some((_, steps)) = source.next()? {
        out.extend(steps.iter().map(|step| renderer.step(step)));
    }
    let summary = source.finish().0.summary;
    Ok((*summary.stream.known > 0).then_some(out))
}
