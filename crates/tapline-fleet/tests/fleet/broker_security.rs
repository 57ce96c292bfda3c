//! A server that lets in only whom it knows: the rights in docs/FLEET.md are enough for each role, TLS, and `NKeys`.

use std::path::{Path, PathBuf};
use std::process::Command;

use tapline_fleet::{Broker, BrokerError, CollectNews, CollectOptions, Post, RecordingCollector, setup};
use tapline_session::text::with_causes;
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{TempFolder, root, wait_until, within};

use crate::changed_files::repository;
use crate::crew::Crew;
use crate::machine::runtime;

/// The configuration that docs/FLEET.md shows, for the folder of a test.
pub(crate) fn documented() -> String {
    let page = std::fs::read_to_string(root().join("docs/FLEET.md")).unwrap();
    let begins = page.find("```conf\njetstream").expect("it has a configuration") + "```conf\n".len();
    let text = &page[begins..];
    let text = &text[..text.find("```").unwrap()];
    // The test says where the server stores what it has.
    text.lines().skip(1).collect::<Vec<_>>().join("\n")
}

/// A server with this configuration.
pub(crate) fn server(folder: &TempFolder, config: &str) -> NatsServer {
    let path = folder.join("server.conf");
    std::fs::write(&path, config).unwrap();
    NatsServer::with(&["-c", path.to_str().unwrap()])
}

async fn connects(broker: &Broker) -> Result<(), BrokerError> {
    within("the server answers", Post::open(broker, "test")).await.map(|_| ())
}

#[test]
fn each_role_needs_no_more_than_the_documented_rights() {
    let folder = TempFolder::new();
    let server = server(&folder, &documented());
    let url = |user: &str| server.url().replace("nats://", &format!("nats://{user}@"));
    let maker = Broker::at(url("setup:change-me-4"));
    runtime().block_on(async { within("everything is made", setup(&maker)).await }).unwrap();
    let mut crew = Crew::new(&server);
    crew.log_in(&url("batch:change-me-2"), &url("worker:change-me-1"));
    crew.trust("w1");
    let worker = crew.worker("w1", 2);
    // What is large goes through the object store: an order, a patch, a recording.
    let (script, prompt) = (crew.path("script"), crew.path("prompt"));
    std::fs::write(&script, "yes 'many words' | head -c 12000000 >&2\n").unwrap();
    std::fs::write(&prompt, format!("{}\nsay long\n", "a long story ".repeat(80_000))).unwrap();
    let text = format!(
        "[[job]]\nname = \"patch\"\nfolder = \"{}\"\nworktree = \"patch\"\nprompt = \"touch patch new.txt\"\n\
         [[job]]\nname = \"long\"\nprompt_file = \"{}\"\n\
         [[job]]\nname = \"large\"\nprompt = \"sh large {}\"\n\
         [[job]]\nname = \"again\"\nretry = 1\nretry_delay = \"1ms\"\nprompt = \"once again\"\n\
         [[job]]\nname = \"limit\"\naccount = \"other\"\nretry = 1\nprompt = \"limit limit 1\"\n",
        repository(&crew).display(),
        prompt.display(),
        script.display()
    );
    let ran = crew.run(&text, |_| {});
    assert!(ran.end.is_complete());
    for result in &ran.end.results {
        assert_eq!(result.outcome.word(), "success", "{result:?}");
        // What the agent says there is a warning.
        assert!(result.warnings.iter().all(|told| told.starts_with("stderr: many words")), "{:?}", result.warnings);
        assert!(crew.is_recorded(result));
    }
    assert!(Path::new(ran.result("patch").patch.as_deref().unwrap()).starts_with(crew.path("home")));
    // A batch that is stopped takes its jobs back, and the run that is under way ends.
    let never = crew.path("never");
    let text = crate::crew::numbered(3, &format!("wait j{{n}} {}", never.display()));
    let ran = crew.run_while(
        &text,
        |options| (options.jobs, options.by_workers) = (3, false),
        |live| {
            wait_until("an agent works", || (1..=3).any(|n| !crew.traces(&format!("j{n}")).is_empty()));
            live.stop.send(1).unwrap();
        },
    );
    assert!(ran.end.stopped && ran.end.results.is_empty());
    worker.stop(1);
    // Somebody who only reads.
    let copies = tapline_recording::Store::at(crew.path("copies"));
    runtime().block_on(async {
        let post = Post::open(&Broker::at(url("collector:change-me-3")), "collector").await.unwrap();
        let (sender, mut news) = tokio::sync::mpsc::unbounded_channel();
        let mut options = CollectOptions::default();
        options.once = true;
        let mut collector = RecordingCollector::of_all(&post, &copies, options, sender).await.unwrap();
        within("nothing is left", collector.ended()).await.unwrap();
        drop(collector);
        while let Ok(news) = news.try_recv() {
            assert!(!matches!(news, CollectNews::Damaged { .. } | CollectNews::Refused { .. }), "{news:?}");
        }
    });
    assert_eq!(copies.list().unwrap().len(), crew.store_of("w1").list().unwrap().len());
    let log = std::fs::read_to_string(server.path("server.log")).unwrap();
    let refused: Vec<&str> = log.lines().filter(|line| line.contains(" Violation - ")).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// Runs openssl.
fn openssl(folder: &TempFolder, args: &str) {
    let output = Command::new("openssl").current_dir(folder).args(args.split(' ')).output().expect("openssl is installed");
    assert!(output.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority of a test's own. Returns its certificate.
fn authority(folder: &TempFolder, name: &str) -> PathBuf {
    openssl(
        folder,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        ),
    );
    folder.join(format!("{name}.pem"))
}

#[test]
fn a_server_with_tls() {
    let folder = TempFolder::new();
    let (right, wrong) = (authority(&folder, "right"), authority(&folder, "wrong"));
    openssl(
        &folder,
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=broker -keyout server.key -out server.csr",
    );
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    openssl(
        &folder,
        "x509 -req -in server.csr -CA right.pem -CAkey right.key -CAcreateserial -days 2 -extfile names -out server.pem",
    );
    let file = |name: &str| folder.path(name);
    let config = format!("tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n", file("server.pem"), file("server.key"));
    let server = server(&folder, &config);
    let mut broker = Broker::at(server.url().replace("nats://", "tls://"));
    runtime().block_on(async {
        broker.ca = Some(right);
        connects(&broker).await.unwrap_or_else(|error| panic!("{}", with_causes(&error)));
        for ca in [Some(wrong), None] {
            broker.ca = ca;
            let error = connects(&broker).await.expect_err("it must not work");
            assert!(matches!(error, BrokerError::Untrusted { .. }), "{error:?}");
            let told = with_causes(&error);
            assert!(told.contains("certificate") && told.contains(&broker.address()), "{told}");
        }
        broker.ca = Some(folder.join("names"));
        let error = connects(&broker).await.expect_err("it must not work");
        assert!(matches!(error, BrokerError::File { .. }), "{error:?}");
        assert!(with_causes(&error).contains("it has no certificate"), "{}", with_causes(&error));
    });
}

/// An `NKey` whose secret bytes are all 1, and a seed whose bytes are all 2.
const PUBLIC: &str = "UCFIRY65OQE7DFP5KLNS2PF2LVZMUZYJX4OZIEQ36N2IQANUB5XVZ45L";
const SEED: &str = "SUAACAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAN7EY";
const WRONG_SEED: &str = "SUAAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAT6EE";

#[test]
fn a_server_that_knows_our_nkey() {
    let folder = TempFolder::new();
    let server = server(&folder, &format!("authorization {{ users: [{{ nkey: {PUBLIC} }}] }}\n"));
    let path = folder.join("seed");
    let mut broker = Broker::at(server.url());
    runtime().block_on(async {
        let error = connects(&broker).await.expect_err("it must not work");
        assert!(matches!(error, BrokerError::Refused { .. }), "{error:?}");
        broker.nkey = Some(path.clone());
        let error = connects(&broker).await.expect_err("there is no such file");
        assert!(matches!(error, BrokerError::File { .. }), "{error:?}");
        for (seed, works) in [(SEED, true), (WRONG_SEED, false), ("no seed", false)] {
            std::fs::write(&path, format!("{seed}\n")).unwrap();
            let connected = connects(&broker).await;
            assert_eq!(connected.is_ok(), works, "{seed}: {connected:?}");
            if let Err(error) = connected {
                assert!(matches!(error, BrokerError::Refused { .. }), "{seed}: {error:?}");
                assert!(!with_causes(&error).contains(seed), "{}", with_causes(&error));
            }
        }
    });
}
