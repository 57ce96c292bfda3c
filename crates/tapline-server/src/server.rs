//! The server: put together from its options, bound to an address, and run until it is told to end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tapline_archive::Prices;
use tapline_recording::{Store, create_private_folder};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::api::{control, push};
use crate::app::{App, ResumeCommand};
use crate::bodies::Bodies;
use crate::budget::{Budget, Budgets};
use crate::connections::{self, Limits};
use crate::controls::Controls;
use crate::error::ServerError;
use crate::guard::Guard;
use crate::hub::Hub;
use crate::ingest::{Ingest, IngestError};
use crate::metrics::Metrics;
use crate::otlp::{Otlp, OtlpOptions};
use crate::routes;
use crate::shelf::{Shelf, Warn};
use crate::tickets::{self, Tickets};
use crate::tokens::ServerTokens;
use crate::watch::Watch;

/// How many bytes of answers and messages may be in memory at once.
const MESSAGES: usize = 16 << 20;
/// How many downloads are made at once.
const DOWNLOADS: usize = 16;
/// How many readers of events are told from the disk at once what they missed.
const OLDER_EVENTS: usize = 8;

/// What to serve, and to whom.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Where to listen. Port 0 is any free port.
    pub listen: SocketAddr,
    /// Names that the server answers to beside those of this machine's loopback, such as that of a proxy in front of it.
    pub hosts: Vec<String>,
    /// The tokens of the API. Without any, only the page can use it, by its link.
    pub tokens: ServerTokens,
    /// Where tapline keeps its recordings and its archive.
    pub store: Store,
    /// Where sessions are looked for: the folders of agents, and that of the recordings.
    pub roots: Vec<PathBuf>,
    /// Whether recordings of the store are looked for, too, if `roots` do not name it. What is pushed is shown anyway.
    pub own_recordings: bool,
    /// What models cost.
    pub prices: Prices,
    /// How a session is gone on with.
    pub resume: Option<ResumeCommand>,
    /// Whether runs that are pushed may be answered, interrupted and stopped from the page.
    pub allow_control: bool,
    /// What a month may cost.
    pub budgets: Vec<Budget>,
    /// Where spans and measures are exported.
    pub otlp: Option<OtlpOptions>,
    /// Is told what cannot be read, once for each path: a folder without the right to read it, a link that leads out of what is watched.
    pub warn: Option<Warn>,
    /// The most connections at once.
    pub connections: usize,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub head_timeout: Duration,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    /// How many bytes of what is pushed may be in memory at once, at least 8 MiB. A client has a quarter of it, and at least 8 MiB.
    pub body_memory: usize,
    /// How long a client may take none of what it is sent, before its connection is cut.
    pub write_timeout: Duration,
    /// How long requests may go on after the end was asked for.
    pub grace: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        let store = Store::of_user().unwrap_or_else(|| Store::at(std::env::temp_dir().join("tapline")));
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            hosts: Vec::new(),
            tokens: ServerTokens::default(),
            roots: vec![store.folder()],
            own_recordings: true,
            store,
            prices: Prices::embedded().clone(),
            resume: None,
            allow_control: false,
            budgets: Vec::new(),
            otlp: None,
            warn: None,
            connections: 16_384,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            body_memory: 64 << 20,
            write_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

/// A server that is bound to its address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    link: String,
    limits: Limits,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Takes the address, and begins to watch sessions.
    pub async fn bind(options: ServerOptions) -> Result<Self, ServerError> {
        if !options.listen.ip().is_loopback() && options.tokens.is_empty() {
            return Err(ServerError::Open(options.listen.to_string()));
        }
        let cannot = |error| ServerError::Listen { address: options.listen.to_string(), error };
        let listener = TcpListener::bind(options.listen).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let (archive, spools) = (options.store.root().join("archive"), tickets::folder(&options.store));
        for path in [&archive, &spools, &options.store.folder()] {
            create_private_folder(path).map_err(|error| ServerError::Folder { path: path.clone(), error })?;
        }
        let mut roots = options.roots;
        if options.own_recordings && !roots.contains(&options.store.folder()) {
            roots.push(options.store.folder());
        }
        let spoiled = |error| ServerError::Folder { path: spools.clone(), error };
        let tickets = Tickets::open(&spools, address).map_err(spoiled)?;
        let link = tickets::link(&spools, address).map_err(spoiled)?;
        let (stop, stopped) = watch::channel(false);
        let controls = Controls::new(options.allow_control);
        let shelf = Arc::new(Shelf::new(archive, roots, options.prices).with_warnings(options.warn));
        let otlp = options.otlp.map(|otlp| Otlp::start(otlp, &shelf)).transpose().map_err(ServerError::Thread)?;
        let hub = Arc::new(Hub::new(shelf, spools.clone(), Arc::clone(&controls), otlp));
        let app = App {
            guard: Guard::new(address, &options.hosts, options.tokens),
            tickets,
            watch: Watch::start(&hub).map_err(ServerError::Thread)?,
            hub,
            ingest: Ingest::open(options.store, &spools),
            uploads: Bodies::new(push::LARGEST, options.body_memory, options.body_timeout),
            messages: Bodies::new(control::LARGEST, MESSAGES, options.body_timeout),
            downloads: Arc::new(Semaphore::new(DOWNLOADS)),
            older_events: Arc::new(Semaphore::new(OLDER_EVENTS)),
            metrics: Metrics::default(),
            controls,
            resume: options.resume,
            budgets: Budgets::new(options.budgets),
            stop: stopped,
        };
        let limits = Limits {
            connections: options.connections,
            head: options.head_timeout,
            write: options.write_timeout,
            grace: options.grace,
        };
        Ok(Self { listener, address, app: Arc::new(app), link, limits, stop })
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns whether another server, with the same folder, takes what is pushed. This one only shows it until that one has ended.
    pub fn pushes_go_elsewhere(&self) -> bool {
        matches!(self.app.ingest.folder("-"), Err(IngestError::Elsewhere))
    }

    /// Returns the link that opens the page, once.
    pub fn link(&self) -> String {
        self.link.clone()
    }

    /// Serves until `end` is ready, then lets requests end.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let Self { listener, app, limits, stop, .. } = self;
        let served = connections::serve(listener, routes::router(&app), limits, app.stop.clone());
        let told = async {
            end.await;
            stop.send_replace(true);
            // A search or a count may be reading everything for the first time.
            app.hub.shelf.stop();
            // Until everything is served.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = served => {}
            () = told => {}
        }
        // The watcher's threads end with it. They may be reading.
        let end = move || {
            app.hub.end_export();
            drop(app);
        };
        let _ = tokio::task::spawn_blocking(end).await;
    }
}
