//! Pieces as others could send them: twice, in the wrong order, wrong or hostile. docs/FLEET.md describes them.

use std::collections::BTreeMap;

use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tapline_fleet::{CollectNews, Collected, RecordingCollector};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{HANG, within};

use crate::machine::{BATCH, Machine, impatient, runtime};

const SUM_OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// Of `hello world`.
const SUM_OF_HELLO: &str = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9";
/// Of `{}`.
const SUM_OF_META: &str = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

async fn context(server: &NatsServer) -> Context {
    async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap())
}

/// Sends a message as a piece.
async fn send(context: &Context, subject: &str, names: (&str, &str), payload: Vec<u8>) {
    let mut headers = HeaderMap::new();
    headers.insert("Tapline-Batch", names.0);
    headers.insert("Tapline-Recording", names.1);
    context.publish_with_headers(subject.to_owned(), headers, payload.into()).await.unwrap().await.unwrap();
}

async fn piece(context: &Context, recording: &str, line: Value, bytes: &str) {
    let payload = [line.to_string().as_bytes(), b"\n", bytes.as_bytes()].concat();
    send(context, &format!("tapline.recordings.{BATCH}.{recording}"), (BATCH, recording), payload).await;
}

async fn part(context: &Context, recording: &str, offset: usize, bytes: &str) {
    let line = json!({ "parts": [{ "file": "stdout", "offset": offset, "length": bytes.len() }] });
    piece(context, recording, line, bytes).await;
}

async fn seal(context: &Context, recording: &str, length: usize, sum: &str) {
    let line = json!({
        "parts": [{ "file": "meta.json", "offset": 0, "length": 2 }],
        "sealed": { "files": [
            { "name": "meta.json", "length": 2, "sha256": SUM_OF_META },
            { "name": "stdout", "length": length, "sha256": sum },
            { "name": "stderr", "length": 0, "sha256": SUM_OF_NOTHING },
        ] },
    });
    piece(context, recording, line, "{}").await;
}

#[test]
fn a_piece_that_comes_again_changes_nothing() {
    let server = NatsServer::start();
    let home = Machine::new(&server, "home");
    runtime().block_on(async {
        let (collector, mut news) = home.collect().await;
        let context = context(&server).await;
        for (offset, bytes) in [(0, "hel"), (0, "hel"), (2, "llo w"), (0, "hello"), (7, "orld"), (3, "lo wor")] {
            part(&context, "again", offset, bytes).await;
        }
        seal(&context, "again", 11, SUM_OF_HELLO).await;
        seal(&context, "again", 11, SUM_OF_HELLO).await;
        news.complete("again").await;
        assert_eq!(home.files("again")["stdout"], b"hello world");
        assert_eq!(home.files("again")["stderr"], b"");
        assert_eq!(home.files("again").len(), 3);
        collector.stop().await;
    });
}

#[test]
fn a_piece_whose_predecessor_is_missing_waits_and_the_seal_says_so() {
    let server = NatsServer::start();
    let home = Machine::new(&server, "home");
    runtime().block_on(async {
        let (collector, mut news) = home.collect().await;
        let context = context(&server).await;
        part(&context, "gap", 0, "hello").await;
        // What belongs between was never sent. What comes later is not written to the wrong place.
        part(&context, "gap", 6, "world").await;
        seal(&context, "gap", 11, SUM_OF_HELLO).await;
        let is_it = |news: &CollectNews| matches!(news, CollectNews::Damaged { recording, .. } if recording == "gap");
        let told = news.wait_for("something is missing", is_it).await;
        assert_eq!(told, CollectNews::Damaged { recording: "gap".to_owned(), why: "pieces of it are missing".to_owned() });
        assert_eq!(home.files("gap")["stdout"], b"hello");
        // In the wrong order: what came first is read again from the stream.
        part(&context, "order", 6, "world").await;
        part(&context, "order", 0, "hello ").await;
        seal(&context, "order", 11, SUM_OF_HELLO).await;
        news.complete("order").await;
        assert_eq!(home.files("order")["stdout"], b"hello world");
        collector.stop().await;
    });
}

#[test]
fn a_copy_that_differs_is_kept_and_told() {
    let server = NatsServer::start();
    let home = Machine::new(&server, "home");
    runtime().block_on(async {
        let (collector, mut news) = home.collect().await;
        let context = context(&server).await;
        for (name, length, sum, expected) in [
            ("other", 11, SUM_OF_NOTHING, "stdout has other bytes than the original"),
            ("longer", 5, SUM_OF_HELLO, "stdout has 11 bytes, and the original has 5"),
        ] {
            part(&context, name, 0, "hello world").await;
            seal(&context, name, length, sum).await;
            let is_it = |news: &CollectNews| matches!(news, CollectNews::Damaged { recording, .. } if recording == name);
            let told = news.wait_for("it is damaged", is_it).await;
            assert_eq!(told, CollectNews::Damaged { recording: name.to_owned(), why: expected.to_owned() });
            assert_eq!(home.files(name)["stdout"], b"hello world");
        }
        collector.stop().await;
    });
}

#[test]
fn hostile_messages_are_refused_and_nothing_is_written() {
    let server = NatsServer::start();
    let home = Machine::new(&server, "home");
    runtime().block_on(async {
        let (collector, mut news) = home.collect().await;
        let context = context(&server).await;
        let good = |bytes: &str| {
            let line = json!({ "parts": [{ "file": "stdout", "offset": 0, "length": bytes.len() }] });
            [line.to_string().as_bytes(), b"\n", bytes.as_bytes()].concat()
        };
        let line = |line: &str| format!("{line}\n").into_bytes();
        let cases = [
            ("tapline.recordings.b.=2e=2e=2fx", ("b", "../x"), good("x")),
            ("tapline.recordings.b.=2fetc", ("b", "/etc"), good("x")),
            ("tapline.recordings.b.=2ehidden", ("b", ".hidden"), good("x")),
            ("tapline.recordings.b.other", ("b", "name"), good("x")),
            ("tapline.recordings.b.name", ("c", "name"), good("x")),
            ("tapline.recordings.b.name", ("b", "name"), b"nothing".to_vec()),
            ("tapline.recordings.b.name", ("b", "name"), line(r#"{"parts":[{"file":"../../x","offset":0,"length":0}]}"#)),
            (
                "tapline.recordings.b.name",
                ("b", "name"),
                line(r#"{"parts":[{"file":"collected.json","offset":0,"length":0}]}"#),
            ),
            ("tapline.recordings.b.name", ("b", "name"), line(r#"{"parts":[{"file":"stdout","offset":0,"length":99}]}"#)),
            (
                "tapline.recordings.b.name",
                ("b", "name"),
                line(r#"{"parts":[{"file":"stdout","offset":18446744073709551615,"length":0}]}"#),
            ),
        ];
        for (subject, names, payload) in cases {
            send(&context, subject, names, payload).await;
            let is_it = |news: &CollectNews| matches!(news, CollectNews::Refused { subject: told, .. } if told == subject);
            news.wait_for("it is refused", is_it).await;
        }
        assert_eq!(std::fs::read_dir(home.store.folder()).unwrap().count(), 0);
        assert!(!server.path("x").exists());
        // Others cannot add to a recording of this batch.
        part(&context, "mine", 0, "hello world").await;
        send(&context, "tapline.recordings.b.mine", ("b", "mine"), good("hello world, and more")).await;
        let is_it = |news: &CollectNews| matches!(news, CollectNews::Refused { subject, .. } if subject.ends_with("mine"));
        news.wait_for("it is refused", is_it).await;
        seal(&context, "mine", 11, SUM_OF_HELLO).await;
        news.complete("mine").await;
        collector.stop().await;
    });
}

/// A piece whose bytes are in the object store.
async fn object_part(context: &Context, recording: &str, object: &str) {
    let object = json!({ "name": object, "sha256": SUM_OF_HELLO });
    let line = json!({ "parts": [{ "file": "stdout", "offset": 0, "length": 11, "object": object }] });
    piece(context, recording, line, "").await;
}

#[test]
fn an_object_that_is_missing_or_wrong_holds_up_nobody() {
    let server = NatsServer::start();
    let (first, home, batch) = (Machine::new(&server, "first"), Machine::new(&server, "home"), Machine::new(&server, "batch"));
    runtime().block_on(async {
        let post = home.post().await;
        let context = context(&server).await;
        let objects = context.get_object_store("tapline-files").await.unwrap();
        objects.put("right", &mut &b"hello world"[..]).await.unwrap();
        objects.put("other", &mut &b"hello earth"[..]).await.unwrap();
        objects.put("longer", &mut &b"hello world, and more"[..]).await.unwrap();
        let lost = [("missing", "nowhere", "it is not on the broker"), ("wrong", "other", "it is another one")];
        let lost = lost.into_iter().chain([("long", "longer", "it is another one")]);
        let lost: Vec<_> =
            lost.map(|(name, object, why)| (name, object, format!("the object {object} of it is lost: {why}"))).collect();
        for (name, object) in lost.iter().map(|(name, object, _)| (*name, *object)).chain([("good", "right")]) {
            object_part(&context, name, object).await;
            seal(&context, name, 11, SUM_OF_HELLO).await;
        }
        // More pieces than are written together.
        for n in 0..100 {
            part(&context, &format!("r{n}"), 0, "hello world").await;
            seal(&context, &format!("r{n}"), 11, SUM_OF_HELLO).await;
        }
        // Until it is stopped.
        let (collector, mut news) = first.collect().await;
        let (mut damaged, mut is_last_here) = (BTreeMap::new(), false);
        let is_it = |news: &CollectNews| matches!(news, CollectNews::Damaged { .. } | CollectNews::Collected { .. });
        while damaged.len() < lost.len() || !is_last_here {
            match news.wait_for("all are told", is_it).await {
                CollectNews::Damaged { recording, why } => drop(damaged.insert(recording, why)),
                CollectNews::Collected { recording, .. } => is_last_here |= recording == "r99",
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(damaged, lost.iter().map(|(name, _, why)| ((*name).to_owned(), why.clone())).collect());
        collector.stop().await;
        // Once.
        let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
        let mut options = impatient();
        options.once = true;
        let mut collector = RecordingCollector::of_all(&post, &home.store, options, sender).await.unwrap();
        within("nothing is left", collector.ended()).await.unwrap();
        drop(collector);
        let mut damaged = Vec::new();
        while let Ok(news) = told.try_recv() {
            if let CollectNews::Damaged { recording, .. } = news {
                damaged.push(recording);
            }
        }
        damaged.sort();
        assert_eq!(damaged, ["long", "missing", "wrong"]);
        assert_eq!(home.files("good")["stdout"], b"hello world");
        for n in 0..100 {
            assert_eq!(home.files(&format!("r{n}"))["stdout"], b"hello world");
        }
        // A batch that waits for one.
        let collector = RecordingCollector::for_batch(&post, BATCH, &batch.store, impatient()).await.unwrap();
        for (name, _, why) in lost {
            assert_eq!(within("the batch is told", collector.collected(name)).await, Collected::Damaged(why));
        }
        assert_eq!(within("it comes", collector.collected("r99")).await, Collected::Complete);
        collector.finish().await;
    });
}

#[test]
fn an_object_that_comes_late_is_waited_for_and_holds_up_nobody() {
    let server = NatsServer::start();
    let home = Machine::new(&server, "home");
    runtime().block_on(async {
        let mut options = impatient();
        options.patience = HANG;
        let (collector, mut news) = home.collect_with(options).await;
        let context = context(&server).await;
        let mut asked = context.client().subscribe("$JS.API.DIRECT.GET.OBJ_tapline-files.>").await.unwrap();
        context.client().flush().await.unwrap();
        object_part(&context, "late", "soon").await;
        seal(&context, "late", 11, SUM_OF_HELLO).await;
        part(&context, "other", 0, "hello world").await;
        seal(&context, "other", 11, SUM_OF_HELLO).await;
        news.complete("other").await;
        for _ in 0..5 {
            within("it is looked for", asked.next()).await.unwrap();
        }
        let objects = context.get_object_store("tapline-files").await.unwrap();
        objects.put("soon", &mut &b"hello world"[..]).await.unwrap();
        news.complete("late").await;
        assert_eq!(home.files("late")["stdout"], b"hello world");
        collector.stop().await;
    });
}

#[test]
fn a_complete_copy_stays_as_it_is() {
    let server = NatsServer::start();
    let home = Machine::new(&server, "home");
    runtime().block_on(async {
        let (collector, mut news) = home.collect().await;
        let context = context(&server).await;
        part(&context, "done", 0, "hello world").await;
        seal(&context, "done", 11, SUM_OF_HELLO).await;
        news.complete("done").await;
        let before = home.files("done");
        // A stray piece.
        part(&context, "done", 11, ", and more").await;
        part(&context, "next", 0, "hello world").await;
        seal(&context, "next", 11, SUM_OF_HELLO).await;
        news.complete("next").await;
        assert_eq!(home.files("done"), before);
        // A recording that was sealed before its end was noted is sealed again.
        let line = json!({
            "parts": [{ "file": "meta.json", "offset": 0, "length": 2 }, { "file": "end.json", "offset": 0, "length": 2 }],
            "sealed": { "files": [
                { "name": "meta.json", "length": 2, "sha256": SUM_OF_META },
                { "name": "end.json", "length": 2, "sha256": SUM_OF_META },
                { "name": "stdout", "length": 11, "sha256": SUM_OF_HELLO },
                { "name": "stderr", "length": 0, "sha256": SUM_OF_NOTHING },
            ] },
        });
        piece(&context, "done", line, "{}{}").await;
        news.complete("done").await;
        assert_eq!(home.files("done")["end.json"], b"{}");
        collector.stop().await;
    });
}
