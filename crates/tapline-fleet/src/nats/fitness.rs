//! Whether a worker can begin runs: the agent's program must be here, and there must be room for recordings. That a worker cannot begin a run is
//! no reason for a job to fail, so it rests, says why, and leaves the jobs to others.

use std::collections::BTreeMap;
use std::fs::{File, remove_file};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use tapline_protocol::Agent as Kind;
use tapline_recording::{Store, create_private_folder};
use tapline_runner::locate;
use tapline_session::text::with_causes;
use tokio::time::Instant;

use super::lock;

/// After so many runs of an agent that could not be started, one after the other, a worker rests.
const MOST_FAILURES: u32 = 3;
/// How long it rests then, if it lacks nothing.
const REST: Duration = Duration::from_secs(30);
/// How many bytes a worker must have room for.
const ROOM: usize = 1 << 20;

/// How a worker stands with each agent, by its name.
#[derive(Debug, Default)]
pub(super) struct Fitness(Mutex<BTreeMap<&'static str, Standing>>);

/// How a worker stands with an agent.
#[derive(Debug, Default)]
struct Standing {
    /// How many runs could not be started, one after the other.
    failures: u32,
    rest: Option<Rest>,
    /// Why it rests, as people were told.
    told: Option<String>,
}

#[derive(Debug)]
struct Rest {
    why: String,
    /// When it ends. `None`: when the worker lacks nothing any more.
    until: Option<Instant>,
}

/// What people are told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RestNews {
    /// It rests, for this reason.
    Rests(String),
    Over,
}

impl Fitness {
    /// Why the worker rests, by the names of agents.
    pub(super) fn rests(&self) -> BTreeMap<String, String> {
        let all = lock(&self.0);
        all.iter().filter_map(|(agent, of)| Some(((*agent).to_owned(), of.rest.as_ref()?.why.clone()))).collect()
    }

    /// Why the worker takes no jobs for an agent, if it takes none.
    pub(super) fn rest(&self, agent: Kind) -> Option<String> {
        lock(&self.0).get(agent.name())?.rest.as_ref().map(|rest| rest.why.clone())
    }

    /// A run was started.
    pub(super) fn started(&self, agent: Kind) {
        lock(&self.0).entry(agent.name()).or_default().failures = 0;
    }

    /// A run could not be started, although the worker lacks nothing. Returns whether it rests now because of that.
    pub(super) fn failed(&self, agent: Kind, why: &str) -> bool {
        let mut all = lock(&self.0);
        let of = all.entry(agent.name()).or_default();
        of.failures += 1;
        if of.failures < MOST_FAILURES || of.rest.is_some() {
            return false;
        }
        let why = format!("{MOST_FAILURES} runs of it could not be started, the last one: {why}");
        of.rest = Some(Rest { why, until: Some(Instant::now() + REST) });
        true
    }

    /// Somebody looked what the worker lacks for an agent. Returns whether it rests now because of that, or does not rest any more.
    pub(super) fn looked(&self, agent: Kind, lacks: Option<String>) -> bool {
        let mut all = lock(&self.0);
        let of = all.entry(agent.name()).or_default();
        if let Some(why) = lacks {
            let before = of.rest.replace(Rest { why: why.clone(), until: None });
            return before.is_none_or(|before| before.why != why);
        }
        let is_over = of.rest.as_ref().is_some_and(|rest| rest.until.is_none_or(|until| until <= Instant::now()));
        if is_over {
            (of.failures, of.rest) = (0, None);
        }
        is_over
    }

    /// What people do not know yet: why it rests, or that it does not rest any more.
    pub(super) fn news(&self, agent: Kind) -> Option<RestNews> {
        let mut all = lock(&self.0);
        let of = all.get_mut(agent.name())?;
        let now = of.rest.as_ref().map(|rest| rest.why.clone());
        if of.told == now {
            return None;
        }
        of.told.clone_from(&now);
        Some(now.map_or(RestNews::Over, RestNews::Rests))
    }
}

/// What is lacking to run an agent whose program is this one, if that was said, and to record in this store.
pub(super) fn lacks(agent: Kind, program: Option<&Path>, store: &Store) -> Option<String> {
    if let Err(error) = locate(agent, program, std::env::var_os("PATH").as_deref()) {
        return Some(with_causes(&error));
    }
    let folder = store.folder();
    let error = has_room(&folder).err()?;
    Some(format!("nothing can be recorded in {}: {error}", folder.display()))
}

fn has_room(folder: &Path) -> io::Result<()> {
    create_private_folder(folder)?;
    let path = folder.join(".room");
    let written = File::create(&path).and_then(|mut file| file.write_all(&vec![0; ROOM]));
    let _ = remove_file(&path);
    written
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    const AGENT: Kind = Kind::ALL[0];

    #[tokio::test(start_paused = true)]
    async fn after_three_failures_a_worker_rests_and_says_why() {
        let fitness = Fitness::default();
        assert!(!fitness.failed(AGENT, "a") && !fitness.failed(AGENT, "b"));
        fitness.started(AGENT);
        assert!(!fitness.failed(AGENT, "a") && !fitness.failed(AGENT, "b"), "not one after the other");
        assert!(fitness.rests().is_empty() && fitness.failed(AGENT, "no such option"));
        let why = "3 runs of it could not be started, the last one: no such option";
        assert_eq!(fitness.rests(), [(AGENT.name().to_owned(), why.to_owned())].into());
        assert!(fitness.rest(Kind::ALL[1]).is_none(), "another agent may be well");
        assert!(!fitness.failed(AGENT, "one that was under way") && !fitness.looked(AGENT, None));
        tokio::time::sleep(REST).await;
        assert!(fitness.looked(AGENT, None) && fitness.rests().is_empty());
        assert!(!fitness.failed(AGENT, "again"), "it may fail three times again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_lacks_something_rests_until_it_is_there() {
        let fitness = Fitness::default();
        let gone = || Some("no room".to_owned());
        assert!(fitness.looked(AGENT, gone()) && !fitness.looked(AGENT, gone()), "nothing has changed");
        assert_eq!((fitness.news(AGENT), fitness.news(AGENT)), (gone().map(RestNews::Rests), None), "it is told once");
        tokio::time::sleep(2 * REST).await;
        assert_eq!(fitness.rest(AGENT).as_deref(), Some("no room"));
        assert!(fitness.looked(AGENT, None) && fitness.rest(AGENT).is_none());
        assert_eq!((fitness.news(AGENT), fitness.news(AGENT)), (Some(RestNews::Over), None));
    }

    #[test]
    fn a_worker_lacks_a_program_or_room() {
        let folder = TempFolder::new();
        let (store, program) = (Store::at(folder.join("home")), folder.script("agent", "exit 1"));
        let program = Path::new(&program);
        assert_eq!(lacks(AGENT, Some(program), &store), None);
        assert_eq!(std::fs::read_dir(store.folder()).unwrap().count(), 0, "it leaves nothing behind");
        let nowhere = folder.join("nowhere");
        let why = lacks(AGENT, Some(&nowhere), &store).unwrap();
        assert_eq!(why, format!("{}: not found: {}", AGENT.name(), nowhere.display()));
        // A disk without room.
        std::os::unix::fs::symlink("/dev/full", store.folder().join(".room")).unwrap();
        let why = lacks(AGENT, Some(program), &store).unwrap();
        assert!(why.contains("nothing can be recorded in") && why.contains("No space left"), "{why}");
        assert_eq!(lacks(AGENT, Some(program), &store), None, "there is room again");
    }
}
