//! Starts processes from one thread that lives as long as this program. On Linux, a child can be killed when the
//! *thread* that started it dies. So an agent does not outlive a tapline that was killed.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

static SPAWNER: LazyLock<Option<Mutex<Sender<Job>>>> = LazyLock::new(|| {
    let (jobs, queue) = channel::<Job>();
    // Whatever goes wrong in one job, the thread must stay: every agent depends on it.
    let run = move || {
        for job in queue {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        }
    };
    std::thread::Builder::new().name("tapline-spawn".to_owned()).spawn(run).ok().map(|_| Mutex::new(jobs))
});

/// How often a program is tried again that somebody still has open for writing, and how long to wait before.
const BUSY_TRIES: u32 = 100;
const BUSY_WAIT: Duration = Duration::from_millis(10);

/// The process group of a new program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// A group of its own, so that only we pass it a Ctrl-C from the terminal.
    Own,
    /// Our group, so that it can use the terminal.
    Ours,
}

/// Starts a program.
pub(crate) async fn spawn(mut command: Command, group: Group) -> io::Result<Child> {
    if group == Group::Own {
        command.process_group(0);
    }
    die_with_parent(&mut command);
    for _ in 0..BUSY_TRIES {
        let (child, again) = spawn_once(command).await?;
        match child {
            // A program that was just written: a child that another thread is starting has the open file, too, until it
            // runs its own program. The system says so only for the moment.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => command = again,
            child => return child,
        }
        tokio::time::sleep(BUSY_WAIT).await;
    }
    spawn_once(command).await?.0
}

async fn spawn_once(mut command: Command) -> io::Result<(io::Result<Child>, Command)> {
    let handle = Handle::current();
    let (reply, child) = oneshot::channel();
    let job = Box::new(move || {
        let _context = handle.enter();
        let child = command.kill_on_drop(true).spawn();
        // If nobody waits any more, the child is dropped here, and `kill_on_drop` ends it.
        let _ = reply.send((child, command));
    });
    let spawner = SPAWNER.as_ref().ok_or_else(no_thread)?;
    spawner.lock().unwrap_or_else(PoisonError::into_inner).send(job).map_err(|_| no_thread())?;
    child.await.map_err(|_| no_thread())
}

fn no_thread() -> io::Error {
    io::Error::other("the thread that starts processes is gone")
}

/// Makes the kernel kill the child when its parent dies.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "what a child does between fork and exec cannot be said otherwise")]
fn die_with_parent(command: &mut Command) {
    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before this was set.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    };
    // SAFETY: only two system calls are made between fork and exec; nothing is allocated and no lock is taken (an error
    // is a plain code).
    unsafe { command.pre_exec(prepare) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut Command) {}
