//! A model that follows a scenario, at an address of its own, for as long as it is held.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use tapline_recording::Redactor;
use tokio::sync::oneshot;

use crate::error::SimError;
use crate::home;
use crate::journal::{Journal, Logged};
use crate::scenario::{Lane, Scenario, Usage};

/// A scripted model. It serves from a thread of its own until it is dropped.
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
pub struct Sim {
    address: SocketAddr,
    journal: Arc<Journal>,
    home: home::Folder,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Where. Port 0: any that is free.
    pub listen: SocketAddr,
    /// A file that every request is written to, one JSON object a line.
    pub log: Option<PathBuf>,
    /// Keep the requests for [`Sim::requests`].
    pub keep: bool,
    /// Takes secrets out of the log.
    pub redactor: Redactor,
    /// Called with every request.
    pub on_request: Option<fn(&Logged)>,
    /// The HOME to use; without it a fresh one, which is removed with the sim.
    pub home: Option<PathBuf>,
}

impl Default for SimOptions {
    fn default() -> Self {
        let redactor = Redactor::default();
        Self { listen: (Ipv4Addr::LOCALHOST, 0).into(), log: None, keep: true, redactor, on_request: None, home: None }
    }
}

impl Sim {
    /// Variables by which an agent might find somebody's account.
    pub const LOGINS: &[&str] = home::LOGINS;

    /// Starts a model that follows this scenario (TOML or JSON), on loopback.
    pub fn start(scenario: &str) -> Result<Self, SimError> {
        Self::start_with(Scenario::parse(scenario)?, SimOptions::default())
    }

    /// Starts a model as these options say.
    pub fn start_with(scenario: Scenario, options: SimOptions) -> Result<Self, SimError> {
        let fail = |error| SimError::Listen { address: options.listen, error };
        let listener = std::net::TcpListener::bind(options.listen).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let log = options.log.as_deref().map(create_log).transpose()?;
        let home = home::Folder::make(options.home, address)?;
        let journal =
            Arc::new(Journal::new(scenario, log.map(|log| (log, options.redactor)), options.keep, options.on_request));
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
            // What still hangs is not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("tapline-sim".to_owned()).spawn(run).map_err(SimError::Thread)?;
        Ok(Self { address, journal, home, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address, as `ANTHROPIC_BASE_URL` wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A program that asks this model and nobody else, with nothing of this process's environment but PATH, TERM and LANG.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.environment());
        command
    }

    /// The whole environment of an agent that is to ask this model and nobody else: a HOME of its own, a key that is none,
    /// PATH, TERM and LANG as they are here, nothing more.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        home::environment(self.address, self.home.path())
    }

    /// What an agent in another environment needs to ask this model. There it may find more: [`Sim::LOGINS`] are to be taken away.
    pub fn variables(&self) -> Vec<(String, OsString)> {
        let own = [("CODEX_HOME", ".codex"), ("CLAUDE_CONFIG_DIR", ".claude")];
        let own = own.map(|(name, folder)| (name.to_owned(), self.home.path().join(folder).into_os_string()));
        home::variables(self.address).into_iter().chain(own).collect()
    }

    /// The HOME that its agents get. It goes with the sim.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// What was asked so far.
    pub fn requests(&self) -> Vec<Logged> {
        self.journal.kept()
    }

    /// The tokens of every answer that was given whole.
    pub fn tokens(&self) -> Usage {
        let mut sum = Usage::NONE;
        self.journal.tokens().into_values().for_each(|usage| sum += usage);
        sum
    }

    /// The tokens of the answers to one kind of asker.
    pub fn tokens_of(&self, lane: Lane) -> Usage {
        self.journal.tokens().remove(&lane).unwrap_or(Usage::NONE)
    }

    /// What may be a slip in the scenario, and is no failure.
    pub fn notes(&self) -> Vec<String> {
        self.journal.notes()
    }

    /// What was not as the scenario says: requests without a turn, expectations that did not hold.
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
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| SimError::Log { path: path.to_owned(), error })
}
