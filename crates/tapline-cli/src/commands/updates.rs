//! What people are told about a running agent apart from the conversation, in the same words by `run` and `chat`.

use tapline_runner::Update;

/// Returns the warning in an update, if it is one.
pub(super) fn warning(update: &Update) -> Option<String> {
    let text = match update {
        Update::Lost(what) | Update::Trouble(what) => what.clone(),
        Update::Left(0) => "a process that the agent started may still be running: it could not be stopped".to_owned(),
        Update::Left(count) => format!("{count} of the agent's processes cannot be killed: the kernel does not let them exit"),
        Update::Record(_)
        | Update::Sent(_)
        | Update::Stderr(_)
        | Update::Stopping(_)
        | Update::Over(_)
        | Update::Settled(_) => return None,
    };
    Some(format!("WARNING: {text}"))
}
