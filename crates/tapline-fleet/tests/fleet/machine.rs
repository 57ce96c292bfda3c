//! A machine of a test: a data folder, recordings in it, and what it sends and collects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tapline_fleet::{Broker, CollectNews, CollectOptions, Outbox, Post, RecordingCollector, Shipper};
use tapline_recording::{End, Meta, Recorder, Store, Stream, Sync};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{wait_until, within};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub(crate) const BATCH: &str = "2026-11-17T19-00-00Z-0a1b2c3d4e";

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A data folder, below the folder of a server.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) store: Store,
    url: String,
}

impl Machine {
    pub(crate) fn new(server: &NatsServer, name: &str) -> Self {
        Self::at(&server.url(), &server.path(name))
    }

    pub(crate) fn at(url: &str, folder: &Path) -> Self {
        Self { store: Store::at(folder), url: url.to_owned() }
    }

    pub(crate) fn recording(&self, name: &str) -> PathBuf {
        self.store.folder().join(name)
    }

    /// Begins a recording.
    pub(crate) fn record(&self, name: &str) -> Recorder {
        let meta = Meta { schema: 1, agent: Some("claude".to_owned()), label: Some(name.to_owned()), ..Meta::default() };
        Recorder::create(&self.recording(name), &meta, Sync::EverySecond).unwrap()
    }

    pub(crate) async fn post(&self) -> Post {
        within("the broker answers", Post::open(&Broker::at(&self.url), "test")).await.unwrap()
    }

    pub(crate) fn outbox(&self) -> Outbox {
        Outbox::of(&self.store).unwrap()
    }

    pub(crate) async fn ship(&self, name: &str) -> Shipper {
        Shipper::start(&self.post().await, &self.outbox(), BATCH, &self.recording(name)).unwrap()
    }

    pub(crate) async fn collect(&self) -> (RecordingCollector, News) {
        self.collect_with(impatient()).await
    }

    pub(crate) async fn collect_with(&self, options: CollectOptions) -> (RecordingCollector, News) {
        let (sender, news) = unbounded_channel();
        let post = self.post().await;
        let collector =
            within("it can collect", RecordingCollector::of_all(&post, &self.store, options, sender)).await.unwrap();
        (collector, News(news))
    }

    /// The files of a recording, but not what says that it is a copy, or what is still being written.
    pub(crate) fn files(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.recording(name)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        let names = names.filter(|name| name != "collected.json" && !name.contains(".part"));
        names.map(|file| (file.clone(), std::fs::read(self.recording(name).join(file)).unwrap())).collect()
    }

    pub(crate) fn length(&self, name: &str) -> u64 {
        std::fs::metadata(self.recording(name).join("stdout")).map_or(0, |about| about.len())
    }

    /// Waits until the copy of a recording has so many bytes of output.
    pub(crate) fn wait_for(&self, name: &str, length: u64) {
        wait_until(&format!("{name} has {length} bytes"), || self.length(name) >= length);
    }
}

/// Options with which a test need not wait long for what a process had that was killed, and for what is lost.
pub(crate) fn impatient() -> CollectOptions {
    let mut options = CollectOptions::default();
    (options.ack_wait, options.patience) = (Duration::from_secs(1), Duration::from_secs(1));
    options
}

/// What a collector says.
pub(crate) struct News(UnboundedReceiver<CollectNews>);

impl News {
    /// Waits until it says this, and returns it.
    pub(crate) async fn wait_for(&mut self, what: &str, is_it: impl Fn(&CollectNews) -> bool) -> CollectNews {
        let find = async {
            loop {
                let news = self.0.recv().await.expect("it goes on");
                if is_it(&news) {
                    return news;
                }
                assert!(!matches!(news, CollectNews::Damaged { .. } | CollectNews::Refused { .. }), "{news:?}");
            }
        };
        within(what, find).await
    }

    /// Waits until a recording is complete.
    pub(crate) async fn complete(&mut self, name: &str) {
        let complete = CollectNews::Collected { recording: name.to_owned(), is_original: false };
        self.wait_for(&format!("{name} is complete"), |news| *news == complete).await;
    }
}

/// Lines of an agent, about as many bytes as this.
pub(crate) fn lines(from: usize, bytes: usize) -> Vec<u8> {
    let mut lines = Vec::with_capacity(bytes + 200);
    let mut n = from;
    while lines.len() < bytes {
        lines.extend(format!("{{\"type\":\"keep_alive\",\"n\":{n},\"text\":\"{:x}\"}}\n", n.wrapping_mul(0x9e37_79b9)).bytes());
        n += 1;
    }
    lines
}

/// Writes a piece of each stream.
pub(crate) fn write(recorder: &mut Recorder, from: usize, bytes: usize) {
    let at = Duration::from_millis(from as u64);
    assert!(recorder.write_at(Stream::Stdin, format!("{{\"n\":{from}}}\n").as_bytes(), at).is_empty());
    assert!(recorder.write_at(Stream::Stdout, &lines(from, bytes), at).is_empty());
    assert!(recorder.write_at(Stream::Stderr, b"\xff\x00 warning\n", at).is_empty());
}

pub(crate) fn finish(recorder: Recorder) {
    recorder.finish(&End { exit_code: Some(0), duration_ms: Some(5), ..End::default() }).unwrap();
}
