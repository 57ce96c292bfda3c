//! What users of the broker can do beyond their roles: nothing by their rights, and with bytes on the queue nothing that a worker or a batch
//! believes.

use async_nats::Client;
use async_nats::jetstream::{self, Context};
use nkeys::KeyPair;
use serde_json::{Value, json};
use tapline_fleet::{Broker, WorkerNews, setup};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{TempFolder, wait_until, wait_until_async, within};

use crate::broker_away::jobs_on_queue;
use crate::broker_security::{documented, server};
use crate::crew::{Crew, numbered};
use crate::machine::runtime;

/// The server of docs/FLEET.md, with everything that tapline needs, and a user for the test who may do everything.
pub(crate) struct Documented {
    server: NatsServer,
    _folder: TempFolder,
}

impl Documented {
    pub(crate) fn start() -> Self {
        let folder = TempFolder::new();
        let config = documented().replacen("users: [", "users: [\n{ user: admin, password: \"p\" }\n", 1);
        let documented = Self { server: server(&folder, &config), _folder: folder };
        documented.set_up();
        documented
    }

    /// Makes what is missing.
    pub(crate) fn set_up(&self) {
        let broker = Broker::at(self.url("setup:change-me-4"));
        runtime().block_on(async { within("everything is made", setup(&broker)).await }).unwrap();
    }

    fn url(&self, user: &str) -> String {
        self.server.url().replace("nats://", &format!("nats://{user}@"))
    }

    /// Who trusts each other: the batch orders, and believes the worker `w1`.
    pub(crate) fn crew(&self) -> Crew {
        let mut crew = Crew::new(&self.server);
        crew.log_in(&self.url("batch:change-me-2"), &self.url("worker:change-me-1"));
        crew.trust("w1");
        crew
    }

    async fn client(&self, user: &str) -> Client {
        within("the server answers", Broker::at(self.url(user)).connect("test")).await.unwrap()
    }

    pub(crate) async fn admin(&self) -> Context {
        jetstream::new(self.client("admin:p").await)
    }
}

#[test]
fn no_role_has_rights_beyond_it() {
    const WORKER: &[&str] = &[
        "tapline.jobs.89271ad3e5b5c517.b.j.1",
        "$JS.API.STREAM.CREATE.EVIL",
        "$JS.API.STREAM.CREATE.TAPLINE_JOBS",
        "$JS.API.STREAM.UPDATE.TAPLINE_JOBS",
        "$JS.API.STREAM.UPDATE.KV_tapline-runs",
        "$JS.API.STREAM.DELETE.TAPLINE_JOBS",
        "$JS.API.STREAM.PURGE.TAPLINE_JOBS",
        "$JS.API.STREAM.PURGE.OBJ_tapline-files",
        "$JS.API.STREAM.MSG.GET.TAPLINE_JOBS",
        "$JS.API.STREAM.MSG.GET.TAPLINE_RECORDINGS",
        "$JS.API.STREAM.MSG.DELETE.TAPLINE_RECORDINGS",
        "$JS.API.DIRECT.GET.TAPLINE_RECORDINGS",
        "$JS.API.DIRECT.GET.OBJ_tapline-files",
        "$JS.API.DIRECT.GET.OBJ_tapline-files.$O.tapline-files.C.x",
        "$JS.API.CONSUMER.CREATE.TAPLINE_RECORDINGS.x.tapline.recordings.>",
        "$JS.API.CONSUMER.CREATE.OBJ_tapline-files",
        "$JS.API.CONSUMER.CREATE.TAPLINE_JOBS.x.tapline.jobs.>",
        "$JS.API.CONSUMER.DELETE.TAPLINE_JOBS.jobs-89271ad3e5b5c517",
        "$O.tapline-orders.C.x",
        "$O.tapline-orders.M.x",
        "$KV.tapline-control.b",
        "$KV.tapline-classes.x",
    ];
    const BATCH: &[&str] = &[
        "$KV.tapline-outcomes.b.j.1",
        "$KV.tapline-runs.b.j",
        "$KV.tapline-workers.x",
        "$KV.tapline-limits.claude",
        "tapline.recordings.b.r",
        "$O.tapline-files.C.x",
        "$O.tapline-files.M.x",
        "$JS.API.STREAM.CREATE.EVIL",
        "$JS.API.STREAM.UPDATE.TAPLINE_JOBS",
        "$JS.API.STREAM.DELETE.KV_tapline-outcomes",
        "$JS.API.CONSUMER.MSG.NEXT.TAPLINE_JOBS.jobs-89271ad3e5b5c517",
    ];
    const COLLECTOR: &[&str] = &[
        "tapline.jobs.89271ad3e5b5c517.b.j.1",
        "tapline.recordings.b.r",
        "tapline.news.b",
        "$KV.tapline-outcomes.b.j.1",
        "$KV.tapline-control.b",
        "$O.tapline-files.C.x",
        "$JS.API.STREAM.CREATE.TAPLINE_RECORDINGS",
        "$JS.API.STREAM.MSG.GET.KV_tapline-outcomes",
        "$JS.API.STREAM.MSG.GET.TAPLINE_JOBS",
        "$JS.API.DIRECT.GET.KV_tapline-workers",
        "$JS.API.CONSUMER.CREATE.KV_tapline-control",
    ];
    const SETUP: &[&str] = &[
        "tapline.jobs.89271ad3e5b5c517.b.j.1",
        "$KV.tapline-outcomes.b.j.1",
        "$JS.API.STREAM.CREATE.EVIL",
        "$JS.API.STREAM.UPDATE.TAPLINE_JOBS",
        "$JS.API.STREAM.DELETE.TAPLINE_JOBS",
        "$JS.API.STREAM.MSG.GET.TAPLINE_RECORDINGS",
        "$JS.API.CONSUMER.CREATE.TAPLINE_RECORDINGS.x.tapline.recordings.>",
    ];
    let all = [
        ("worker:change-me-1", WORKER, &["tapline.>", "$KV.>", "_INBOX.>", "_INBOX.batch.>", "_INBOX.collector.>"][..]),
        ("batch:change-me-2", BATCH, &["tapline.jobs.>", "tapline.recordings.>", "_INBOX.>", "_INBOX.worker.>"]),
        ("collector:change-me-3", COLLECTOR, &["tapline.>", "tapline.news.>", "_INBOX.>", "_INBOX.batch.>"]),
        ("setup:change-me-4", SETUP, &["tapline.>", "_INBOX.>", "_INBOX.collector.>"]),
    ];
    let broker = Documented::start();
    for (user, publishes, subscribes) in all {
        runtime().block_on(async {
            let client = broker.client(user).await;
            for subject in publishes {
                client.publish(*subject, "{}".into()).await.unwrap();
            }
            for subject in subscribes {
                drop(client.subscribe(*subject).await.unwrap());
            }
            client.flush().await.unwrap();
        });
        let name = user.split(':').next().unwrap();
        let says = |kind: &str, subject: &str| {
            let log = std::fs::read_to_string(broker.server.path("server.log")).unwrap_or_default();
            let words = format!("user:{name}\" - {kind} Violation - Subject \"{subject}\"");
            log.lines().any(|line| line.contains(&words))
        };
        for subject in publishes {
            wait_until(&format!("{name} may not publish to {subject}"), || says("Publish", subject));
        }
        for subject in subscribes {
            wait_until(&format!("{name} may not listen to {subject}"), || says("Subscription", subject));
        }
    }
}

/// Signs something as tapline does.
pub(crate) fn signed(key: &KeyPair, subject: &str, payload: &str) -> String {
    let signature = key.sign(format!("tapline\n{subject}\n{payload}").as_bytes()).unwrap();
    let signature = signature.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    format!("{}\n{payload}", json!({ "key": key.public_key(), "signature": signature }))
}

/// What is signed.
pub(crate) fn payload(signed: &str) -> &str {
    signed.split_once('\n').unwrap().1
}

#[test]
fn bytes_on_the_queue_are_no_order() {
    let broker = Documented::start();
    let crew = broker.crew();
    let ran = crew.run_while(
        "[[job]]\nname = \"good\"\nprompt = \"say good\"\n",
        |_| {},
        |_| {
            runtime().block_on(async {
                let admin = broker.admin().await;
                jobs_on_queue(&admin, 1).await;
                let jobs = admin.get_stream("TAPLINE_JOBS").await.unwrap();
                let order = jobs.get_last_raw_message_by_subject("tapline.jobs.>").await.unwrap();
                let (subject, order) = (order.subject.to_string(), String::from_utf8(order.payload.to_vec()).unwrap());
                let evil = |name: &str| subject.replace(".good.", &format!(".{name}."));
                let change = |name: &str| payload(&order).replace("say good", &format!("say {name}")).replace("\"good\"", &format!("\"{name}\""));
                let stranger = KeyPair::new_user();
                let tries = [
                    // For another job, and for this one as it is for another try.
                    (evil("moved"), order.clone()),
                    (subject.replace(".good.1", ".good.2"), order.clone()),
                    (evil("unsigned"), change("unsigned")),
                    (evil("changed"), format!("{}\n{}", order.lines().next().unwrap(), change("changed"))),
                    (evil("stranger"), signed(&stranger, &evil("stranger"), &change("stranger"))),
                    (evil("nothing"), "no JSON {".to_owned()),
                ];
                for (subject, payload) in tries {
                    admin.publish(subject, payload.into()).await.unwrap().await.unwrap();
                }
                // The broker answers a question of a worker to whatever subject the worker names.
                let worker = broker.client("worker:change-me-1").await;
                let (card, to) = ("$KV.tapline-workers.evil", evil("answer"));
                let answer = signed(&stranger, &to, &change("answer"));
                worker.publish(card, answer.into()).await.unwrap();
                let cards = admin.get_stream("KV_tapline-workers").await.unwrap();
                let is_there = async || cards.get_last_raw_message_by_subject(card).await.is_ok();
                wait_until_async("the card is there", is_there).await;
                let asked = json!({ "last_by_subj": card }).to_string();
                worker.publish_with_reply("$JS.API.DIRECT.GET.KV_tapline-workers", to.clone(), asked.into()).await.unwrap();
                let is_there = async || jobs.get_last_raw_message_by_subject(&to).await.is_ok();
                wait_until_async("the answer is on the queue", is_there).await;
                let hand = crew.worker("w1", 1);
                jobs_on_queue(&admin, 0).await;
                let unsigned = "the order is not taken: it is not signed";
                let changed = "the order is not taken: it is not what was signed, or not for this job";
                let strangers = format!("the order is not taken: the key of its author is {}", stranger.public_key());
                for (order, told) in [
                    (".moved.1", changed),
                    (".good.2", changed),
                    (".unsigned.1", unsigned),
                    (".changed.1", changed),
                    (".stranger.1", &strangers),
                    (".nothing.1", unsigned),
                    (".answer.1", &strangers),
                ] {
                    let is_it = |event: &WorkerNews| {
                        matches!(event, WorkerNews::Refused { job, why } if job.ends_with(order) && why.starts_with(told))
                    };
                    assert!(hand.has(is_it), "{order}");
                }
            });
        },
    );
    assert_eq!(ran.outcomes(), [("good", "success")], "{:?}", ran.end.results);
    for job in ["moved", "unsigned", "changed", "stranger", "nothing", "answer"] {
        assert!(crew.noted(job, "began").is_empty(), "{job}");
    }
    assert_eq!(crew.noted("good", "began").len(), 1);
}

#[test]
fn a_worker_that_does_not_trust_the_author_leaves_the_job_to_one_that_does() {
    let server = NatsServer::start();
    let (mut crew, mut others) = (Crew::new(&server), Crew::new(&server));
    crew.trust("w1");
    others.trust("stranger");
    let go = crew.path("go");
    let (worker, stranger) = (crew.worker("w1", 1), others.worker("stranger", 1));
    let is_ready = |event: &WorkerNews| matches!(event, WorkerNews::Ready);
    worker.until("the worker is ready", is_ready);
    stranger.until("the other worker is ready", is_ready);
    let ran = crew.run_while(
        &numbered(2, &format!("wait j{{n}} {}", go.display())),
        |options| (options.jobs, options.by_workers) = (2, false),
        |_| {
            // The first worker has one place only.
            stranger.until("it has seen an order", |event| {
                matches!(event, WorkerNews::GivenBack { .. } | WorkerNews::Refused { .. })
            });
            std::fs::write(&go, "").unwrap();
        },
    );
    assert!(ran.outcomes().iter().all(|(_, outcome)| *outcome == "success"), "{:?}", ran.end.results);
    assert!(!stranger.has(|event| matches!(event, WorkerNews::Refused { .. })));
}

#[test]
fn an_outcome_is_that_of_a_worker_whom_the_batch_trusts() {
    let broker = Documented::start();
    let crew = broker.crew();
    let hand = crew.worker("w1", 1);
    let ran = crew.run("[[job]]\nname = \"real\"\nprompt = \"say real\"\n", |_| {});
    assert_eq!(ran.outcomes(), [("real", "success")]);
    hand.stop(1);
    let copied = runtime().block_on(async {
        let outcomes = broker.admin().await.get_key_value("tapline-outcomes").await.unwrap();
        let outcome = outcomes.get(format!("{}.real.1", crew.last_id())).await.unwrap().unwrap();
        String::from_utf8(outcome.to_vec()).unwrap()
    });
    let stranger = KeyPair::new_user();
    for (name, forges) in [
        ("copied", (|copied, _, _| copied) as fn(String, &KeyPair, &str) -> String),
        ("stranger", |copied, stranger, subject| signed(stranger, subject, payload(&copied))),
        ("unsigned", |copied, _, _| payload(&copied).to_owned()),
    ] {
        let ran = crew.run_while(
            &format!("[[job]]\nname = \"forged\"\nprompt = \"say {name}\"\n"),
            |_| {},
            |_| {
                runtime().block_on(async {
                    jobs_on_queue(&broker.admin().await, 1).await;
                    let subject = format!("$KV.tapline-outcomes.{}.forged.1", crew.last_id());
                    let forged = forges(copied.clone(), &stranger, &subject);
                    let worker = broker.client("worker:change-me-1").await;
                    worker.publish(subject, forged.into()).await.unwrap();
                    worker.flush().await.unwrap();
                });
            },
        );
        assert_eq!(ran.outcomes(), [("forged", "failure")], "{name}: {:?}", ran.end.results);
        let error = ran.result("forged").error.as_deref().unwrap_or_default();
        assert!(error.contains("what a worker said about it is not believed: "), "{name}: {error}");
        runtime().block_on(async {
            broker.admin().await.get_stream("TAPLINE_JOBS").await.unwrap().purge().await.unwrap();
        });
    }
}

#[test]
fn an_order_that_somebody_replaced_is_refused() {
    let broker = Documented::start();
    let crew = broker.crew();
    let text = format!("[[job]]\nname = \"a\"\nprompt = \"{}\\nsay a\"\n", "x".repeat(900 * 1024));
    let ran = crew.run_while(
        &text,
        |_| {},
        |_| {
            runtime().block_on(async {
                let admin = broker.admin().await;
                jobs_on_queue(&admin, 1).await;
                let files = admin.get_object_store("tapline-orders").await.unwrap();
                let about = admin.get_stream("OBJ_tapline-orders").await.unwrap();
                let about = about.get_last_raw_message_by_subject("$O.tapline-orders.M.*").await.unwrap();
                let about: Value = serde_json::from_slice(&about.payload).unwrap();
                let mut order = String::new();
                let name = about["name"].as_str().unwrap();
                tokio::io::AsyncReadExt::read_to_string(&mut files.get(name).await.unwrap(), &mut order).await.unwrap();
                let other = order.replace("say a", "say b");
                assert_ne!(order, other);
                files.put(name, &mut other.as_bytes()).await.unwrap();
            });
            let hand = crew.worker("w1", 1);
            wait_until("it has ended", || crew.ended().len() == 1);
            drop(hand);
        },
    );
    assert_eq!(ran.outcomes(), [("a", "failure")], "{:?}", ran.end.results);
    let error = ran.result("a").error.as_deref().unwrap_or_default();
    assert!(error.contains("somebody has replaced it"), "{error}");
    assert!(crew.noted("a", "began").is_empty());
}
