//! Writes recordings that travel into the recordings folder. A piece is acknowledged when it is on the disk; one that comes again changes
//! nothing. Each data folder has a place of its own in the stream, so each gets everything.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::RawMessageErrorKind;
use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use tapline_recording::Store;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};

use crate::identity::identity;

use super::arrivals::{CollectNews, CollectOptions};
use super::connect::BrokerError;
use super::copies::{Collected, Copies, Taken, Unflushed};
use super::pieces::{Content, Piece, SealedFile};
use super::post::{Incoming, Post, Ungot};
use super::{lock, names};

/// How many pieces are written before they are flushed to the disk together.
const GROUP: usize = 64;
/// How many pieces may be written and not acknowledged.
const UNACKNOWLEDGED: i64 = 1024;
/// The broker forgets where a data folder was that did not ask for so long.
const FORGOTTEN: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long to wait before something is tried again.
const PAUSE: Duration = Duration::from_millis(500);
/// How long to wait before a piece that could not be written is tried again.
const LONG_PAUSE: Duration = Duration::from_secs(2);
/// What cannot be written for so long stays so.
const FULL: Duration = Duration::from_secs(10);
/// So many lost objects are remembered.
const MOST_LOST: usize = 10_000;
/// A recording that did not come in this time is looked for in the stream.
const SOON: Duration = Duration::from_millis(250);

/// Collects recordings, in the background.
#[derive(Debug)]
#[must_use = "it stops when it is dropped"]
pub struct RecordingCollector {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), String>>,
}

#[derive(Debug)]
struct Shared {
    post: Post,
    copies: Copies,
    /// The name of our place in the stream.
    name: String,
    /// The only batch that is collected.
    batch: Option<String>,
    options: CollectOptions,
    news: mpsc::UnboundedSender<CollectNews>,
    /// Recordings of which the stream does not have every piece.
    incomplete: Mutex<HashSet<String>>,
    /// Objects of recordings that are missing, or not what they should be.
    lost: Mutex<HashMap<(String, String), Missing>>,
    /// Who waits for which recording.
    waiting: Mutex<HashMap<String, Vec<oneshot::Sender<Collected>>>>,
}

/// An object that is missing, or not what it should be.
#[derive(Clone, Copy, Debug)]
struct Missing {
    why: &'static str,
    since: Instant,
    looked: Instant,
    /// Whether it was looked for in vain for long. It is not asked for again.
    is_lost: bool,
}

/// Why a piece is not written.
#[derive(Debug)]
enum Unwritten {
    /// An object is missing, and may come.
    Yet,
    /// This went wrong here, and not on the broker.
    Here(String),
    /// This went wrong.
    Failed(String),
}

impl From<String> for Unwritten {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// A copy of which everything is written.
#[derive(Debug)]
struct Whole {
    batch: String,
    recording: String,
    files: Vec<SealedFile>,
    damage: Option<String>,
}

/// What became of the pieces that came together.
#[derive(Debug, Default)]
struct Written {
    unflushed: Unflushed,
    bytes: u64,
    begun: Vec<String>,
    whole: Vec<Whole>,
    known: Vec<(String, Collected)>,
}

impl RecordingCollector {
    /// Collects the recordings of all batches.
    pub async fn of_all(
        post: &Post,
        store: &Store,
        options: CollectOptions,
        news: mpsc::UnboundedSender<CollectNews>,
    ) -> Result<Self, BrokerError> {
        let id = identity(store).map_err(|error| BrokerError::File { path: store.root().to_owned(), error })?;
        Self::start(post, store, format!("collect-{id}"), None, options, news).await
    }

    /// Collects the recordings of one batch. A batch that goes on later goes on where it was.
    pub async fn for_batch(post: &Post, batch: &str, store: &Store, options: CollectOptions) -> Result<Self, BrokerError> {
        let (news, _) = mpsc::unbounded_channel();
        let name = format!("batch-{}", names::token(batch));
        Self::start(post, store, name, Some(batch.to_owned()), options, news).await
    }

    async fn start(
        post: &Post,
        store: &Store,
        name: String,
        batch: Option<String>,
        options: CollectOptions,
        news: mpsc::UnboundedSender<CollectNews>,
    ) -> Result<Self, BrokerError> {
        let copies = Copies::of(store).map_err(|error| BrokerError::File { path: store.folder(), error })?;
        let shared = Shared {
            post: post.clone(),
            copies,
            name,
            batch,
            options,
            news,
            incomplete: Mutex::default(),
            lost: Mutex::default(),
            waiting: Mutex::default(),
        };
        let shared = Arc::new(shared);
        let consumer = shared.consumer().await.map_err(BrokerError::failed("send recordings"))?;
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(Arc::clone(&shared).run(consumer, stopped));
        Ok(Self { shared, stop, task })
    }

    /// Waits until a recording of this batch that was sealed is here. Whoever sends it seals it before anybody is told how its run ended. If
    /// the broker does not have all of it, it is [`Collected::Incomplete`]; if it cannot be written here, [`Collected::Unwritten`].
    pub async fn collected(&self, recording: &str) -> Collected {
        let mut unwritten = None;
        loop {
            let came = self.shared.wait_for(recording);
            if let Some(state) = self.shared.state(recording).await {
                return state;
            }
            if let Ok(Ok(state)) = timeout(SOON, came).await {
                return state;
            }
            match self.shared.catch_up(recording).await {
                Ok(()) => return self.shared.state(recording).await.unwrap_or(Collected::Incomplete),
                Err(Unwritten::Here(why)) if unwritten.get_or_insert_with(Instant::now).elapsed() >= FULL => {
                    return Collected::Unwritten(why);
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Waits until nothing is left, or until it was stopped. Fails only if it should end when nothing is left, and cannot go on.
    pub async fn ended(&mut self) -> Result<(), BrokerError> {
        let ended = (&mut self.task).await.unwrap_or(Ok(()));
        ended.map_err(BrokerError::failed("send all recordings"))
    }

    /// Stops after what is being written. It goes on there later.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        let _ = self.ended().await;
        // What was acknowledged is told to the broker, unless it is away: then it sends the pieces again, which changes nothing.
        let _ = timeout(LONG_PAUSE, self.shared.post.context.client().flush()).await;
    }

    /// Stops, and will not go on: the batch is over.
    pub async fn finish(self) {
        let shared = Arc::clone(&self.shared);
        self.stop().await;
        let _ = shared.post.stream.delete_consumer(&shared.name).await;
    }
}

impl Drop for RecordingCollector {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

impl Shared {
    async fn consumer(&self) -> Result<PullConsumer, String> {
        let config = pull::Config {
            durable_name: Some(self.name.clone()),
            description: Some("tapline: a data folder that collects recordings".to_owned()),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.options.ack_wait,
            filter_subject: self.batch.as_deref().map_or(names::RECORDING_SUBJECTS.to_owned(), names::batch_recordings),
            max_ack_pending: UNACKNOWLEDGED,
            inactive_threshold: FORGOTTEN,
            ..pull::Config::default()
        };
        self.post.stream.get_or_create_consumer(&self.name, config).await.map_err(|error| error.to_string())
    }

    async fn run(self: Arc<Self>, first: PullConsumer, mut stop: watch::Receiver<bool>) -> Result<(), String> {
        let (mut first, mut last_trouble) = (Some(first), None);
        loop {
            let consumer = match first.take() {
                Some(consumer) => Ok(consumer),
                None => self.consumer().await,
            };
            let ended = match consumer {
                Ok(consumer) if self.options.once => return self.drain(consumer, &mut stop).await,
                Ok(consumer) => self.follow(&consumer, &mut stop, &mut last_trouble).await,
                Err(why) => Err(why),
            };
            let Err(why) = ended else { return Ok(()) };
            self.trouble(why, &mut last_trouble);
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
                () = sleep(PAUSE) => {}
            }
        }
    }

    /// Takes pieces as they come, until it is stopped.
    async fn follow(
        &self,
        consumer: &PullConsumer,
        stop: &mut watch::Receiver<bool>,
        last_trouble: &mut Option<String>,
    ) -> Result<(), String> {
        let asked = consumer.stream().max_messages_per_batch(GROUP).heartbeat(Duration::from_secs(5));
        let mut messages = asked.expires(Duration::from_secs(30)).messages().await.map_err(|error| error.to_string())?;
        loop {
            let first = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
                first = messages.next() => first,
            };
            let first = first.ok_or_else(|| "the broker ended the delivery of recordings".to_owned())?;
            let (mut group, mut failed) = (vec![first.map_err(|error| error.to_string())?], None);
            while group.len() < GROUP && failed.is_none() {
                match messages.next().now_or_never() {
                    Some(Some(Ok(message))) => group.push(message),
                    Some(Some(Err(error))) => failed = Some(error.to_string()),
                    Some(None) | None => break,
                }
            }
            match self.take(group).await {
                Ok(()) => *last_trouble = None,
                Err(why) => self.trouble(why, last_trouble),
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
    }

    /// Takes pieces until there are none.
    async fn drain(&self, mut consumer: PullConsumer, stop: &mut watch::Receiver<bool>) -> Result<(), String> {
        while !*stop.borrow_and_update() {
            let asked = consumer.batch().max_messages(GROUP).expires(Duration::from_millis(200)).messages().await;
            let mut messages = asked.map_err(|error| error.to_string())?;
            let mut group = Vec::new();
            while let Some(message) = messages.next().await {
                group.push(message.map_err(|error| error.to_string())?);
            }
            if group.is_empty() {
                let left = consumer.info().await.map_err(|error| error.to_string())?;
                // What another process of this data folder was given comes again, if it was killed.
                if left.num_pending == 0 && left.num_ack_pending == 0 {
                    return Ok(());
                }
            } else {
                self.take(group).await?;
            }
        }
        Ok(())
    }

    /// Writes pieces, flushes them to the disk, and acknowledges them.
    async fn take(&self, group: Vec<Message>) -> Result<(), String> {
        let (mut written, mut done, mut failed) = (Written::default(), Vec::new(), None);
        for message in &group {
            let sequence = message.info().map_or(0, |info| info.stream_sequence);
            let incoming = match Incoming::read(message.subject.as_str(), message.headers.as_ref(), &message.payload, sequence)
            {
                Ok(incoming) => incoming,
                Err(why) => {
                    self.tell(CollectNews::Refused { subject: message.subject.to_string(), why });
                    let _ = message.ack_with(AckKind::Term).await;
                    continue;
                }
            };
            match self.write_with_earlier(&incoming, &mut written).await {
                Ok(()) => done.push(message),
                Err(unwritten) => {
                    let _ = message.ack_with(AckKind::Nak(Some(LONG_PAUSE))).await;
                    if let Unwritten::Failed(why) | Unwritten::Here(why) = unwritten {
                        failed = Some(why);
                    }
                }
            }
        }
        match self.keep(written).await {
            Ok(()) => {
                for message in done {
                    let _ = message.ack().await;
                }
            }
            Err(why) => {
                for message in done {
                    let _ = message.ack_with(AckKind::Nak(Some(LONG_PAUSE))).await;
                }
                failed = Some(why);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Writes a piece. If bytes before it are missing, those are read from the stream first: the process that had them may have been killed.
    async fn write_with_earlier(&self, incoming: &Incoming, written: &mut Written) -> Result<(), Unwritten> {
        if self.waits_for_object(&incoming.recording) {
            return Err(Unwritten::Yet);
        }
        let mut taken = self.write(incoming, written).await?;
        if taken == Taken::Gap && !self.is_known_incomplete(incoming) {
            let subject = names::recording_subject(&incoming.batch, &incoming.recording);
            let mut from = 1;
            while let Some(earlier) = self.stored(&subject, from).await?.filter(|found| found.0 < incoming.sequence) {
                from = earlier.0 + 1;
                if let Ok(piece) = &earlier.1 {
                    self.write(piece, written).await?;
                }
            }
            taken = self.write(incoming, written).await?;
            if taken == Taken::Gap && incoming.piece.sealed.is_none() {
                lock(&self.incomplete).insert(incoming.recording.clone());
            }
        }
        let Incoming { batch, recording, piece, .. } = incoming;
        match taken {
            Taken::Grown { is_new } => {
                written.bytes += piece.parts.iter().map(|part| part.content.len()).sum::<u64>();
                written.begun.extend(is_new.then(|| recording.clone()));
            }
            Taken::Sealed(_) | Taken::Gap => {
                written.bytes += piece.parts.iter().map(|part| part.content.len()).sum::<u64>();
                let damage = match taken {
                    Taken::Sealed(damage) => damage,
                    _ => Some(self.why_incomplete(recording)),
                };
                // Without its seal, more may come. The seal will tell that something is missing.
                if let Some(files) = piece.sealed.clone() {
                    written.whole.push(Whole { batch: batch.clone(), recording: recording.clone(), files, damage });
                }
            }
            Taken::Known(state) => {
                written.known.extend(piece.sealed.is_some().then(|| (recording.clone(), state)));
            }
            Taken::Foreign => {
                let subject = names::recording_subject(batch, recording);
                self.tell(CollectNews::Refused { subject, why: "another batch has a recording of this name".to_owned() });
            }
        }
        Ok(())
    }

    /// Whether the pieces before this one were looked for, and are gone. The seal is worth another look.
    fn is_known_incomplete(&self, incoming: &Incoming) -> bool {
        let mut incomplete = lock(&self.incomplete);
        if incoming.piece.sealed.is_some() {
            incomplete.remove(&incoming.recording);
        }
        incomplete.contains(&incoming.recording)
    }

    /// Whether an object of a recording was missing just now. Nobody looks for it all the time, and nothing after it can be written.
    fn waits_for_object(&self, recording: &str) -> bool {
        let is_it = |missing: &Missing| !missing.is_lost && missing.looked.elapsed() < PAUSE;
        lock(&self.lost).iter().any(|((of, _), missing)| of == recording && is_it(missing))
    }

    async fn write(&self, incoming: &Incoming, written: &mut Written) -> Result<Taken, Unwritten> {
        let Some(objects) = self.objects(incoming).await? else {
            // Without its bytes, nothing of it is written. The copy has a gap there, and its seal tells that.
            let nothing = Piece { parts: Vec::new(), sealed: None };
            let taken = self.write_piece(incoming, nothing, Vec::new(), written).await?;
            return Ok(if matches!(taken, Taken::Grown { .. }) { Taken::Gap } else { taken });
        };
        self.write_piece(incoming, incoming.piece.clone(), objects, written).await
    }

    /// Gets the objects of a piece. `None` if one of them is lost.
    async fn objects(&self, incoming: &Incoming) -> Result<Option<Vec<Bytes>>, Unwritten> {
        let mut objects = Vec::new();
        for part in &incoming.piece.parts {
            let Content::Object(object) = &part.content else { continue };
            let key = (incoming.recording.clone(), object.name.clone());
            let before = lock(&self.lost).get(&key).copied();
            if before.is_some_and(|missing| missing.is_lost) {
                return Ok(None);
            }
            match Box::pin(self.post.get(object)).await {
                Ok(bytes) => {
                    lock(&self.lost).remove(&key);
                    objects.push(bytes);
                }
                Err(Ungot::Lost(why)) => {
                    let (mut lost, looked) = (lock(&self.lost), Instant::now());
                    let since = before.map_or(looked, |missing| missing.since);
                    if lost.len() >= MOST_LOST {
                        lost.clear();
                    }
                    // In a cluster, a server may not have it yet.
                    let is_lost = since.elapsed() >= self.options.patience;
                    lost.insert(key, Missing { why, since, looked, is_lost });
                    return if is_lost { Ok(None) } else { Err(Unwritten::Yet) };
                }
                Err(Ungot::Trouble(why)) => {
                    return Err(Unwritten::Failed(format!("cannot get the object {}: {why}", object.name)));
                }
            }
        }
        Ok(Some(objects))
    }

    /// What is missing of a recording that is sealed.
    fn why_incomplete(&self, recording: &str) -> String {
        let lost = lock(&self.lost);
        let of_it = lost.iter().find(|((of, _), _)| of == recording);
        of_it.map_or("pieces of it are missing".to_owned(), |((_, object), missing)| {
            format!("the object {object} of it is lost: {}", missing.why)
        })
    }

    async fn write_piece(
        &self,
        incoming: &Incoming,
        piece: Piece,
        objects: Vec<Bytes>,
        written: &mut Written,
    ) -> Result<Taken, Unwritten> {
        let (copies, batch, recording) = (self.copies.clone(), incoming.batch.clone(), incoming.recording.clone());
        let writing = spawn_blocking(move || {
            let mut unflushed = Unflushed::default();
            let taken = copies.take(&batch, &recording, &piece, &objects, &mut unflushed);
            (unflushed, taken.map_err(|error| format!("cannot write the recording {recording}: {error}")))
        });
        let (unflushed, taken) = writing.await.map_err(|error| error.to_string())?;
        written.unflushed.and(unflushed);
        taken.map_err(Unwritten::Here)
    }

    /// Puts what was written on the disk, and says what is complete.
    async fn keep(&self, written: Written) -> Result<(), String> {
        let Written { unflushed, bytes, begun, whole, known } = written;
        let copies = self.copies.clone();
        let keeping = spawn_blocking(move || {
            unflushed.flush()?;
            let mut seals = Unflushed::default();
            for Whole { batch, recording, files, damage } in &whole {
                copies.seal(batch, recording, files, damage.clone(), &mut seals)?;
            }
            seals.flush()?;
            Ok::<_, std::io::Error>(whole)
        });
        let kept = keeping.await.map_err(|error| error.to_string())?;
        let whole = kept.map_err(|error| format!("cannot write recordings: {error}"))?;
        for recording in begun {
            self.tell(CollectNews::Began { recording });
        }
        if bytes > 0 {
            self.tell(CollectNews::Took { bytes });
        }
        for Whole { recording, damage, .. } in whole {
            let state = damage.map_or(Collected::Complete, Collected::Damaged);
            self.tell(match state.clone() {
                Collected::Damaged(why) => CollectNews::Damaged { recording: recording.clone(), why },
                _ => CollectNews::Collected { recording: recording.clone(), is_original: false },
            });
            self.came(&recording, &state);
        }
        for (recording, state) in known {
            if state == Collected::Original {
                self.tell(CollectNews::Collected { recording: recording.clone(), is_original: true });
            }
            self.came(&recording, &state);
        }
        Ok(())
    }

    /// Reads what the stream has of a recording of this batch, and writes what is missing.
    async fn catch_up(&self, recording: &str) -> Result<(), Unwritten> {
        let Some(batch) = &self.batch else { return Ok(()) };
        let subject = names::recording_subject(batch, recording);
        let (mut from, mut written) = (1, Written::default());
        while let Some((sequence, piece)) = self.stored(&subject, from).await? {
            from = sequence + 1;
            if let Ok(piece) = piece {
                self.write_with_earlier(&piece, &mut written).await?;
            }
        }
        self.keep(written).await.map_err(Unwritten::Here)
    }

    /// The first piece with this subject in the stream, from there on.
    async fn stored(&self, subject: &str, from: u64) -> Result<Option<(u64, Result<Incoming, String>)>, String> {
        let asked = self.post.stream.raw_message_builder().sequence(from).next_by_subject(subject).send().await;
        match asked {
            Ok(found) => {
                let read = Incoming::read(found.subject.as_str(), Some(&found.headers), &found.payload, found.sequence);
                Ok(Some((found.sequence, read)))
            }
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(format!("the broker cannot send a piece again: {error}")),
        }
    }

    async fn state(&self, recording: &str) -> Option<Collected> {
        let (copies, recording) = (self.copies.clone(), recording.to_owned());
        spawn_blocking(move || copies.state(&recording).ok().flatten()).await.ok().flatten()
    }

    fn wait_for(&self, recording: &str) -> oneshot::Receiver<Collected> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        let others = waiting.entry(recording.to_owned()).or_default();
        others.retain(|other| !other.is_closed());
        others.push(sender);
        receiver
    }

    fn came(&self, recording: &str, state: &Collected) {
        let waiting = lock(&self.waiting).remove(recording);
        for sender in waiting.into_iter().flatten() {
            let _ = sender.send(state.clone());
        }
    }

    /// Says once what is wrong.
    fn trouble(&self, why: String, last: &mut Option<String>) {
        let is_away = self.post.context.client().connection_state() != State::Connected;
        let why = if is_away { "the broker does not answer".to_owned() } else { why };
        if last.as_ref() != Some(&why) {
            self.tell(CollectNews::Trouble { why: why.clone() });
            *last = Some(why);
        }
    }

    fn tell(&self, news: CollectNews) {
        let _ = self.news.send(news);
    }
}
