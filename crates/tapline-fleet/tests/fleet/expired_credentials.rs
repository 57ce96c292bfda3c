//! Credentials that expire while a batch and its worker are connected: both say so and wait, and nothing is lost.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tapline_fleet::{BatchNews, EngineNews, Nats, WorkerNews};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{TempFolder, wait_until};

use crate::crew::{Crew, IMPATIENT, Live, numbered};

const HOUR: u64 = 3_600;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A JWT as NATS has it.
fn jwt(issuer: &KeyPair, subject: &KeyPair, name: &str, expires: Option<u64>, nats: &Value) -> String {
    let mut claims = json!({
        "jti": name, "iat": now(), "iss": issuer.public_key(), "sub": subject.public_key(), "name": name, "nats": nats,
    });
    if let Some(expires) = expires {
        claims["exp"] = expires.into();
    }
    let part = |value: &Value| BASE64.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({"typ": "JWT", "alg": "ed25519-nkey"})), part(&claims));
    let signature = BASE64.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

/// An account for tapline on a server that trusts its operator.
struct Account(KeyPair);

impl Account {
    /// Makes the account, and the configuration of its server.
    fn new(config: &Path) -> Self {
        let (operator, account, system) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
        let limits = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
            "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
        });
        let mut plain = limits.clone();
        for key in ["mem_storage", "disk_storage", "streams", "consumer"] {
            plain[key] = 0.into();
        }
        let of = |account: &KeyPair, name: &str, limits: &Value| {
            let nats =
                json!({"limits": limits, "default_permissions": {"pub": {}, "sub": {}}, "type": "account", "version": 2});
            format!("  {}: {}\n", account.public_key(), jwt(&operator, account, name, None, &nats))
        };
        let trusted = jwt(&operator, &operator, "operator", None, &json!({"type": "operator", "version": 2}));
        let text = format!(
            "operator: {trusted}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n{}{}}}\n",
            system.public_key(),
            of(&account, "tapline", &limits),
            of(&system, "system", &plain)
        );
        std::fs::write(config, text).unwrap();
        Self(account)
    }

    /// Writes credentials of a user, good for so many seconds.
    fn write(&self, path: &Path, seconds: u64) {
        let user = KeyPair::new_user();
        let nats = json!({"pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2});
        let token = jwt(&self.0, &user, "user", Some(now() + seconds), &nats);
        let seed = user.seed().unwrap();
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        // As a whole: somebody may just read it.
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, path).unwrap();
    }
}

/// A server with an account, and a crew whose credentials are good for an hour.
fn set_up(folder: &TempFolder) -> (Account, NatsServer, Crew) {
    let config = folder.join("server.conf");
    let account = Account::new(&config);
    let server = NatsServer::with(&["-c", config.to_str().unwrap()]);
    let mut crew = Crew::new(&server);
    crew.patience = IMPATIENT;
    crew.credentials = Some(folder.join("user.creds"));
    account.write(&folder.join("user.creds"), HOUR);
    (account, server, crew)
}

/// Whether somebody is told that these credentials are refused, and what to do.
fn is_refused(what: &str, credentials: &Path) -> bool {
    what.contains("the broker refuses us")
        && what
            .contains(&format!("the credentials in {} are wrong, expired or withdrawn. Renew the file", credentials.display()))
}

/// The connections are made again, with credentials that expire soon.
fn expire(account: &Account, server: &mut NatsServer, credentials: &Path, live: &Live, worker: &crate::crew::Hand) {
    account.write(credentials, 2);
    server.kill();
    server.again();
    live.until(
        "the batch says it",
        |event| matches!(event, BatchNews::Engine(EngineNews::Trouble(what)) if is_refused(what, credentials)),
    );
    worker.until("the worker says it", |event| matches!(event, WorkerNews::Trouble(what) if is_refused(what, credentials)));
}

#[test]
fn a_batch_is_resumed_after_its_credentials_expired() {
    let folder = TempFolder::new();
    let (account, mut server, crew) = set_up(&folder);
    let (credentials, go) = (folder.join("user.creds"), crew.path("go"));
    let worker = crew.worker("w1", 2);
    let ran = crew.run_while(
        &numbered(3, &format!("wait j{{n}} {}", go.display())),
        |_| {},
        |live| {
            let began = || (1..=3).filter(|n| !crew.noted(&format!("j{n}"), "began").is_empty()).count();
            wait_until("two of them run", || began() == 2);
            expire(&account, &mut server, &credentials, live, &worker);
            // They end now, and nobody can hear of it.
            std::fs::write(&go, "").unwrap();
            live.stop.send(2).unwrap();
        },
    );
    assert!(ran.end.stopped && ran.end.results.is_empty(), "{:?}", ran.end);
    let (batch, _) = crew.open();
    let opened = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = opened.block_on(Nats::open(batch, &crew.broker(), crew.store(), false)).expect_err("they have expired");
    assert!(error.to_string().contains(&format!("the credentials in {} are", credentials.display())), "{error}");
    drop(error);
    account.write(&credentials, HOUR);
    worker.until("it is connected", |event| matches!(event, WorkerNews::Trouble(what) if what == "the broker is there again"));
    let ran = crew.resume(|_| {});
    assert!(ran.end.is_complete() && ran.outcomes().iter().all(|(_, how)| *how == "success"), "{:?}", ran.outcomes());
    assert!(crew.ended().values().all(|count| *count == 1), "each has one result");
}

#[test]
fn a_batch_goes_on_when_its_credentials_are_renewed() {
    let folder = TempFolder::new();
    let (account, mut server, crew) = set_up(&folder);
    let (credentials, go) = (folder.join("user.creds"), crew.path("go"));
    let worker = crew.worker("w1", 1);
    let ran = crew.run_while(
        &numbered(2, &format!("wait j{{n}} {}", go.display())),
        |_| {},
        |live| {
            wait_until("one runs", || (1..=2).any(|n| !crew.noted(&format!("j{n}"), "began").is_empty()));
            expire(&account, &mut server, &credentials, live, &worker);
            std::fs::write(&go, "").unwrap();
            account.write(&credentials, HOUR);
        },
    );
    assert!(ran.end.is_complete() && ran.outcomes().iter().all(|(_, how)| *how == "success"), "{:?}", ran.outcomes());
    assert!((1..=2).all(|n| crew.traces(&format!("j{n}")).len() == 1), "nothing is repeated");
}
