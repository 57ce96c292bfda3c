//! What `tapline doctor --engine` says of the broker that machines share.

use std::time::Duration;

use serde_json::{Value, json};
use tapline_fleet::{Broker, BrokerError, Checkup, RoleRights, SeenWorker, StoreState, checkup, data_folder_key};
use tapline_session::text::{count_of, grouped, visible, with_causes};

use super::super::archive::size;
use super::{Finding, Mood};
use crate::store;

/// From here on, a store is nearly full.
const NEARLY: f64 = 0.8;
/// Clocks that differ by more, in milliseconds, are told.
const CLOCKS: u64 = 2_000;
/// The most names in a line.
const NAMED: usize = 5;

/// Looks at a broker.
pub(super) async fn findings(broker: &Broker) -> Vec<Finding> {
    match Box::pin(checkup(broker)).await {
        Err(error) => vec![unusable(broker, &error)],
        Ok(checkup) => {
            let Checkup { stores, workers, roles, .. } = &checkup;
            let rights = rights(roles);
            vec![reached(broker, &checkup), rights, stored(stores), working(workers.as_deref()), clock(&checkup), key()]
        }
    }
}

fn unusable(broker: &Broker, error: &BrokerError) -> Finding {
    let advice = match error {
        BrokerError::Untrusted { .. } => {
            "--nats-ca names the authority of its certificate; --nats-cert and --nats-key are ours"
        }
        BrokerError::Refused { .. } => "give --nats-creds or --nats-nkey, or nats://USER:PASSWORD@HOST:4222 in TAPLINE_ENGINE",
        _ => "tapline help fleet says how to start a broker, and which rights it needs",
    };
    let text = with_causes(error);
    let facts = json!({ "address": broker.address(), "version": null, "jetstream": null, "answered_ms": null, "error": text });
    Finding { about: "broker", mood: Mood::Bad, text, advice: Some(advice.to_owned()), facts }
}

fn reached(broker: &Broker, checkup: &Checkup) -> Finding {
    let Checkup { version, answered_in, bytes, most_bytes, .. } = checkup;
    let most = most_bytes.map_or_else(String::new, |most| format!(" of {}", size(most)));
    let text = format!(
        "nats-server {} · {} · JetStream · {}{most} stored · answers in {:.1} ms",
        visible(version),
        broker.address(),
        size(*bytes),
        answered_in.as_secs_f64() * 1_000.0
    );
    let facts = json!({
        "address": broker.address(),
        "version": version,
        "jetstream": true,
        "answered_ms": answered_in.as_secs_f64() * 1_000.0,
        "bytes": bytes,
        "most_bytes": most_bytes,
    });
    Finding { about: "broker", mood: Mood::Good, text, advice: None, facts }
}

/// What others know this machine by.
fn key() -> Finding {
    let about = "key";
    match store::store().and_then(|store| Ok(data_folder_key(&store)?)) {
        Ok(key) => {
            let text = format!("{key} (for --trust of the others)");
            Finding { about, mood: Mood::Good, text, advice: None, facts: json!({ "key": key }) }
        }
        Err(error) => {
            let advice = Some("set TAPLINE_HOME to a folder that you can write to".to_owned());
            Finding { about, mood: Mood::Bad, text: format!("{error:#}"), advice, facts: json!({ "key": null }) }
        }
    }
}

/// One role is enough: each machine has its own.
fn rights(roles: &[RoleRights]) -> Finding {
    let (enough, others): (Vec<_>, Vec<_>) = roles.iter().partition(|rights| rights.missing.is_empty());
    let names = |roles: &[&RoleRights]| roles.iter().map(|rights| rights.role.name()).collect::<Vec<_>>().join(", ");
    let text = match (enough.is_empty(), others.is_empty()) {
        (true, _) => "not enough for any of worker, batch, collector and setup".to_owned(),
        (_, true) => format!("enough for {}", names(&enough)),
        (false, false) => format!("enough for {}, not for {}", names(&enough), names(&others)),
    };
    let missing = |rights: &&RoleRights| format!("a {} may not publish to {}", rights.role.name(), few(&rights.missing));
    let mut advice: Vec<String> = others.iter().map(missing).collect();
    if !advice.is_empty() {
        advice.push("tapline help fleet lists the rights of each".to_owned());
    }
    let facts: serde_json::Map<String, Value> =
        roles.iter().map(|rights| (rights.role.name().to_owned(), json!({ "missing": rights.missing }))).collect();
    let mood = if enough.is_empty() { Mood::Bad } else { Mood::Good };
    Finding { about: "rights", mood, text, advice: (!advice.is_empty()).then(|| advice.join("; ")), facts: facts.into() }
}

fn stored(stores: &[StoreState]) -> Finding {
    let there = stores.iter().filter(|store| store.is_there == Some(true));
    let (messages, bytes) = there.clone().fold((0, 0), |sum, store| (sum.0 + store.messages, sum.1 + store.bytes));
    let messages = format!("{} {}", grouped(messages), if messages == 1 { "message" } else { "messages" });
    let text = format!("{} of {} streams and buckets are there · {messages} · {}", there.count(), stores.len(), size(bytes));
    let is_nearly_full = |store: &&StoreState| store.full().is_some_and(|full| full >= NEARLY);
    let full: Vec<String> = stores
        .iter()
        .filter(is_nearly_full)
        .map(|store| format!("{} is {:.0} % full", store.name, store.full().unwrap_or(0.0) * 100.0))
        .collect();
    let named =
        |is_there| stores.iter().filter(|store| store.is_there == is_there).map(|store| store.name.to_owned()).collect();
    let (missing, unknown): (Vec<String>, Vec<String>) = (named(Some(false)), named(None));
    let mut advice = Vec::new();
    if !full.is_empty() {
        advice.push(format!("{}: raise the limit", full.join(", ")));
    }
    if !missing.is_empty() {
        advice.push(format!("the first worker or batch that may makes {}, or --setup", few(&missing)));
    }
    if !unknown.is_empty() {
        advice.push(format!("the broker does not tell us about {}", few(&unknown)));
    }
    let facts = stores.iter().map(|store| {
        let StoreState { is_there, messages, bytes, most_bytes, most_messages, .. } = store;
        let facts = json!({ "there": is_there, "messages": messages, "bytes": bytes, "most_bytes": most_bytes, "most_messages": most_messages });
        (store.name.to_owned(), facts)
    });
    let mood = if full.is_empty() { Mood::Good } else { Mood::Advice };
    let facts = json!({ "stores": facts.collect::<serde_json::Map<_, _>>() });
    Finding { about: "stored", mood, text, advice: (!advice.is_empty()).then(|| advice.join("; ")), facts }
}

fn working(workers: Option<&[SeenWorker]>) -> Finding {
    let about = "workers";
    let Some(workers) = workers else {
        let text = "this user may not ask for them".to_owned();
        return Finding { about, mood: Mood::Good, text, advice: None, facts: json!({ "workers": null, "places": null }) };
    };
    let list: Vec<Value> = workers
        .iter()
        .map(|SeenWorker { name, places, labels, require, version, .. }| {
            json!({ "name": name, "places": places, "labels": labels, "require": require, "tapline": version })
        })
        .collect();
    let places = workers.iter().fold(0_usize, |sum, worker| sum.saturating_add(worker.places));
    let facts = json!({ "workers": list, "places": places });
    if workers.is_empty() {
        let advice = Some("start one on each machine that should run jobs: tapline worker --engine URL".to_owned());
        return Finding { about, mood: Mood::Advice, text: "none is there, so jobs wait".to_owned(), advice, facts };
    }
    let mut named: Vec<String> = workers
        .iter()
        .map(|SeenWorker { name, places, labels, .. }| {
            let labels = if labels.is_empty() { String::new() } else { format!(", {}", labels.join(" ")) };
            format!("{name} ({places}{labels})")
        })
        .collect();
    named.sort_unstable();
    let text = format!("{} with {}: {}", count_of(workers.len(), "worker"), count_of(places, "place"), visible(&few(&named)));
    Finding { about, mood: Mood::Good, text, advice: None, facts }
}

fn clock(checkup: &Checkup) -> Finding {
    let ahead = checkup.clock_ahead_ms;
    let seconds = |ms: i64| format!("{:.1} s", Duration::from_millis(ms.unsigned_abs()).as_secs_f64());
    let (mood, text, advice) = match ahead {
        None => (Mood::Good, "the broker says its time once something is stored there".to_owned(), None),
        Some(ms) if ms.unsigned_abs() <= CLOCKS => (Mood::Good, "the same here and at the broker".to_owned(), None),
        Some(ms) => {
            let side = if ms > 0 { "behind" } else { "ahead of" };
            let advice = "let both keep their clocks by NTP: times of runs and limits do not fit otherwise".to_owned();
            (Mood::Advice, format!("here it is {} {side} the broker's", seconds(ms)), Some(advice))
        }
    };
    Finding { about: "clock", mood, text, advice, facts: json!({ "broker_ahead_ms": ahead }) }
}

/// The first names of a list, and how many more there are.
fn few(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > NAMED { format!("{shown} and {} more", names.len() - NAMED) } else { shown }
}
