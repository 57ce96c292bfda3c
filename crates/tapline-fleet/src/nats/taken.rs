//! One run that a worker took from the queue, up to its acknowledgement. First the outcome is stored, then the run is acknowledged: a worker
//! that dies in between does no harm, and one that dies before is replaced.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use tapline_recording::attempt_folder;
use tapline_session::{Category, exit};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::bucket::{Found, NEW, written};
use super::order::{Control, End, Order, Outcome, Patch, RunOf, name_of};
use super::pieces::plain;
use super::queue::LARGEST;
use super::ship::{Sealed, Shipper};
use super::workbench::{Workbench, WorkerNews};
use super::{lock, names};
use crate::carried;
use crate::job::{CutOff, Job};
use crate::result::JobResult;
use crate::state::Begun;
use crate::work::{self, Attempt, AttemptEnd, JobNews, Watch, unix_now};
use crate::workshop::{Made, Workshop};
use crate::worktree::Places;

/// A run that a worker took.
pub(super) struct Taken {
    shared: Arc<Workbench>,
    message: Arc<Message>,
    ack_wait: Duration,
}

/// What becomes of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Done {
    /// The outcome is stored.
    Stored,
    /// Somebody else gets it, after this time.
    GivenBack(&'static str, Duration),
    /// The batch is stopped: nothing was started.
    Stopped,
}

/// At most so long nobody gets a run that waits for a limit.
const LIMITED: Duration = Duration::from_secs(5);
/// How long the broker has for its answer to an acknowledgement. If there is none, the run comes again, and is acknowledged then.
const ACKNOWLEDGED: Duration = Duration::from_secs(5);

impl Taken {
    pub(super) fn new(shared: &Arc<Workbench>, message: Message, ack_wait: Duration) -> Self {
        Self { shared: Arc::clone(shared), message: Arc::new(message), ack_wait }
    }

    /// Makes the run, and acknowledges it.
    pub(super) async fn make(self, stop: watch::Receiver<u32>) {
        let shared = &self.shared;
        let Some(key) = names::outcome_of(&self.message.subject).map(str::to_owned) else {
            let _ = self.message.ack_with(AckKind::Term).await;
            return;
        };
        {
            let mut running = lock(&shared.running);
            if let Some(newest) = running.get(&key) {
                // It is under way here. The broker heard nothing of it for long, and has now given it to us again.
                newest.send_replace(Arc::clone(&self.message));
                return;
            }
            running.insert(key.clone(), watch::Sender::new(Arc::clone(&self.message)));
        }
        let alive = self.stay_alive(&key);
        let done = Box::pin(self.handle(&key, stop)).await;
        alive.abort();
        let newest = lock(&shared.running).remove(&key);
        let message = newest.map_or_else(|| Arc::clone(&self.message), |newest| Arc::clone(&newest.borrow()));
        let _ = match done {
            Done::Stored | Done::Stopped => tokio::time::timeout(ACKNOWLEDGED, message.double_ack()).await,
            Done::GivenBack(_, delay) => {
                let delay = Some(delay).filter(|delay| !delay.is_zero());
                tokio::time::timeout(ACKNOWLEDGED, message.ack_with(AckKind::Nak(delay))).await
            }
        };
    }

    /// Tells the broker that the run is under way, as long as it is.
    fn stay_alive(&self, key: &str) -> JoinHandle<()> {
        let newest = lock(&self.shared.running).get(key).map(watch::Sender::subscribe);
        let every = (self.ack_wait / 3).max(Duration::from_millis(50));
        tokio::spawn(async move {
            let Some(newest) = newest else { return };
            loop {
                tokio::time::sleep(every).await;
                let message = Arc::clone(&newest.borrow());
                let _ = tokio::time::timeout(every, message.ack_with(AckKind::Progress)).await;
            }
        })
    }

    async fn handle(&self, key: &str, stop: watch::Receiver<u32>) -> Done {
        let (shared, queue) = (&self.shared, &self.shared.queue);
        let order = match self.read(key).await {
            Ok(order) => order,
            Err(why) => {
                let result = JobResult::not_started("", "", self.named(&why), exit::USAGE);
                return self.store(key, End::Over(Box::new(result)), None, None).await;
            }
        };
        let batch = order.batch.clone();
        let job = match order.job.clone().unpack().and_then(|job| self.with_program(job)) {
            Ok(job) => job,
            Err(why) => {
                let result = JobResult::not_started("", "", self.named(&why), exit::USAGE);
                return self.store(key, End::Over(Box::new(result)), None, None).await;
            }
        };
        let name = job.name.clone();
        let (job_key, batch_key) = (names::job_key(&batch, &name), names::token(&batch));
        let (outcome, control, limit, run) = tokio::join!(
            queue.outcomes.bytes(key),
            queue.control.get::<Control>(&batch_key),
            queue.limit(&job.account, unix_now()),
            queue.runs.get::<RunOf>(&job_key),
        );
        if outcome.is_some() {
            return Done::Stored;
        }
        let control = control.map(|found| found.value).unwrap_or_default();
        shared.tell(&batch_key, control);
        if control.stop > 0 {
            self.store(key, End::CutOff, None, None).await;
            return Done::Stopped;
        }
        if let Some(limit) = limit {
            return self.back(&batch, &name, "its account has reached its limit", until(limit.until));
        }
        let attempt = match self.attempt(&order, job, run.as_ref()).await {
            Ok(attempt) => attempt,
            Err(result) => return self.store(key, End::Over(result), None, None).await,
        };
        let made = self.run(&order, attempt, run, stop).await;
        match made {
            Ok((made, run)) => self.conclude(key, &order, &name, made, run).await,
            Err(Done::Stopped) => {
                self.store(key, End::CutOff, None, None).await;
                Done::Stopped
            }
            Err(Done::GivenBack(why, delay)) => self.back(&batch, &name, why, delay),
            Err(done) => done,
        }
    }

    /// Reads the order, and checks that it is what its subject says.
    async fn read(&self, key: &str) -> Result<Order, String> {
        let order: Order = self
            .shared
            .queue
            .unpack(&self.message.payload)
            .await
            .map_err(|why| format!("the order cannot be read: {why}. Is the worker older than the batch?"))?;
        let name = serde_json::to_value(&order.job).ok();
        let name = name.as_ref().and_then(|job| job["name"].as_str()).unwrap_or_default();
        if plain(&order.batch).is_err() || names::outcome_key(&order.batch, name, order.order) != key {
            return Err("the order is not what its subject says".to_owned());
        }
        plain(&order.recording).map_err(|_| format!("`{}` cannot be the name of a recording", order.recording))?;
        Ok(order)
    }

    /// The queue must not choose programs: only this worker's own are started.
    fn with_program(&self, mut job: Job) -> Result<Job, String> {
        let own = self.shared.program(job.agent);
        match &job.bin {
            Some(bin) if own != Some(bin) && bin != Path::new(job.agent.name()) => Err(format!(
                "`bin` names {}, and a worker starts only its own programs: start the worker with this one",
                bin.display()
            )),
            _ => {
                if let Some(what) = carried::names_programs(&job).filter(|_| !self.shared.options.allow_args) {
                    return Err(format!(
                        "the job has {what}, which can name programs: a worker takes it only if it was started with `allow-args`"
                    ));
                }
                job.bin = own.map(Path::to_owned);
                Ok(job)
            }
        }
    }

    /// The run to be made, or the result of a job that does not go on.
    async fn attempt(&self, order: &Order, job: Job, run: Option<&Found<RunOf>>) -> Result<Attempt, Box<JobResult>> {
        let last = run.map(|run| run.value.clone()).unwrap_or_default();
        let is_mine = last.worker == self.shared.id;
        let was_cut_off = match last.attempt {
            0 => false,
            // It comes again, and has no outcome: its worker died, or gave it back.
            _ if last.order == order.order => true,
            _ => self.was_cut_off(&order.batch, &job.name, last.order).await,
        };
        let before = Begun::of(
            last.attempt,
            order.retries,
            self.shared.place.store.folder().join(&order.recording),
            // A session is where it was made.
            order.session.clone().filter(|_| is_mine),
            was_cut_off && is_mine,
        );
        let fails = was_cut_off && !is_mine && job.cut_off == CutOff::Fail;
        let attempt = Attempt { job, number: last.attempt + 1, recording: before.recording.clone(), before };
        if fails { Err(Box::new(JobResult { recording: None, ..work::given_up(&attempt) })) } else { Ok(attempt) }
    }

    /// Whether an earlier order of the job was cut off.
    async fn was_cut_off(&self, batch: &str, job: &str, order: u64) -> bool {
        let queue = &self.shared.queue;
        let Some(found) = queue.outcomes.bytes(&names::outcome_key(batch, job, order)).await else { return false };
        queue.unpack::<Outcome>(&found.value).await.is_ok_and(|outcome| outcome.end == End::CutOff)
    }

    /// Makes the run. Returns the note of it, too.
    async fn run(
        &self,
        order: &Order,
        attempt: Attempt,
        run: Option<Found<RunOf>>,
        stop: watch::Receiver<u32>,
    ) -> Result<(Made, RunOf), Done> {
        let (shared, queue) = (&self.shared, &self.shared.queue);
        let folder = shared.place.store.root().join("fleet");
        let of_batch = |what: &str| folder.join(what).join(names::token(&order.batch));
        let mut place = shared.place.clone();
        place.redact |= order.redact;
        let places = Places { worktrees: of_batch("worktrees"), notes: of_batch("worktree-notes") };
        let workshop = Workshop { place, worktrees: places, patches: of_batch("patches") };
        let (news, told) = mpsc::unbounded_channel();
        let told = tokio::spawn(tell(Arc::clone(shared), order.batch.clone(), told));
        let (stops, stopped) = watch::channel(0);
        let stopping = tokio::spawn(stop_with(names::token(&order.batch), shared.stopped.subscribe(), stop, stops));
        let watch = Watch { news, doing: order.doing, stop: stopped };
        let (number, account, name) = (attempt.number, attempt.job.account.clone(), attempt.job.name.clone());
        let (revision, last) = run.map_or((NEW, RunOf::default()), |run| (run.revision, run.value));
        let note = RunOf {
            order: order.order,
            attempt: number,
            worker: shared.id.clone(),
            recording: name_of(&attempt_folder(PathBuf::from(&order.recording), number)),
            spent: last.spent,
        };
        let recording = attempt_folder(attempt.recording.clone(), number);
        let sent = Mutex::new(None);
        let begin = |_| async {
            let batch = names::token(&order.batch);
            // What was done since it was asked may have taken long.
            if let Some(limit) = queue.limit(&account, unix_now()).await {
                return Err(Done::GivenBack("its account has reached its limit", until(limit.until)));
            }
            if !queue.runs.swap(&names::job_key(&order.batch, &name), &written(&note), revision).await {
                return Err(Done::GivenBack("another worker has it", Duration::from_secs(1)));
            }
            // Whoever stops the batch looks for the note afterwards: one of the two sees the other.
            let control = queue.control.get::<Control>(&batch).await.map(|found| found.value).unwrap_or_default();
            shared.tell(&batch, control);
            if control.stop > 0 {
                return Err(Done::Stopped);
            }
            let _ = shared.news.send(WorkerNews::Began { batch: order.batch.clone(), job: name.clone(), attempt: number });
            *lock(&sent) = self.ship(&order.batch, &recording);
            Ok(())
        };
        let made = workshop.make(attempt, watch, begin).await;
        stopping.abort();
        // A limit that the run learned is known to all before its outcome is, and its recording is there.
        let _ = told.await;
        let sent = lock(&sent).take();
        self.seal(sent).await;
        made.map(|made| (made, note))
    }

    /// Begins to send a recording. A run does not fail because of it.
    fn ship(&self, batch: &str, recording: &Path) -> Option<Shipper> {
        let shared = &self.shared;
        let shipper = Shipper::start(&shared.post, &shared.outbox, batch, recording);
        let trouble = |error| shared.queue.trouble.tell(format!("{} cannot be sent: {error}", recording.display()));
        shipper.map_err(trouble).ok()
    }

    /// Sends the rest of a recording.
    async fn seal(&self, shipper: Option<Shipper>) {
        if let Some(shipper) = shipper
            && let Sealed::Later(why) = shipper.seal().await
        {
            self.shared.queue.trouble.tell(format!("a recording waits to be sent: {why}"));
        }
    }

    /// Stores what a run came to.
    async fn conclude(&self, key: &str, order: &Order, name: &str, mut made: Made, run: RunOf) -> Done {
        let shared = &self.shared;
        let batch = names::token(&order.batch);
        let mut changes = None;
        match &mut made.end {
            AttemptEnd::Over(result) => {
                run.add_others(&shared.id, &mut result.cost_usd);
                if result.category == Some(Category::Startup)
                    && let Some(error) = &mut result.error
                {
                    *error = self.named(error);
                }
                changes = result.patch.take().map(PathBuf::from);
            }
            AttemptEnd::Again(again) => {
                self.spend(order, name, again.cost_usd).await;
                run.add_others(&shared.id, &mut again.cost_usd);
            }
            AttemptEnd::CutOff => {
                let is_batch = shared.stopped.borrow().contains_key(&batch);
                if !is_batch {
                    drop(made.noted().await);
                    return self.back(&order.batch, name, "this worker stops", Duration::ZERO);
                }
            }
        }
        let patch = match changes {
            Some(file) => self.send_patch(key, file, &mut made).await,
            None => None,
        };
        let mut recording = made.begun.as_ref().map(|_| run.recording.clone());
        let earlier = match &made.end {
            AttemptEnd::Over(result) => result.recording.as_deref().map(PathBuf::from),
            AttemptEnd::Again(_) => {
                Some(attempt_folder(shared.place.store.folder().join(&order.recording), run.attempt.saturating_sub(1)))
            }
            AttemptEnd::CutOff => None,
        };
        if let (None, Some(path)) = (&recording, earlier) {
            // The run of an earlier process of this worker had ended. Perhaps not all of its recording was sent, or not as it is now.
            recording = Some(name_of(&path));
            self.seal(self.ship(&order.batch, &path)).await;
        }
        let end = End::from(made.end.clone());
        let done = self.store(key, end, recording, patch).await;
        let how = match made.noted().await.end {
            AttemptEnd::Over(result) => result.outcome.word().to_owned(),
            AttemptEnd::Again(_) => "failed, and is tried again".to_owned(),
            AttemptEnd::CutOff => "stopped".to_owned(),
        };
        let _ = shared.news.send(WorkerNews::Ended { batch: order.batch.clone(), job: name.to_owned(), how });
        done
    }

    /// Hands over what the agent changed. The file stays here: the broker does not keep it forever. If it cannot be handed over, the job has
    /// failed, and the worktree stays.
    async fn send_patch(&self, key: &str, path: PathBuf, made: &mut Made) -> Option<Patch> {
        let shared = &self.shared;
        let most = shared.options.largest_patch.unwrap_or(LARGEST).min(LARGEST);
        let read = std::fs::metadata(&path)
            .and_then(|about| if about.len() > most { Ok(Err(about.len())) } else { std::fs::read(&path).map(Ok) });
        let why = match read {
            Ok(Ok(bytes)) => {
                let object = format!("patches/{key}-{}", shared.id);
                shared.queue.put_file(&object, &Bytes::from(bytes)).await;
                return Some(Patch { object, path: path.display().to_string() });
            }
            Ok(Err(length)) => format!("the patch has {length} bytes, and the broker takes {most}"),
            Err(error) => format!("the patch {} cannot be read: {error}", path.display()),
        };
        made.leave_worktree(&self.named(&why));
        None
    }

    /// Notes what the runs of a job cost here, for whoever makes the next one.
    async fn spend(&self, order: &Order, name: &str, cost_usd: Option<f64>) {
        let Some(usd) = cost_usd else { return };
        let (runs, key) = (&self.shared.queue.runs, names::job_key(&order.batch, name));
        while let Some(Found { mut value, revision }) = runs.get::<RunOf>(&key).await {
            value.spent.insert(self.shared.id.clone(), usd);
            if runs.swap(&key, &written(&value), revision).await {
                break;
            }
        }
    }

    /// Stores the outcome of an order. The first one counts.
    async fn store(&self, key: &str, end: End, recording: Option<String>, patch: Option<Patch>) -> Done {
        let queue = &self.shared.queue;
        let outcome = Outcome { worker: self.shared.options.name.clone(), end, recording, patch };
        let value = queue.pack(key, &outcome).await;
        queue.outcomes.swap(key, &value, NEW).await;
        Done::Stored
    }

    fn back(&self, batch: &str, job: &str, why: &'static str, delay: Duration) -> Done {
        let (batch, job) = (batch.to_owned(), job.to_owned());
        let _ = self.shared.news.send(WorkerNews::GivenBack { batch, job, why });
        Done::GivenBack(why, delay)
    }

    /// A failure that is this worker's: people must know where to look.
    fn named(&self, why: &str) -> String {
        format!("worker {}: {why}", self.shared.options.name)
    }
}

/// How long a run waits that must not start before this time.
fn until(time: i64) -> Duration {
    let seconds = time.saturating_add(1).saturating_sub(unix_now());
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default()).clamp(Duration::from_millis(100), LIMITED)
}

/// Tells everybody what a run learns and does.
async fn tell(shared: Arc<Workbench>, batch: String, mut told: mpsc::UnboundedReceiver<JobNews>) {
    let subject = names::news_subject(&batch);
    while let Some(news) = told.recv().await {
        match news {
            JobNews::Limit(limit) => {
                shared.queue.reach_limit(&limit).await;
                let _ = shared.news.send(WorkerNews::Limit(limit));
            }
            JobNews::Doing { job, what } => {
                let _ = shared.queue.client.publish(subject.clone(), written(&(job, what))).await;
            }
            JobNews::Workers { .. } | JobNews::Trouble(_) => {}
        }
    }
}

/// Stops a run if its batch is stopped, or its worker for the second time.
async fn stop_with(
    batch: String,
    mut batches: watch::Receiver<std::collections::BTreeMap<String, u32>>,
    mut worker: watch::Receiver<u32>,
    stops: watch::Sender<u32>,
) {
    loop {
        let of_batch = batches.borrow_and_update().get(&batch).copied().unwrap_or_default();
        let of_worker = worker.borrow_and_update().saturating_sub(1);
        stops.send_if_modified(|level| std::mem::replace(level, of_batch.max(of_worker)) != of_batch.max(of_worker));
        tokio::select! {
            changed = batches.changed() => if changed.is_err() { return },
            changed = worker.changed() => if changed.is_err() { return },
        }
    }
}
