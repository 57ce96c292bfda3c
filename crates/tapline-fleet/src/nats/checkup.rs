//! What people want to know of a broker before they use it: whether it answers, what is there, who works, and what we may do. Nothing is
//! changed: every question is one that the broker answers, if at all, with an error or with what it has.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::{Client, HeaderMap, Message, Request, RequestErrorKind, StatusCode};
use async_nats::{Event as ConnectionNews, ServerError};
use futures_util::future::join_all;
use serde_json::Value;
use tapline_session::parse_moment;
use tokio::sync::watch;

use super::connect::{Broker, BrokerError};
use super::names;
use super::order::WorkerCard;
use super::role::BrokerRole;

/// How long the broker has for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// More workers are not asked for.
const MOST_WORKERS: usize = 10_000;
/// The codes of the broker for: there is no JetStream, there is none for this account, there is no such stream.
const NO_JETSTREAM: [u64; 2] = [10_076, 10_039];
const NO_STREAM: u64 = 10_059;
/// The stream that a test of rights wants its message to be in, so that no stream takes it.
const NOWHERE: &str = "TAPLINE_NOWHERE";

/// What a broker is like, and what we may do there.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Checkup {
    /// The version of the server.
    pub version: String,
    /// How long it took to answer.
    pub answered_in: Duration,
    /// How far the broker's clock is ahead of ours, in milliseconds: below 0 it is behind. `None` if the broker did not say its time.
    pub clock_ahead_ms: Option<i64>,
    /// How many bytes the account has stored, and how many it may.
    pub bytes: u64,
    /// How many bytes the account may store. `None`: as many as there is room for.
    pub most_bytes: Option<u64>,
    /// The streams and buckets that the fleet needs.
    pub stores: Vec<StoreState>,
    /// The workers that are there. `None` if we may not ask.
    pub workers: Option<Vec<SeenWorker>>,
    /// What we may be.
    pub roles: Vec<RoleRights>,
}

/// A stream or a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreState {
    /// Its name, as `tapline help fleet` has it.
    pub name: &'static str,
    /// Whether it is there. What is not is made by whoever needs it first. `None` if we may not ask.
    pub is_there: Option<bool>,
    /// How many messages, values or pieces of files it has.
    pub messages: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many bytes it may have, if there is a limit.
    pub most_bytes: Option<u64>,
    /// How many messages it may have, if there is a limit.
    pub most_messages: Option<u64>,
}

impl StoreState {
    /// Returns how full it is, from 0 to 1. `None` if it has no limit.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
    pub fn full(&self) -> Option<f64> {
        let share = |has: u64, most: Option<u64>| most.map(|most| has as f64 / most.max(1) as f64);
        [share(self.bytes, self.most_bytes), share(self.messages, self.most_messages)].into_iter().flatten().reduce(f64::max)
    }
}

/// A worker that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeenWorker {
    /// What people call it.
    pub name: String,
    /// How many runs it makes at once.
    pub places: usize,
    /// What it has.
    pub labels: Vec<String>,
    /// What it asks of jobs.
    pub require: Vec<String>,
    /// Its version of tapline.
    pub version: String,
}

/// Whether our rights are enough for a role.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoleRights {
    /// The role.
    pub role: BrokerRole,
    /// The subjects that it needs and that we may not publish to.
    pub missing: Vec<String>,
}

/// What the streams and buckets are called, and the streams behind them.
const STORES: [(&str, &str); 10] = [
    (names::JOBS, ""),
    (names::RECORDINGS, ""),
    (names::OUTCOMES, "KV_"),
    (names::RUNS, "KV_"),
    (names::LIMITS, "KV_"),
    (names::CLASSES, "KV_"),
    (names::WORKERS, "KV_"),
    (names::CONTROL, "KV_"),
    (names::ORDERS, "OBJ_"),
    (names::FILES, "OBJ_"),
];

/// The rights that roles need, as `tapline help fleet` has them: the beginning of a subject, what stands behind it in the question and in
/// the right, and for whom it is. Who may not ask this may not do that either.
const RIGHTS: [(&str, &str, &str, &[BrokerRole]); 20] = {
    use BrokerRole::{Batch, Collector, Worker};
    [
        ("tapline.jobs", ".doctor", ".>", &[Batch]),
        ("tapline.recordings", ".doctor", ".>", &[Worker]),
        ("$KV.tapline-outcomes", ".doctor", ".>", &[Worker]),
        ("$KV.tapline-runs", ".doctor", ".>", &[Worker]),
        ("$KV.tapline-limits", ".doctor", ".>", &[Worker]),
        ("$KV.tapline-workers", ".doctor", ".>", &[Worker]),
        ("$KV.tapline-classes", ".doctor", ".>", &[Batch]),
        ("$KV.tapline-control", ".doctor", ".>", &[Batch]),
        ("$O.tapline-orders", ".M.doctor", ".>", &[Batch]),
        ("$O.tapline-files", ".M.doctor", ".>", &[Worker]),
        ("$JS.API.CONSUMER.MSG.NEXT.TAPLINE_JOBS", ".doctor", ".*", &[Worker]),
        ("$JS.API.CONSUMER.MSG.NEXT.TAPLINE_RECORDINGS", ".doctor", ".*", &[Batch, Collector]),
        ("$JS.API.CONSUMER.CREATE.TAPLINE_JOBS", ".doctor", ".>", &[Batch]),
        ("$JS.API.CONSUMER.CREATE.TAPLINE_RECORDINGS", ".doctor", ".>", &[Batch, Collector]),
        ("$JS.API.CONSUMER.CREATE.KV_tapline-classes", "", "", &[Worker]),
        ("$JS.API.CONSUMER.CREATE.KV_tapline-control", "", "", &[Worker]),
        ("$JS.API.CONSUMER.CREATE.KV_tapline-outcomes", "", "", &[Batch]),
        ("$JS.API.CONSUMER.CREATE.KV_tapline-runs", "", "", &[Batch]),
        ("$JS.API.CONSUMER.CREATE.OBJ_tapline-orders", "", "", &[Worker]),
        ("$JS.API.CONSUMER.CREATE.OBJ_tapline-files", "", "", &[Batch, Collector]),
    ]
};

/// Looks at a broker. Fails if it cannot be used at all.
pub async fn checkup(broker: &Broker) -> Result<Checkup, BrokerError> {
    let (tells, denied) = watch::channel(Vec::new());
    let (tells, mut roles) = (Arc::new(tells), BrokerRole::ALL.into_iter());
    // Each role may hear answers in its own place.
    let (asking, account, answered_in) = loop {
        let role = roles.next();
        let tells = Arc::clone(&tells);
        tells.send_replace(Vec::new());
        let options = broker.options()?.name("tapline doctor").event_callback(move |event| {
            if let ConnectionNews::ServerError(ServerError::Other(words)) = event {
                tells.send_modify(|all| all.push(words));
            }
            std::future::ready(())
        });
        let options = options.custom_inbox_prefix(role.map_or("_INBOX".to_owned(), BrokerRole::inbox));
        let asking = Asking { client: broker.connect_with(options).await?, denied: denied.clone() };
        let asked = std::time::Instant::now();
        let account = asking.account(broker).await;
        let is_deaf = asking.denied.borrow().iter().any(|words| is_deaf(words));
        if role.is_none() || !is_deaf {
            break (asking, account?, asked.elapsed());
        }
    };
    let stores = join_all(STORES.iter().map(|(name, kind)| asking.store(name, kind)));
    let rights = join_all(RIGHTS.iter().map(|(subject, probe, ..)| asking.may(format!("{subject}{probe}"))));
    let (stores, rights, workers) = tokio::join!(stores, rights, asking.workers());
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let clock_ahead_ms = stores.iter().find_map(|store| store.clock_ahead_ms);
    let roles = BrokerRole::ALL.map(|role| {
        let needs = |name: &str| role != BrokerRole::Collector || [names::RECORDINGS, names::FILES].contains(&name);
        let needed = stores.iter().filter(|store| needs(store.state.name));
        // Only what is missing must be made, by whoever has the role for it.
        let denied = needed.flat_map(|store| {
            store.denied.clone().into_iter().chain(store.unmade.clone().filter(|_| role == BrokerRole::Setup))
        });
        let missing = RIGHTS.iter().zip(&rights).filter(|((.., roles), may)| roles.contains(&role) && !**may);
        let missing = missing.map(|((subject, _, right, _), _)| format!("{subject}{right}"));
        RoleRights { role, missing: denied.chain(missing).collect() }
    });
    Ok(Checkup {
        version: asking.client.server_info().version,
        answered_in,
        clock_ahead_ms,
        bytes: count(&account["storage"]),
        most_bytes: limit(&account["limits"]["max_storage"]),
        stores: stores.into_iter().map(|store| store.state).collect(),
        workers,
        roles: roles.into(),
    })
}

/// A limit, if there is one.
fn limit(value: &Value) -> Option<u64> {
    value.as_u64().filter(|limit| *limit > 0)
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// What the broker says to a question.
enum Answer {
    Said(Box<Message>),
    /// Nobody listens there.
    Nobody,
    /// We have no right to ask.
    Denied,
    /// Nothing, for too long.
    Silence,
}

impl Answer {
    fn json(&self) -> Option<Value> {
        let Self::Said(message) = self else { return None };
        serde_json::from_slice(&message.payload).ok()
    }
}

/// What the broker says about a stream or a bucket.
struct AskedStore {
    state: StoreState,
    /// The subjects that we had to publish to to ask for it, or to make it, and may not.
    denied: Option<String>,
    unmade: Option<String>,
    clock_ahead_ms: Option<i64>,
}

/// Asks a broker.
struct Asking {
    client: Client,
    /// What it does not let us do, in its own words.
    denied: watch::Receiver<Vec<String>>,
}

impl Asking {
    async fn ask(&self, subject: &str, payload: &str, headers: HeaderMap) -> Answer {
        let request = Request::new().payload(payload.to_owned().into()).headers(headers).timeout(Some(PATIENCE));
        let about = format!("Publish to \"{subject}\"");
        let mut denied = self.denied.clone();
        let is_denied = |all: &Vec<String>| all.iter().any(|words| words.contains(&about) || is_deaf(words));
        tokio::select! {
            biased;
            answer = self.client.send_request(subject.to_owned(), request) => match answer {
                Ok(message) => Answer::Said(Box::new(message)),
                Err(error) if error.kind() == RequestErrorKind::NoResponders => Answer::Nobody,
                Err(_) => Answer::Silence,
            },
            Ok(_) = denied.wait_for(is_denied) => Answer::Denied,
        }
    }

    /// Asks for the account, and whether there is JetStream.
    async fn account(&self, broker: &Broker) -> Result<Value, BrokerError> {
        let answer = self.ask("$JS.API.INFO", "", HeaderMap::new()).await;
        let failed = |why: &str| BrokerError::Failed { what: "tell whether it has JetStream", why: why.to_owned() };
        let none = || BrokerError::NoJetStream { address: broker.address() };
        match &answer {
            Answer::Nobody => return Err(none()),
            Answer::Denied if self.denied.borrow().iter().any(|words| is_deaf(words)) => {
                return Err(failed("this user may not subscribe to _INBOX.>, so no answer arrives"));
            }
            Answer::Denied => return Err(failed("this user may not publish to $JS.API.INFO")),
            Answer::Silence => return Err(failed("it does not answer")),
            Answer::Said(_) => {}
        }
        let account = answer.json().unwrap_or_default();
        match account["error"]["err_code"].as_u64() {
            Some(code) if NO_JETSTREAM.contains(&code) => Err(none()),
            Some(_) => Err(failed(account["error"]["description"].as_str().unwrap_or_default())),
            None => Ok(account),
        }
    }

    /// Asks for a stream or a bucket.
    async fn store(&self, name: &'static str, kind: &str) -> AskedStore {
        let question = format!("$JS.API.STREAM.INFO.{kind}{name}");
        let before = now_ms();
        let answer = self.ask(&question, "", HeaderMap::new()).await;
        let after = now_ms();
        let state = StoreState { name, ..StoreState::default() };
        let made = format!("$JS.API.STREAM.CREATE.{kind}{name}");
        let may_make = self.may(made.clone()).await;
        let Some(json) = answer.json() else {
            let denied = matches!(answer, Answer::Denied).then_some(question);
            return AskedStore { state, denied, unmade: Some(made).filter(|_| !may_make), clock_ahead_ms: None };
        };
        if let Some(code) = json["error"]["err_code"].as_u64() {
            let state = StoreState { is_there: (code == NO_STREAM).then_some(false), ..state };
            return AskedStore { state, denied: None, unmade: Some(made).filter(|_| !may_make), clock_ahead_ms: None };
        }
        let (has, config) = (&json["state"], &json["config"]);
        let state = StoreState {
            is_there: Some(true),
            messages: has["messages"].as_u64().unwrap_or(0),
            bytes: has["bytes"].as_u64().unwrap_or(0),
            most_bytes: limit(&config["max_bytes"]),
            most_messages: limit(&config["max_msgs"]),
            ..state
        };
        let told = json["ts"].as_str().and_then(parse_moment).and_then(|told| i64::try_from(told.as_millis()).ok());
        // It was between the question and the answer. Within these, there is no difference.
        let clock_ahead_ms = told.map(|told| if told > after { told - after } else { (told - before).min(0) });
        AskedStore { state, denied: None, unmade: Some(made).filter(|_| !may_make), clock_ahead_ms }
    }

    /// Returns whether we may publish to a subject. Nothing comes of it: no stream has the name that the message asks for, and what
    /// is no stream's is not JSON.
    async fn may(&self, subject: String) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_EXPECTED_STREAM, NOWHERE);
        !matches!(self.ask(&subject, "?", headers).await, Answer::Denied)
    }

    /// Asks for the workers, one after the other.
    async fn workers(&self) -> Option<Vec<SeenWorker>> {
        let (mut workers, mut next) = (Vec::new(), 1_u64);
        let subject = format!("$JS.API.DIRECT.GET.KV_{}", names::WORKERS);
        while workers.len() < MOST_WORKERS {
            let asked = format!("{{\"seq\":{next},\"next_by_subj\":\"$KV.{}.>\"}}", names::WORKERS);
            let message = match self.ask(&subject, &asked, HeaderMap::new()).await {
                Answer::Said(message) => message,
                Answer::Nobody => break,
                Answer::Denied | Answer::Silence => return None,
            };
            if message.status == Some(StatusCode::NOT_FOUND) {
                break;
            }
            let header = |name: &str| message.headers.as_ref().and_then(|headers| headers.get(name));
            let at = header("Nats-Sequence").and_then(|at| at.as_str().parse::<u64>().ok());
            let Some(at) = at else { break };
            next = at + 1;
            // One that has left has a header of these.
            let left = ["KV-Operation", "Nats-Marker-Reason"].iter().any(|name| header(name).is_some());
            let card = serde_json::from_slice::<WorkerCard>(&message.payload).ok().filter(|_| !left);
            workers.extend(card.map(|WorkerCard { name, places, labels, require, version, .. }| SeenWorker {
                name,
                places,
                labels,
                require,
                version,
            }));
        }
        Some(workers)
    }
}

/// Whether the broker says that we may not listen to its answers.
fn is_deaf(words: &str) -> bool {
    words.contains("Subscription to \"_INBOX")
}
