//! Finds the processes of runs, and holds each by its descriptor. A process to be killed is stopped (SIGSTOP) when it
//! is found, and killed only when a pass finds no new one. A stopped process starts no other, so no chain of processes
//! escapes.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, kill_process_group, pidfd_open, pidfd_send_signal};

use super::proc::{Bare, Listed, ProcFile, Stat, bare, carried, listed, newest, stat_of};

/// How many passes are made without finding a process, because others ended in the meantime.
const LOOKS: usize = 8;
/// A chain that cannot be caught in this time is left to the next search.
const CHASE: Duration = Duration::from_millis(500);

/// A process of a run, held so that its number cannot be reused. If the system has no process descriptors, or none
/// left, it is known only by its number.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) pid: i32,
    pub(super) handle: Option<OwnedFd>,
    /// Whether it has no mark itself.
    pub(super) adopted: bool,
}

/// The processes of a run that were found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) members: Vec<Member>,
    /// Whether a process was in the middle of an exec, or ended before it could be held. Only another pass can tell.
    pub(super) unclear: bool,
}

/// A run whose processes are searched for.
#[derive(Debug)]
pub(super) struct Sought {
    pub(super) mark: String,
    /// Whether they must be killed.
    pub(super) kill: bool,
    /// The agent's own process, which leads a group.
    pub(super) leader: Option<i32>,
}

impl Member {
    /// Holds a process. Returns `None` if it does not exist.
    pub(super) fn open(pid: i32) -> Option<Self> {
        match pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()) {
            Ok(handle) => Some(Self { pid, handle: Some(handle), adopted: false }),
            Err(Errno::SRCH) => None,
            Err(_) => Some(Self { pid, handle: None, adopted: false }),
        }
    }

    pub(super) fn try_clone(&self) -> Option<Self> {
        Some(Self { handle: Some(self.handle.as_ref()?.try_clone().ok()?), ..*self })
    }

    /// Returns whether it has not ended. Its descriptor becomes readable when it does.
    pub(super) fn lives(&self) -> bool {
        let Some(handle) = &self.handle else { return false };
        let mut watched = [PollFd::new(handle, PollFlags::IN)];
        matches!(poll(&mut watched, Some(&Timespec::default())), Ok(0))
    }

    /// Returns whether it has not ended, or that is not known.
    fn lives_for_all_we_know(&self) -> bool {
        self.handle.is_none() || self.lives()
    }

    /// Sends a signal. Returns whether the process existed, even if the signal was not permitted.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let sent = match (&self.handle, Pid::from_raw(self.pid)) {
            (Some(handle), _) => pidfd_send_signal(handle, signal),
            (None, Some(pid)) => kill_process(pid, signal),
            (None, None) => Err(Errno::SRCH),
        };
        sent != Err(Errno::SRCH)
    }
}

/// Finds the processes of each run. Those to be killed have been sent SIGKILL.
pub(super) fn find(sought: &[Sought], born: u64) -> Vec<Found> {
    let until = Instant::now() + CHASE;
    let mut search = Search::new(sought, born);
    let (mut found, mut looks, mut is_sure) = (Vec::new(), 0, false);
    while looks < LOOKS && Instant::now() < until {
        (found, is_sure) = search.look();
        looks = if search.news { 0 } else { looks + 1 };
        let is_told = |(sought, found): (&Sought, &Found)| !sought.kill && (!found.members.is_empty() || found.unclear);
        if (is_sure && !search.news) || sought.iter().zip(&found).all(is_told) {
            break;
        }
    }
    // A process that ended unseen may have started another.
    for found in &mut found {
        found.unclear |= !is_sure || search.news;
    }
    search.kill();
    *ended() = search.ended;
    found
}

/// Processes by their number, each with its entry in the list of `/proc`, which distinguishes later processes with the
/// same number.
type Entries = HashMap<i32, u64>;

/// Processes that had ended at the last search and were not waited for. If the first process of a container waits for
/// none, they accumulate. They need not be read again.
static ENDED: LazyLock<Mutex<Entries>> = LazyLock::new(Mutex::default);

fn ended() -> MutexGuard<'static, Entries> {
    ENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Search<'s> {
    sought: &'s [Sought],
    wanted: HashMap<&'s [u8], usize>,
    /// When the oldest of the runs began, in the kernel's ticks.
    born: u64,
    /// The group and session of this program. The processes that started the runs are in the same session.
    own: Option<Stat>,
    stopped: HashMap<i32, Member>,
    /// Groups that were stopped, each with one of its processes.
    groups: HashMap<Pid, i32>,
    /// Processes that have ended.
    ended: Entries,
    /// The numbers of ended processes that this search saw first. Some systems renumber the entries in every list.
    seen: HashSet<i32>,
    /// Processes without a mark. They need not be read again, except for their parents.
    unmarked: Entries,
    /// Processes that existed before the runs, and so cannot be part of them.
    elders: Entries,
    /// Whether the last pass saw a process to be killed that was not stopped before.
    news: bool,
}

impl<'s> Search<'s> {
    fn new(sought: &'s [Sought], born: u64) -> Self {
        let wanted = sought.iter().enumerate().map(|(at, run)| (run.mark.as_bytes(), at)).collect();
        let (stopped, groups) = (HashMap::new(), HashMap::new());
        let own = stat_of(getpid().as_raw_nonzero().get(), &mut Vec::new());
        let (ended, unmarked, elders) = (ended().clone(), Entries::new(), Entries::new());
        Self { sought, wanted, born, own, stopped, groups, ended, seen: HashSet::new(), unmarked, elders, news: false }
    }

    /// Makes one pass over every process, and returns those with a mark and their descendants that cleared their
    /// environment. Also returns whether it is certain that there are no others: none ended before it could be read,
    /// which may have started another.
    fn look(&mut self) -> (Vec<Found>, bool) {
        let mut found: Vec<Found> = self.sought.iter().map(|_| Found::default()).collect();
        let (mut owners, mut unmarked, mut ended) = (Owners::new(), Vec::new(), Entries::new());
        let (mut buffer, mut unclear, mut is_sure) = (Vec::new(), false, true);
        self.news = false;
        self.catch(&mut owners, &mut found);
        let Some(all) = listed() else {
            for found in &mut found {
                found.unclear = true;
            }
            return (found, false);
        };
        for listed in all {
            let Listed { pid, entry } = listed;
            let is_in = |entries: &Entries| entries.get(&pid) == Some(&entry);
            if is_in(&self.ended) {
                ended.insert(pid, entry);
                continue;
            } else if is_in(&self.elders) || owners.contains_key(&pid) {
                continue;
            } else if is_in(&self.unmarked) {
                unmarked.push(listed);
                continue;
            }
            // Hold it first, then read its mark, so that the process that is signalled is the one with the mark.
            let member = Member::open(pid);
            let (told, runs) = carried(pid, &mut buffer, &self.wanted);
            if !runs.is_empty() {
                self.take(member, &runs, &mut found);
                owners.insert(pid, Owned { runs, adopted_from: None });
                continue;
            }
            // Some kernels report their own threads, and processes that have ended, as missing.
            let is_bare = matches!(told, ProcFile::Gone | ProcFile::Read) && buffer.is_empty();
            match is_bare.then(|| bare(pid, self.born, &mut buffer)) {
                Some(Bare::Ended) => {
                    ended.insert(pid, entry);
                    is_sure &= !self.seen.insert(pid);
                    continue;
                }
                Some(Bare::Becoming) => unclear = true,
                None if told == ProcFile::Failed => unclear = true,
                Some(Bare::Other) | None => {
                    self.unmarked.insert(pid, entry);
                }
            }
            unmarked.push(listed);
        }
        self.ended = ended;
        if !owners.is_empty() {
            self.adopt(&mut owners, unmarked, &mut buffer);
        }
        for (pid, Owned { runs, adopted_from }) in &owners {
            if let Some(parent) = adopted_from {
                let member = Member::open(*pid).map(|member| Member { adopted: true, ..member });
                let is_child = stat_of(*pid, &mut buffer).is_some_and(|stat| stat.parent == *parent);
                self.take(member.filter(|_| is_child), runs, &mut found);
            }
        }
        for found in &mut found {
            found.unclear |= unclear;
        }
        (found, is_sure)
    }

    /// Checks the newest processes before the list is read, if any must be killed. This catches a chain at its end.
    fn catch(&mut self, owners: &mut Owners, found: &mut [Found]) {
        let mut buffer = Vec::new();
        for pid in newest().take_while(|_| self.sought.iter().any(|sought| sought.kill)) {
            // The number may be a thread's, which has no descriptor.
            let Some(member) = Member::open(pid).filter(|member| member.handle.is_some()) else { continue };
            let (_, runs) = carried(pid, &mut buffer, &self.wanted);
            if !runs.is_empty() {
                self.take(Some(member), &runs, found);
                owners.insert(pid, Owned { runs, adopted_from: None });
            }
        }
    }

    /// Adds children without a mark to the runs of their parents.
    fn adopt(&mut self, owners: &mut Owners, unmarked: Vec<Listed>, buffer: &mut Vec<u8>) {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for Listed { pid, entry } in unmarked {
            match stat_of(pid, buffer) {
                Some(stat) if stat.born < self.born => {
                    self.elders.insert(pid, entry);
                }
                Some(stat) => children.entry(stat.parent).or_default().push(pid),
                None => {}
            }
        }
        let mut parents: Vec<i32> = owners.keys().copied().collect();
        while let Some(parent) = parents.pop() {
            for child in children.remove(&parent).unwrap_or_default() {
                let runs = owners.get(&parent).map(|owned| owned.runs.clone()).unwrap_or_default();
                owners.insert(child, Owned { runs, adopted_from: Some(parent) });
                parents.push(child);
            }
        }
    }

    /// Notes a process of these runs, and stops it if it must be killed.
    fn take(&mut self, member: Option<Member>, runs: &[usize], found: &mut [Found]) {
        let kill = runs.iter().any(|run| self.sought[*run].kill);
        let Some(member) = member.filter(Member::lives_for_all_we_know) else {
            // It has ended. The next pass shows whether it started another.
            self.news |= kill;
            for run in runs {
                found[*run].unclear = true;
            }
            return;
        };
        if kill && self.stopped.get(&member.pid).is_none_or(|known| !known.lives()) {
            self.news = true;
            self.stop_group(&member, runs);
            member.signal(Signal::STOP);
            self.stopped.extend(member.try_clone().map(|member| (member.pid, member)));
        }
        for run in runs {
            let handle = member.handle.as_ref().and_then(|handle| handle.try_clone().ok());
            found[*run].members.push(Member { pid: member.pid, handle, adopted: member.adopted });
        }
    }

    /// Stops the group of a process. A signal to a group reaches every process in it, even one that is just starting.
    /// But a group may contain others than ours. That is ruled out only for the agent's own group, and for groups in a
    /// session that a process of the run has started.
    fn stop_group(&mut self, member: &Member, runs: &[usize]) {
        let (Some(own), false) = (&self.own, member.adopted) else { return };
        let Some(stat) = stat_of(member.pid, &mut Vec::new()) else { return };
        let leads = |run: &usize| self.sought[*run].leader == Some(stat.group);
        // A session without a number in our PID namespace was not started by a run.
        let ours = runs.iter().any(leads) || (stat.session != own.session && stat.session != 0);
        let Some(group) = Pid::from_raw(stat.group).filter(|_| ours && stat.group != own.group && stat.group > 1) else {
            return;
        };
        let _ = kill_process_group(group, Signal::STOP);
        self.groups.insert(group, member.pid);
    }

    fn kill(&self) {
        for (group, pid) in &self.groups {
            // While one of its processes exists, its number is not reused.
            if self.stopped.get(pid).is_some_and(Member::lives) {
                let _ = kill_process_group(*group, Signal::KILL);
            }
        }
        for member in self.stopped.values() {
            member.signal(Signal::KILL);
        }
    }
}

/// Processes and the runs that they belong to.
type Owners = HashMap<i32, Owned>;

#[derive(Clone, Debug)]
struct Owned {
    runs: Vec<usize>,
    /// If it has no mark itself: the parent that it was found through.
    adopted_from: Option<i32>,
}
