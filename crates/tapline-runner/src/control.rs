//! Sends messages and control requests to a running agent, from any task, each with a deadline.

mod error;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tapline_protocol::control::{ControlRequest, Initialize, InitializeReply, Request, Response};
use tapline_protocol::{Json, Read};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use crate::dialogue::Say;
use crate::message::Message;
use crate::update::Delivery;
pub use error::SessionError;

/// A handle to talk to a running agent. It is cheap to clone and usable from any task: while one part of a program
/// waits for a turn, another can interrupt it.
///
/// Each request is a method; other requests go through [`request_raw`](Self::request_raw). If no answer arrives within
/// the deadline, the error names the request, and a later answer is dropped.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tapline_runner::Agent;
///
/// let mut session = Agent::claude().session().await?;
/// let control = session.control();
/// tokio::spawn(async move {
///     tokio::time::sleep(std::time::Duration::from_secs(60)).await;
///     control.interrupt().await
/// });
/// match session.turn("Find the bug.").await {
///     Ok(turn) => println!("{}", turn.answer),
///     Err(error) => println!("{error}"), // the turn was interrupted
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Control {
    say: UnboundedSender<Say>,
    next: Arc<AtomicU64>,
    within: Duration,
    /// Whether its requests are optional: the agent's input may be closed before they are answered.
    in_passing: bool,
}

impl Control {
    pub(crate) fn new(say: UnboundedSender<Say>, within: Duration) -> Self {
        Self { say, next: Arc::default(), within, in_passing: false }
    }

    /// Returns a handle for requests that delay nothing.
    pub(crate) fn in_passing(&self) -> Self {
        Self { in_passing: true, ..self.clone() }
    }

    /// Returns a handle with another deadline for its requests.
    #[must_use]
    pub fn within(&self, deadline: Duration) -> Self {
        Self { within: deadline, ..self.clone() }
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.within
    }

    /// Sends a message without waiting. Follow it with [`Sent`] or in the records.
    pub fn send(&self, message: impl Into<Message>) -> Result<Sent, SessionError> {
        let message = message.into();
        let (told, delivery) = watch::channel(None);
        let (uuid, line) = message.to_line();
        self.say(Say::Message { uuid: uuid.clone(), line, delivery: told }, "message")?;
        Ok(Sent { uuid, delivery, within: self.within })
    }

    /// Sends a control request and waits for the answer.
    pub async fn request(&self, request: Request) -> Result<Response, SessionError> {
        let name = request.subtype().to_owned();
        let id = format!("tapline_{}", self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let line = ControlRequest { request_id: Some(id.clone()), request: Some(request) }.to_line();
        let (reply, answer) = oneshot::channel();
        self.say(Say::Request { id: id.clone(), line, reply, in_passing: self.in_passing }, &name)?;
        let mut wanted = Wanted { say: &self.say, id: Some(id) };
        let answer = tokio::time::timeout(self.within, answer).await;
        let response = match answer {
            Err(_) => return Err(SessionError::NoAnswer { request: name, within: self.within }),
            Ok(answer) => {
                wanted.id = None;
                answer.map_err(|_| SessionError::Ended { request: name.clone() })?
            }
        };
        match response.subtype.as_deref() {
            Some("error") => {
                let error = response.error.unwrap_or_else(|| "it does not say why".to_owned());
                Err(SessionError::Refused { request: name, error })
            }
            _ => Ok(response),
        }
    }

    /// Sends a request that has no method of its own: its subtype, and its other fields as an object. Returns the
    /// answer unchanged, or `null` if there is none.
    pub async fn request_raw(&self, subtype: &str, fields: impl Into<Json>) -> Result<Json, SessionError> {
        let fields = fields.into();
        let mut all = serde_json::Map::new();
        all.insert("subtype".to_owned(), subtype.into());
        let given: serde_json::Map<_, _> = fields.to().map_err(|error| SessionError::Refused {
            request: subtype.to_owned(),
            error: format!("its fields must be an object: {error}"),
        })?;
        all.extend(given.into_iter().filter(|(key, _)| key != "subtype"));
        let request = Request::Other(Some(subtype.to_owned()), serde_json::Value::from(all).into());
        Ok(self.request(request).await?.response.unwrap_or_else(Json::null))
    }

    /// Sends a request and reads the answer. Missing fields are empty.
    pub(crate) async fn ask<T: Read + Default>(&self, request: Request) -> Result<T, SessionError> {
        Ok(self.request(request).await?.payload().unwrap_or_default())
    }

    /// Sends the first request: what is answered here.
    pub(crate) async fn initialize(&self, request: Initialize) -> Result<InitializeReply, SessionError> {
        self.ask(Request::Initialize(request)).await
    }

    /// Ends the messages. The agent's input is closed as soon as nothing can need it.
    pub(crate) fn finish(&self) {
        let _ = self.say.send(Say::Finish);
    }

    fn say(&self, say: Say, request: &str) -> Result<(), SessionError> {
        self.say.send(say).map_err(|_| SessionError::Ended { request: request.to_owned() })
    }
}

/// A request that somebody waits for. When nobody waits any more, it is withdrawn.
struct Wanted<'a> {
    say: &'a UnboundedSender<Say>,
    id: Option<String>,
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let _ = self.say.send(Say::Withdraw { id });
        }
    }
}

/// A message that was sent. You need not keep it.
#[derive(Clone, Debug)]
pub struct Sent {
    uuid: String,
    delivery: watch::Receiver<Option<Delivery>>,
    within: Duration,
}

impl Sent {
    /// Returns the message's uuid.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Returns what the agent has reported about the message so far. Versions before 2.1.325 may report nothing, unless
    /// they repeat messages (`--replay-user-messages`).
    pub fn delivery(&self) -> Option<Delivery> {
        self.delivery.borrow().clone()
    }

    /// Waits until the agent acknowledges the message.
    pub async fn acknowledged(&mut self) -> Result<Delivery, SessionError> {
        let told = tokio::time::timeout(self.within, self.delivery.wait_for(Option::is_some)).await;
        let request = "message".to_owned();
        match told {
            Err(_) => Err(SessionError::NoAnswer { request, within: self.within }),
            Ok(Err(_)) => Err(SessionError::Ended { request }),
            Ok(Ok(delivery)) => delivery.clone().ok_or(SessionError::Ended { request }),
        }
    }
}
