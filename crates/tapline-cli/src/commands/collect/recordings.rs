//! `collect --engine`: recordings of other machines, written to the recordings folder as they come.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tapline_fleet::{Broker, CollectNews, CollectOptions, Post, RecordingCollector};
use tapline_recording::Store;
use tapline_session::text::count_of;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::ci::{self, Filtered, Kind};
use crate::{exit, output};

/// How often the line with the progress changes.
const TICK: Duration = Duration::from_millis(250);

/// Collects recordings.
pub(super) struct Recordings {
    broker: Broker,
    store: Store,
    quiet: bool,
}

impl Recordings {
    pub(super) fn new(broker: Broker, store: Store, quiet: bool) -> Self {
        Self { broker, store, quiet }
    }

    /// Collects until nothing is left, or until somebody says stop. Returns the exit code.
    pub(super) async fn run(self, once: bool, mut stop: watch::Receiver<bool>) -> Result<u8> {
        let post = Post::open(&self.broker, "tapline collect").await?;
        let mut options = CollectOptions::default();
        options.once = once;
        let (sender, mut news) = mpsc::unbounded_channel();
        let mut collector = RecordingCollector::of_all(&post, &self.store, options, sender).await?;
        let mut show = Show::new(self.quiet, &self.store);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ended = loop {
            tokio::select! {
                Some(news) = news.recv() => show.news(news),
                ended = collector.ended() => break ended,
                () = stopped(&mut stop) => {
                    collector.stop().await;
                    break Ok(());
                }
                _ = ticks.tick(), if show.live => show.draw(),
            }
        };
        while let Ok(news) = news.try_recv() {
            show.news(news);
        }
        show.end();
        ended.context("not everything could be collected")?;
        Ok(if show.damaged > 0 { exit::FAILED } else { exit::SUCCESS })
    }
}

/// Waits until somebody says stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Shows what is collected: on a terminal one line that changes, elsewhere a line for each recording.
struct Show {
    live: bool,
    quiet: bool,
    folder: String,
    collected: usize,
    /// How many recordings began, and have not ended.
    open: HashSet<String>,
    damaged: usize,
    bytes: u64,
    drawn: bool,
    /// Nobody reads it any more.
    closed: bool,
}

impl Show {
    fn new(quiet: bool, store: &Store) -> Self {
        Self {
            live: !quiet && output::is_capable() && !ci::is_log(),
            quiet,
            folder: store.folder().display().to_string(),
            collected: 0,
            open: HashSet::new(),
            damaged: 0,
            bytes: 0,
            drawn: false,
            closed: false,
        }
    }

    fn news(&mut self, news: CollectNews) {
        match news {
            CollectNews::Began { recording } => {
                self.open.insert(recording);
            }
            CollectNews::Took { bytes } => self.bytes += bytes,
            CollectNews::Collected { recording, is_original } => {
                self.open.remove(&recording);
                // One that was made here need not be collected.
                if !is_original {
                    self.collected += 1;
                    if !self.live {
                        self.write(&format!("collected {recording}\n"));
                    }
                }
            }
            CollectNews::Damaged { recording, why } => {
                self.open.remove(&recording);
                self.damaged += 1;
                self.erase();
                output::fail(&format!(
                    "the recording {recording} is not as its original: {why}; it is kept in {}",
                    self.folder
                ));
            }
            news => {
                self.erase();
                told(&news);
            }
        }
    }

    /// Draws the line with the progress.
    fn draw(&mut self) {
        let mb = self.bytes / 1_000_000;
        let under_way = if self.open.is_empty() { String::new() } else { format!(" · {} under way", self.open.len()) };
        let line = format!("{} collected{under_way} · {mb} MB", count_of(self.collected, "recording"));
        self.write(&format!("\r{line}\x1b[K"));
        self.drawn = true;
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.drawn) {
            self.write("\r\x1b[K");
        }
    }

    fn end(&mut self) {
        self.erase();
        let damaged = if self.damaged > 0 { format!(", and {} damaged", self.damaged) } else { String::new() };
        let line = format!("{} collected{damaged}\n", count_of(self.collected, "recording"));
        self.write(&line);
    }

    fn write(&mut self, text: &str) {
        if !self.quiet && !self.closed {
            let mut out = Filtered::new(io::stdout(), Kind::Text);
            self.closed = out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err();
        }
    }
}

/// Says what went wrong, if something did.
pub(crate) fn told(news: &CollectNews) {
    match news {
        CollectNews::Damaged { recording, why } => {
            output::tell(&format!("the recording {recording} is not as its original: {why}"));
        }
        CollectNews::Refused { subject, why } => {
            output::tell(&format!("a message with the subject {subject} is refused: {why}"));
        }
        CollectNews::Trouble { why } => output::tell(&format!("{why}; tried again")),
        _ => {}
    }
}
