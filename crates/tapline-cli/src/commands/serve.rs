//! `tapline serve`: all sessions, live, in a browser.

use std::fs::{Metadata, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tapline_archive::Prices;
#[cfg(feature = "nats")]
use tapline_fleet::{CollectOptions, Post, RecordingCollector};
use tapline_protocol::Agent;
use tapline_recording::Store;
use tapline_server::{Server, ServerError, ServerOptions, ServerTokens, links_of_running_servers};

use crate::args::serve::{Serve, ServeCommand};
#[cfg(feature = "nats")]
use crate::commands::collect;
use crate::commands::demo::Playing;
use crate::features::{self, Feature};
use crate::signals::Signals;
use crate::{agents, archive, config, output, prices};
#[cfg(feature = "otlp")]
use crate::{otlp, secrets};

/// How long work that is under way may go on when the server has ended.
const LEFT: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &Serve) -> Result<u8> {
    if let Some(ServeCommand::Link) = args.command {
        return link();
    }
    let mut options = ServerOptions::default();
    let demo = if args.demo { Some(Playing::start()?) } else { None };
    if let Some(demo) = &demo {
        (options.roots, options.store) = (vec![demo.store.folder()], demo.store.clone());
    } else {
        options.store = store()?;
        options.roots = archive::roots(&args.paths)?;
        options.own_recordings = args.paths.is_empty();
    }
    options.prices = Prices::embedded().clone().with(&prices::own(&args.prices)?);
    options.tokens = args.token_file.as_deref().map(tokens).transpose()?.unwrap_or_default();
    (options.listen, options.hosts, options.budgets) = (args.listen, args.host.clone(), args.budget.clone());
    if options.budgets.is_empty() && !args.demo {
        options.budgets = config::budgets()?;
    }
    options.warn = Some(archive::tell_one_unreadable);
    options.resume = Some(resume);
    options.allow_control = args.allow_control;
    if let Some(url) = &args.otlp {
        features::require("--otlp", Feature::Otlp)?;
        #[cfg(feature = "otlp")]
        options.otlp.replace(otlp_options(args, url)?);
        #[cfg(not(feature = "otlp"))]
        let _ = url;
    }
    allow_connections();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let served = runtime.block_on(serve(args, options));
    // Reading that does not end must not delay the exit.
    runtime.shutdown_timeout(LEFT);
    served.map(|()| 0)
}

fn store() -> Result<Store> {
    Store::of_user().context("no folder for recordings, because HOME is not set: set it or TAPLINE_HOME")
}

/// Prints a fresh link of each server that runs.
fn link() -> Result<u8> {
    let store = store()?;
    let links = links_of_running_servers(&store).with_context(|| format!("cannot use {}", store.root().display()))?;
    if links.is_empty() {
        bail!("no `tapline serve` runs here with {}: start one", store.root().display());
    }
    let mut out = output::stdout();
    for link in links {
        writeln!(out, "{}", output::raw(&link))?;
    }
    out.flush()?;
    Ok(0)
}

#[cfg(feature = "otlp")]
fn otlp_options(args: &Serve, url: &str) -> Result<tapline_server::OtlpOptions> {
    let mut options = otlp::options(Some(url), "--otlp URL")?;
    options.content = args.otlp_content.then(secrets::redactor).transpose()?;
    Ok(options)
}

async fn serve(args: &Serve, options: ServerOptions) -> Result<()> {
    let mut signals = Signals::listen()?;
    let root = options.store.root().to_owned();
    let folder = root.join("serve");
    let broker = if args.demo { None } else { args.engine.broker()? };
    #[cfg(feature = "nats")]
    let collector = match broker {
        Some(broker) => Some(collect_from(&broker, &options.store).await?),
        None => None,
    };
    // Without the feature, it is refused above.
    #[cfg(not(feature = "nats"))]
    let _ = broker;
    let server = Server::bind(options).await.map_err(|error| match error {
        ServerError::Open(address) => {
            anyhow!("{address} can be reached from other machines, so `tapline serve` needs a token that only you know: add --token-file FILE")
        }
        ServerError::Listen { address, error } if error.kind() == ErrorKind::AddrInUse => {
            anyhow!("cannot listen on {address}: another program uses this port. Choose another one, or any free one: --listen 127.0.0.1:0")
        }
        error => error.into(),
    })?;
    let link = server.link();
    let mut out = output::stdout();
    writeln!(out, "{}", output::raw(&link))?;
    out.flush()?;
    if !args.listen.ip().is_loopback() {
        tell_reach(server.address());
    }
    if server.pushes_go_elsewhere() {
        output::tell(&format!(
            "another `tapline serve` uses {} already: what runs push, and answers to them, go through that one. This one only shows them, until that one ends",
            root.display()
        ));
    }
    // It is removed when the browser had time to read it, or when the server ends.
    let way_in = if args.no_open { None } else { WayIn::open(&folder, &link) };
    let end = async {
        tokio::select! {
            _ = signals.next() => return,
            () = tokio::time::sleep(OPENED) => drop(way_in),
        }
        signals.next().await;
    };
    server.run(end).await;
    #[cfg(feature = "nats")]
    if let Some(collector) = collector {
        collector.stop().await;
    }
    Ok(())
}

/// Collects the recordings of a fleet. The page shows them as it shows all recordings.
#[cfg(feature = "nats")]
async fn collect_from(broker: &tapline_fleet::Broker, store: &Store) -> Result<RecordingCollector> {
    let post = Box::pin(Post::open(broker, "tapline serve")).await?;
    let (sender, mut news) = tokio::sync::mpsc::unbounded_channel();
    let collector = Box::pin(RecordingCollector::of_all(&post, store, CollectOptions::default(), sender)).await?;
    tokio::spawn(async move {
        while let Some(news) = news.recv().await {
            collect::told(&news);
        }
    });
    Ok(collector)
}

/// Says what it means that other machines can reach the server.
fn tell_reach(address: SocketAddr) {
    output::tell(&format!(
        "other machines can reach {address}: whoever has the token or the link reads all your sessions, and what is sent is not encrypted. \
         Put a proxy with TLS in front of it, and name its host with --host"
    ));
}

fn tokens(path: &Path) -> Result<ServerTokens> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    ServerTokens::read(&text).with_context(|| format!("cannot use {}", path.display()))
}

fn resume(agent: &str, id: &str) -> Vec<String> {
    Agent::named(agent).map(|agent| (agents::habits(agent).resume)(id)).unwrap_or_default()
}

/// Each reader of events is a connection, and systems allow few at first.
fn allow_connections() {
    let limit = getrlimit(Resource::Nofile);
    // If it cannot be raised, there are fewer connections.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// How long a browser may take to read the file with the link.
const OPENED: Duration = Duration::from_secs(60);

/// A private file that leads to the link. The arguments of a program can be seen by everybody on the machine, and the link lets in whoever is
/// first, so the browser is given the file.
struct WayIn(PathBuf);

impl WayIn {
    /// Opens the browser. Without one, the link is there to be opened elsewhere.
    fn open(folder: &Path, link: &str) -> Option<Self> {
        // Others must not be able to put a file there, or to see the name of this one.
        let is_private = |meta: Metadata| meta.is_dir() && meta.mode() & 0o777 == 0o700;
        if !std::fs::metadata(folder).is_ok_and(is_private) {
            output::tell(&format!("{} is open to others, so the browser is not opened: open the link above", folder.display()));
            return None;
        }
        remove_old(folder);
        let path = folder.join(format!("open-{:016x}.html", RandomState::new().hash_one(link)));
        let page = format!(
            "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0;url={link}\"><title>tapline</title>\n"
        );
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path).ok()?;
        let way_in = Self(path);
        file.write_all(page.as_bytes()).ok()?;
        let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let mut command = Command::new(program);
        let child = command.arg(&way_in.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.ok()?;
        // It ends when the browser has the file, or when the browser ends.
        std::thread::spawn(move || child.wait());
        output::tell(
            "the browser opens a private file that leads to the page. If it may not read the file (a snap, for example), open the link above",
        );
        Some(way_in)
    }
}

/// Removes files of servers that were killed.
fn remove_old(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_one = name.to_str().and_then(|name| name.strip_prefix("open-")?.strip_suffix(".html")).is_some();
        let written = entry.metadata().and_then(|meta| meta.modified()).ok();
        // A newer one may be of a server that has just been started.
        if is_one && written.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > OPENED) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Drop for WayIn {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
