//! What can be moved to other threads, and what can be shared between them. It is the compiler that tests it.

use std::io::Cursor;

use tapline::recording::{Recorder, Recording, RecordingError, Redactor, Store};
use tapline::session::permission::PendingCall;
use tapline::session::policy::{Policy, PolicyChecker};
use tapline::{
    Agent, Answer, Collector, Control, Conversation, Decoder, Event, Failure, Fold, Input, Json, Ledger, Message, Permission,
    PermissionQuestion, Permissions, Reader, Record, Refusal, Report, Running, RunningTurn, Sent, Session, SessionError,
    Source, SourceError, StartError, Step, Stopper, SubAgent, Summary, Tool, ToolServer, TurnReport, Update, Verdict,
};

fn send<T: Send>() {}

fn shared<T: Send + Sync + Clone>() {}

fn error<T: std::error::Error + Send + Sync + 'static>() {}

fn value<T: Send + Sync + Clone + PartialEq + serde::Serialize + serde::de::DeserializeOwned>() {}

fn future<T: Send>(_: impl FnOnce(Agent) -> T) {}

#[test]
fn what_moves_to_other_threads() {
    send::<Agent>();
    send::<Running>();
    send::<Session>();
    send::<RunningTurn<'static>>();
    send::<Conversation>();
    send::<Source<Cursor<Vec<u8>>>>();
    send::<Recorder>();
    send::<Reader<Cursor<Vec<u8>>>>();
    send::<Input<Cursor<Vec<u8>>>>();
    send::<Decoder>();
    send::<Fold>();
    send::<Collector>();
    send::<Update>();
    future(Agent::start);
    future(Agent::ask);
    future(Agent::session);
}

#[test]
fn what_is_shared_between_threads() {
    shared::<Control>();
    shared::<Stopper>();
    shared::<Redactor>();
    shared::<Permissions>();
    shared::<Policy>();
    shared::<PolicyChecker>();
    shared::<Record>();
    shared::<Event>();
    shared::<Json>();
    shared::<Summary>();
    shared::<Answer>();
    shared::<TurnReport>();
    shared::<Message>();
    shared::<Permission>();
    shared::<PermissionQuestion>();
    shared::<PendingCall>();
    shared::<Sent>();
    shared::<SubAgent>();
    shared::<Refusal>();
    shared::<Recording>();
    shared::<Store>();
    shared::<Tool>();
    shared::<ToolServer>();
}

#[test]
fn what_is_a_value() {
    value::<Report>();
    value::<Step>();
    value::<Verdict>();
    value::<Ledger>();
}

#[test]
fn what_can_fail() {
    error::<StartError>();
    error::<Failure>();
    error::<SessionError>();
    error::<SourceError>();
    error::<RecordingError>();
    error::<Refusal>();
}
