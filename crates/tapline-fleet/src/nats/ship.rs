//! Sends a recording while it grows, and seals it when its run is over. What could not be sent stays in the outbox, and is sent later.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

use super::growth::{Grown, Growth};
use super::outbox::{Entry, Outbox};
use super::pieces::plain;
use super::post::{Post, Unsent};

/// How often a recording is looked at. One that is over before is a single message.
const EVERY: Duration = Duration::from_millis(150);
/// How long to wait before something is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// How long to wait before the broker is asked again whether it has room.
const LONG_PAUSE: Duration = Duration::from_secs(2);
/// How many recordings that are left from earlier are sent at once.
const AT_ONCE: usize = 8;

/// Sends a recording while it grows. If it is dropped, what is not sent yet stays in the outbox.
#[derive(Debug)]
#[must_use = "a recording that is not sealed is incomplete for those who collect it"]
pub struct Shipper {
    seal: oneshot::Sender<oneshot::Sender<Sealed>>,
}

/// What became of a recording whose run is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// The broker has all of it.
    Yes,
    /// There is no recording: the run did not start.
    Nothing,
    /// The broker does not have all of it, for this reason. It is in the outbox, and sent as soon as the broker takes it.
    Later(String),
}

/// A recording on its way.
#[derive(Debug)]
struct Shipment {
    post: Post,
    outbox: Outbox,
    name: String,
    batch: String,
    entry: Entry,
    growth: Growth,
    /// What was read and is not sent.
    pending: Option<Grown>,
}

/// Why a recording goes no further for now.
#[derive(Debug)]
enum Stuck {
    Away,
    Because(String),
}

impl Shipper {
    /// Follows a recording of this data folder. It need not be there yet.
    pub fn start(post: &Post, outbox: &Outbox, batch: &str, recording: &Path) -> io::Result<Self> {
        let name = outbox.name_of(recording)?;
        plain(batch).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let (seal, sealing) = oneshot::channel();
        let entry = outbox.add(&name, batch)?;
        let (post, outbox, batch) = (post.clone(), outbox.clone(), batch.to_owned());
        tokio::spawn(async move {
            let entry = match entry {
                Some(entry) => Some(entry),
                None => free(&outbox, &name, &batch).await,
            };
            if let Some(entry) = entry {
                Shipment::new(post, outbox, name, entry).follow(sealing).await;
            }
        });
        Ok(Self { seal })
    }

    /// The run is over: sends the rest. While the broker is away, it waits. Returns early if the broker has no room; the rest is then sent
    /// as soon as it has.
    pub async fn seal(self) -> Sealed {
        let (answer, answered) = oneshot::channel();
        let stopped = || Sealed::Later("it is not sent any more".to_owned());
        if self.seal.send(answer).is_err() {
            return stopped();
        }
        answered.await.unwrap_or_else(|_| stopped())
    }
}

/// Sends what is left in the outbox from processes that ended, in the background. Call it when a worker starts. Returns how many recordings
/// there are.
pub fn resend(post: &Post, outbox: &Outbox) -> io::Result<usize> {
    let (names, room) = (outbox.waiting()?, Arc::new(Semaphore::new(AT_ONCE)));
    let count = names.len();
    for name in names {
        let (post, outbox, room) = (post.clone(), outbox.clone(), Arc::clone(&room));
        tokio::spawn(async move {
            // While another process sends it, it is not left. If that process is killed, it is.
            while outbox.has(&name) {
                if let Ok(Some(entry)) = outbox.take(&name) {
                    let _room = room.acquire().await;
                    Shipment::new(post, outbox, name, entry).send_rest(None).await;
                    return;
                }
                sleep(LONG_PAUSE).await;
            }
        });
    }
    Ok(count)
}

/// Waits until nobody else sends the recording.
async fn free(outbox: &Outbox, name: &str, batch: &str) -> Option<Entry> {
    loop {
        match outbox.add(name, batch) {
            Ok(Some(entry)) => return Some(entry),
            Ok(None) => sleep(PAUSE).await,
            Err(_) => return None,
        }
    }
}

impl Shipment {
    fn new(post: Post, outbox: Outbox, name: String, entry: Entry) -> Self {
        let growth = growth(&post, &outbox, &name, &entry);
        Self { post, outbox, batch: entry.batch.clone(), name, entry, growth, pending: None }
    }

    async fn follow(mut self, mut sealing: oneshot::Receiver<oneshot::Sender<Sealed>>) {
        let mut pause = EVERY;
        loop {
            tokio::select! {
                asked = &mut sealing => match asked {
                    Ok(answer) => return self.send_rest(Some(answer)).await,
                    Err(_) => return,
                },
                () = sleep(pause) => {
                    // As long as there is something. A failure is tried again with the next look.
                    pause = loop {
                        match self.step(false).await {
                            Ok(Some(_)) if sealing.is_empty() => {}
                            Ok(_) | Err(Stuck::Away) => break EVERY,
                            Err(Stuck::Because(_)) => break LONG_PAUSE,
                        }
                    };
                }
            }
        }
    }

    /// Sends everything that is left. Answers once, as early as it knows.
    async fn send_rest(mut self, mut answer: Option<oneshot::Sender<Sealed>>) {
        let mut tell = |sealed| {
            if let Some(answer) = answer.take() {
                let _ = answer.send(sealed);
            }
        };
        if self.pending.is_none() && !self.growth.is_there() {
            let _ = self.entry.remove();
            return tell(Sealed::Nothing);
        }
        loop {
            match self.step(true).await {
                Ok(Some(true)) => {
                    let _ = self.entry.remove();
                    return tell(Sealed::Yes);
                }
                Ok(Some(false) | None) => {}
                Err(Stuck::Away) => sleep(PAUSE).await,
                Err(Stuck::Because(why)) => {
                    let _ = self.entry.keep();
                    tell(Sealed::Later(why));
                    sleep(LONG_PAUSE).await;
                }
            }
        }
    }

    /// Sends one piece. Returns whether it was the last one; `None` if there is nothing to send.
    async fn step(&mut self, is_last: bool) -> Result<Option<bool>, Stuck> {
        if self.pending.is_none() {
            match self.read(is_last).await {
                Ok(grown) => self.pending = grown,
                Err(error) => {
                    // Some of it may have been read. It begins again after what was sent.
                    self.growth = growth(&self.post, &self.outbox, &self.name, &self.entry);
                    return Err(Stuck::Because(format!("the recording {} cannot be read: {error}", self.name)));
                }
            }
        }
        let Some(grown) = &self.pending else { return Ok(None) };
        if let Some((name, bytes)) = &grown.object {
            Box::pin(self.post.put(name, bytes)).await?;
        }
        Box::pin(self.post.send(&self.batch, &self.name, &grown.piece)).await?;
        let is_sealed = grown.piece.sealed.is_some();
        self.pending = None;
        // Only a hint: without it, more is sent again.
        let _ = self.entry.note(self.growth.offsets());
        Ok(Some(is_sealed))
    }

    async fn read(&mut self, is_last: bool) -> io::Result<Option<Grown>> {
        let empty = Growth::from(self.outbox.recording(&self.name), String::new(), self.entry.offsets, 0);
        let mut growth = std::mem::replace(&mut self.growth, empty);
        let reading = tokio::task::spawn_blocking(move || {
            let grown = if is_last { growth.rest().map(Some) } else { growth.more() };
            (growth, grown)
        });
        let (growth, grown) = reading.await.map_err(io::Error::other)?;
        self.growth = growth;
        grown
    }
}

fn growth(post: &Post, outbox: &Outbox, name: &str, entry: &Entry) -> Growth {
    Growth::from(outbox.recording(name), format!("{}/{name}", entry.batch), entry.offsets, post.most())
}

impl From<Unsent> for Stuck {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::Away => Self::Away,
            Unsent::Refused(why) => Self::Because(why),
        }
    }
}
