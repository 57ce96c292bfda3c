//! The processes of a run on Linux. One reading of `/proc` serves every run that asks meanwhile, so that a thousand
//! runs can end at once; a process is held by its descriptor before it is signalled, so that no number is mistaken.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::sync::oneshot;

use super::Firmness;
use crate::marker;

/// What a run has started.
#[derive(Debug)]
pub(crate) struct Tree {
    mark: String,
    /// The agent's own process, which leads its group.
    leader: Option<Pid>,
    /// The pipes that the agent writes to, as `/proc` names them.
    pipes: Vec<String>,
    swept: AtomicBool,
}

/// A process that belongs to a run, held so that its number cannot pass to another.
#[derive(Debug)]
struct Member {
    pid: i32,
    handle: OwnedFd,
}

struct Request {
    mark: String,
    reply: oneshot::Sender<Vec<Member>>,
}

static CENSUS: LazyLock<Option<Mutex<Sender<Request>>>> = LazyLock::new(|| {
    let (requests, queue) = channel();
    let named = std::thread::Builder::new().name("tapline-census".to_owned());
    named.spawn(move || serve(&queue)).ok().map(|_| Mutex::new(requests))
});

fn serve(queue: &Receiver<Request>) {
    while let Ok(first) = queue.recv() {
        // Whoever asked while the last reading went on is served by this one.
        let requests: Vec<Request> = std::iter::once(first).chain(queue.try_iter()).collect();
        let marks: Vec<&str> = requests.iter().map(|request| request.mark.as_str()).collect();
        let found = find(&marks);
        for (request, members) in requests.into_iter().zip(found) {
            let _ = request.reply.send(members);
        }
    }
}

impl Tree {
    /// What will be started with this mark, by this process, writing to these descriptors.
    pub(crate) fn new(mark: String, leader: Option<u32>, pipes: &[i32]) -> Self {
        let leader = leader.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let name = |fd: &i32| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?.into_os_string().into_string().ok();
        Self { mark, leader, pipes: pipes.iter().filter_map(name).collect(), swept: AtomicBool::new(false) }
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
        if let Some(leader) = self.leader {
            let _ = kill_process_group(leader, Signal::INT);
        }
    }

    /// Signals everything that is left, and says how many that were. An agent that has not been waited for is signalled
    /// by its number if it hides its environment.
    pub(crate) async fn signal(&self, firmness: Firmness, leader_is_ours: bool) -> usize {
        let members = self.members().await;
        let known = |leader: &Pid| members.iter().any(|member| member.pid == leader.as_raw_nonzero().get());
        let hidden = self.leader.filter(|leader| leader_is_ours && !known(leader));
        let hidden = hidden.filter(|leader| kill_process(*leader, firmness.signal()).is_ok());
        signal_all(&members, firmness) + usize::from(hidden.is_some())
    }

    /// How many are left.
    pub(crate) async fn count(&self) -> usize {
        self.members().await.len()
    }

    async fn members(&self) -> Vec<Member> {
        let (reply, members) = oneshot::channel();
        let request = Request { mark: self.mark.clone(), reply };
        let asked = CENSUS.as_ref().is_some_and(|census| census.lock().unwrap_or_else(PoisonError::into_inner).send(request).is_ok());
        let found = if asked { members.await.ok() } else { None };
        found.unwrap_or_else(|| self.members_now())
    }

    fn members_now(&self) -> Vec<Member> {
        find(&[&self.mark]).pop().unwrap_or_default()
    }

    /// Kills whoever still holds a pipe of the agent's, with its environment cleared or not.
    pub(crate) fn kill_holders(&self) {
        let holders = pids().filter(|pid| holds(*pid, &self.pipes));
        let held = holders.filter_map(|pid| Member::open(pid).filter(|member| holds(member.pid, &self.pipes)));
        signal_all(&held.collect::<Vec<_>>(), Firmness::Kill);
    }

    /// Kills everything at once and waits for nobody: for a run that is dropped.
    pub(crate) fn kill_now(&self) {
        // What is killed may just have started another: again, until nothing is found.
        for _ in 0..100 {
            if signal_all(&self.members_now(), Firmness::Kill) == 0 {
                break;
            }
        }
    }
}

impl Member {
    fn open(pid: i32) -> Option<Self> {
        let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, handle })
    }
}

fn signal_all(members: &[Member], firmness: Firmness) -> usize {
    members.iter().filter(|member| pidfd_send_signal(&member.handle, firmness.signal()).is_ok()).count()
}

/// Every process that the system shows us, but ourselves.
fn pids() -> impl Iterator<Item = i32> {
    let me = getpid().as_raw_nonzero().get();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(move |pid| *pid != me)
}

/// The processes of each mark: those that carry it, and their descendants, if they cleared their environment.
fn find(marks: &[&str]) -> Vec<Vec<Member>> {
    let wanted: HashMap<&[u8], usize> = marks.iter().enumerate().map(|(at, mark)| (mark.as_bytes(), at)).collect();
    let mut owners = Owners::new();
    let mut unmarked = Vec::new();
    let mut buffer = Vec::new();
    for pid in pids() {
        let carried = carried(pid, &mut buffer, &wanted);
        if carried.is_empty() {
            unmarked.push(pid);
        } else {
            owners.insert(pid, Owned { runs: carried, adopted_from: None });
        }
    }
    if !owners.is_empty() {
        adopt(&mut owners, unmarked, &mut buffer);
    }
    let mut found: Vec<Vec<Member>> = marks.iter().map(|_| Vec::new()).collect();
    for (pid, owned) in owners {
        // Held first, looked at again then: meanwhile the number may have passed to another.
        let Some(member) = Member::open(pid) else { continue };
        let same = match owned.adopted_from {
            Some(parent) => parent_of(pid, &mut buffer) == Some(parent),
            None => carried(pid, &mut buffer, &wanted) == owned.runs,
        };
        for run in owned.runs.into_iter().filter(|_| same) {
            let Ok(handle) = member.handle.try_clone() else { continue };
            found[run].push(Member { pid, handle });
        }
    }
    found
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
fn carried(pid: i32, buffer: &mut Vec<u8>, wanted: &HashMap<&[u8], usize>) -> Vec<usize> {
    read(pid, "environ", buffer);
    marker::marks(buffer).filter_map(|mark| wanted.get(mark).copied()).collect()
}

/// A process's parent; none if it has ended and only waits to be waited for.
fn parent_of(pid: i32, buffer: &mut Vec<u8>) -> Option<i32> {
    read(pid, "stat", buffer);
    // The name, in parentheses, may hold anything: what counts stands behind the last of them.
    let behind = buffer.iter().rposition(|byte| *byte == b')')?;
    let mut words = std::str::from_utf8(&buffer[behind + 1..]).ok()?.split_whitespace();
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(parent)
}

fn read(pid: i32, name: &str, buffer: &mut Vec<u8>) {
    buffer.clear();
    if let Ok(mut file) = std::fs::File::open(format!("/proc/{pid}/{name}")) {
        let _ = file.read_to_end(buffer);
    }
}

/// Whether a process holds the writing end of one of these pipes.
fn holds(pid: i32, pipes: &[String]) -> bool {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(Result::ok);
    let is_ours = |path: &std::path::Path| std::fs::read_link(path).is_ok_and(|to| pipes.iter().any(|pipe| to.as_os_str() == pipe.as_str()));
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
