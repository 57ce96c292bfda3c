//! Three servers as a cluster, with three copies of everything: servers are killed, and the batch goes on.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use async_nats::jetstream::stream::{self, RetentionPolicy};
use async_nats::jetstream::{Context, kv, object_store};
use futures_util::TryStreamExt as _;
use tapline_fleet::{BatchNews, EngineNews, JobOutcome};
use tapline_testkit::nats::{NatsServer, reserve};
use tapline_testkit::{TempFolder, wait_until, wait_until_async, within};
use tokio::net::TcpSocket;

use crate::broker_away::context;
use crate::crew::{Crew, Live, Ran};
use crate::machine::runtime;

const SERVERS: usize = 3;

/// Three servers. What the fleet needs there is made with three copies, as docs/FLEET.md tells operators.
struct Cluster {
    servers: Vec<NatsServer>,
    /// Where each server says whether it is well.
    health: Vec<SocketAddr>,
    _ports: Vec<TcpSocket>,
    _folder: TempFolder,
}

impl Cluster {
    fn start() -> Self {
        let folder = TempFolder::new();
        let ports: Vec<TcpSocket> = (0..2 * SERVERS).map(|_| reserve()).collect();
        let addresses: Vec<SocketAddr> = ports.iter().map(|port| port.local_addr().unwrap()).collect();
        let (routes, health) = addresses.split_at(SERVERS);
        let all = routes.iter().map(|route| format!("\"nats://{route}\"")).collect::<Vec<_>>().join(", ");
        let start = |n: usize| {
            let (config, route, health) = (folder.join(format!("{n}.conf")), routes[n], health[n]);
            let text = format!(
                "server_name: s{n}\nhttp: \"{health}\"\ncluster {{ name: test, listen: \"{route}\", routes: [{all}] }}\n"
            );
            std::fs::write(&config, text).unwrap();
            NatsServer::with(&["-c", config.to_str().unwrap()])
        };
        let servers = (0..SERVERS).map(start).collect();
        let cluster = Self { servers, health: health.to_vec(), _ports: ports, _folder: folder };
        (0..SERVERS).for_each(|n| cluster.is_well(n));
        runtime().block_on(within("everything is made", async { make_all(&cluster.context().await).await }));
        (0..SERVERS).for_each(|n| cluster.is_well(n));
        cluster
    }

    /// All servers, as users name them.
    fn url(&self) -> String {
        self.servers.iter().map(NatsServer::url).collect::<Vec<_>>().join(",")
    }

    async fn context(&self) -> Context {
        context(&self.servers[0]).await
    }

    /// Waits until a server has what the others have.
    fn is_well(&self, n: usize) {
        let is_well = || {
            let mut answer = String::new();
            let asked = TcpStream::connect(self.health[n]).and_then(|mut to| {
                to.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
                to.read_to_string(&mut answer)
            });
            asked.is_ok() && answer.lines().next().is_some_and(|line| line.contains(" 200 "))
        };
        wait_until(&format!("server {n} is in the cluster"), is_well);
    }

    fn crew(&self) -> Crew {
        let mut crew = Crew::new(&self.servers[0]);
        crew.log_in(&self.url(), &self.url());
        crew
    }

    /// Starts a server again, and waits until it has what the others have.
    fn again(&mut self, n: usize) {
        self.servers[n].again();
        self.is_well(n);
    }
}

/// Makes everything with three copies. A cluster that has just begun may not know all of its servers.
async fn make_all(context: &Context) {
    let streams = [
        ("TAPLINE_JOBS", "tapline.jobs.>", RetentionPolicy::WorkQueue),
        ("TAPLINE_RECORDINGS", "tapline.recordings.>", RetentionPolicy::Limits),
    ];
    for (name, subjects, retention) in streams {
        let config = || stream::Config {
            name: name.to_owned(),
            subjects: vec![subjects.to_owned()],
            retention,
            num_replicas: SERVERS,
            ..Default::default()
        };
        until_made(async || context.create_stream(config()).await.is_ok()).await;
    }
    for name in ["outcomes", "runs", "limits", "control", "classes", "workers"] {
        let max_age = Duration::from_secs(if name == "workers" { 30 } else { 0 });
        let bucket = format!("tapline-{name}");
        let config = || kv::Config { bucket: bucket.clone(), max_age, num_replicas: SERVERS, ..Default::default() };
        until_made(async || context.create_key_value(config()).await.is_ok()).await;
    }
    for bucket in ["tapline-orders", "tapline-files"] {
        let config = || object_store::Config { bucket: bucket.to_owned(), num_replicas: SERVERS, ..Default::default() };
        until_made(async || context.create_object_store(config()).await.is_ok()).await;
    }
}

pub(crate) async fn until_made(make: impl AsyncFnMut() -> bool) {
    wait_until_async("it is made", make).await;
}

/// How many jobs have ended.
fn ended(live: &Live) -> usize {
    live.count(|event| matches!(event, BatchNews::Ended(_)))
}

/// Whether the batch said this of its engine.
fn says(event: &BatchNews, words: &str) -> bool {
    matches!(event, BatchNews::Engine(EngineNews::Trouble(what)) if what.starts_with(words))
}

/// Every job has one result, which is a success, and the recording of each is as its agent wrote it.
fn all_is_well(crew: &Crew, ran: &Ran, jobs: usize) {
    assert_eq!((ran.end.results.len(), crew.ended().len()), (jobs, jobs));
    for result in &ran.end.results {
        assert_eq!(result.outcome, JobOutcome::Success, "{}: {:?}", result.job, result.error);
        assert!(crew.is_recorded(result) && result.warnings.is_empty(), "{}: {:?}", result.job, result.warnings);
    }
    assert!(crew.ended().values().all(|count| *count == 1), "no job has two results");
}

#[test]
fn the_servers_of_a_cluster_are_killed_in_turn() {
    const JOBS: usize = 10;
    let mut cluster = Cluster::start();
    let mut crew = cluster.crew();
    crew.patience = Duration::from_secs(12);
    let workers = ["w1", "w2"].map(|name| crew.worker(name, 4));
    let gates = [0, 1, 2].map(|n| crew.path(&format!("go{n}")));
    // Jobs that end when a server is dead. Some orders and answers are too large for a message, and one recording, too.
    let long = "x".repeat(1_500_000);
    let mut text = String::new();
    for (n, gate) in gates.iter().enumerate() {
        for job in n * JOBS..(n + 1) * JOBS {
            let prompt = match job % JOBS {
                2 => format!("{long}\\nwait j{job} {}", gate.display()),
                5 => format!("long j{job} {} {}", if n == 1 { 10_000_000 } else { 1_500_000 }, gate.display()),
                _ => format!("wait j{job} {}", gate.display()),
            };
            text.extend(["[[job]]\nname = \"j", &job.to_string(), "\"\nprompt = \"", &prompt, "\"\n"]);
        }
    }
    let ran = crew.run_while(
        &text,
        |_| {},
        |live| {
            for (n, gate) in gates.iter().enumerate() {
                wait_until("a job of this round runs", || {
                    (n * JOBS..(n + 1) * JOBS).any(|job| !crew.noted(&format!("j{job}"), "began").is_empty())
                });
                cluster.servers[n].kill();
                std::fs::write(gate, "").unwrap();
                // The others come back at once, while those that are left may still elect a leader.
                if n == 0 {
                    wait_until("the batch goes on without it", || ended(live) > 0);
                }
                cluster.again(n);
            }
        },
    );
    all_is_well(&crew, &ran, 3 * JOBS);
    for (n, result) in ran.end.results.iter().enumerate().filter(|(n, _)| n % JOBS == 5) {
        let length = if n / JOBS == 1 { 10_000_000 } else { 1_500_000 };
        assert_eq!(result.answer.as_ref().map(String::len), Some(length), "{}", result.job);
    }
    drop(workers);
    let copies = runtime().block_on(async {
        let context = cluster.context().await;
        // A server that has just come back may not answer at once, or not know all.
        let mut streams: Vec<_> = Vec::new();
        let is_listed = async || {
            streams = context.streams().try_collect().await.unwrap_or_default();
            streams.len() >= 10
        };
        wait_until_async("all streams are listed", is_listed).await;
        streams.into_iter().map(|stream| stream.config.num_replicas).collect::<Vec<_>>()
    });
    assert_eq!(copies, [SERVERS; 10], "what an operator made is used, and nothing else is made");
}

#[test]
fn a_batch_waits_for_a_cluster_that_has_no_quorum() {
    const JOBS: usize = 6;
    const PLACES: usize = 4;
    let mut cluster = Cluster::start();
    let mut crew = cluster.crew();
    crew.patience = Duration::from_secs(30);
    // The batch keeps its connection: all that it misses is the quorum.
    crew.log_in(&cluster.servers[0].url(), &cluster.url());
    let _workers = ["w1", "w2"].map(|name| crew.worker(name, PLACES / 2));
    let gates = ["first", "last"].map(|name| crew.path(name));
    let job = |n: usize| {
        let gate = if n <= PLACES { &gates[0] } else { &gates[1] };
        format!("[[job]]\nname = \"j{n}\"\nprompt = \"wait j{n} {}\"\n", gate.display())
    };
    let ran = crew.run_while(
        &(1..=JOBS).map(job).collect::<String>(),
        |_| {},
        |live| {
            let began = || (1..=JOBS).filter(|n| !crew.noted(&format!("j{n}"), "began").is_empty()).count();
            wait_until("every place has a run", || began() == PLACES);
            cluster.servers[1].kill();
            cluster.servers[2].kill();
            live.until("the batch says what it waits for", |event| says(event, "the broker has no quorum"));
            // What runs ends meanwhile.
            std::fs::write(&gates[0], "").unwrap();
            assert_eq!(ended(live), 0);
            cluster.servers[1].again();
            cluster.again(2);
            live.until("the batch says that it goes on", |event| says(event, "the broker is there again"));
            std::fs::write(&gates[1], "").unwrap();
        },
    );
    all_is_well(&crew, &ran, JOBS);
    assert!((1..=JOBS).all(|n| crew.traces(&format!("j{n}")).len() == 1), "no run is begun twice: no worker died");
}
