//! The control protocol: requests and answers that share the stream with the conversation, in both directions.

mod reply;
mod request;

pub use reply::*;
pub use request::*;

use crate::json::Json;
use crate::wire::{Read, frame};

frame! {
    /// `control_request`: either side asks; the other answers with the same id.
    ControlRequest { request_id: Option<String> = "request_id", request: Option<Request> = "request" }

    /// `control_response`
    ControlResponse { response: Option<Response> = "response" }

    /// An answer: `success` with a payload, or `error` with a text.
    Response {
        subtype: Option<String> = "subtype",
        request_id: Option<String> = "request_id",
        response: Option<Json> = "response",
        error: Option<String> = "error",
        pending_permission_requests: Vec<Json> = "pending_permission_requests",
        pending_user_dialog_requests: Vec<Json> = "pending_user_dialog_requests",
        pending_elicitation_requests: Vec<Json> = "pending_elicitation_requests",
    }

    /// `control_cancel_request`: the asker no longer wants an answer.
    ControlCancelRequest { request_id: Option<String> = "request_id" }
}

impl Response {
    /// The payload, read as what the request asked for.
    pub fn payload<T: Read>(&self) -> Option<T> {
        self.response.as_ref()?.with(T::read).flatten()
    }
}

/// Frames as lines, ready to be written to an agent's standard input.
macro_rules! lines {
    ($($tag:literal => $frame:ty),+ $(,)?) => { $(
        impl $frame {
            #[doc = concat!("The frame as a line: `{\"type\":\"", $tag, "\", …}` and a line end.")]
            pub fn to_line(&self) -> String {
                let mut line = Vec::new();
                // Writing to memory cannot fail, and every key is a string.
                let _ = crate::wire::tagged(&mut serde_json::Serializer::new(&mut line), "type", $tag, self);
                line.push(b'\n');
                String::from_utf8(line).unwrap_or_default()
            }
        }
    )+ };
}

lines! {
    "control_request" => ControlRequest,
    "control_response" => ControlResponse,
    "control_cancel_request" => ControlCancelRequest,
    "user" => UserInput,
}
