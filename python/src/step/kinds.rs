//! The kinds of steps: a class each, with the attributes that it has.

use std::collections::HashMap;

use pyo3::IntoPyObjectExt as _;
use pyo3::PyTypeInfo as _;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use tapline::What;
use tapline::session::step::Partial as Part;

use super::Step;
use crate::json::raw;

/// One row a kind of step: its class, the variant, what `match` takes by position, and its attributes.
macro_rules! kinds {
    ($( $(#[$about:meta])* $class:ident($($by_place:literal),*) = $pattern:pat => {
        $( $(#[$doc:meta])* $field:ident: $value:expr; )*
    } )+) => {
        $(
            $(#[$about])*
            #[pyclass(frozen, extends = Step, module = "tapline.step")]
            pub(crate) struct $class;

            #[pymethods]
            impl $class {
                #[classattr]
                fn __match_args__(py: Python<'_>) -> PyResult<Py<PyTuple>> {
                    let names: &[&str] = &[$($by_place),*];
                    PyTuple::new(py, names).map(Bound::unbind)
                }

                $(
                    $(#[$doc])*
                    #[getter]
                    fn $field(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
                        let py = slf.py();
                        match &slf.as_super().get().0.what {
                            #[allow(unused_variables, reason = "a kind has several attributes")]
                            $pattern => ($value).into_py_any(py),
                            _ => Ok(py.None()),
                        }
                    }
                )*
            }
        )+

        /// A step as an object of its class; of a kind that this version does not know, as a plain step.
        pub(crate) fn object(py: Python<'_>, step: tapline::Step) -> PyResult<Py<PyAny>> {
            match &step.what {
                $(
                    #[allow(unused_variables, reason = "the class is enough")]
                    $pattern => {
                        let made = PyClassInitializer::from(Step(step)).add_subclass($class);
                        Ok(Bound::new(py, made)?.into_any().unbind())
                    }
                )+
                _ => Ok(Bound::new(py, Step(step))?.into_any().unbind()),
            }
        }

        /// Every class, for the module.
        pub(crate) fn classes(py: Python<'_>) -> Vec<Bound<'_, PyType>> {
            vec![Step::type_object(py), $( $class::type_object(py) ),+]
        }
    };
}

kinds! {
    /// A session (or a thread, as some agents call it) or another turn of it started.
    Session("id", "model") = What::Session(it) => {
        /// The agent: `claude` or `codex`.
        agent: it.agent.map(tapline::AgentKind::name);
        /// The id with which it can be resumed.
        id: it.id.as_deref();
        /// Whether this is the first start in the stream and not another turn.
        first: it.first;
        /// The model.
        model: it.setup.model.as_deref();
        /// The working directory.
        cwd: it.setup.cwd.as_deref();
        /// The agent's version.
        cli_version: it.setup.cli_version.as_deref();
        /// What it may do without asking.
        permission_mode: it.setup.permission_mode.as_deref();
        /// The source of its API key: a label, not a secret.
        api_key_source: it.setup.api_key_source.as_deref();
        /// Its tools.
        tools: it.setup.tools.clone();
        /// Its MCP servers: dicts with `name` and `status`.
        mcp_servers: raw(&it.setup.mcp_servers);
        /// Its kinds of sub-agent.
        agents: it.setup.agents.clone();
        /// Its skills.
        skills: it.setup.skills.clone();
        /// Its plugins: dicts with `name`.
        plugins: raw(&it.setup.plugins);
        /// The output style.
        output_style: it.setup.output_style.as_deref();
        /// The state of fast mode.
        fast_mode_state: it.setup.fast_mode_state.as_deref();
    }

    /// A person or program sent the agent a prompt.
    Prompt("text") = What::Prompt { text } => {
        /// The prompt.
        text: text.as_str();
    }

    /// The agent wrote something: the complete text.
    Text("text") = What::Text(it) => {
        /// The text.
        text: it.text.as_str();
        /// The message it belongs to.
        message_id: it.message_id.as_deref();
        /// The uuid of its event, by which it can be withdrawn.
        uuid: it.uuid.as_deref();
        /// Whether an interrupt cut it short.
        aborted: it.aborted;
    }

    /// The agent had a thought.
    Thinking("text") = What::Thinking(it) => {
        /// The text.
        text: it.text.as_str();
        /// The message it belongs to.
        message_id: it.message_id.as_deref();
        /// The uuid of its event, by which it can be withdrawn.
        uuid: it.uuid.as_deref();
        /// Whether an interrupt cut it short.
        aborted: it.aborted;
    }

    /// The agent called a tool.
    Call("name", "title") = What::Call(it) => {
        /// The id that its result refers to.
        id: it.id.as_deref();
        /// The tool.
        name: it.name.as_str();
        /// What it does, as a verb: running, reading, ...
        doing: &*it.doing;
        /// The same in the past tense: ran, read, ...
        done: &*it.done;
        /// Its main input, on one line.
        title: it.title.as_str();
        /// Its input, if that is an object.
        input: raw(&it.input);
        /// The message it belongs to.
        message_id: it.message_id.as_deref();
    }

    /// A call has a result.
    Answer("name", "status") = What::Answer(it) => {
        /// The call's id.
        id: it.id.as_deref();
        /// The call's tool.
        name: it.name.as_deref();
        /// The call's title.
        title: it.title.as_deref();
        /// What the call did: ran, read, ...
        done: it.done.as_deref();
        /// How it ended: `ok`, `error` or `denied`.
        status: it.status.word();
        /// The result, as text.
        text: it.text.as_str();
        /// Whether `is_error` was literally true.
        is_error: it.is_error;
        /// How it ended, if the agent says that it did not end by itself: `cancelled`, `interrupted` or `unknown`.
        ended: it.ended.map(tapline::session::step::CallEnd::word);
        /// Who denied it and why, if that was known by then: a dict with `by` and `reason`.
        denial: it.denial.as_ref().map(raw);
        /// Its index in the event.
        block: it.block;
        /// The time from the call to this result, in milliseconds.
        duration_ms: it.duration_ms;
    }

    /// A result came for a call that was never seen.
    Orphan("id") = What::Orphan(it) => {
        /// The id of the call that is missing.
        id: it.id.as_deref();
        /// How it ended: `ok`, `error` or `denied`.
        status: it.status.word();
        /// The result, as text.
        text: it.text.as_str();
        /// Whether `is_error` was literally true.
        is_error: it.is_error;
        /// Its index in the event.
        block: it.block;
    }

    /// The API itself ran a tool.
    ServerCall("name") = What::ServerCall(it) => {
        /// The id that its result refers to.
        id: it.id.as_deref();
        /// The tool.
        name: it.name.as_deref();
        /// Its input.
        input: raw(&it.input);
    }

    /// The result of a tool that the API ran.
    ServerAnswer("tool_use_id") = What::ServerAnswer(it) => {
        /// The call's id.
        tool_use_id: it.tool_use_id.as_deref();
        /// The result.
        content: raw(&it.content);
    }

    /// A part of a message that is still being written.
    Partial("text") = What::Partial(it) => {
        /// Which part: `delta`, `message_start`, `block_start`, `block_stop`, `message_delta`, `message_stop`.
        part: match it {
            Part::MessageStart { .. } => "message_start",
            Part::BlockStart { .. } => "block_start",
            Part::Delta { .. } => "delta",
            Part::BlockStop { .. } => "block_stop",
            Part::MessageDelta { .. } => "message_delta",
            _ => "message_stop",
        };
        /// The block's place in the message.
        index: match it {
            Part::BlockStart { index, .. } | Part::Delta { index, .. } | Part::BlockStop { index, .. } => Some(*index),
            _ => None,
        };
        /// Of a delta what it adds to: `text`, `thinking` or `json`; of a block its type.
        kind: match it {
            Part::BlockStart { kind, .. } => Some(kind.as_str()),
            Part::Delta { kind, .. } => Some(kind.word()),
            _ => None,
        };
        /// What a delta adds; else empty.
        text: match it { Part::Delta { text, .. } => text.as_str(), _ => "" };
        /// The tool of a block that starts a call.
        name: match it { Part::BlockStart { name, .. } => name.as_deref(), _ => None };
        /// The id of a message that starts.
        message_id: match it { Part::MessageStart { message_id, .. } => message_id.as_deref(), _ => None };
        /// Why the message ends.
        stop_reason: match it { Part::MessageDelta { stop_reason, .. } => stop_reason.as_deref(), _ => None };
        /// The tokens the message took.
        output_tokens: match it { Part::MessageDelta { output_tokens, .. } => *output_tokens, _ => None };
    }

    /// The agent withdrew earlier messages.
    Retracted("uuids") = What::Retracted { uuids } => {
        /// Their uuids.
        uuids: uuids.clone();
    }

    /// A turn ended. The run may continue.
    Turn("subtype", "result") = What::Turn(it) => {
        /// Its index among the turns, from 0.
        index: it.index;
        /// `success`, `error_max_turns`, ... (other agents: `completed`, `failed`)
        subtype: it.subtype.as_deref();
        /// Whether `is_error` was literally true.
        is_error: it.is_error;
        /// The agent's final text.
        result: it.result.as_deref();
        /// The errors, if the agent lists them.
        errors: raw(&it.errors);
        /// Why the model stopped.
        stop_reason: it.stop_reason.as_deref();
        /// Why the turn ended.
        terminal_reason: it.terminal_reason.as_deref();
        /// The API's HTTP status.
        api_error_status: raw(&it.api_error_status);
        /// Requests to the model, as the agent counts them.
        num_turns: raw(&it.num_turns);
        /// The duration of the turn, as the agent counts it.
        duration_ms: raw(&it.duration_ms);
        /// The time spent waiting for the model.
        duration_api_ms: raw(&it.duration_api_ms);
        /// Denied calls, unchanged.
        permission_denials: raw(&it.permission_denials);
        /// The structured answer.
        structured_output: raw(&it.structured_output);
        /// A deferred call.
        deferred_tool_use: raw(&it.deferred_tool_use);
        /// The uuid of the result.
        uuid: it.uuid.as_deref();
        /// What started the turn.
        origin: raw(&it.origin);
        /// `error`, unchanged.
        error: raw(&it.error);
        /// Whether the turn failed.
        failed: it.failed;
        /// The error message for people.
        message: it.message.as_deref();
        /// Whether the result repeats the last text.
        repeats_text: it.repeats_text;
        /// Why the turn failed.
        category: it.category.map(tapline::Category::word);
        /// The totals of all turns up to this one.
        so_far: raw(&it.so_far);
        /// What the turn's thread has used so far, unchanged, if the agent counts by thread.
        thread_usage: raw(&it.thread_usage);
        /// The tokens of this turn's main thread; further keys are unchanged.
        usage: raw(&it.usage);
        /// The total the agent reported.
        total_cost_usd: raw(&it.total_cost_usd);
        /// What the agent reported for each model.
        model_usage: raw(&it.model_usage);
        /// What this turn cost.
        cost_usd: it.cost_usd;
        /// The time from the turn's prompt or first event to its end, as it arrived.
        elapsed_ms: it.elapsed_ms;
        /// What else the agent says of the turn, unchanged.
        own: it.own.iter().map(|(key, value)| (key.clone(), raw(value))).collect::<HashMap<_, _>>();
    }

    /// The agent retries a request to the model.
    Retry("status", "error") = What::Retry(it) => {
        /// The number of the attempt.
        attempt: raw(&it.attempt);
        /// The maximum number of attempts.
        max: raw(&it.max);
        /// The wait before it.
        delay_ms: raw(&it.delay_ms);
        /// The HTTP status.
        status: raw(&it.status);
        /// What went wrong.
        error: it.error.as_deref();
    }

    /// How much of a subscription's limit is used up.
    RateLimit("status") = What::RateLimit(it) => {
        /// `allowed`, `allowed_warning`, `rejected`
        status: it.status.as_deref();
        /// Which limit.
        limit_type: it.limit_type.as_deref();
        /// When it resets, RFC 3339.
        resets_at: it.resets_at.as_deref();
        /// How much is used, 0 to 1.
        utilization: it.utilization;
        /// The unchanged `rate_limit_info`.
        info: raw(&it.info);
    }

    /// A background task started, changed or ended.
    Task("id", "status") = What::Task(it) => {
        /// Its id.
        id: it.id.as_str();
        /// running, pending, paused, completed, failed, stopped, killed, ...
        status: it.status.as_str();
        /// Whether it has ended.
        terminal: it.terminal;
        /// Its description.
        description: it.description.as_deref();
        /// Its type.
        r#type: it.kind.as_deref();
        /// The call that started it.
        tool_use_id: it.tool_use_id.as_deref();
        /// What it is doing, or has done.
        summary: it.summary.as_deref();
        /// How long it took, once it has ended.
        duration_ms: it.duration_ms;
    }

    /// A hook started or ended.
    Hook("name", "outcome") = What::Hook(it) => {
        /// The id that its end refers to.
        id: it.id.as_deref();
        /// Its name.
        name: it.name.as_deref();
        /// The event that triggered it.
        event: it.event.as_deref();
        /// How it ended; None while it runs.
        outcome: it.outcome.as_deref();
        /// Its exit code.
        exit_code: raw(&it.exit_code);
    }

    /// A call was denied.
    Denied("name", "message") = What::Denied(it) => {
        /// The call.
        id: it.id.as_deref();
        /// The tool.
        name: it.name.as_deref();
        /// Its main input, on one line.
        title: it.title.as_deref();
        /// The reason.
        message: it.message.as_deref();
        /// Who denied it and why, as far as it is known: a dict with `by` and `reason`.
        denial: (it.denial != tapline::session::step::Denial::default()).then(|| raw(&it.denial));
        /// Whether a result with the denial follows.
        answer_follows: it.answer_follows;
    }

    /// The agent asks the program that started it, and waits.
    Question("kind", "about") = What::Question(it) => {
        /// The request's id.
        request_id: it.request_id.as_deref();
        /// `can_use_tool`, `hook_callback`, ...
        kind: it.kind.as_str();
        /// What it asks about, on one line.
        about: it.about.as_deref();
        /// The tool, if it asks whether one may run.
        tool: it.tool.as_deref();
        /// The whole input of the call.
        input: raw(&it.input);
        /// The id of the call.
        tool_use_id: it.tool_use_id.as_deref();
    }

    /// A tool is still running.
    Progress("name", "elapsed") = What::Progress(it) => {
        /// The call.
        id: it.id.as_deref();
        /// The tool.
        name: it.name.as_deref();
        /// How long it has been running, in seconds.
        elapsed: it.elapsed;
    }

    /// An item, unchanged, from an agent that reports its work in items.
    Item("phase", "item") = What::Item(it) => {
        /// How far it is: `started`, `updated` or `completed`.
        phase: it.phase.word();
        /// Its fields.
        item: it.item.iter().map(|(key, value)| (key.clone(), raw(value))).collect::<HashMap<_, _>>();
        /// The number of the thread, from 1: each process starts again at its first item.
        thread: it.thread;
    }

    /// An error of the agent or the model that does not end the turn by itself.
    Error("text") = What::Error { text } => {
        /// The name or text of the error.
        text: text.as_str();
    }

    /// Something a person may want to know.
    Notice("text") = What::Notice(it) => {
        /// Its importance: `info`, `warning` or `error`.
        level: it.level.word();
        /// The event's type, or `system/<subtype>`.
        kind: it.kind.as_str();
        /// The text.
        text: it.text.as_str();
    }

    /// Something that a person need not see: states, acknowledgements and similar.
    Quiet("kind") = What::Quiet { kind, detail } => {
        /// The event's type, or `system/<subtype>`.
        kind: kind.as_str();
        /// Its state or detail, in a word.
        detail: detail.as_deref();
    }

    /// A line that could not be read normally.
    Odd("code", "message") = What::Odd(it) => {
        /// The warning's code: `malformed-line`, `unknown-type`, ...
        code: &*it.code;
        /// What is wrong.
        message: it.message.as_str();
        /// The unknown type, or `item/<type>`.
        unknown: it.unknown.as_deref();
        /// The whole line, if the agent is not known yet and there is nothing else to show.
        text: it.text.as_deref();
    }
}
