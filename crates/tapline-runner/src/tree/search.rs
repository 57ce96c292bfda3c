//! Looks for the processes of runs, and holds each by its descriptor. What is to be killed is stopped (SIGSTOP) as it is found,
//! and killed only when a look finds nobody new: who is stopped starts nobody, so that no chain of processes gets away.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, kill_process_group, pidfd_open, pidfd_send_signal};

use super::proc::{Bare, Listed, ProcFile, Stat, bare, carried, listed, newest, stat_of};

/// How often it is looked again without finding anybody, because processes ended meanwhile.
const LOOKS: usize = 8;
/// A chain that cannot be caught in this time is left to the next search.
const CHASE: Duration = Duration::from_millis(500);

/// A process that belongs to a run, held so that its number cannot pass to another; by its number alone where the
/// system has no descriptors for processes, or none left.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) pid: i32,
    pub(super) handle: Option<OwnedFd>,
    /// It carries no mark itself.
    pub(super) adopted: bool,
}

/// What of a run was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) members: Vec<Member>,
    /// Somebody is just becoming another program, or ended before it could be held: only another look tells.
    pub(super) unclear: bool,
}

/// A run whose processes are looked for.
#[derive(Debug)]
pub(super) struct Sought {
    pub(super) mark: String,
    /// They are to be killed.
    pub(super) kill: bool,
    /// The agent's own process, which leads a group.
    pub(super) leader: Option<i32>,
}

impl Member {
    /// None if there is no such process.
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

    /// Whether it has not ended: its descriptor becomes readable when it does.
    pub(super) fn lives(&self) -> bool {
        let Some(handle) = &self.handle else { return false };
        let mut watched = [PollFd::new(handle, PollFlags::IN)];
        matches!(poll(&mut watched, Some(&Timespec::default())), Ok(0))
    }

    /// Whether it has not ended, or cannot be asked.
    fn lives_for_all_we_know(&self) -> bool {
        self.handle.is_none() || self.lives()
    }

    /// Whether it was there to be signalled, permitted or not.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let sent = match (&self.handle, Pid::from_raw(self.pid)) {
            (Some(handle), _) => pidfd_send_signal(handle, signal),
            (None, Some(pid)) => kill_process(pid, signal),
            (None, None) => Err(Errno::SRCH),
        };
        sent != Err(Errno::SRCH)
    }
}

/// The processes of each run; those that are to be killed have been sent SIGKILL.
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
    // Whoever ended unseen may have started another.
    for found in &mut found {
        found.unclear |= !is_sure || search.news;
    }
    search.kill();
    *ended() = search.ended;
    found
}

/// Processes by their numbers, each with its entry in the list of `/proc`: another process of the same number is not taken for it.
type Entries = HashMap<i32, u64>;

/// Those that had ended when the last search looked, and wait to be waited for. Where the first process of a container waits for
/// nobody they become ever more, and no search has to look at them again.
static ENDED: LazyLock<Mutex<Entries>> = LazyLock::new(Mutex::default);

fn ended() -> MutexGuard<'static, Entries> {
    ENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Search<'s> {
    sought: &'s [Sought],
    wanted: HashMap<&'s [u8], usize>,
    /// When the oldest of the runs began, in the kernel's ticks.
    born: u64,
    /// The group and the session that this program is in. Those who started the runs are in the same session.
    own: Option<Stat>,
    stopped: HashMap<i32, Member>,
    /// Groups that were stopped, each with a process of it.
    groups: HashMap<Pid, i32>,
    /// Those that have ended.
    ended: Entries,
    /// Their numbers, of those that this search was the first to see: some systems number entries anew with every list.
    seen: HashSet<i32>,
    /// Those that carry no mark. No look has to read that again, but their parents may.
    unmarked: Entries,
    /// Those that were there before the runs: they can have no part in them.
    elders: Entries,
    /// The last look saw somebody who is to be killed and was not stopped before.
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

    /// One look at every process: those that carry a mark, and their descendants, if they cleared their environment. And whether
    /// it is sure that there are no others: nobody ended before it could be looked at, who may have started another.
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
            // Held first, looked at then: whoever it is that is signalled, it carried the mark.
            let member = Member::open(pid);
            let (told, runs) = carried(pid, &mut buffer, &self.wanted);
            if !runs.is_empty() {
                self.take(member, &runs, &mut found);
                owners.insert(pid, Owned { runs, adopted_from: None });
                continue;
            }
            // Some kernels say of threads of their own, and of who has ended, that there is no such process.
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

    /// Looks at the newest processes before the list is read, if somebody is to be killed: a chain is caught at its end.
    fn catch(&mut self, owners: &mut Owners, found: &mut [Found]) {
        let mut buffer = Vec::new();
        for pid in newest().take_while(|_| self.sought.iter().any(|sought| sought.kill)) {
            // A number may be a thread's, which has no descriptor.
            let Some(member) = Member::open(pid).filter(|member| member.handle.is_some()) else { continue };
            let (_, runs) = carried(pid, &mut buffer, &self.wanted);
            if !runs.is_empty() {
                self.take(Some(member), &runs, found);
                owners.insert(pid, Owned { runs, adopted_from: None });
            }
        }
    }

    /// Children that carry no mark belong where their parents do.
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

    /// Notes a process of these runs, and stops it if it is to be killed.
    fn take(&mut self, member: Option<Member>, runs: &[usize], found: &mut [Found]) {
        let kill = runs.iter().any(|run| self.sought[*run].kill);
        let Some(member) = member.filter(Member::lives_for_all_we_know) else {
            // It has ended: the next look tells whether another came after it.
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

    /// A signal to a group reaches whoever is in it, also one who starts just now: nobody is faster. But a group may hold others
    /// than ours: only the agent's own, and one in a session that something of the run has begun, cannot.
    fn stop_group(&mut self, member: &Member, runs: &[usize]) {
        let (Some(own), false) = (&self.own, member.adopted) else { return };
        let Some(stat) = stat_of(member.pid, &mut Vec::new()) else { return };
        let leads = |run: &usize| self.sought[*run].leader == Some(stat.group);
        // A session of which our PID namespace knows no number is not one that a run has begun.
        let ours = runs.iter().any(leads) || (stat.session != own.session && stat.session != 0);
        let Some(group) = Pid::from_raw(stat.group).filter(|_| ours && stat.group != own.group && stat.group > 1) else {
            return;
        };
        let _ = kill_process_group(group, Signal::STOP);
        self.groups.insert(group, member.pid);
    }

    fn kill(&self) {
        for (group, pid) in &self.groups {
            // As long as one of its processes is there, its number is its own.
            if self.stopped.get(pid).is_some_and(Member::lives) {
                let _ = kill_process_group(*group, Signal::KILL);
            }
        }
        for member in self.stopped.values() {
            member.signal(Signal::KILL);
        }
    }
}

/// Processes, and whose they are.
type Owners = HashMap<i32, Owned>;

#[derive(Clone, Debug)]
struct Owned {
    runs: Vec<usize>,
    /// It carries no mark itself: the parent that does.
    adopted_from: Option<i32>,
}
