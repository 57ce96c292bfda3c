//! Callbacks of the program: asynchronous, with a deadline, and never a danger to the run.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A callback: takes a question and returns an answer later.
pub(crate) type Callback<Q, A> = Arc<dyn Fn(Q) -> Pin<Box<dyn Future<Output = A> + Send>> + Send + Sync>;

pub(crate) fn callback<Q, A, F>(ask: impl Fn(Q) -> F + Send + Sync + 'static) -> Callback<Q, A>
where
    F: Future<Output = A> + Send + 'static,
{
    Arc::new(move |question| Box::pin(ask(question)))
}

/// How a callback failed that is written in another language, as words that follow its name: `raised ValueError: …`, `was cancelled`. Such a
/// callback unwinds with it ([`std::panic::resume_unwind`]), so that nobody is told of a panic.
///
/// ```
/// use tapline_runner::{Agent, Raised};
///
/// let agent = Agent::claude().on_permission(|_| async { std::panic::resume_unwind(Box::new(Raised("was cancelled".to_owned()))) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised(pub String);

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The callback panicked or raised; the words say which.
    Panicked(String),
    /// The callback took longer than this.
    Overran(Duration),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Panicked(message) => f.write_str(message),
            Self::Overran(limit) => write!(f, "gave no answer within {limit:?}"),
        }
    }
}

/// Returns the answer, unless the callback panics or takes too long.
pub(crate) async fn guarded<Q, A>(callback: &Callback<Q, A>, question: Q, within: Duration) -> Result<A, Failed> {
    let mut answer = pin!(async { callback(question).await });
    let caught = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(Failed::Panicked(words(panic.as_ref())))),
    });
    // A time beyond the range of the clock never comes.
    match tokio::time::timeout(within, caught).await {
        Ok(answer) => answer,
        Err(_) => Err(Failed::Overran(within)),
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    if let Some(Raised(words)) = panic.downcast_ref() {
        return words.clone();
    }
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no words"))
}
