//! Hooks: the agent tells this program what it is about to do or has done, and the program can stop it.

use tapline_protocol::Json;
use tapline_protocol::control::{HookInput, HookReply};

use super::callback::{Callback, Failed};

macro_rules! events {
    ($($name:ident),+ $(,)?) => {
        /// The event that triggers a hook. New events may be added.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum HookEvent {
            $( #[doc = concat!("`", stringify!($name), "`")] $name, )+
            /// An event that this version does not know, by its name.
            Other(String),
        }

        impl HookEvent {
            /// Every event this version knows.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Its name on the wire.
            pub fn name(&self) -> &str {
                match self {
                    $( Self::$name => stringify!($name), )+
                    Self::Other(name) => name,
                }
            }
        }
    };
}

events! {
    PreToolUse, PostToolUse, PostToolUseFailure, PostToolBatch, Notification, UserPromptSubmit, UserPromptExpansion,
    SessionStart, SessionEnd, Stop, StopFailure, SubagentStart, SubagentStop, PreCompact, PostCompact, PreModelSwitch,
    PostModelSwitch, PermissionRequest, PermissionDenied, Setup, TeammateIdle, TaskCreated, TaskCompleted, Elicitation,
    ElicitationResult, ConfigChange, WorktreeCreate, WorktreeRemove, InstructionsLoaded, CwdChanged, FileChanged,
    DirectoryAdded, MessageDisplay,
}

impl AsRef<str> for HookEvent {
    fn as_ref(&self) -> &str {
        self.name()
    }
}

/// What a hook receives.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HookQuestion {
    /// The fields that every event has.
    pub input: HookInput,
    /// The whole input, unchanged: `tool_response`, `prompt`, … depending on the event.
    pub all: Json,
    /// The call that it is about.
    pub tool_use_id: Option<String>,
}

/// A hook of the program's.
#[derive(Clone)]
pub(crate) struct Hook {
    pub(crate) event: HookEvent,
    /// Tools it is for, as the agent matches them; all if none.
    pub(crate) matcher: Option<String>,
    pub(crate) callback: Callback<HookQuestion, HookReply>,
}

/// What is answered for a hook that did not: it denies where that holds something back. Where `block` would make the agent go
/// on (`Stop` and its like) or means nothing, the agent is told of the error.
pub(super) fn refusal(event: &str, failed: &Failed) -> Result<HookReply, String> {
    let reason = format!("the {event} hook {failed}");
    match event {
        "PreToolUse" => Ok(HookReply::deny_tool(reason)),
        "PermissionRequest" => Ok(HookReply::deny_permission(reason)),
        "UserPromptSubmit" | "UserPromptExpansion" | "PreModelSwitch" | "ConfigChange" => Ok(HookReply::block(reason)),
        _ => Err(reason),
    }
}

/// The id by which the agent calls the hook at this place.
pub(crate) fn id(place: usize) -> String {
    format!("hook_{place}")
}
