//! The files that a run writes when it has ended: its summary and its report.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::task::spawn_blocking;

use super::NOT_TAKEN;
use super::signals::Signals;
use crate::args::run::Shown;
use crate::output::OutputFile;

/// The files that the command line names.
#[derive(Default)]
pub(super) struct EndFiles {
    pub(super) summary: Option<EndFile>,
    pub(super) report: Option<EndFile>,
}

/// A file that is written when the run has ended.
pub(super) struct EndFile {
    flag: &'static str,
    path: PathBuf,
    /// Kept open if it cannot be opened a second time: whoever reads a FIFO finds its end when it is closed.
    opened: Option<OutputFile>,
}

impl EndFiles {
    /// Opens them, so that what is wrong with one is found before the run is paid for.
    pub(super) async fn open(shown: &Shown) -> Result<Self> {
        Ok(Self {
            summary: EndFile::open("--summary", shown.summary.clone()).await?,
            report: EndFile::open("--report", shown.report.clone()).await?,
        })
    }
}

impl EndFile {
    async fn open(flag: &'static str, path: Option<PathBuf>) -> Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        let name = path.clone();
        let opened = spawn_blocking(move || OutputFile::open(&name)).await.map_err(anyhow::Error::from);
        let opened = opened.and_then(|opened| opened).context(flag)?;
        Ok(Some(Self { flag, path, opened: Some(opened).filter(|file| !file.is_regular()) }))
    }

    /// Writes it. A disk that does not respond is waited for as long as `grace`; a slow reader of a pipe until a signal comes.
    pub(super) async fn write(self, text: String, grace: Duration, signals: &Signals) -> Result<()> {
        let flag = self.flag;
        self.write_all(text, grace, signals).await.context(flag)
    }

    async fn write_all(self, text: String, grace: Duration, signals: &Signals) -> Result<()> {
        let Self { path, opened, .. } = self;
        let is_file = opened.is_none();
        let name = path.display().to_string();
        let write = move || {
            let mut file = opened.map_or_else(|| OutputFile::open(&path), Ok)?;
            file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
            file.keep()
        };
        if is_file {
            return on_disk(grace, write).await.with_context(|| format!("cannot write {name}"));
        }
        let tired = async {
            signals.came().await;
            tokio::time::sleep(NOT_TAKEN).await;
        };
        tokio::select! {
            written = spawn_blocking(write) => written?,
            () = tired => bail!("{name} has no reader"),
        }
    }
}

/// Does what waits for the disk, on another thread. A disk that does not respond in time is not waited for.
pub(super) async fn on_disk(patience: Duration, work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    match tokio::time::timeout(patience, spawn_blocking(work)).await {
        Ok(done) => done?,
        Err(_) => bail!("the disk did not respond"),
    }
}
