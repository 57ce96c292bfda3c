//! The processes of a run on Linux. One reading of `/proc` serves every run that asks in the meantime, so a thousand
//! runs can end at once. A process is held by its descriptor before it is signalled, so no number can be mistaken.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process_group, pidfd_open};
use tokio::sync::oneshot;

use super::proc::{ProcFile, holds, listed, read, stat_of};
use super::search::{Found, Member, Sought, find};
use super::signal::{Left, StopSignal};

/// The processes of a run.
#[derive(Debug)]
pub(crate) struct Tree {
    mark: String,
    /// The agent's own process, which leads its group.
    leader: Option<Member>,
    /// The pipes that the agent writes to, with their names in `/proc`.
    pipes: Vec<String>,
    /// When the agent started, in the kernel's ticks.
    born: u64,
    /// Processes without a mark that were found through their parents while these lived.
    adopted: Mutex<Vec<Member>>,
    swept: AtomicBool,
}

enum Request {
    /// Finds the processes of a run.
    Look { sought: Sought, born: u64, reply: oneshot::Sender<Found> },
    /// Kills all of them, even if nobody waits.
    Kill(Arc<Tree>),
}

static CENSUS: LazyLock<Option<Mutex<Sender<Request>>>> = LazyLock::new(|| {
    let (requests, queue) = channel();
    let named = std::thread::Builder::new().name("tapline-census".to_owned());
    named.spawn(move || serve(&queue)).ok().map(|_| Mutex::new(requests))
});

fn serve(queue: &Receiver<Request>) {
    while let Ok(first) = queue.recv() {
        let (mut all, mut replies, mut doomed, mut oldest) = (Vec::new(), Vec::new(), Vec::new(), u64::MAX);
        // Requests that arrived during the last reading are served by this one.
        for request in std::iter::once(first).chain(queue.try_iter()) {
            match request {
                Request::Look { sought, born, reply } => {
                    all.push(sought);
                    replies.push(reply);
                    oldest = oldest.min(born);
                }
                Request::Kill(tree) => doomed.push(tree),
            }
        }
        if !all.is_empty() {
            for (reply, found) in replies.into_iter().zip(find(&all, oldest)) {
                let _ = reply.send(found);
            }
        }
        for tree in doomed {
            tree.kill_now();
        }
    }
}

/// Sends a request to the thread that reads `/proc`.
fn ask(request: Request) -> bool {
    let send = |census: &Mutex<Sender<Request>>| census.lock().unwrap_or_else(PoisonError::into_inner).send(request).is_ok();
    CENSUS.as_ref().is_some_and(send)
}

/// How many runs this process has.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// How many can be killed one by one while somebody waits.
const FEW: usize = 32;
/// How long to wait for the kernel.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns whether every process that an agent starts can be found and held on this system.
pub(crate) fn reaches_all() -> bool {
    read(getpid().as_raw_nonzero().get(), "environ", &mut Vec::new()) == ProcFile::Read
        && pidfd_open(getpid(), PidfdFlags::empty()).is_ok()
}

impl Tree {
    /// Creates the tree of processes that this leader starts with this mark, and that write to these pipes.
    pub(crate) fn new(mark: String, leader: Option<u32>, pipes: &[i32]) -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        let leader = leader.and_then(|pid| Member::open(pid.cast_signed()));
        let name = |fd: &i32| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?.into_os_string().into_string().ok();
        let stat = leader.as_ref().and_then(|leader| stat_of(leader.pid, &mut Vec::new()));
        let pipes = pipes.iter().filter_map(name).collect();
        let born = stat.map_or(0, |stat| stat.born);
        Self { mark, leader, pipes, born, adopted: Mutex::default(), swept: AtomicBool::new(false) }
    }

    /// Creates the tree of processes with this mark, whoever started them.
    pub(crate) fn of_mark(mark: String) -> Self {
        Self::new(mark, None, &[])
    }

    /// Returns whether everything is known to be gone.
    pub(crate) fn is_swept(&self) -> bool {
        self.swept.load(Ordering::Acquire)
    }

    pub(crate) fn set_swept(&self) {
        self.swept.store(true, Ordering::Release);
    }

    /// Interrupts the agent's process group, as a terminal would. Call it only while the agent has not been waited for.
    pub(crate) fn interrupt(&self) {
        if let Some(leader) = self.leader.as_ref().and_then(|leader| Pid::from_raw(leader.pid)) {
            let _ = kill_process_group(leader, Signal::INT);
        }
    }

    /// Signals everything that is left, and returns what that was.
    pub(crate) async fn signal(&self, signal: StopSignal) -> Left {
        self.signal_found(&self.found(signal == StopSignal::Kill).await, signal)
    }

    /// Returns what is left.
    pub(crate) async fn left(&self) -> Left {
        self.count(&self.found(false).await)
    }

    /// Returns what is left, without async.
    pub(crate) fn left_now(&self) -> Left {
        self.count(&self.found_now(false))
    }

    /// Signals everything that is left, without async.
    pub(crate) fn signal_now(&self, signal: StopSignal) -> Left {
        self.signal_found(&self.found_now(signal == StopSignal::Kill), signal)
    }

    fn count(&self, found: &Found) -> Left {
        let adopted =
            self.adopted.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|member| member.lives()).count();
        let marked = found.members.iter().filter(|member| !member.adopted).count();
        Left { processes: marked + adopted, unclear: found.unclear }
    }

    /// Remembers processes that can no longer be found once their parents are gone.
    fn remember(&self, found: &Found) {
        let mut adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        for member in found.members.iter().filter(|member| member.adopted) {
            if adopted.iter().all(|known| known.pid != member.pid || !known.lives()) {
                adopted.extend(member.try_clone());
            }
        }
    }

    async fn found(&self, kill: bool) -> Found {
        let (reply, found) = oneshot::channel();
        let sought = self.sought(kill);
        if !ask(Request::Look { sought, born: self.born, reply }) {
            return self.found_now(kill);
        }
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.ok().and_then(Result::ok).unwrap_or(Found { members: Vec::new(), unclear: true })
    }

    fn sought(&self, kill: bool) -> Sought {
        Sought { mark: self.mark.clone(), kill, leader: self.leader.as_ref().map(|leader| leader.pid) }
    }

    fn found_now(&self, kill: bool) -> Found {
        find(&[self.sought(kill)], self.born).pop().unwrap_or_default()
    }

    /// Signals the processes that were found. The agent itself is known by its descriptor, whatever its environment
    /// says.
    fn signal_found(&self, found: &Found, signal: StopSignal) -> Left {
        let known = |leader: &&Member| found.members.iter().all(|member| member.pid != leader.pid);
        let alive = |leader: &&Member| leader.handle.is_some() && stat_of(leader.pid, &mut Vec::new()).is_some();
        let hidden = self.leader.iter().filter(known).filter(alive);
        self.remember(found);
        let adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        let marked = found.members.iter().filter(|member| !member.adopted);
        let adopted = adopted.iter().filter(|member| member.lives());
        Left { processes: signal_all(marked.chain(hidden).chain(adopted), signal), unclear: found.unclear }
    }

    /// Kills processes that still hold a pipe of the agent, even with a cleared environment. A process that existed
    /// before the agent was given the pipe and is not part of the run.
    pub(crate) fn kill_holders(&self) {
        let mut buffer = Vec::new();
        let mut is_holder =
            |pid: i32| stat_of(pid, &mut buffer).is_some_and(|stat| stat.born >= self.born) && holds(pid, &self.pipes);
        let pids = listed().into_iter().flatten().map(|listed| listed.pid);
        let holders: Vec<i32> = pids.filter(|pid| is_holder(*pid)).collect();
        let held: Vec<Member> = holders.into_iter().filter_map(Member::open).filter(|member| is_holder(member.pid)).collect();
        signal_all(held.iter(), StopSignal::Kill);
    }

    /// Kills everything at once, and returns what is left after two seconds.
    pub(crate) fn kill_now(&self) -> Left {
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let left = self.signal_found(&self.found_now(true), StopSignal::Kill);
            if left == Left::default() || Instant::now() > until {
                return left;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills everything at once, for a run that is dropped. It returns afterwards, unless there are very many
    /// processes.
    pub(crate) fn kill_dropped(self: &Arc<Self>) {
        if self.is_swept() {
            return;
        }
        self.signal_found(&Found::default(), StopSignal::Kill);
        if LIVE.load(Ordering::Relaxed) <= FEW || !ask(Request::Kill(Arc::clone(self))) {
            self.kill_now();
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

fn signal_all<'m>(members: impl Iterator<Item = &'m Member>, signal: StopSignal) -> usize {
    members.filter(|member| member.signal(signal.signal())).count()
}
