//! Pushes a recording to a `tapline serve` while it grows. The recording is the queue: what was not acknowledged is sent again, and a server that is
//! away for a while loses nothing. A failure never ends a run; it is told.

pub(crate) mod page;

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};
use tapline_http::{Address, AddressError, BlockingClient, HttpAnswer, HttpError, HttpRequest};
use tapline_protocol::Agent;
use tapline_recording::{Recording, Redactor, Stream, attempt_folder};

use crate::args::run::Pushed;
use crate::features::{self, Feature};
use crate::output;
pub(crate) use page::{Asks, Page, PageAnswer, PageCommand, PageQueue};

/// The variable with the server's token.
pub(crate) const TOKEN: &str = "TAPLINE_PUSH_TOKEN";

/// How often the recording is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long to wait after a failure, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(10);
/// How long the end of a run waits for a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many bytes are sent at once.
const PIECE: usize = 1 << 20;

/// Variables that an agent must not see: with them it could push in the name of its user, or put jobs on the queue of all machines.
pub(crate) fn kept_from_agents() -> Vec<(OsString, Option<OsString>)> {
    let ours = [TOKEN, crate::args::engine::ENGINE].into_iter().filter(|name| std::env::var_os(name).is_some());
    ours.map(|name| (name.into(), Some(OsString::new()))).collect()
}

/// Where to push, and with which token.
#[derive(Clone, Debug)]
struct Target {
    address: Address,
    token: String,
}

impl Target {
    fn read(args: &Pushed, url: &str) -> Result<Self> {
        let address = Address::read(url).map_err(|error| match error {
            AddressError::Encrypted(url) => features::missing(&format!("--push {url}"), Feature::Https),
            error => anyhow!("--push: {error}"),
        })?;
        let token = match &args.push_token_file {
            Some(path) => std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
            None => std::env::var(TOKEN)
                .ok()
                .with_context(|| format!("--push needs the server's token: set {TOKEN}, or use --push-token-file FILE"))?,
        };
        let token = token.trim().to_owned();
        ensure!(
            !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()),
            "--push: the token is not one word of letters, digits and signs"
        );
        Ok(Self { address, token })
    }

    /// Posts a piece of a recording, or its end.
    fn post(&self, client: &BlockingClient, path: &str, offset: Option<u64>, body: Vec<u8>) -> Result<HttpAnswer, HttpError> {
        let request = HttpRequest::post(ingest(path)).header("content-type", "application/octet-stream").body(body);
        let request = match offset {
            Some(offset) => request.header("tapline-offset", offset.to_string()),
            None => request,
        };
        self.send(client, request, REQUEST)
    }

    /// Asks, and waits for the answer as long as the server makes it wait.
    fn get(&self, client: &BlockingClient, path: &str) -> Result<HttpAnswer, HttpError> {
        self.send(client, HttpRequest::get(ingest(path)), 4 * REQUEST)
    }

    fn send(&self, client: &BlockingClient, request: HttpRequest, within: Duration) -> Result<HttpAnswer, HttpError> {
        client.send(&self.address, request.header("authorization", format!("Bearer {}", self.token)), within)
    }
}

fn ingest(path: &str) -> String {
    format!("/api/v1/ingest/{path}")
}

/// A recording that is pushed, in a thread of its own.
pub(crate) struct Push {
    end: Sender<()>,
    thread: JoinHandle<Option<String>>,
}

impl Push {
    /// Begins to push what is recorded in this folder, with or without its secrets, and its further attempts or turns. What is asked for on the
    /// page goes to `page`.
    pub(crate) fn start<P: Page>(
        args: &Pushed,
        folder: Option<&Path>,
        redacts: bool,
        agent: Agent,
        title: Option<&str>,
        page: &Arc<P>,
    ) -> Result<Option<Self>> {
        let Some(url) = &args.push else { return Ok(None) };
        let target = Target::read(args, url)?;
        let folder = folder.context("--push sends what is recorded: leave out --no-record")?.to_owned();
        let cwd = std::env::current_dir().unwrap_or_default();
        let about = format!(
            "?agent={}&folder={}&title={}",
            agent.name(),
            encoded(&cwd.to_string_lossy()),
            encoded(&Redactor::default().text(title.unwrap_or_default()))
        );
        let (end, ended) = channel();
        let name = Arc::<Mutex<String>>::default();
        // Each of the two threads has a connection of its own: the server keeps one waiting until there is a command.
        let obeying = (BlockingClient::new().context("--push")?, target.clone(), Arc::clone(&name), Arc::clone(page));
        std::thread::spawn(move || page::obey(&obeying.0, &obeying.1, &obeying.2, &*obeying.3, redacts));
        // Recordings of different machines, or in different folders, may have the same name.
        let suffix = format!("{:016x}", RandomState::new().build_hasher().finish());
        let client = BlockingClient::new().context("--push")?;
        let pushing =
            Pushing { target, client, folder, about, suffix, name, attempt: 1, sent: 0, has_begun: false, failed: None };
        let thread = std::thread::spawn(move || pushing.run(&ended));
        Ok(Some(Self { end, thread }))
    }

    /// Waits until everything was pushed, or the server does not answer any more.
    pub(crate) fn finish(self) {
        drop(self.end);
        if let Ok(Some(why)) = self.thread.join() {
            output::tell(&format!("--push: not everything was pushed: {why}. The recording has all of it"));
        }
    }

    /// Waits for the server as [`finish`](Self::finish) does, but not longer than somebody else waits for it.
    pub(crate) async fn finish_unless(self, given_up: impl Future<Output = ()>) {
        tokio::select! {
            _ = tokio::task::spawn_blocking(move || self.finish()) => {}
            () = given_up => {}
        }
    }
}

/// Writes text so that it can stand in a query.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    text.bytes()
        .take(2_000)
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Says in the recording under which name it is pushed.
fn mark(folder: &Path, name: &str) -> io::Result<()> {
    let path = folder.join(tapline_server::PUSHED_AS);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(json!({"run": name}).to_string().as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

struct Pushing {
    target: Target,
    client: BlockingClient,
    folder: PathBuf,
    about: String,
    /// What makes the names of this run its own.
    suffix: String,
    /// Under which name the server has the run.
    name: Arc<Mutex<String>>,
    attempt: u64,
    sent: u64,
    /// Whether the server knows the attempt.
    has_begun: bool,
    /// Since when the server does not answer.
    failed: Option<Instant>,
}

/// Why something was not sent, and whether sending it again cannot help.
struct Unsent {
    why: String,
    for_good: bool,
}

impl Pushing {
    /// Pushes until the run is over and everything is sent. Returns why it gave up.
    fn run(mut self, ended: &Receiver<()>) -> Option<String> {
        let mut backoff = BACKOFF.0;
        let mut is_over = false;
        loop {
            let idle = match self.step() {
                Ok(true) => Duration::ZERO,
                Ok(false) if is_over => return None,
                Ok(false) => TICK,
                Err(Unsent { why, for_good }) => {
                    let since = self.failed.unwrap_or_else(Instant::now);
                    if is_over && (for_good || since.elapsed() > PATIENCE) {
                        return Some(why);
                    }
                    self.failed = Some(since);
                    backoff = (backoff * 2).min(BACKOFF.1);
                    backoff
                }
            };
            if self.failed.is_none() {
                backoff = BACKOFF.0;
            }
            if is_over {
                std::thread::sleep(idle);
            } else if ended.recv_timeout(idle) == Err(RecvTimeoutError::Disconnected) {
                is_over = true;
                // The server has a while from now on.
                self.failed = self.failed.map(|_| Instant::now());
            }
        }
    }

    fn name_of(&self, folder: &Path) -> String {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(100).collect();
        format!("r{name}-{}", self.suffix)
    }

    /// Sends the next piece, or the end. Returns whether there may be more at once.
    fn step(&mut self) -> Result<bool, Unsent> {
        let folder = attempt_folder(self.folder.clone(), self.attempt);
        let Ok(recording) = Recording::open(&folder) else { return Ok(false) };
        let name = self.name_of(&folder);
        let mut piece = vec![0; PIECE];
        let unreadable = |error: io::Error| Unsent { why: error.to_string(), for_good: false };
        let count =
            recording.open_file(Stream::Stdout).and_then(|file| file.read_at(&mut piece, self.sent)).map_err(unreadable)?;
        // A server that sees this recording, too, knows by it that both are one run, and that it is the page's to steer.
        if !self.has_begun {
            mark(&folder, &name).map_err(unreadable)?;
        }
        // A run that wrote nothing begins, too, before it ends.
        piece.truncate(count);
        if count > 0 || recording.end.is_some() && !self.has_begun {
            let answer = self.target.post(&self.client, &format!("{name}{}", self.about), Some(self.sent), piece);
            self.sent = self.taken(answer)?;
            self.has_begun = true;
            *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
            return Ok(true);
        }
        let Some(end) = recording.end else { return Ok(false) };
        let code = end.exit_code.map_or("null".to_owned(), |code| code.to_string());
        let answer =
            self.target.post(&self.client, &format!("{name}/finish"), None, format!("{{\"exit_code\":{code}}}").into_bytes());
        self.taken(answer)?;
        (self.attempt, self.sent, self.has_begun) = (self.attempt + 1, 0, false);
        Ok(true)
    }

    /// Returns how many bytes the server has.
    fn taken(&mut self, answer: Result<HttpAnswer, HttpError>) -> Result<u64, Unsent> {
        let host = self.target.address.host();
        let answer = answer.map_err(|error| Unsent { why: format!("{host} does not answer ({error})"), for_good: false })?;
        let status = answer.status;
        let json: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let offset =
            json["offset"].as_u64().or_else(|| json["error"]["offset"].as_u64().filter(|_| json["error"]["code"] == "gap"));
        let told = json["error"]["message"].as_str().unwrap_or("it says nothing more");
        let offset = offset.ok_or_else(|| Unsent {
            why: format!("{host} answers {status}: {}", tapline_session::text::one_line(told).trim_end_matches('.')),
            for_good: (400..500).contains(&status) && status != 408 && status != 429,
        })?;
        self.failed = None;
        Ok(offset)
    }
}
