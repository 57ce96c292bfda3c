//! The workers, as a batch sees them: how many take its jobs, which of its jobs no worker takes, and which runs a worker left behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::order::{RunOf, WorkerCard};
use super::queue::{Class, SILENT};
use super::trouble::Trouble;
use super::{lock, names};
use crate::work::{EngineNews, JobNews};

/// How long workers have to be found before people are told that there is none.
const FOUND: Duration = Duration::from_secs(3);

/// How long workers have to be heard of after the broker was away.
const HEARD: Duration = Duration::from_secs(15);

/// The workers that are there.
#[derive(Debug, Default)]
pub(super) struct Workers {
    /// By their ids, and when each was last heard of.
    seen: Mutex<BTreeMap<String, (WorkerCard, Instant)>>,
    /// The classes of the jobs that were ordered, and how many of their jobs have no outcome. Only workers count that take one of them.
    wanted: Mutex<BTreeMap<String, (Class, usize)>>,
    /// What no worker does for a class, as people were told: the reason in parentheses may change meanwhile.
    lacking: Mutex<BTreeMap<String, String>>,
    /// The last run of each job, by the job's key.
    runs: Mutex<BTreeMap<String, RunOf>>,
    changed: tokio::sync::Notify,
}

/// A job that waits for a worker, or runs.
#[derive(Debug)]
pub(super) struct Wanted {
    workers: Arc<Workers>,
    class: String,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        if let Some((_, jobs)) = lock(&self.workers.wanted).get_mut(&self.class) {
            *jobs -= 1;
        }
    }
}

impl Workers {
    /// A worker says that it is there, or that it leaves.
    pub(super) fn see(&self, id: &str, card: Option<&Bytes>) {
        let card = card.and_then(|card| serde_json::from_slice::<WorkerCard>(card).ok());
        let before = match card {
            Some(card) => {
                let before = lock(&self.seen).insert(id.to_owned(), (card.clone(), Instant::now()));
                before.is_some_and(|(before, _)| before == card)
            }
            None => lock(&self.seen).remove(id).is_none(),
        };
        if !before {
            self.changed.notify_one();
        }
    }

    /// The batch has a job of this class, until this is dropped.
    pub(super) fn want(self: &Arc<Self>, class: &Class) -> Wanted {
        let (name, fits) = (class.name(), lock(&self.seen).values().any(|(card, _)| card.takes(class)));
        let mut wanted = lock(&self.wanted);
        let (_, jobs) = wanted.entry(name.clone()).or_insert_with(|| (class.clone(), 0));
        *jobs += 1;
        if *jobs == 1 || !fits {
            self.changed.notify_one();
        }
        Wanted { workers: Arc::clone(self), class: name }
    }

    /// The classes of jobs that have no outcome.
    pub(super) fn classes(&self) -> Vec<Class> {
        lock(&self.wanted).values().filter(|(_, jobs)| *jobs > 0).map(|(class, _)| class.clone()).collect()
    }

    /// A worker noted a run. Returns the news if another process had the same run and did not give it back: it died, or is cut off.
    pub(super) fn see_run(&self, key: &str, run: Option<&Bytes>) -> Option<EngineNews> {
        let run: RunOf = serde_json::from_slice(run?).ok()?;
        let before = lock(&self.runs).insert(key.to_owned(), run.clone())?;
        let is_next = before.order == run.order && before.attempt < run.attempt && before.process != run.process;
        if !is_next || before.given_back {
            return None;
        }
        let job = names::text(key.split_once('.')?.1)?;
        let is_same = before.worker == run.worker;
        Some(EngineNews::Gone { worker: before.name, job, by: run.name, is_same, attempt: run.attempt })
    }

    /// How many there are, and how many places they have.
    fn count(&self) -> (usize, usize) {
        let (mut seen, wanted) = (lock(&self.seen), lock(&self.wanted));
        seen.retain(|_, (_, last)| last.elapsed() < SILENT);
        let fits = |card: &&WorkerCard| wanted.is_empty() || wanted.values().any(|(class, _)| card.takes(class));
        let fitting = seen.values().map(|(card, _)| card).filter(fits);
        fitting.fold((0, 0), |(workers, places), card| (workers + 1, places.saturating_add(card.places)))
    }

    /// What no worker does, and how many jobs wait for one that does. `None` if there is no worker at all.
    fn unmet(&self) -> Option<BTreeMap<String, usize>> {
        let (seen, wanted) = (lock(&self.seen), lock(&self.wanted));
        let mut unmet = BTreeMap::new();
        let (mut lacking, what) = (lock(&self.lacking), |words: &str| words.split(" (").next().map(str::to_owned));
        for (name, (class, jobs)) in &*wanted {
            let Some(words) = missing(class, seen.values().map(|(card, _)| card)) else {
                lacking.remove(name);
                continue;
            };
            let told = lacking.entry(name.clone()).or_default();
            if what(told) != what(&words) {
                *told = words;
            }
            *unmet.entry(told.clone()).or_default() += *jobs;
        }
        Some(unmet).filter(|_| !seen.is_empty())
    }

    /// Tells how many there are and what none of them does, whenever that changes.
    pub(super) async fn tell(&self, news: &mpsc::UnboundedSender<JobNews>, trouble: &Trouble) {
        let (mut told, mut told_unmet) = (None, BTreeMap::new());
        // Those that are there already come soon. Before that, nobody knows that there is none.
        let since = Instant::now();
        loop {
            let pause = if told.is_none() { Duration::from_millis(300) } else { Duration::from_secs(2) };
            let _ = tokio::time::timeout(pause, self.changed.notified()).await;
            // While the broker is away, nobody knows, and afterwards they must be heard of again.
            if !trouble.is_over_for(HEARD) {
                continue;
            }
            let now = self.count();
            let is_early = now.0 == 0 && told.is_none() && since.elapsed() < FOUND;
            if told != Some(now) && !is_early {
                told = Some(now);
                let (workers, places) = now;
                let _ = news.send(JobNews::Engine(EngineNews::Workers { workers, places }));
            }
            let Some(unmet) = self.unmet() else { continue };
            for (missing, jobs) in changes(&mut told_unmet, unmet) {
                let _ = news.send(JobNews::Engine(EngineNews::NoWorker { missing, jobs }));
            }
        }
    }
}

/// What no worker does and how many jobs wait for it, where that changed. With 0 jobs, a worker has come. Jobs that were withdrawn are no
/// change.
fn changes(told: &mut BTreeMap<String, usize>, now: BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let mut changes = Vec::new();
    told.retain(|what, _| {
        let stays = now.contains_key(what);
        if !stays {
            changes.push((what.clone(), 0));
        }
        stays
    });
    for (what, jobs) in now {
        if jobs > 0 && told.insert(what.clone(), jobs) != Some(jobs) {
            changes.push((what, jobs));
        }
    }
    changes
}

/// What none of these workers does, if none of them takes jobs of this class.
fn missing<'c>(class: &Class, cards: impl Iterator<Item = &'c WorkerCard> + Clone) -> Option<String> {
    if cards.clone().any(|card| card.takes(class)) {
        return None;
    }
    let has = class.worker.join(", ");
    let with = if has.is_empty() { String::new() } else { format!("has {has} and ") };
    let (agent, mut resting) = (class.agent().name(), cards.clone().filter(|card| card.could_take(class)));
    if let Some((name, why)) = resting.find_map(|card| Some((&card.name, card.rests.get(agent)?))) {
        return Some(format!("{with}can start {agent} (worker {name}: {why})"));
    }
    let is_there = cards.into_iter().any(|card| class.worker.iter().all(|label| card.labels.contains(label)));
    Some(if is_there { format!("{with}takes jobs with {}", class.labels.join(", ")) } else { format!("has {has}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn what_no_worker_does_is_said_as_it_is() {
        let card = |labels: &[&str], require: &[&str]| WorkerCard {
            labels: texts(labels),
            require: texts(require),
            ..WorkerCard::default()
        };
        let cards = [card(&[], &["repo=api"]), card(&["gpu=yes"], &["repo=web"])];
        let of = |labels: &[&str], worker: &[&str]| {
            let class = Class { labels: texts(labels), worker: texts(worker), patience_ms: None };
            missing(&class, cards.iter())
        };
        assert_eq!(of(&["agent=claude", "repo=api"], &[]), None);
        assert_eq!(of(&["repo=web"], &["gpu=yes"]), None);
        assert_eq!(of(&["repo=web"], &["gpu=no"]).as_deref(), Some("has gpu=no"));
        let missing = of(&["agent=codex", "repo=shop"], &[]);
        assert_eq!(missing.as_deref(), Some("takes jobs with agent=codex, repo=shop"));
        let missing = of(&["repo=api"], &["gpu=yes"]);
        assert_eq!(missing.as_deref(), Some("has gpu=yes and takes jobs with repo=api"));
    }

    #[test]
    fn jobs_that_wait_for_a_worker_that_rests_say_why() {
        let workers = Arc::new(Workers::default());
        let class = Class { labels: texts(&["agent=claude"]), ..Class::default() };
        let _wanted = workers.want(&class);
        let say = |why: Option<&str>| {
            let rests = why.map(|why| ("claude".to_owned(), why.to_owned())).into_iter().collect();
            let card = WorkerCard { name: "w1".to_owned(), places: 1, rests, ..WorkerCard::default() };
            workers.see("1", Some(&super::super::bucket::written(&card)));
            (workers.count(), workers.unmet().unwrap())
        };
        let waits = || BTreeMap::from([("can start claude (worker w1: no room)".to_owned(), 1)]);
        assert_eq!(say(Some("no room")), ((0, 0), waits()));
        assert_eq!(say(Some("still no room")), ((0, 0), waits()), "no worker has come");
        assert_eq!(say(None), ((1, 1), BTreeMap::new()));
    }

    #[test]
    fn a_worker_that_comes_is_told_and_jobs_that_are_withdrawn_are_not() {
        let mut told = BTreeMap::new();
        let now = |jobs: usize| BTreeMap::from([("has a".to_owned(), jobs)]);
        assert_eq!(changes(&mut told, now(0)), []);
        for jobs in [1, 3] {
            assert_eq!(changes(&mut told, now(jobs)), [("has a".to_owned(), jobs)]);
        }
        assert_eq!((changes(&mut told, now(3)), changes(&mut told, now(0))), (vec![], vec![]));
        assert_eq!(changes(&mut told, BTreeMap::new()), [("has a".to_owned(), 0)]);
    }

    #[test]
    fn a_run_that_its_worker_did_not_give_back_was_left_behind() {
        let workers = Workers::default();
        let mut run = RunOf { order: 1, attempt: 1, name: "w1".to_owned(), worker: "a".to_owned(), ..RunOf::default() };
        let mut see = |change: &dyn Fn(&mut RunOf)| {
            change(&mut run);
            let told = workers.see_run("batch.a=2eb", Some(&super::super::bucket::written(&run)));
            told.map(|news| format!("{news:?}"))
        };
        assert_eq!(see(&|run| run.process = "1".to_owned()), None);
        assert_eq!(see(&|run| run.spent = BTreeMap::from([("a".to_owned(), 1.0)])), None, "the same process");
        let told = see(&|run| (run.attempt, run.process, run.name) = (2, "2".to_owned(), "w2".to_owned()));
        assert_eq!(told.as_deref(), Some(r#"Gone { worker: "w1", job: "a.b", by: "w2", is_same: true, attempt: 2 }"#));
        assert_eq!(see(&|run| run.given_back = true), None);
        assert_eq!(see(&|run| (run.attempt, run.process, run.given_back) = (3, "3".to_owned(), false)), None, "given back");
        assert_eq!(see(&|run| (run.attempt, run.process, run.order) = (4, "4".to_owned(), 2)), None, "another order");
    }
}
