//! Hooks: the agent tells this program what it is about to do or has done, and the program can stop it.

use std::time::Duration;

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
            /// An event that this version does not know, with its name.
            Other(String),
        }

        impl HookEvent {
            /// Every event that this version knows.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Returns the name on the wire.
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

/// The input of a hook.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HookQuestion {
    /// The fields that every event has.
    pub input: HookInput,
    /// The whole input, unchanged: `tool_response`, `prompt`, … depending on the event.
    pub all: Json,
    /// The id of the call.
    pub tool_use_id: Option<String>,
}

/// A hook of the program.
#[derive(Clone)]
pub(crate) struct Hook {
    pub(crate) event: HookEvent,
    /// The tools it is for, in the agent's notation. `None` for all.
    pub(crate) matcher: Option<String>,
    pub(crate) callback: Callback<HookQuestion, HookReply>,
    /// How long it may take, if that is not as long as every callback may.
    pub(crate) within: Option<Duration>,
}

/// Returns the answer for a hook that failed: it denies, if that prevents something. If `block` would make the agent
/// continue (as for `Stop`) or means nothing, the agent gets an error.
pub(super) fn refusal(event: &str, failed: &Failed) -> Result<HookReply, String> {
    let reason = format!("the {event} hook {failed}");
    match event {
        "PreToolUse" => Ok(HookReply::deny_tool(reason)),
        "PermissionRequest" => Ok(HookReply::deny_permission(reason)),
        "UserPromptSubmit" | "UserPromptExpansion" | "PreModelSwitch" | "ConfigChange" => Ok(HookReply::block(reason)),
        _ => Err(reason),
    }
}

/// Returns the id that the agent uses for the hook with this index.
pub(crate) fn id(place: usize) -> String {
    format!("hook_{place}")
}
