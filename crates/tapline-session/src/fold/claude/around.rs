//! Events around the conversation: starts, limits, tasks, hooks, questions.

use tapline_protocol::claude::control::{ControlRequest, Request};
use tapline_protocol::claude::result::{PluginError, TurnResult};
use tapline_protocol::claude::system::{
    ApiRetry, CompactBoundary, Hook as WireHook, Init, RateLimitEvent, TaskNotification, TaskProgress, TaskStarted,
    TaskUpdated, ToolProgress,
};
use tapline_protocol::{Agent, Read as _};

use crate::call::describe;
use crate::fold::tasks::is_killed;
use crate::fold::{Fold, Steps};
use crate::step::{Hook, McpServer, Plugin, Progress, Question, RateLimit, Retry, SessionInfo, Setup, Task, What};
use crate::text::{grouped, one_line};
use crate::time::rfc3339;

impl Fold {
    pub(in crate::fold) fn init(&mut self, init: &Init, out: &mut Steps<'_>) {
        let first = self.session.inits == 0;
        let servers = init.mcp_servers.iter();
        let plugins = init.plugins.iter();
        let info = SessionInfo {
            agent: Some(Agent::Claude),
            id: out.record.envelope.session_id.clone(),
            first: first || self.session.current != out.record.envelope.session_id,
            setup: Setup {
                model: init.model.clone(),
                cwd: init.cwd.clone(),
                cli_version: init.claude_code_version.clone(),
                permission_mode: init.permission_mode.clone(),
                api_key_source: init.api_key_source.clone(),
                tools: init.tools.clone(),
                mcp_servers: servers
                    .map(|server| McpServer { name: server.name.clone(), status: server.status.clone() })
                    .collect(),
                agents: init.agents.clone(),
                skills: init.skills.clone(),
                plugins: plugins.map(|plugin| Plugin { name: plugin.name.clone(), version: plugin.version.clone() }).collect(),
                output_style: init.output_style.clone(),
                fast_mode_state: init.fast_mode_state.clone(),
            },
        };
        self.session.inits += 1;
        self.turns.elapsed.begin(out.record.arrived);
        self.session.current.clone_from(&info.id);
        if first {
            self.session.info = info.clone();
        }
        out.push(What::Session(Box::new(info)));
    }

    pub(in crate::fold) fn rate_limit(&mut self, event: &RateLimitEvent, out: &mut Steps<'_>) {
        let info = event.rate_limit_info.as_ref();
        let resets_at = info.and_then(|info| rfc3339(info.resets_at?));
        if info.is_some_and(|info| info.status.as_deref() == Some("rejected")) {
            self.limit_resets_at.clone_from(&resets_at);
        }
        out.push(What::RateLimit(RateLimit {
            status: info.and_then(|info| info.status.clone()),
            limit_type: info.and_then(|info| info.limit_type.clone()),
            utilization: info.and_then(|info| info.utilization),
            resets_at,
            info: info.map(|info| info.json.clone()),
        }));
    }

    pub(in crate::fold) fn task_started(&mut self, event: &TaskStarted, out: &mut Steps<'_>) {
        let Some(id) = event.task_id.clone() else {
            return out.quiet(None);
        };
        let task = Task {
            status: "running".to_owned(),
            terminal: false,
            description: event.description.clone(),
            kind: event.task_type.clone().or_else(|| self.tasks.all.get(&id).and_then(|(task, _)| task.kind.clone())),
            tool_use_id: event.tool_use_id.clone(),
            summary: None,
            duration_ms: None,
            id,
        };
        self.tasks.have_events = true;
        self.tasks.place(task.tool_use_id.as_ref(), event.is_backgrounded);
        self.tasks.all.insert(task.id.clone(), (task.clone(), out.record.arrived));
        out.push(What::Task(task));
    }

    pub(in crate::fold) fn task_updated(&mut self, event: &TaskUpdated, out: &mut Steps<'_>) {
        let patch = event.patch.clone().unwrap_or_default();
        let known = event.task_id.as_ref().and_then(|id| self.tasks.all.get(id));
        let call = known.and_then(|(task, _)| task.tool_use_id.clone());
        self.tasks.place(call.as_ref(), patch.is_backgrounded.filter(|moved| *moved));
        self.task(event.task_id.as_ref(), patch.status.as_deref(), None, patch.error, patch.description, out);
    }

    pub(in crate::fold) fn task_progress(&mut self, event: &TaskProgress, out: &mut Steps<'_>) {
        let doing = event.summary.clone().or_else(|| event.description.clone());
        let known = event.task_id.as_ref().is_some_and(|id| self.tasks.all.contains_key(id));
        let description = event.description.clone().filter(|_| !known);
        self.task(event.task_id.as_ref(), None, event.tool_use_id.clone(), doing, description, out);
    }

    pub(in crate::fold) fn task_notification(&mut self, event: &TaskNotification, out: &mut Steps<'_>) {
        let status = event.status.as_deref();
        self.task(event.task_id.as_ref(), status, event.tool_use_id.clone(), event.summary.clone(), None, out);
    }

    /// Updates a task. Later progress does not revive a task that has ended.
    fn task(
        &mut self,
        id: Option<&String>,
        status: Option<&str>,
        call: Option<String>,
        summary: Option<String>,
        description: Option<String>,
        out: &mut Steps<'_>,
    ) {
        const TERMINAL: &[&str] = &["completed", "failed", "stopped", "killed", "cancelled"];
        let Some(id) = id else { return out.quiet(None) };
        self.tasks.have_events = true;
        let (task, began) = self.tasks.all.entry(id.clone()).or_insert_with(|| {
            (
                Task {
                    id: id.clone(),
                    status: "running".to_owned(),
                    terminal: false,
                    description: None,
                    kind: None,
                    tool_use_id: None,
                    summary: None,
                    duration_ms: None,
                },
                None,
            )
        });
        if let Some(status) = status {
            let ends = TERMINAL.contains(&status);
            if ends && task.terminal && task.status == status {
                return out.quiet(Some(id));
            }
            if ends && !task.terminal {
                task.duration_ms = out.record.arrived.zip(*began).and_then(|(end, began)| end.millis_since(began));
            }
            // A command that was stopped has failed, too, as its exit status says: that is no end of its own.
            let says_more = ends && !(status == "failed" && is_killed(&task.status));
            if says_more || !task.terminal {
                status.clone_into(&mut task.status);
                task.terminal = ends;
            }
        }
        task.tool_use_id = call.or(task.tool_use_id.take());
        task.description = description.or(task.description.take());
        out.push(What::Task(Task { summary, ..task.clone() }));
    }
}

/// Returns what a result says went wrong around its turn, each with the code of its warning.
pub(super) fn troubles(turn: &TurnResult) -> Vec<(&'static str, String)> {
    let plugin = |error: &PluginError| {
        let name = error.plugin.as_deref().unwrap_or("a plugin");
        let why = error.message.as_deref().or(error.kind.as_deref()).unwrap_or("no reason given");
        ("plugin-error", format!("{name}: {why}"))
    };
    let stops = turn.safety_stops.as_ref().and_then(|stops| {
        stops.with(|stops| stops.items().map_or_else(|| u64::read(stops), |items| Some(items.count() as u64))).flatten()
    });
    let stops = stops.filter(|count| *count > 0).map(|count| {
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
        ("safety-stop", format!("the model was stopped {times} for safety"))
    });
    turn.plugin_errors.iter().map(plugin).chain(stops).collect()
}

pub(in crate::fold) fn retry(event: &ApiRetry) -> Retry {
    Retry {
        attempt: event.attempt.clone(),
        max: event.max_retries.clone(),
        delay_ms: event.retry_delay_ms.clone(),
        status: event.error_status.clone(),
        error: event.error.clone(),
    }
}

/// The phase of a hook.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::fold) enum HookPhase {
    Started,
    Ended,
}

pub(in crate::fold) fn hook(event: &WireHook, phase: HookPhase) -> Hook {
    let by_code = || {
        if event.exit_code.as_ref().is_none_or(|code| code.as_u64() == Some(0)) { "success" } else { "error" }
    };
    let outcome = (phase == HookPhase::Ended).then(|| event.outcome.clone().unwrap_or_else(|| by_code().to_owned()));
    Hook {
        id: event.hook_id.clone(),
        name: event.hook_name.clone(),
        event: event.hook_event.clone().filter(|event| !event.is_empty()).or_else(|| event.hook_name.clone()),
        outcome,
        exit_code: event.exit_code.clone(),
    }
}

pub(in crate::fold) fn progress(event: &ToolProgress) -> Progress {
    Progress { id: event.tool_use_id.clone(), name: event.tool_name.clone(), elapsed: event.elapsed_time_seconds }
}

pub(in crate::fold) fn compacted(event: &CompactBoundary) -> String {
    let data = event.compact_metadata.clone().unwrap_or_default();
    let tokens = match (data.pre_tokens, data.post_tokens) {
        (Some(before), Some(after)) => {
            format!(" from {} to {} tokens", grouped(before), grouped(after))
        }
        (Some(before), None) => format!(" from {} tokens", grouped(before)),
        (None, _) => String::new(),
    };
    format!("the conversation was compacted{tokens}")
}

/// Returns the step for a request to the host about a call. It is shown because the agent waits for the answer.
pub(in crate::fold) fn question(event: &ControlRequest, call: Option<String>) -> What {
    let Some(request) = &event.request else {
        return What::Quiet { kind: "control_request".to_owned(), detail: None };
    };
    let about = if let Request::CanUseTool(ask) = request {
        let name = ask.tool_name.as_deref().unwrap_or("a tool");
        Some(format!("{name} {}", describe(name, ask.input.as_ref()).title))
    } else if let Request::Elicitation(ask) = request {
        ask.message.as_deref().map(one_line)
    } else {
        None
    };
    let ask = if let Request::CanUseTool(ask) = request { Some(ask) } else { None };
    match about {
        Some(about) => What::Question(Question {
            request_id: event.request_id.clone(),
            kind: request.subtype().to_owned(),
            about: Some(about),
            tool: ask.and_then(|ask| ask.tool_name.clone()),
            input: ask.and_then(|ask| ask.input.clone()),
            tool_use_id: call.filter(|_| ask.is_some()),
        }),
        None => What::Quiet { kind: "control_request".to_owned(), detail: Some(request.subtype().to_owned()) },
    }
}
