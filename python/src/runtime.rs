//! One tokio runtime for the whole process, and the one thread that calls Python for it, until the interpreter exits. A forked
//! child has no threads of its parent's, so it gets an error instead of a wait without end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// Two are enough: what they do is short.
const THREADS: usize = 2;
/// What waits for a disk or for `/proc` does so beside them, on no more threads than this.
const WAITING: usize = 16;
/// At the end of the interpreter, what was killed is waited for so long.
const PATIENCE: Duration = Duration::from_secs(10);

static SHARED: OnceLock<Shared> = OnceLock::new();
/// Whether Python may be called from other threads.
static OPEN: RwLock<bool> = RwLock::new(true);

/// The runtime, and who uses it.
pub(crate) struct Shared {
    pub(crate) runtime: Runtime,
    process: u32,
    /// How many runs are under way.
    live: watch::Sender<usize>,
    /// The interpreter exits.
    exits: watch::Sender<bool>,
    /// What is to be done in Python.
    python: Sender<Job>,
}

/// The runtime; an error in a forked child of the process that made it, and when the interpreter exits.
pub(crate) fn shared() -> PyResult<&'static Shared> {
    let shared = if let Some(shared) = SHARED.get() {
        shared
    } else {
        let made = Shared::new()?;
        SHARED.get_or_init(|| made)
    };
    not_forked()?;
    if *shared.exits.borrow() {
        return Err(PyRuntimeError::new_err("no agent can be started while the interpreter exits"));
    }
    Ok(shared)
}

/// An error in a forked child of the process that made the runtime.
pub(crate) fn not_forked() -> PyResult<()> {
    if SHARED.get().is_none_or(|shared| shared.process == std::process::id()) {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(
        "this process was forked from one that had used tapline to run agents, and its threads are not here. \
         Start workers with multiprocessing's 'spawn' or 'forkserver' method, or fork before the first run",
    ))
}

impl Shared {
    fn new() -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).max_blocking_threads(WAITING).thread_name("tapline").enable_all();
        let runtime = builder.build()?;
        let (python, jobs) = channel();
        std::thread::Builder::new().name("tapline-python".to_owned()).spawn(move || serve(&jobs))?;
        let (live, exits) = (watch::Sender::new(0), watch::Sender::new(false));
        Ok(Self { runtime, process: std::process::id(), live, exits, python })
    }

    /// Notes a run, until the guard is dropped.
    pub(crate) fn live(&'static self) -> Live {
        self.live.send_modify(|live| *live += 1);
        Live(self)
    }
}

/// A run that is under way.
pub(crate) struct Live(&'static Shared);

impl Live {
    /// Waits until the interpreter exits.
    pub(crate) async fn exits(&self) {
        let mut exits = self.0.exits.subscribe();
        if exits.wait_for(|exits| *exits).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.send_modify(|live| *live -= 1);
    }
}

/// Has Python called, by the one thread that does so: whoever holds the GIL for long holds up no run. Nothing happens once the
/// interpreter exits.
pub(crate) fn in_python(job: impl FnOnce(Python<'_>) + Send + 'static) {
    if let Some(shared) = SHARED.get() {
        let _ = shared.python.send(Box::new(job));
    }
}

type Job = Box<dyn FnOnce(Python<'_>) + Send>;

fn serve(jobs: &Receiver<Job>) {
    for job in jobs {
        let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
        if *open {
            // Whatever goes wrong in one job, the thread stays.
            let _ = catch_unwind(AssertUnwindSafe(|| Python::try_attach(job)));
        }
    }
}

/// Kills every run and waits until they are gone; then no thread calls Python any more. Python calls it at its exit.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    let Some(shared) = SHARED.get().filter(|shared| shared.process == std::process::id()) else { return };
    py.detach(|| {
        shared.exits.send_replace(true);
        let mut live = shared.live.subscribe();
        shared.runtime.block_on(async {
            let _ = tokio::time::timeout(PATIENCE, live.wait_for(|live| *live == 0)).await;
        });
        *OPEN.write().unwrap_or_else(PoisonError::into_inner) = false;
    });
}

/// A function of Python's that is called with results. If there is none, because the run was killed, it is called with None: nobody
/// waits for ever.
pub(crate) struct Post {
    function: Arc<Py<PyAny>>,
    called: AtomicBool,
}

impl Post {
    pub(crate) fn new(function: Py<PyAny>) -> Self {
        Self { function: Arc::new(function), called: AtomicBool::new(false) }
    }

    /// Hands a result over. An event loop that is closed wants nothing more.
    pub(crate) fn send<T>(&self, value: impl FnOnce(Python<'_>) -> PyResult<T> + Send + 'static)
    where
        T: for<'py> IntoPyObject<'py>,
    {
        self.called.store(true, Ordering::Relaxed);
        let function = Arc::clone(&self.function);
        in_python(move |py| {
            if let Ok(value) = value(py) {
                let _ = function.call1(py, (value,));
            }
        });
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        if !self.called.load(Ordering::Relaxed) {
            self.send(|py| Ok(py.None()));
        }
    }
}

/// A value that is dropped only in the process that made it: a forked child has a copy of the memory, not of what it stands for.
pub(crate) struct Owned<T> {
    value: Option<T>,
    process: u32,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), process: std::process::id() }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Takes it out. There is nothing to take in a forked child.
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.process == std::process::id() {
            return self.value.take();
        }
        std::mem::forget(self.value.take());
        None
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
