//! One run that a worker took from the queue, up to its acknowledgement. First the outcome is stored, then the run is acknowledged: a worker
//! that dies in between does no harm, and one that dies before is replaced.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use futures_util::FutureExt as _;
use tapline_recording::attempt_folder;
use tapline_session::{Category, exit};
use tokio::sync::{mpsc, watch};

use super::bucket::{Following, Found, NEW, written};
use super::files::LARGEST;
use super::meanwhile::{ended_elsewhere, note_again, stop_with};
use super::order::{Control, End, Order, Outcome, Patch, RunOf, SessionOf, name_of};
use super::pieces::plain;
use super::queue::Class;
use super::ship::{Sealed, Shipper};
use super::workbench::{Dated, Workbench, WorkerNews, worktrees};
use super::{lock, names};
use crate::job::{CutOff, Job};
use crate::result::JobResult;
use crate::state::Begun;
use crate::work::{self, Attempt, AttemptEnd, JobNews, Watch, unix_now};
use crate::workshop::{Made, Workshop};

/// A run that a worker took.
pub(super) struct Taken {
    shared: Arc<Workbench>,
    message: Dated,
    ack_wait: Duration,
    /// That of the queue that it is from.
    class: Class,
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

/// Why a run waits.
const LIMIT: &str = "its account has reached its limit";
/// Why a run is not begun, or is left to others: the agent cannot be started here.
const UNFIT: &str = "its agent cannot be started here";
/// Why a run is left to others.
const UNTRUSTED: &str = "its author is not trusted here";
/// Why a run is not begun: a worker that lives noted it.
const ELSEWHERE: &str = "another worker makes it";
/// What is told of a run that somebody else has ended before.
const ALREADY: &str = "already done elsewhere";
/// At most so long nobody gets a run that waits for a limit.
const LIMITED: Duration = Duration::from_secs(5);
/// No job has more runs. Whoever says so is wrong.
const MOST_RUNS: u64 = 10_000;
/// How long the broker has for its answer to an acknowledgement. If there is none, the run comes again, and is acknowledged then.
const ACKNOWLEDGED: Duration = Duration::from_secs(5);

impl Taken {
    pub(super) fn new(shared: &Arc<Workbench>, message: Message, ack_wait: Duration, class: Class) -> Self {
        Self { shared: Arc::clone(shared), message: (Arc::new(message), *shared.queue.renewed.borrow()), ack_wait, class }
    }

    /// Makes the run, and acknowledges it.
    pub(super) async fn make(self, stop: watch::Receiver<u32>) {
        let shared = &self.shared;
        let Some(key) = names::outcome_of(&self.message.0.subject).map(str::to_owned) else {
            let _ = self.message.0.ack_with(AckKind::Term).await;
            return;
        };
        let underway = {
            let mut running = lock(&shared.running);
            if let Some(newest) = running.get(&key) {
                // It is under way here. The broker heard nothing of it for long, and has now given it to us again.
                newest.send_replace(self.message);
                return;
            }
            let newest = watch::Sender::new(self.message.clone());
            let (told, alive) = (newest.subscribe(), self.stay_alive(newest.subscribe()));
            running.insert(key.clone(), newest);
            Underway { shared: Arc::clone(shared), key: key.clone(), newest: told, _alive: alive }
        };
        // What it locks is sound also after a panic.
        let done = if let Ok(done) = Box::pin(AssertUnwindSafe(self.handle(&key, stop)).catch_unwind()).await {
            done
        } else {
            let why = "this is a mistake in tapline: a part of the worker panicked, and the run was lost";
            let result = JobResult::not_started("", "", self.named(why), exit::INCOMPLETE);
            self.store(&key, End::Over(Box::new(result)), None, None).await
        };
        let (message, age) = underway.newest.borrow().clone();
        drop(underway);
        if age != *shared.queue.renewed.borrow() {
            // On a broker that is new, another message may have its number. The order comes again, and has its outcome.
            return;
        }
        let _ = match done {
            Done::Stored | Done::Stopped => tokio::time::timeout(ACKNOWLEDGED, message.double_ack()).await,
            Done::GivenBack(_, delay) => {
                let delay = Some(delay).filter(|delay| !delay.is_zero());
                tokio::time::timeout(ACKNOWLEDGED, message.ack_with(AckKind::Nak(delay))).await
            }
        };
    }

    /// Tells the broker and the other workers that the run is under way, as long as it is, and at once when the broker is back.
    fn stay_alive(&self, newest: watch::Receiver<Dated>) -> Following {
        let every = (self.ack_wait / 3).max(Duration::from_millis(50));
        let shared = Arc::clone(&self.shared);
        Following::of(async move {
            loop {
                let _ = tokio::time::timeout(every, shared.queue.trouble.back()).await;
                let (message, _) = newest.borrow().clone();
                let progress = tokio::time::timeout(every, message.ack_with(AckKind::Progress));
                let _ = tokio::join!(progress, tokio::time::timeout(every, shared.say_here(every)));
            }
        })
    }

    async fn handle(&self, key: &str, stop: watch::Receiver<u32>) -> Done {
        let (shared, queue) = (&self.shared, &self.shared.queue);
        let order = match self.read(key).await {
            Ok(order) => order,
            Err(why) => {
                return match self.others_may_trust(key).await {
                    Some((batch, job)) => self.back(&batch, &job, UNTRUSTED, LIMITED),
                    None => self.refuse(key, key, why).await,
                };
            }
        };
        let batch = order.batch.clone();
        let job = match order.job.clone().unpack() {
            Ok(job) => self.admit(job).await,
            Err(why) => Err(why),
        };
        let job = match job {
            Ok(job) => job,
            Err(why) => return self.refuse(key, &order.job.name, why).await,
        };
        let name = job.name.clone();
        let class = Class { labels: job.labels.clone(), worker: job.worker.clone(), patience_ms: None };
        let (job_key, batch_key) = (names::job_key(&batch, &name), names::token(&batch));
        let (outcome, control, limit, run) = tokio::join!(
            queue.outcomes.bytes(key),
            queue.control.get::<Control>(&batch_key),
            queue.limit(&job.account, unix_now()),
            queue.runs.get_or_empty::<RunOf>(&job_key),
        );
        if outcome.is_some() {
            return Done::Stored;
        }
        let control = control.map(|found| found.value).unwrap_or_default();
        shared.tell(&batch_key, control);
        if control.begins_nothing() {
            self.store(key, End::CutOff, None, None).await;
            return Done::Stopped;
        }
        if let Some(limit) = limit {
            return self.back(&batch, &name, LIMIT, until(limit.until));
        }
        if run.value.order == order.order && shared.is_made_elsewhere(&run.value, self.ack_wait).await {
            return Done::GivenBack(ELSEWHERE, (self.ack_wait / 3).min(LIMITED));
        }
        if shared.fitness.rest(class.agent()).is_some() {
            return self.back(&batch, &name, UNFIT, Duration::ZERO);
        }
        if run.value.unable.get(&shared.id) == Some(&order.order)
            && shared.are_others_able(&run.value, order.order, &class).await
        {
            return Done::GivenBack(UNFIT, LIMITED);
        }
        let attempt = match self.attempt(&order, job, &run.value).await {
            Ok(attempt) => attempt,
            Err(result) => {
                let why = result.error.clone().unwrap_or_default();
                let _ = shared.news.send(WorkerNews::Refused { job: name, why });
                return self.store(key, End::Over(result), None, None).await;
            }
        };
        match Box::pin(self.run(key, &order, attempt, run, stop)).await {
            Ok((made, run)) => {
                if self.unstarted(&order, &class, &made.end).await {
                    drop(made.noted().await);
                    return self.back(&batch, &name, UNFIT, Duration::from_secs(1));
                }
                self.conclude(key, &order, &name, made, run).await
            }
            Err(Done::Stopped) => {
                self.store(key, End::CutOff, None, None).await;
                Done::Stopped
            }
            Err(Done::GivenBack(why, delay)) => self.back(&batch, &name, why, delay),
            Err(done) => done,
        }
    }

    /// Whether a run could not be started here, and others should make it.
    async fn unstarted(&self, order: &Order, class: &Class, end: &AttemptEnd) -> bool {
        match end {
            AttemptEnd::Over(result) if result.category == Some(Category::Startup) => {
                self.shared.leaves_to_others(order, class, result.error.as_deref().unwrap_or_default()).await
            }
            AttemptEnd::Over(_) | AttemptEnd::Again(_) | AttemptEnd::CutOff => {
                self.shared.fitness.started(class.agent());
                false
            }
        }
    }

    /// The job as this worker runs it, or what is above what it lets jobs do.
    async fn admit(&self, job: Job) -> Result<Job, String> {
        let shared = Arc::clone(&self.shared);
        // It looks at the disk.
        let looks = tokio::task::spawn_blocking(move || shared.options.admit(job, shared.place.store.root()));
        looks.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// The job is not run here, and has failed.
    async fn refuse(&self, key: &str, job: &str, why: String) -> Done {
        let result = JobResult::not_started("", "", self.named(&why), exit::USAGE);
        let _ = self.shared.news.send(WorkerNews::Refused { job: job.to_owned(), why });
        self.store(key, End::Over(Box::new(result)), None, None).await
    }

    /// Whether an order that is not taken here is for others, who may trust its author. Returns its batch and its job then. Nothing of the order
    /// itself is read.
    async fn others_may_trust(&self, key: &str) -> Option<(String, String)> {
        let (shared, message) = (&self.shared, &self.message.0);
        if !shared.queue.is_of_stranger(&message.subject, &message.payload) {
            return None;
        }
        let (job_key, order) = key.rsplit_once('.')?;
        let (batch, job) = job_key.split_once('.')?;
        let (batch, job, order) = (names::text(batch)?, names::text(job)?, order.parse().ok()?);
        let note = |run: &mut RunOf| {
            run.unable.insert(shared.id.clone(), order);
        };
        let run = shared.note_unable(job_key, note).await;
        shared.are_others_able(&run, order, &self.class).await.then_some((batch, job))
    }

    /// Reads the order, and checks that it is what its subject says.
    async fn read(&self, key: &str) -> Result<Order, String> {
        let (message, life) = (&self.message.0, names::LIFE.as_secs());
        let order: Order = self.shared.queue.read_order(&message.subject, &message.payload).await?;
        if unix_now().saturating_sub(order.signed_at) > i64::try_from(life).unwrap_or(i64::MAX) {
            return Err(format!("the order is older than {} days, so somebody has sent it again", life / 86_400));
        }
        if plain(&order.batch).is_err() || names::outcome_key(&order.batch, &order.job.name, order.order) != key {
            return Err("the order is not what its subject says".to_owned());
        }
        plain(&order.recording).map_err(|_| format!("`{}` cannot be the name of a recording", order.recording))?;
        Ok(order)
    }

    /// The run to be made, or the result of a job that does not go on.
    async fn attempt(&self, order: &Order, job: Job, last: &RunOf) -> Result<Attempt, Box<JobResult>> {
        if last.attempt >= MOST_RUNS {
            let why = self.named(&format!("the broker says that it had {} runs, which cannot be", last.attempt));
            return Err(Box::new(JobResult::not_started(&job.name, &job.step, why, exit::USAGE)));
        }
        let is_mine = last.worker == self.shared.id;
        let session = order.session.clone().filter(|id| last.has_session(&self.shared.id, id));
        let was_cut_off = match last.attempt {
            0 => false,
            // It comes again, and has no outcome: its worker died, or gave it back.
            _ if last.order == order.order => !last.unstarted,
            _ => self.was_cut_off(&order.batch, &job.name, last.order).await,
        };
        let before = Begun::of(
            last.attempt,
            order.retries,
            self.shared.place.store.folder().join(&order.recording),
            session,
            was_cut_off && is_mine,
        );
        let fails = was_cut_off && !is_mine && job.cut_off == CutOff::Fail;
        // The note of a run that was made here may be lost.
        let is_free = |number: &u64| !attempt_folder(before.recording.clone(), *number).exists();
        let number = (last.attempt + 1..=MOST_RUNS).find(is_free).unwrap_or(MOST_RUNS);
        let attempt = Attempt { job, number, recording: before.recording.clone(), before };
        if fails { Err(Box::new(JobResult { recording: None, ..work::given_up(&attempt) })) } else { Ok(attempt) }
    }

    /// Whether an earlier order of the job was cut off.
    async fn was_cut_off(&self, batch: &str, job: &str, order: u64) -> bool {
        self.shared.how_ended(&names::outcome_key(batch, job, order)).await.as_deref() == Some(End::CutOff.word())
    }

    /// Makes the run. Returns the note of it, too.
    async fn run(
        &self,
        key: &str,
        order: &Order,
        attempt: Attempt,
        run: Found<RunOf>,
        stop: watch::Receiver<u32>,
    ) -> Result<(Made, RunOf), Done> {
        let (shared, queue) = (&self.shared, &self.shared.queue);
        let folder = shared.place.store.root().join("fleet");
        let of_batch = |what: &str| folder.join(what).join(names::token(&order.batch));
        let mut place = shared.place.clone();
        place.redact |= order.redact;
        let places = worktrees(&folder, &names::token(&order.batch));
        let workshop = Workshop { place, worktrees: places, patches: of_batch("patches") };
        let (news, told) = mpsc::unbounded_channel();
        let told = tokio::spawn(tell(Arc::clone(shared), order.batch.clone(), told));
        let (stops, stopped) = watch::channel(0);
        let is_second = run.value.order == order.order && !run.value.given_back;
        let ended = ended_elsewhere(Arc::clone(shared), key.to_owned(), is_second);
        let stopping = Following::of(stop_with(names::token(&order.batch), shared.stopped.subscribe(), stop, ended, stops));
        let watch = Watch { news, doing: order.doing, stop: stopped };
        let (number, account, name) = (attempt.number, attempt.job.account.clone(), attempt.job.name.clone());
        let (agent, first) = (attempt.job.agent, attempt.recording.clone());
        let (revision, last) = (run.revision, run.value);
        let note = RunOf {
            order: order.order,
            attempt: number,
            worker: shared.id.clone(),
            name: shared.options.name.clone(),
            process: shared.process.clone(),
            given_back: false,
            unstarted: false,
            unable: last.unable.clone(),
            session: last.session.clone(),
            recording: name_of(&attempt_folder(PathBuf::from(&order.recording), number)),
            spent: last.spent.clone(),
        };
        let recording = attempt_folder(attempt.recording.clone(), number);
        let (sent, noted) = (Mutex::new(None), Mutex::new(None));
        let begin = |_| async {
            let (batch, job_key) = (names::token(&order.batch), names::job_key(&order.batch, &name));
            if !queue.runs.swap(&job_key, &written(&note), revision).await {
                return Err(Done::GivenBack("another worker has it", Duration::from_secs(1)));
            }
            // Whoever stops the batch looks for the note afterwards: one of the two sees the other. What was done since these were read
            // may have taken long, the limit and the outcome, too.
            let (control, limit, outcome) = tokio::join!(
                queue.control.get::<Control>(&batch),
                queue.limit(&account, unix_now()),
                queue.outcomes.bytes(key),
            );
            let control = control.map(|found| found.value).unwrap_or_default();
            shared.tell(&batch, control);
            let kept_from = match limit {
                _ if outcome.is_some() => Some(Done::Stored),
                _ if control.begins_nothing() => Some(Done::Stopped),
                Some(limit) => Some(Done::GivenBack(LIMIT, until(limit.until))),
                None => None,
            };
            if let Some(done) = kept_from {
                // It did not begin, so nobody must take it for a run that was cut off.
                let take_back = |now: &mut RunOf| {
                    let is_ours = *now == note;
                    if is_ours {
                        now.clone_from(&last);
                    }
                    is_ours
                };
                queue.runs.change(&job_key, take_back).await;
                return Err(done);
            }
            lock(&shared.told_back).retain(|(job, _)| *job != job_key);
            let _ = shared.news.send(WorkerNews::Began { batch: order.batch.clone(), job: name.clone(), attempt: number });
            *lock(&noted) = Some(Following::of(note_again(Arc::clone(shared), job_key, note.clone())));
            *lock(&sent) = self.ship(&order.batch, &recording);
            Ok(())
        };
        let made = workshop.make(attempt, watch, begin).await;
        drop((stopping, noted));
        // A limit that the run learned is known to all before its outcome is, and its recording is there.
        let _ = told.await;
        let sent = lock(&sent).take();
        self.seal(sent).await;
        if let Ok(Made { begun: Some(_), end: AttemptEnd::CutOff, .. }) = &made {
            // The job may go on elsewhere, where this is not known.
            let cost = tokio::task::spawn_blocking(move || work::cost_of_all(agent, &first, number)).await;
            self.leave(order, &name, cost.ok().flatten(), None).await;
        }
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
                // It may be run again elsewhere, where this is not known: also a success, if its changes cannot be handed over.
                self.leave(order, name, result.cost_usd, None).await;
                run.add_others(&shared.id, &mut result.cost_usd);
                if result.category == Some(Category::Startup)
                    && let Some(error) = &mut result.error
                {
                    *error = self.named(error);
                }
                changes = result.patch.take().map(PathBuf::from);
            }
            AttemptEnd::Again(again) => {
                self.leave(order, name, again.cost_usd, again.session.clone()).await;
                run.add_others(&shared.id, &mut again.cost_usd);
            }
            AttemptEnd::CutOff => {
                let is_batch = shared.stopped.borrow().contains_key(&batch);
                if !is_batch && shared.queue.outcomes.bytes(key).await.is_some() {
                    drop(made.noted().await);
                    return self.already(&order.batch, name);
                }
                if !is_batch {
                    // Whoever stops the batch must not wait for it.
                    let give_back = |now: &mut RunOf| {
                        now.process == run.process
                            && now.attempt == run.attempt
                            && !std::mem::replace(&mut now.given_back, true)
                    };
                    shared.queue.runs.change(&names::job_key(&order.batch, name), give_back).await;
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
        let is_first = self.store_first(key, end, recording, patch).await;
        if !is_first {
            drop(made.noted().await);
            return self.already(&order.batch, name);
        }
        let (batch, job) = (order.batch.clone(), name.to_owned());
        let _ = shared.news.send(match made.noted().await.end {
            AttemptEnd::Over(result) => WorkerNews::Ended { batch, result: Box::new(JobResult { job, ..*result }) },
            AttemptEnd::Again(again) => WorkerNews::Again { batch, job, why: again.error },
            AttemptEnd::CutOff => WorkerNews::Stopped { batch, job },
        });
        Done::Stored
    }

    /// Somebody else stored an outcome before: the worker was cut off for long, or seemed to be.
    fn already(&self, batch: &str, job: &str) -> Done {
        let (batch, job) = (batch.to_owned(), job.to_owned());
        let _ = self.shared.news.send(WorkerNews::GivenBack { batch, job, why: ALREADY });
        Done::Stored
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
                let file = shared.queue.files.put(&format!("patches/{key}"), &Bytes::from(bytes)).await;
                return Some(Patch { file, path: path.display().to_string() });
            }
            Ok(Err(length)) => format!("the patch has {length} bytes, and the broker takes {most}"),
            Err(error) => format!("the patch {} cannot be read: {error}", path.display()),
        };
        made.leave_worktree(&self.named(&why));
        None
    }

    /// Notes for whoever makes the next run of a job what its runs cost here, and which session is here.
    async fn leave(&self, order: &Order, name: &str, cost_usd: Option<f64>, session: Option<String>) {
        let me = &self.shared.id;
        let session = session.map(|id| SessionOf { id, worker: me.clone() });
        let note = |run: &mut RunOf| {
            let before = run.clone();
            run.spent.extend(cost_usd.map(|usd| (me.clone(), usd)));
            run.session = session.clone().or(run.session.take());
            *run != before
        };
        self.shared.queue.runs.change(&names::job_key(&order.batch, name), note).await;
    }

    /// Stores the outcome of an order.
    async fn store(&self, key: &str, end: End, recording: Option<String>, patch: Option<Patch>) -> Done {
        self.store_first(key, end, recording, patch).await;
        Done::Stored
    }

    /// Stores the outcome of an order. The first one counts: returns whether this is it.
    async fn store_first(&self, key: &str, end: End, recording: Option<String>, patch: Option<Patch>) -> bool {
        let queue = &self.shared.queue;
        let again_after_s = match &end {
            End::Again(again) => u64::try_from(again.at.saturating_sub(unix_now())).unwrap_or_default(),
            End::Over(_) | End::CutOff => 0,
        };
        let worker = self.shared.options.name.clone();
        let outcome = Outcome { worker, end, recording, patch, again_after_s };
        let value = queue.signed_outcome(key, outcome.end.word(), &outcome).await;
        queue.outcomes.swap(key, &value, NEW).await
    }

    fn back(&self, batch: &str, job: &str, why: &'static str, delay: Duration) -> Done {
        // One that waits for a limit comes again and again.
        if lock(&self.shared.told_back).insert((names::job_key(batch, job), why)) {
            let (batch, job) = (batch.to_owned(), job.to_owned());
            let _ = self.shared.news.send(WorkerNews::GivenBack { batch, job, why });
        }
        Done::GivenBack(why, delay)
    }

    /// A failure that is this worker's: people must know where to look.
    fn named(&self, why: &str) -> String {
        format!("worker {}: {why}", self.shared.options.name)
    }
}

/// A run that is under way. When it is dropped, the broker is not told any more that it is.
struct Underway {
    shared: Arc<Workbench>,
    key: String,
    newest: watch::Receiver<Dated>,
    _alive: Following,
}

impl Drop for Underway {
    fn drop(&mut self) {
        lock(&self.shared.running).remove(&self.key);
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
                // A run says it as soon as it knows it, and once more at its end.
                if lock(&shared.told_limits).insert(limit.account.clone(), limit.until) != Some(limit.until) {
                    let _ = shared.news.send(WorkerNews::Limit(limit));
                }
            }
            JobNews::Doing { job, what } => {
                let _ = shared.queue.client.publish(subject.clone(), written(&(job, what))).await;
            }
            JobNews::Engine(_) => {}
        }
    }
}
