//! What all runs of a worker have in common, and what a worker tells.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::Message;
use tapline_protocol::Agent as Kind;
use tapline_session::permission::Permissions;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::bucket::{Found, written};
use super::files::Parcel;
use super::fitness::{Fitness, RestNews, lacks};
use super::order::{Control, Order, Outcome, RunOf, WorkerCard};
use super::outbox::Outbox;
use super::post::Post;
use super::queue::{Class, Queue, SILENT};
use super::{lock, names};
use crate::mode::PermissionMode;
use crate::note::AccountLimit;
use crate::result::JobResult;
use crate::work::Workplace;
use crate::worktree::Places;

/// What a worker is like.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// What people call it.
    pub name: String,
    /// How many runs it makes at once.
    pub places: usize,
    /// What it has: jobs can ask for it.
    pub labels: Vec<String>,
    /// What it asks of jobs.
    pub require: Vec<String>,
    /// Programs of agents: of this one, or of all.
    pub programs: Vec<(Option<Kind>, PathBuf)>,
    /// Whether it takes jobs that bring arguments for their agent, or MCP servers: both can name programs.
    pub allow_args: bool,
    /// Jobs work beneath these folders only. If there are none: beneath the folder that this process works in.
    pub folders: Vec<PathBuf>,
    /// The loosest permission mode that it takes.
    pub max_permission_mode: PermissionMode,
    /// Rules that no job can loosen.
    pub permissions: Option<Permissions>,
    /// The most bytes of a patch that it sends. What is larger stays in its worktree. `None`: 256 MiB.
    pub largest_patch: Option<u64>,
}

/// What happens at a worker. The list is exhaustive on purpose: whoever shows it decides about each kind.
#[derive(Clone, Debug)]
pub enum WorkerNews {
    /// It is ready.
    Ready,
    /// It begins a run.
    Began {
        /// The batch's id.
        batch: String,
        /// The job's name.
        job: String,
        /// 1 is the first run of the job.
        attempt: u64,
    },
    /// A run has ended, and its outcome is stored.
    Ended {
        /// The batch's id.
        batch: String,
        /// What the job came to.
        result: Box<JobResult>,
    },
    /// A job is not run here: it is wrong, or asks for what this worker does not do. It has failed.
    Refused {
        /// The key of the order, if it cannot be read; or else the job's name.
        job: String,
        /// Why.
        why: String,
    },
    /// A run failed, and the job is tried again, here or elsewhere.
    Again {
        /// The batch's id.
        batch: String,
        /// The job's name.
        job: String,
        /// Why it failed.
        why: Option<String>,
    },
    /// A run was stopped with its batch.
    Stopped {
        /// The batch's id.
        batch: String,
        /// The job's name.
        job: String,
    },
    /// A run goes on elsewhere, for this reason.
    GivenBack {
        /// The batch's id.
        batch: String,
        /// The job's name.
        job: String,
        /// Why.
        why: &'static str,
    },
    /// It takes no jobs for an agent: its runs cannot be started here, for this reason. It looks again.
    Rests {
        /// The agent's name.
        agent: &'static str,
        /// Why.
        why: String,
    },
    /// It takes jobs for this agent again.
    Rested {
        /// The agent's name.
        agent: &'static str,
    },
    /// An account's limit is reached.
    Limit(AccountLimit),
    /// Something keeps it from going on for now. It tries again.
    Trouble(String),
    /// It takes nothing more, and waits for so many runs.
    Stopping {
        /// How many runs are under way.
        running: usize,
    },
}

/// A message, and how often the broker was found to be new before it came.
pub(super) type Dated = (Arc<Message>, u64);

/// What all runs of a worker have in common.
#[derive(Debug)]
pub(super) struct Workbench {
    pub(super) queue: Queue,
    pub(super) post: Post,
    pub(super) outbox: Outbox,
    pub(super) place: Workplace,
    pub(super) options: WorkerOptions,
    /// That of the data folder: what this worker recorded before is here.
    pub(super) id: String,
    /// That of this process.
    pub(super) process: String,
    pub(super) news: mpsc::UnboundedSender<WorkerNews>,
    /// How far each batch is to be stopped.
    pub(super) stopped: watch::Sender<BTreeMap<String, u32>>,
    /// The runs that are under way here, by the key of their outcome, each with its newest message.
    pub(super) running: Mutex<BTreeMap<String, watch::Sender<Dated>>>,
    /// The jobs that were given back, and why: people are told once.
    pub(super) told_back: Mutex<BTreeSet<(String, &'static str)>>,
    /// The limits that people were told of.
    pub(super) told_limits: Mutex<BTreeMap<String, i64>>,
    /// Whether runs can begin here.
    pub(super) fitness: Fitness,
    pub(super) places: Arc<Semaphore>,
    /// When this process began.
    pub(super) began: Instant,
    /// When it last said that it is there.
    pub(super) said: Mutex<Option<Instant>>,
}

/// How often a worker says that it is there, if no run of it wants more.
pub(super) const HERE: Duration = Duration::from_secs(10);
/// How often a worker that rests looks at itself.
const LOOK: Duration = Duration::from_secs(2);
/// A job whose runs so many workers could not start is the reason for it.
const MOST_UNABLE: usize = 3;

impl Workbench {
    /// A batch is to be stopped so far.
    pub(super) fn tell(&self, batch: &str, control: Control) {
        self.stopped.send_if_modified(|all| {
            if control.stop == 0 {
                return all.remove(batch).is_some();
            }
            all.insert(batch.to_owned(), control.stop) != Some(control.stop)
        });
    }

    /// Says that it is there, unless it has said so within this time.
    pub(super) async fn say_here(&self, every: Duration) {
        {
            let mut said = lock(&self.said);
            if said.is_some_and(|said| said.elapsed() < every) {
                return;
            }
            *said = Some(Instant::now());
        }
        let WorkerOptions { name, places, labels, require, .. } = self.options.clone();
        let (version, process) = (env!("CARGO_PKG_VERSION").to_owned(), self.process.clone());
        let card = WorkerCard { name, places, labels, require, version, process, rests: self.fitness.rests() };
        if !self.queue.workers.try_put(&self.id, &written(&card)).await {
            self.queue.trouble.note();
        }
    }

    /// Waits until runs of some agent can begin here, and says that it is ready.
    pub(super) async fn get_ready(self: Arc<Self>) {
        let asks = &self.options.require;
        let is_any = !asks.iter().any(|label| label.starts_with("agent="));
        let wanted = |agent: &Kind| is_any || asks.contains(&format!("agent={}", agent.name()));
        let agents: Vec<Kind> = Kind::ALL.iter().copied().filter(wanted).collect();
        loop {
            for agent in &agents {
                self.look(*agent).await;
            }
            if agents.is_empty() || agents.iter().any(|agent| self.fitness.rest(*agent).is_none()) {
                break;
            }
            for agent in &agents {
                self.tell_rest(*agent);
            }
            tokio::time::sleep(LOOK).await;
        }
        let _ = self.news.send(WorkerNews::Ready);
    }

    /// Waits until runs of an agent can begin here.
    pub(super) async fn fit_for(&self, agent: Kind) {
        while self.fitness.rest(agent).is_some() {
            self.tell_rest(agent);
            tokio::time::sleep(LOOK).await;
            self.look(agent).await;
        }
        self.tell_rest(agent);
    }

    /// Looks what is lacking here to run an agent.
    pub(super) async fn look(&self, agent: Kind) {
        let (program, store) = (self.options.program(agent).map(Path::to_owned), self.place.store.clone());
        let looks = tokio::task::spawn_blocking(move || lacks(agent, program.as_deref(), &store));
        let lacks = looks.await.unwrap_or_else(|error| Some(error.to_string()));
        if self.fitness.looked(agent, lacks) {
            self.say_here(Duration::ZERO).await;
        }
    }

    fn tell_rest(&self, agent: Kind) {
        let news = self.fitness.news(agent);
        let agent = agent.name();
        let _ = match news {
            Some(RestNews::Rests(why)) => self.news.send(WorkerNews::Rests { agent, why }),
            Some(RestNews::Over) => self.news.send(WorkerNews::Rested { agent }),
            None => return,
        };
    }

    /// A run could not be started, for this reason. Returns whether others should make it: that may be this worker's fault.
    pub(super) async fn leaves_to_others(&self, order: &Order, class: &Class, why: &str) -> bool {
        let agent = class.agent();
        self.look(agent).await;
        let lacks_something = self.fitness.rest(agent).is_some();
        if !lacks_something && self.fitness.failed(agent, why) {
            self.say_here(Duration::ZERO).await;
        }
        self.tell_rest(agent);
        let key = names::job_key(&order.batch, &order.job.name);
        let note = |run: &mut RunOf| {
            if run.order == order.order && run.process == self.process {
                (run.given_back, run.unstarted) = (true, true);
            }
            if !lacks_something {
                run.unable.insert(self.id.clone(), order.order);
            }
        };
        let run = self.note_unable(&key, note).await;
        self.fitness.rest(agent).is_some()
            || (run.count_unable(order.order) < MOST_UNABLE && self.are_others_able(&run, order.order, class).await)
    }

    /// Notes of a job that it cannot be run here. Returns what is noted of its runs.
    pub(super) async fn note_unable(&self, job_key: &str, note: impl Fn(&mut RunOf)) -> RunOf {
        loop {
            let Found { value: mut run, revision, .. } = self.queue.runs.get_or_empty::<RunOf>(job_key).await;
            note(&mut run);
            if self.queue.runs.swap(job_key, &written(&run), revision).await {
                return run;
            }
        }
    }

    /// Whether there is a worker that takes jobs of this class and did not try this one.
    pub(super) async fn are_others_able(&self, run: &RunOf, order: u64, class: &Class) -> bool {
        for id in self.queue.workers.keys().await {
            if id != self.id
                && run.unable.get(&id) != Some(&order)
                && let Some(card) = self.queue.workers.get::<WorkerCard>(&id).await
                && card.value.takes(class)
            {
                return true;
            }
        }
        false
    }

    /// How an order ended, if it has.
    pub(super) async fn how_ended(&self, key: &str) -> Option<String> {
        Some(match self.queue.outcome_in_brief::<Outcome>(key).await? {
            Parcel::Here(outcome) => outcome.end.word().to_owned(),
            Parcel::Object { about, .. } => about,
        })
    }

    /// Whether a run that another process noted is under way there. That its message comes again does not say otherwise: the broker may have been
    /// away. A process that lives says so three times within `patience`; but not while the broker is away, and perhaps not at once afterwards.
    pub(super) async fn is_made_elsewhere(&self, run: &RunOf, patience: Duration) -> bool {
        // A data folder has one worker: an earlier process of this one is over.
        if run.given_back || run.worker == self.id {
            return false;
        }
        // So that there is a time of now, by the broker's clock.
        self.say_here(patience / 3).await;
        let workers = &self.queue.workers;
        let (card, ours) = tokio::join!(workers.get::<WorkerCard>(&run.worker), workers.get::<WorkerCard>(&self.id));
        let nanos = patience.max(Duration::from_secs(1)).as_nanos();
        let is_fresh = match (&card, &ours) {
            // It was started again.
            (Some(card), _) if card.value.process != run.process => return false,
            // Both times are the broker's.
            (Some(card), Some(ours)) => (ours.nanos - card.nanos) < i128::try_from(nanos).unwrap_or(i128::MAX),
            (Some(_), None) => true,
            (None, _) => false,
        };
        let is_new = self.began.elapsed() < patience.min(SILENT);
        is_fresh || is_new || !self.queue.trouble.is_over_for(patience.clamp(HERE, SILENT))
    }
}

/// Where the worktrees of a batch are.
pub(super) fn worktrees(folder: &Path, batch: &str) -> Places {
    Places { worktrees: folder.join("worktrees").join(batch), notes: folder.join("worktree-notes").join(batch) }
}
