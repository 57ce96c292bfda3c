//! The processes of a run on Linux. One reading of `/proc` serves every run that asks meanwhile, so that a thousand
//! runs can end at once; a process is held by its descriptor before it is signalled, so that no number is mistaken.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::sync::oneshot;

use super::{Firmness, Left};
use crate::marker;

/// What a run has started.
#[derive(Debug)]
pub(crate) struct Tree {
    mark: String,
    /// The agent's own process, which leads its group.
    leader: Option<Member>,
    /// The pipes that the agent writes to, as `/proc` names them.
    pipes: Vec<String>,
    /// When the agent started, in the kernel's ticks.
    born: u64,
    /// Those that carry no mark, and were found by their parents while these lived.
    adopted: Mutex<Vec<Member>>,
    swept: AtomicBool,
}

/// A process that belongs to a run, held so that its number cannot pass to another; by its number alone where the
/// system has no descriptors for processes, or none left.
#[derive(Debug)]
struct Member {
    pid: i32,
    handle: Option<OwnedFd>,
    /// It carries no mark itself.
    adopted: bool,
}

/// What of a run was found.
#[derive(Debug, Default)]
struct Found {
    members: Vec<Member>,
    /// Somebody is just becoming another program, and cannot be looked at before that is done.
    unclear: bool,
}

enum Request {
    /// Look for what a run has started.
    Look { mark: String, born: u64, reply: oneshot::Sender<Found> },
    /// Kill all of it, whoever waits.
    Kill(Arc<Tree>),
}

static CENSUS: LazyLock<Option<Mutex<Sender<Request>>>> = LazyLock::new(|| {
    let (requests, queue) = channel();
    let named = std::thread::Builder::new().name("tapline-census".to_owned());
    named.spawn(move || serve(&queue)).ok().map(|_| Mutex::new(requests))
});

fn serve(queue: &Receiver<Request>) {
    while let Ok(first) = queue.recv() {
        let (mut marks, mut replies, mut doomed, mut oldest) = (Vec::new(), Vec::new(), Vec::new(), u64::MAX);
        // Whoever asked while the last reading went on is served by this one.
        for request in std::iter::once(first).chain(queue.try_iter()) {
            match request {
                Request::Look { mark, born, reply } => {
                    marks.push(mark);
                    replies.push(reply);
                    oldest = oldest.min(born);
                }
                Request::Kill(tree) => doomed.push(tree),
            }
        }
        if !marks.is_empty() {
            let found = find(&marks.iter().map(String::as_str).collect::<Vec<_>>(), oldest);
            for (reply, found) in replies.into_iter().zip(found) {
                let _ = reply.send(found);
            }
        }
        for tree in doomed {
            tree.kill_now();
        }
    }
}

/// Hands a request to the thread that reads `/proc`.
fn ask(request: Request) -> bool {
    let send = |census: &Mutex<Sender<Request>>| census.lock().unwrap_or_else(PoisonError::into_inner).send(request).is_ok();
    CENSUS.as_ref().is_some_and(send)
}

/// How many runs are under way in this process.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// So many can be killed one by one while somebody waits.
const FEW: usize = 32;
/// A kernel that does not answer is not waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether everything that an agent starts can be found and held on this system.
pub(crate) fn reaches_all() -> bool {
    read(getpid().as_raw_nonzero().get(), "environ", &mut Vec::new()) == Told::All
        && pidfd_open(getpid(), PidfdFlags::empty()).is_ok()
}

impl Tree {
    /// What will be started with this mark, by this process, writing to these descriptors.
    pub(crate) fn new(mark: String, leader: Option<u32>, pipes: &[i32]) -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        let leader = leader.and_then(|pid| Member::open(pid.cast_signed()));
        let name = |fd: &i32| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?.into_os_string().into_string().ok();
        let stat = leader.as_ref().and_then(|leader| stat_of(leader.pid, &mut Vec::new()));
        let pipes = pipes.iter().filter_map(name).collect();
        let born = stat.map_or(0, |stat| stat.born);
        Self { mark, leader, pipes, born, adopted: Mutex::default(), swept: AtomicBool::new(false) }
    }

    /// What was started with this mark, by whomever.
    pub(crate) fn of_mark(mark: String) -> Self {
        Self::new(mark, None, &[])
    }

    /// Whether everything is known to be gone.
    pub(crate) fn is_swept(&self) -> bool {
        self.swept.load(Ordering::Acquire)
    }

    pub(crate) fn set_swept(&self) {
        self.swept.store(true, Ordering::Release);
    }

    /// Interrupts the agent as a terminal would: its process group. Only while the agent has not been waited for.
    pub(crate) fn interrupt(&self) {
        if let Some(leader) = self.leader.as_ref().and_then(|leader| Pid::from_raw(leader.pid)) {
            let _ = kill_process_group(leader, Signal::INT);
        }
    }

    /// Signals everything that is left, and says what that was.
    pub(crate) async fn signal(&self, firmness: Firmness) -> Left {
        self.signal_found(&self.found().await, firmness)
    }

    /// What is left.
    pub(crate) async fn left(&self) -> Left {
        self.count(&self.found().await)
    }

    /// The same, now.
    pub(crate) fn left_now(&self) -> Left {
        self.count(&self.found_now())
    }

    /// Signals everything that is left, now.
    pub(crate) fn signal_now(&self, firmness: Firmness) -> Left {
        self.signal_found(&self.found_now(), firmness)
    }

    fn count(&self, found: &Found) -> Left {
        let adopted =
            self.adopted.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|member| member.lives()).count();
        let marked = found.members.iter().filter(|member| !member.adopted).count();
        Left { processes: marked + adopted, unclear: found.unclear }
    }

    /// Remembers those that will be found no more when their parents are gone.
    fn remember(&self, found: &Found) {
        let mut adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        for member in found.members.iter().filter(|member| member.adopted) {
            if adopted.iter().all(|known| known.pid != member.pid || !known.lives()) {
                adopted.extend(member.try_clone());
            }
        }
    }

    async fn found(&self) -> Found {
        let (reply, found) = oneshot::channel();
        if !ask(Request::Look { mark: self.mark.clone(), born: self.born, reply }) {
            return self.found_now();
        }
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.ok().and_then(Result::ok).unwrap_or(Found { members: Vec::new(), unclear: true })
    }

    fn found_now(&self) -> Found {
        find(&[&self.mark], self.born).pop().unwrap_or_default()
    }

    /// The agent itself is known by its descriptor, whatever its environment says.
    fn signal_found(&self, found: &Found, firmness: Firmness) -> Left {
        let known = |leader: &&Member| found.members.iter().all(|member| member.pid != leader.pid);
        let alive = |leader: &&Member| leader.handle.is_some() && stat_of(leader.pid, &mut Vec::new()).is_some();
        let hidden = self.leader.iter().filter(known).filter(alive);
        self.remember(found);
        let adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        let marked = found.members.iter().filter(|member| !member.adopted);
        let adopted = adopted.iter().filter(|member| member.lives());
        Left { processes: signal_all(marked.chain(hidden).chain(adopted), firmness), unclear: found.unclear }
    }

    /// Kills whoever still holds a pipe of the agent's, with its environment cleared or not. Who was there before the
    /// agent was given it, and is not ours.
    pub(crate) fn kill_holders(&self) {
        let mut buffer = Vec::new();
        let mut is_holder =
            |pid: i32| stat_of(pid, &mut buffer).is_some_and(|stat| stat.born >= self.born) && holds(pid, &self.pipes);
        let holders: Vec<i32> = pids().into_iter().flatten().filter(|pid| is_holder(*pid)).collect();
        let held: Vec<Member> = holders.into_iter().filter_map(Member::open).filter(|member| is_holder(member.pid)).collect();
        signal_all(held.iter(), Firmness::Kill);
    }

    /// Kills everything at once and waits for nobody.
    pub(crate) fn kill_now(&self) {
        let until = Instant::now() + Duration::from_secs(2);
        // What is killed may just have started another: again, until nothing is found.
        while self.signal_found(&self.found_now(), Firmness::Kill) != Left::default() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills everything at once, for a run that is dropped: before this returns, unless there are very many.
    pub(crate) fn kill_dropped(self: &Arc<Self>) {
        if self.is_swept() {
            return;
        }
        self.signal_found(&Found::default(), Firmness::Kill);
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

impl Member {
    /// None if there is no such process.
    fn open(pid: i32) -> Option<Self> {
        match pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()) {
            Ok(handle) => Some(Self { pid, handle: Some(handle), adopted: false }),
            Err(Errno::SRCH) => None,
            Err(_) => Some(Self { pid, handle: None, adopted: false }),
        }
    }

    fn try_clone(&self) -> Option<Self> {
        Some(Self { handle: Some(self.handle.as_ref()?.try_clone().ok()?), ..*self })
    }

    /// Whether it has not ended: its descriptor becomes readable when it does.
    fn lives(&self) -> bool {
        let Some(handle) = &self.handle else { return false };
        let mut watched = [PollFd::new(handle, PollFlags::IN)];
        matches!(poll(&mut watched, Some(&Timespec::default())), Ok(0))
    }

    /// Whether it was there to be signalled, permitted or not.
    fn signal(&self, firmness: Firmness) -> bool {
        let sent = match (&self.handle, Pid::from_raw(self.pid)) {
            (Some(handle), _) => pidfd_send_signal(handle, firmness.signal()),
            (None, Some(pid)) => kill_process(pid, firmness.signal()),
            (None, None) => Err(Errno::SRCH),
        };
        sent != Err(Errno::SRCH)
    }
}

fn signal_all<'m>(members: impl Iterator<Item = &'m Member>, firmness: Firmness) -> usize {
    members.filter(|member| member.signal(firmness)).count()
}

/// Every process that the system shows us, but ourselves; none if it does not.
fn pids() -> Option<impl Iterator<Item = i32>> {
    let me = getpid().as_raw_nonzero().get();
    let entries = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    Some(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(move |pid| *pid != me))
}

/// How often it is looked again because processes started meanwhile.
const LOOKS: usize = 4;

/// The processes of each mark. Whoever starts while it is looked may be overlooked, and its parent, who ended
/// meanwhile, too: where nothing was found and something has started, it is looked again.
fn find(marks: &[&str], born: u64) -> Vec<Found> {
    let mut found = Vec::new();
    for _ in 0..LOOKS {
        let before = last_started();
        found = look(marks, born);
        if last_started() == before || found.iter().all(|found| !found.members.is_empty() || found.unclear) {
            break;
        }
    }
    found
}

/// The number of the process that started last on this system.
fn last_started() -> Option<String> {
    Some(std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().last()?.to_owned())
}

/// One reading: those that carry a mark, and their descendants, if they cleared their environment.
fn look(marks: &[&str], born: u64) -> Vec<Found> {
    let wanted: HashMap<&[u8], usize> = marks.iter().enumerate().map(|(at, mark)| (mark.as_bytes(), at)).collect();
    let mut owners = Owners::new();
    let (mut unmarked, mut unclear) = (Vec::new(), false);
    let mut buffer = Vec::new();
    let Some(pids) = pids() else {
        return marks.iter().map(|_| Found { members: Vec::new(), unclear: true }).collect();
    };
    for pid in pids {
        let (told, runs) = carried(pid, &mut buffer, &wanted);
        if !runs.is_empty() {
            owners.insert(pid, Owned { runs, adopted_from: None });
            continue;
        }
        unclear |= told == Told::Failed || (buffer.is_empty() && is_becoming(pid, born, &mut buffer));
        unmarked.push(pid);
    }
    if !owners.is_empty() {
        adopt(&mut owners, unmarked, &mut buffer);
    }
    let mut found: Vec<Found> = marks.iter().map(|_| Found { members: Vec::new(), unclear }).collect();
    for (pid, owned) in owners {
        // Held first, looked at again then: meanwhile the number may have passed to another.
        let Some(member) = Member::open(pid) else { continue };
        let same = match owned.adopted_from {
            Some(parent) => parent_of(pid, &mut buffer) == Some(parent),
            None => carried(pid, &mut buffer, &wanted).1 == owned.runs,
        };
        for run in owned.runs {
            if same {
                let handle = member.handle.as_ref().and_then(|handle| handle.try_clone().ok());
                found[run].members.push(Member { pid, handle, adopted: owned.adopted_from.is_some() });
            } else {
                // It has ended, or is becoming another: the next look tells.
                found[run].unclear = true;
            }
        }
    }
    found
}

/// Whether a process whose environment was empty is just getting another, and belongs to a run for all we know.
fn is_becoming(pid: i32, born: u64, buffer: &mut Vec<u8>) -> bool {
    let Some(stat) = stat_of(pid, buffer).filter(|stat| stat.born >= born) else { return false };
    // Since it was looked at, it may have got it. Of others' processes the kernel tells nothing.
    read(pid, "environ", buffer) == Told::All && (stat.becoming || !buffer.is_empty())
}

/// Processes, and whose they are.
type Owners = HashMap<i32, Owned>;

#[derive(Clone, Debug)]
struct Owned {
    runs: Vec<usize>,
    /// It carries no mark itself: the parent that does.
    adopted_from: Option<i32>,
}

/// Children that carry no mark belong where their parents do.
fn adopt(owners: &mut Owners, unmarked: Vec<i32>, buffer: &mut Vec<u8>) {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in unmarked {
        if let Some(parent) = parent_of(pid, buffer) {
            children.entry(parent).or_default().push(pid);
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

/// Which of the wanted marks a process carries. One that has ended carries none.
fn carried(pid: i32, buffer: &mut Vec<u8>, wanted: &HashMap<&[u8], usize>) -> (Told, Vec<usize>) {
    let told = read(pid, "environ", buffer);
    (told, marker::marks(buffer).filter_map(|mark| wanted.get(mark).copied()).collect())
}

/// A process's parent; none if it has ended and only waits to be waited for.
fn parent_of(pid: i32, buffer: &mut Vec<u8>) -> Option<i32> {
    stat_of(pid, buffer).map(|stat| stat.parent)
}

/// What the kernel says of a process.
struct Stat {
    parent: i32,
    /// When it started, in ticks since the system did.
    born: u64,
    /// It is in the middle of becoming another program (exec): its new environment is not there yet.
    becoming: bool,
}

/// None for one that has ended and only waits to be waited for.
fn stat_of(pid: i32, buffer: &mut Vec<u8>) -> Option<Stat> {
    read(pid, "stat", buffer);
    // The name, in parentheses, may hold anything: what counts stands behind the last of them.
    let behind = buffer.iter().rposition(|byte| *byte == b')')?;
    let words: Vec<&str> = std::str::from_utf8(&buffer[behind + 1..]).ok()?.split_whitespace().collect();
    // Counted as the manual does, where the state is the third.
    let field = |number: usize| words.get(number - 3);
    let parent = field(4)?.parse().ok()?;
    // Threads of the kernel's have no environment either; their parent is the second process.
    let becoming = field(50).is_some_and(|env_start| *env_start == "0") && parent != 0 && parent != 2;
    let ended = matches!(*field(3)?, "Z" | "X");
    (!ended).then_some(Stat { parent, born: field(22)?.parse().ok()?, becoming })
}

/// What the kernel tells of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// All there is.
    All,
    /// Nothing: it has ended, or is another user's.
    Nothing,
    /// It could not be asked: no descriptors or memory are left.
    Failed,
}

fn read(pid: i32, name: &str, buffer: &mut Vec<u8>) -> Told {
    buffer.clear();
    match std::fs::File::open(format!("/proc/{pid}/{name}")).and_then(|mut file| file.read_to_end(buffer)) {
        Ok(_) => Told::All,
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => Told::Nothing,
            _ => Told::Failed,
        },
    }
}

/// Whether a process holds the writing end of one of these pipes.
fn holds(pid: i32, pipes: &[String]) -> bool {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(Result::ok);
    let is_ours = |path: &std::path::Path| {
        std::fs::read_link(path).is_ok_and(|to| pipes.iter().any(|pipe| to.as_os_str() == pipe.as_str()))
    };
    let mut ours = entries.filter(|entry| is_ours(&entry.path()));
    ours.any(|entry| {
        let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", entry.file_name().display()));
        let flags = info.ok().and_then(|info| {
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?.trim();
            u32::from_str_radix(flags, 8).ok()
        });
        // O_WRONLY: a process that was forked from us a moment ago may still hold the reading end.
        flags.is_some_and(|flags| flags & 0o3 == 0o1)
    })
}
