//! Trouble with the broker: people are told once what it is, and once that it is over. Meanwhile everything is tried again.

use std::error::Error;
use std::sync::Mutex;
use std::time::Duration;

use tapline_session::text::one_line;
use tokio::sync::mpsc;

/// Tells people of trouble.
#[derive(Debug)]
pub(crate) struct Trouble {
    told: mpsc::UnboundedSender<String>,
    /// What was told last, if it is not over.
    last: Mutex<Option<String>>,
}

/// How long after a failure the next try comes.
const PAUSE: Duration = Duration::from_millis(500);

impl Trouble {
    pub(crate) fn new(told: mpsc::UnboundedSender<String>) -> Self {
        Self { told, last: Mutex::new(None) }
    }

    /// Something failed. Returns when it should be tried again.
    pub(crate) async fn is(&self, what: &str, error: &(dyn Error + Send + Sync)) {
        self.tell(words(what, error));
        tokio::time::sleep(PAUSE).await;
    }

    pub(crate) fn tell(&self, words: String) {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if last.as_ref() != Some(&words) {
            let _ = self.told.send(words.clone());
            *last = Some(words);
        }
    }

    /// Something worked.
    pub(crate) fn over(&self) {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if last.take().is_some() {
            let _ = self.told.send("the broker is there again".to_owned());
        }
    }
}

/// Says what is wrong.
fn words(what: &str, error: &(dyn Error + Send + Sync)) -> String {
    let why = causes(error);
    if is_full(&why) {
        return "the broker has no room: raise the limits of its streams. This is tried again until there is room".to_owned();
    }
    if ["timed out", "broken pipe", "no responders", "not connected", "no stream found"].iter().any(|words| why.contains(words))
    {
        return "the broker does not answer; this is tried again until it does".to_owned();
    }
    format!("the broker cannot {what} ({}); this is tried again", one_line(&why))
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

    #[tokio::test(start_paused = true)]
    async fn trouble_is_told_once() {
        let (told, mut heard) = mpsc::unbounded_channel();
        let trouble = Trouble::new(told);
        trouble.over();
        for why in ["maximum bytes exceeded", "maximum bytes exceeded", "timed out", "timed out"] {
            trouble.is("x", &std::io::Error::other(why)).await;
        }
        trouble.over();
        trouble.over();
        drop(trouble);
        let mut all = Vec::new();
        while let Some(words) = heard.recv().await {
            all.push(words);
        }
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(all[0].contains("no room") && all[1].contains("does not answer") && all[2].contains("there again"), "{all:?}");
    }
}
