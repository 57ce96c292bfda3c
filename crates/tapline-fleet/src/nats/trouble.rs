//! Trouble with the broker: people are told once what it is, and once that it is over. Meanwhile everything is tried again.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Mutex;
use std::time::Duration;

use tapline_session::text::one_line;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::lock;

/// Tells people of trouble.
#[derive(Debug)]
pub(crate) struct Trouble {
    told: mpsc::UnboundedSender<String>,
    /// What was told last.
    last: Mutex<String>,
    now: Mutex<Now>,
    /// Wakes whoever waits for the connection.
    back: Notify,
}

/// What was told, and is not over.
#[derive(Debug, Default)]
struct Now {
    /// Why there is no connection, if there is none. Then nothing works, and nothing else is told.
    connection: Option<String>,
    /// When the connection was made again.
    connected: Option<Instant>,
    /// When the last trouble was.
    last: Option<Instant>,
    /// By what the broker cannot do.
    failures: BTreeMap<&'static str, Failure>,
    /// Whether people were told of a failure, and not that it is over.
    is_told: bool,
}

/// Something that the broker cannot do.
#[derive(Debug)]
struct Failure {
    words: String,
    since: Instant,
    is_told: bool,
}

/// How long after a failure the next try comes.
const PAUSE: Duration = Duration::from_millis(500);
/// How long after the connection was made again nobody is told that something failed: there are no answers to what was asked before it was
/// lost, and a broker that was just started may not be ready.
const LATE: Duration = Duration::from_secs(10);
/// How long there are no answers before people are told: an election of a cluster is no news.
const LONG: Duration = Duration::from_secs(4);
/// What is told when there is no room.
const FULL: &str = "the broker has no room: raise the limits of its streams. This is tried again until there is room";
/// What is told when there is no answer.
const SILENT: &str = "the broker does not answer; this is tried again until it does";
/// What is told when too few servers of a cluster are there.
pub(super) const NO_QUORUM: &str = "the broker has no quorum: too few servers of its cluster are there";
/// What is told when the connection is lost.
const AWAY: &str =
    "the connection to the broker is lost; it is made again as soon as the broker answers, and runs go on meanwhile";

impl Trouble {
    pub(crate) fn new(told: mpsc::UnboundedSender<String>) -> Self {
        Self { told, last: Mutex::default(), now: Mutex::default(), back: Notify::new() }
    }

    /// The broker could not do this. Returns when it should be tried again.
    pub(crate) async fn is(&self, what: &'static str, error: &(dyn Error + Send + Sync)) {
        {
            let (mut now, words, time) = (lock(&self.now), words(what, error), Instant::now());
            if words == SILENT || words.starts_with(NO_QUORUM) {
                now.last = Some(time);
            }
            let is_late = words != FULL && now.connected.is_some_and(|connected| connected.elapsed() < LATE);
            if now.connection.is_none() && !is_late {
                let is_known = now.failures.values().any(|failure| failure.is_told && failure.words == words);
                let new = Failure { words: String::new(), since: time, is_told: false };
                let failure = now.failures.entry(what).or_insert(new);
                let is_long = words != SILENT || failure.since.elapsed() >= LONG;
                (failure.is_told, failure.words) = (is_known || is_long, words.clone());
                if is_long {
                    now.is_told = true;
                    if !is_known {
                        self.tell(words);
                    }
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }

    /// There was trouble that nobody is told of.
    pub(crate) fn note(&self) {
        lock(&self.now).last = Some(Instant::now());
    }

    /// Whether the broker was well for this long.
    pub(crate) fn is_over_for(&self, time: Duration) -> bool {
        let now = lock(&self.now);
        now.connection.is_none() && now.last.is_none_or(|last| last.elapsed() >= time)
    }

    /// Whether something does not work now.
    pub(crate) fn is_now(&self) -> bool {
        let now = lock(&self.now);
        now.connection.is_some() || !now.failures.is_empty()
    }

    /// Waits until the connection is made again.
    pub(crate) async fn back(&self) {
        self.back.notified().await;
    }

    pub(crate) fn tell(&self, words: String) {
        let mut last = lock(&self.last);
        if *last != words {
            last.clone_from(&words);
            let _ = self.told.send(words);
        }
    }

    /// The broker could do this.
    pub(crate) fn over(&self, what: &'static str) {
        let mut now = lock(&self.now);
        if now.failures.remove(what).is_some() && now.failures.is_empty() && std::mem::take(&mut now.is_told) {
            self.tell("the broker is there again".to_owned());
        }
    }

    /// The connection is lost. If the broker does not take us any more, these are the words for it.
    pub(crate) fn lost(&self, refused: Option<&str>) {
        let mut now = lock(&self.now);
        let words = refused.unwrap_or(AWAY);
        // It is tried again and again. That we are refused says more than that the connection is lost.
        let is_told = now.connection.as_deref().is_some_and(|told| told == words || refused.is_none());
        if !is_told {
            now.connection = Some(words.to_owned());
            now.failures.clear();
            now.is_told = false;
            self.tell(words.to_owned());
        }
    }

    /// The connection is there.
    pub(crate) fn connected(&self) {
        let mut now = lock(&self.now);
        if now.connection.take().is_some() {
            (now.connected, now.last) = (Some(Instant::now()), Some(Instant::now()));
            self.tell("the broker is there again".to_owned());
            self.back.notify_waiters();
        }
    }
}

/// Says what is wrong.
fn words(what: &str, error: &(dyn Error + Send + Sync)) -> String {
    let why = causes(error);
    if is_full(&why) {
        return FULL.to_owned();
    }
    if has_no_quorum(&why) {
        return format!("{NO_QUORUM}; this is tried again");
    }
    if is_silent(&why) {
        return SILENT.to_owned();
    }
    format!("the broker cannot {what} ({}); this is tried again", one_line(&why))
}

/// Whether these words say that nobody answered.
pub(crate) fn is_silent(why: &str) -> bool {
    ["timed out", "broken pipe", "no responders", "not connected", "no stream found"].iter().any(|words| why.contains(words))
}

/// Whether these are the broker's words for a stream that does not exist.
pub(super) fn is_unknown(why: &str) -> bool {
    why.contains("stream not found")
}

/// Whether these are the words of a server that is alone in its cluster.
pub(super) fn has_no_quorum(why: &str) -> bool {
    why.contains("temporarily unavailable")
}

/// Whether these are the broker's words for a stream or an account that is full.
pub(crate) fn is_full(why: &str) -> bool {
    !why.contains("max payload") && ["maximum", "insufficient", "exceeded", "no space"].iter().any(|word| why.contains(word))
}

/// An error with all its causes.
pub(crate) fn causes(error: &(dyn Error + Send + Sync)) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = next.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told when this happens.
    async fn told(happens: impl AsyncFnOnce(&Trouble)) -> Vec<String> {
        let (told, mut heard) = mpsc::unbounded_channel();
        let trouble = Trouble::new(told);
        happens(&trouble).await;
        drop(trouble);
        let mut all = Vec::new();
        while let Some(words) = heard.recv().await {
            all.push(words);
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_is_told_once() {
        let all = told(async |trouble| {
            trouble.over("x");
            for why in ["maximum bytes exceeded"; 2].into_iter().chain(["timed out"; 20]) {
                trouble.is("x", &std::io::Error::other(why)).await;
                // Something else works meanwhile.
                trouble.over("y");
            }
            trouble.over("x");
            trouble.over("x");
        })
        .await;
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(all[0].contains("no room") && all[1].contains("does not answer") && all[2].contains("there again"), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_connection_is_told_once_whatever_fails_because_of_it() {
        let all = told(async |trouble| {
            trouble.connected();
            for _ in 0..2 {
                trouble.lost(None);
                trouble.is("x", &std::io::Error::other("timed out")).await;
                trouble.lost(Some("refused"));
                trouble.lost(None);
                trouble.lost(Some("refused"));
                trouble.connected();
                // Asked before the connection was lost.
                trouble.is("x", &std::io::Error::other("timed out")).await;
                trouble.over("x");
            }
            tokio::time::sleep(LATE).await;
            for _ in 0..20 {
                trouble.is("x", &std::io::Error::other("timed out")).await;
            }
        })
        .await;
        let again = "the broker is there again";
        assert_eq!(all, [AWAY, "refused", again, AWAY, "refused", again, SILENT]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_election_is_no_news_and_a_cluster_without_a_quorum_is() {
        let all = told(async |trouble| {
            // Several leaders: one is missing after the other.
            for what in ["x", "y", "z", "x"] {
                trouble.is(what, &std::io::Error::other("timed out")).await;
                trouble.is(what, &std::io::Error::other("no responders")).await;
                trouble.over(what);
            }
            assert!(!trouble.is_over_for(LONG));
            trouble.is("x", &std::io::Error::other("JetStream system temporarily unavailable (error code 10008)")).await;
            trouble.over("x");
            tokio::time::sleep(LONG).await;
            assert!(trouble.is_over_for(LONG));
        })
        .await;
        assert_eq!(all, [format!("{NO_QUORUM}; this is tried again").as_str(), "the broker is there again"]);
    }
}
