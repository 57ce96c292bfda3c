//! The control protocol: requests and responses in both directions, on the same stream as the conversation.

mod reply;
mod request;

pub use reply::*;
pub use request::*;

use crate::json::Json;
use crate::wire::{Read, frame};

frame! {
    /// `control_request`: either side asks, and the other answers with the same id.
    ControlRequest { request_id: Option<String> = "request_id", request: Option<Request> = "request" }

    /// `control_response`
    ControlResponse { response: Option<Response> = "response" }

    /// A response: `success` with a payload, or `error` with a message.
    Response {
        subtype: Option<String> = "subtype",
        request_id: Option<String> = "request_id",
        response: Option<Json> = "response",
        error: Option<String> = "error",
        pending_permission_requests: Vec<Json> = "pending_permission_requests",
        pending_user_dialog_requests: Vec<Json> = "pending_user_dialog_requests",
        pending_elicitation_requests: Vec<Json> = "pending_elicitation_requests",
    }

    /// `control_cancel_request`: the side that asked no longer wants an answer.
    ControlCancelRequest { request_id: Option<String> = "request_id" }
}

impl Response {
    /// Reads the payload as the type that answers the request.
    pub fn payload<T: Read>(&self) -> Option<T> {
        self.response.as_ref()?.with(T::read).flatten()
    }
}

/// Adds `to_line` to frames, to write them to an agent's standard input.
macro_rules! lines {
    ($($tag:literal => $frame:ty),+ $(,)?) => { $(
        impl $frame {
            #[doc = concat!("Writes the frame as a line: `{\"type\":\"", $tag, "\", …}` and a newline.")]
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
