//! A scripted model, served on its own address until it is dropped.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use tapline_recording::Redactor;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::agents::logins;
use crate::error::SimError;
use crate::home;
use crate::journal::{Journal, Logged};
use crate::scenario::{Lane, Scenario, Usage};

/// A scripted model. It serves from its own thread until it is dropped.
///
/// ```
/// use tapline_sim::Sim;
///
/// let sim = Sim::start(r#"turn = [{ text = "Hello." }]"#)?;
/// assert!(sim.url().starts_with("http://127.0.0.1:"));
/// // Start `sim.command("claude")`, and look at `sim.requests()`.
/// # Ok::<(), tapline_sim::SimError>(())
/// ```
#[derive(Debug)]
#[must_use = "the scripted model ends when it is dropped"]
pub struct Sim {
    address: SocketAddr,
    journal: Arc<Journal>,
    home: home::Folder,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The options of a sim.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The address. Port 0 picks a free port.
    pub listen: SocketAddr,
    /// Appends every request to this file, one JSON object per line.
    pub log: Option<PathBuf>,
    /// Keep the requests for [`Sim::requests`].
    pub keep: bool,
    /// Removes secrets from the log.
    pub redactor: Redactor,
    /// Called with every request.
    pub on_request: Option<fn(&Logged)>,
    /// The HOME to use. The default is a new one, which is removed with the sim.
    pub home: Option<PathBuf>,
    /// Whether no other sim has the same ids of messages and calls. Otherwise they are the same each time.
    pub unique_ids: bool,
}

impl Default for SimOptions {
    fn default() -> Self {
        let redactor = Redactor::default();
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        Self { listen, log: None, keep: true, redactor, on_request: None, home: None, unique_ids: false }
    }
}

impl Sim {
    /// Variables through which an agent might find a real account.
    pub fn logins() -> impl Iterator<Item = &'static str> {
        logins()
    }

    /// Starts a model with this scenario (TOML or JSON), on loopback.
    pub fn start(scenario: &str) -> Result<Self, SimError> {
        Self::start_with(Scenario::parse(scenario)?, SimOptions::default())
    }

    /// Starts a model with these options.
    pub fn start_with(scenario: Scenario, options: SimOptions) -> Result<Self, SimError> {
        let fail = |error| SimError::Listen { address: options.listen, error };
        let listener = std::net::TcpListener::bind(options.listen).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let log = options.log.as_deref().map(create_log).transpose()?;
        let home = home::Folder::make(options.home, address)?;
        let mut journal = Journal::new(scenario, log.map(|log| (log, options.redactor)), options.keep, options.on_request);
        if options.unique_ids {
            journal.ids = format!("{}_{:08x}", journal.ids, Uuid::new_v4().as_fields().0);
        }
        let journal = Arc::new(journal);
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SimError::Thread)?;
        let served = Arc::clone(&journal);
        let run = move || {
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                tokio::select! {
                    () = crate::server::serve(listener, served) => {}
                    _ = stopped => {}
                }
            });
            // Connections that still hang are not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("tapline-sim".to_owned()).spawn(run).map_err(SimError::Thread)?;
        Ok(Self { address, journal, home, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its URL, for `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns a command that uses only this model and inherits only PATH, TERM and LANG.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.environment());
        command
    }

    /// Returns the whole environment of an agent that uses only this model: its own HOME, a dummy key, PATH, TERM and
    /// LANG of this process, and nothing else.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        home::environment(self.address, self.home.path())
    }

    /// Returns the variables that an agent in another environment needs to use this model. Remove [`Sim::logins`] from
    /// that environment.
    pub fn variables(&self) -> Vec<(String, OsString)> {
        home::variables(self.address).into_iter().chain(home::folders(self.home.path())).collect()
    }

    /// Returns the HOME of its agents. It is removed with the sim, unless it was given.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<Logged> {
        self.journal.kept()
    }

    /// Returns the tokens of all complete answers.
    pub fn tokens(&self) -> Usage {
        let mut sum = Usage::NONE;
        self.journal.tokens().into_values().for_each(|usage| sum += usage);
        sum
    }

    /// Returns the tokens of the answers to one kind of agent.
    pub fn tokens_of(&self, lane: Lane) -> Usage {
        self.journal.tokens().remove(&lane).unwrap_or(Usage::NONE)
    }

    /// Returns possible mistakes in the scenario that are not failures.
    pub fn notes(&self) -> Vec<String> {
        self.journal.notes()
    }

    /// Returns the failures: requests without a turn, and unmet expectations.
    pub fn failures(&self) -> Vec<String> {
        self.journal.failures()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn create_log(path: &Path) -> Result<std::fs::File, SimError> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    // It holds whole conversations.
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| SimError::Log { path: path.to_owned(), error })
}
