//! Accessors for callers that need only one kind of event. They also find events with an unexpected shape.

use super::Event;
use crate::claude;
use crate::claude::control::{ControlCancelRequest, ControlRequest, ControlResponse};
use crate::claude::message::User;
use crate::claude::result::TurnResult;
use crate::claude::system::{BackgroundTasksChanged, CommandLifecycle, Hook, SessionStateChanged};

macro_rules! accessors {
    ($( $name:ident => $variant:ident($shape:ty); )+) => {
        impl Event {
            $(
                #[doc = concat!("Returns the event, if it is Claude's [`", stringify!($variant), "`](claude::Event::", stringify!($variant), ").")]
                pub fn $name(&self) -> Option<&$shape> {
                    if let Self::Claude(claude::Event::$variant(event)) = self.as_read() { Some(event) } else { None }
                }
            )+
        }
    };
}

accessors! {
    as_control_request => ControlRequest(ControlRequest);
    as_control_response => ControlResponse(ControlResponse);
    as_control_cancel_request => ControlCancelRequest(ControlCancelRequest);
    as_result => Result(TurnResult);
    as_user => User(User);
    as_command_lifecycle => CommandLifecycle(CommandLifecycle);
    as_session_state => SessionStateChanged(SessionStateChanged);
    as_background_tasks => BackgroundTasksChanged(BackgroundTasksChanged);
    as_hook_started => HookStarted(Hook);
    as_hook_response => HookResponse(Hook);
}
