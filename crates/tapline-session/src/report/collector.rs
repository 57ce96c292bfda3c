//! Collects what grows with a stream: texts, calls, turns. With the fold's summary it becomes the report.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use tapline_protocol::Json;

use super::{CallEntry, OrphanEntry, PartialTexts, Report, ResultEntry, Run, SessionEntry, TaskEntry, Tools};
use crate::fold::{Extensions, Summary};
use crate::format::StreamFormat;
use crate::step::{
    Call, CallAnswer, CallEnd, CallStatus, DeltaKind, Denial, Hook, Partial, Retry, Said, SoFar, Step, Task, Turn, What,
};
use crate::verdict::{Ending, Outcome};

/// Collects steps for a report.
#[derive(Debug, Default)]
pub struct Collector {
    /// The parts of the report that are wanted. With `None`, all of it.
    only: Option<Vec<String>>,
    texts: Vec<Passage>,
    thinking: Vec<Passage>,
    prompts: Vec<String>,
    tools: Tools,
    calls: HashMap<String, usize, RandomState>,
    /// Calls that were denied before they appeared.
    denied: HashMap<String, Denial>,
    turns: Vec<Turn>,
    retries: Vec<Retry>,
    rate_limit: Option<Json>,
    rate_limit_events: u64,
    tasks: Vec<Task>,
    task_at: HashMap<String, usize>,
    hooks: Vec<Hook>,
    open_hooks: HashMap<HookKey, Vec<usize>, RandomState>,
    orphans: HashSet<String>,
    assistant_errors: Vec<String>,
    partial: PartialTexts,
    extensions: Extensions,
}

/// The key that connects the end of a hook with its start: its id, or its name and event.
type HookKey = (Option<String>, Option<String>, Option<String>);

#[derive(Debug)]
struct Passage {
    text: String,
    main: bool,
    uuid: Option<String>,
}

impl Collector {
    /// Collects only what the values at these paths need (see [`get`](super::get)), so that one value of a huge
    /// stream takes little memory.
    pub fn for_paths<'p>(paths: impl IntoIterator<Item = &'p str>) -> Self {
        let root = |path: &str| path.trim_start_matches('.').split(['.', '[']).next().unwrap_or_default().to_owned();
        Self { only: Some(paths.into_iter().map(root).collect()), ..Self::default() }
    }

    fn wants(&self, part: &str) -> bool {
        is_wanted(self.only.as_deref(), part)
    }

    /// Takes the next step.
    pub fn accept(&mut self, step: &Step) {
        self.extensions.accept(step, |part| is_wanted(self.only.as_deref(), part));
        self.keep(step);
    }

    /// Takes the next step from a caller that does not need it any more: what is long is not copied.
    pub fn take(&mut self, mut step: Step) {
        self.extensions.accept(&step, |part| is_wanted(self.only.as_deref(), part));
        if let (What::Text(said), true) = (&mut step.what, self.wants("text")) {
            self.texts.push(passage(std::mem::take(said), step.parent.as_ref()));
        } else if let (What::Answer(answer), true) = (&mut step.what, self.wants("tools")) {
            self.answer(std::mem::take(answer), step.line);
        } else if let (What::Turn(turn), true) = (&mut step.what, self.wants("turns")) {
            self.turns.push(for_report(std::mem::take(turn)));
        } else {
            self.keep(&step);
        }
    }

    fn keep(&mut self, step: &Step) {
        match &step.what {
            What::Text(said) => {
                if self.wants("text") {
                    self.texts.push(passage(said.clone(), step.parent.as_ref()));
                }
            }
            What::Thinking(said) => {
                if self.wants("thinking") && !said.text.is_empty() {
                    self.thinking.push(passage(said.clone(), step.parent.as_ref()));
                }
            }
            What::Prompt { text } => {
                if self.wants("prompts") {
                    self.prompts.push(text.clone());
                }
            }
            What::Call(call) => {
                if self.wants("tools") {
                    self.call(call, step);
                }
            }
            What::Answer(answer) => {
                if self.wants("tools") {
                    self.answer(answer.clone(), step.line);
                }
            }
            What::Orphan(answer) => {
                if self.wants("tools") {
                    self.orphans.extend(answer.id.clone());
                    self.tools.orphan_results.push(orphan(answer, step));
                }
            }
            What::ServerCall(call) => {
                if self.wants("tools") {
                    self.tools.server_calls.push(call.clone());
                }
            }
            What::ServerAnswer(answer) => {
                if self.wants("tools") {
                    self.tools.server_results.push(answer.clone());
                }
            }
            What::Denied(denied) => {
                if let Some(id) = denied.id.as_ref().filter(|_| self.wants("tools")) {
                    match self.calls.get(id) {
                        Some(at) => {
                            self.tools.calls[*at].status = CallStatus::Denied;
                            self.tools.calls[*at].denial = Some(denied.denial.clone());
                        }
                        None => drop(self.denied.insert(id.clone(), denied.denial.clone())),
                    }
                }
            }
            What::Partial(Partial::Delta { kind, text, .. }) => {
                if self.wants("partial") {
                    let sum = match kind {
                        DeltaKind::Text => &mut self.partial.text,
                        DeltaKind::Thinking => &mut self.partial.thinking,
                        DeltaKind::Json => &mut self.partial.json,
                    };
                    sum.push_str(text);
                }
            }
            What::Retracted { uuids } => {
                let uuids: HashSet<&String> = uuids.iter().collect();
                let stays = |passage: &Passage| passage.uuid.as_ref().is_none_or(|uuid| !uuids.contains(uuid));
                self.texts.retain(stays);
                self.thinking.retain(stays);
            }
            What::Turn(turn) => {
                if self.wants("turns") {
                    self.turns.push(for_report(turn.as_ref().clone()));
                }
            }
            What::Retry(retry) => self.retries.push(retry.clone()),
            What::RateLimit(limit) => {
                self.rate_limit_events += 1;
                self.rate_limit = limit.info.clone().or(self.rate_limit.take());
            }
            What::Task(task) => self.task(task),
            What::Hook(hook) => self.hook(hook),
            What::Error { text } => self.assistant_errors.push(text.clone()),
            What::Session(_)
            | What::Partial(_)
            | What::Question(_)
            | What::Progress(_)
            | What::Item(_)
            | What::Notice(_)
            | What::Quiet { .. }
            | What::Odd(_) => {}
        }
    }

    fn call(&mut self, call: &Call, step: &Step) {
        if let Some(id) = &call.id {
            self.calls.insert(id.clone(), self.tools.calls.len());
            // Its result came first, and is repeated now.
            if self.orphans.remove(id)
                && let Some(at) = self.tools.orphan_results.iter().position(|orphan| orphan.tool_use_id.as_ref() == Some(id))
            {
                self.tools.orphan_results.remove(at);
            }
        }
        let denial = call.id.as_ref().and_then(|id| self.denied.remove(id));
        self.tools.calls.push(CallEntry {
            id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
            parent: step.parent.clone(),
            title: call.title.clone(),
            status: if denial.is_some() { CallStatus::Denied } else { CallStatus::Pending },
            ended: None,
            denial,
            result: None,
            duration_ms: None,
        });
    }

    fn answer(&mut self, answer: CallAnswer, line: u64) {
        let Some(at) = answer.id.as_ref().and_then(|id| self.calls.get(id)) else {
            return;
        };
        let call = &mut self.tools.calls[*at];
        // A denied call stays denied, whatever its result says.
        if call.status != CallStatus::Denied {
            call.status = answer.status;
        }
        call.ended = answer.ended;
        call.duration_ms = answer.duration_ms;
        call.result = Some(ResultEntry { text: answer.text, is_error: answer.is_error, line, block: answer.block });
    }

    fn task(&mut self, task: &Task) {
        if let Some(at) = self.task_at.get(&task.id) {
            self.tasks[*at].clone_from(task);
        } else {
            self.task_at.insert(task.id.clone(), self.tasks.len());
            self.tasks.push(task.clone());
        }
    }

    /// Adds a hook. Its end belongs to the start with the same id, or, without ids, with the same name and event.
    fn hook(&mut self, hook: &Hook) {
        let key = match &hook.id {
            Some(id) => (Some(id.clone()), None, None),
            None => (None, hook.name.clone(), hook.event.clone()),
        };
        if hook.outcome.is_none() {
            self.open_hooks.entry(key).or_default().push(self.hooks.len());
            return self.hooks.push(hook.clone());
        }
        let open = self.open_hooks.get_mut(&key).filter(|open| !open.is_empty()).map(|open| open.remove(0));
        let Some(at) = open else { return self.hooks.push(hook.clone()) };
        let known = &mut self.hooks[at];
        let (name, event) = (known.name.take(), known.event.take());
        *known = Hook { name: hook.name.clone().or(name), event: hook.event.clone().or(event), ..hook.clone() };
    }

    /// Returns the report.
    pub fn report(mut self, summary: Summary, format: StreamFormat, run: Run, ending: &Ending) -> Report {
        let join = |passages: &mut dyn Iterator<Item = &Passage>| {
            passages.map(|passage| passage.text.as_str()).collect::<Vec<_>>().join("\n")
        };
        let (mut text, mut main_text) =
            (join(&mut self.texts.iter()), join(&mut self.texts.iter().filter(|passage| passage.main)));
        // The agent wrote no text, and its last text is from a file that it wrote.
        let written = ending.last_message.as_ref().filter(|last| **last == summary.last_text);
        if let Some(written) = written.filter(|_| text.trim().is_empty() && self.wants("text")) {
            text.clone_from(written);
            main_text.clone_from(written);
        }
        // The turn of a call without a result is over.
        let lost = match summary.verdict.outcome {
            Outcome::Interrupted => Some(CallEnd::Interrupted),
            Outcome::Success | Outcome::Failure if summary.turns > 0 => Some(CallEnd::Unknown),
            Outcome::Success | Outcome::Failure | Outcome::Incomplete => None,
        };
        let pending = self.tools.calls.iter_mut().filter(|call| call.status == CallStatus::Pending);
        pending.for_each(|call| call.ended = lost);
        let part = self.extensions.finish(summary.agent);
        if part.is_some() {
            // The agent's own part has them.
            self.assistant_errors.clear();
            self.retries.clear();
        }
        Report {
            schema: 1,
            agent: summary.agent,
            format,
            run,
            session: SessionEntry {
                id: summary.session.ids.first().cloned(),
                ids: summary.session.ids,
                inits: summary.session.inits,
                setup: summary.session.info.setup,
            },
            verdict: summary.verdict,
            answer: summary.answer,
            text,
            main_text,
            last_text: summary.last_text,
            thinking: self.thinking.into_iter().map(|passage| passage.text).collect(),
            prompts: self.prompts,
            tools: self.tools,
            turns: self.turns,
            ledger: summary.ledger,
            retries: self.retries,
            rate_limit: self.rate_limit,
            rate_limit_events: self.rate_limit_events,
            tasks: self.tasks.into_iter().map(task_entry).collect(),
            hooks: self.hooks,
            assistant_errors: self.assistant_errors,
            partial: self.partial,
            background_launches: summary.background_launches,
            codex: part,
            structured: summary.last_turn.and_then(|turn| turn.structured_output),
            stream: summary.stream,
        }
    }
}

fn is_wanted(only: Option<&[String]>, part: &str) -> bool {
    let wanted = |only: &String| only == part || part == "text" && only == "main_text";
    only.is_none_or(|only| only.iter().any(wanted))
}

fn passage(said: Said, parent: Option<&String>) -> Passage {
    Passage { text: said.text, main: parent.is_none(), uuid: said.uuid }
}

fn orphan(answer: &CallAnswer, step: &Step) -> OrphanEntry {
    OrphanEntry {
        tool_use_id: answer.id.clone(),
        text: answer.text.clone(),
        is_error: answer.is_error,
        parent: step.parent.clone(),
        line: step.line,
        block: answer.block,
    }
}

fn task_entry(task: Task) -> TaskEntry {
    TaskEntry {
        id: task.id,
        status: task.status,
        terminal: task.terminal,
        description: task.description,
        kind: task.kind,
        duration_ms: task.duration_ms,
    }
}

/// A turn without what a report says elsewhere.
fn for_report(turn: Turn) -> Turn {
    let (message, category, thread_usage) = (None, None, None);
    Turn { message, repeats_text: false, category, so_far: SoFar::default(), thread_usage, ..turn }
}
