//! What a run writes while it is going on: to stdout in the requested format, and to stderr what people should know at
//! once. No failure here ends the run.

use std::time::Duration;

use tapline_protocol::Record;
use tapline_recording::Redactor;
use tapline_runner::{Seen, StopReason, Update, now};
use tapline_session::render::{Outputs, Render, RenderAs, Status, TerminalOptions};
use tapline_session::step::{Step, What};
use tapline_session::text::{one_line, visible};
use tapline_session::{Summary, duration};

use super::redaction::Redaction;
use super::typing::Typing;
use crate::args::run::{Ending, Run, RunFormat};
use crate::ci::{self, Kind, Level};
use crate::clock;
use crate::commands::denials::Denials;
use crate::commands::updates::warning;
use crate::commands::view;
use crate::output;
use crate::sink::Sink;

/// Shows a run.
pub(super) struct Show {
    format: RunFormat,
    /// Whether only a value is wanted.
    only_value: bool,
    /// Whether the first value that is wanted is the session's id. It is printed as soon as it is known.
    wants_session: bool,
    /// Whether the session's id was printed.
    pub(super) session_told: bool,
    /// The kinds of lines or steps that are passed on; all if empty.
    only: Vec<String>,
    /// The text so far, if it is printed as it arrives.
    typing: Option<Typing>,
    label: Option<String>,
    out: Sink,
    err: Sink,
    renderer: Box<dyn Render>,
    live: bool,
    status: Status,
    pub(super) outputs: Outputs,
    pub(super) denials: Denials,
    /// Whether the source of the key need not be mentioned: it was shown, or given.
    key_known: bool,
    ending: Ending,
    stopping: bool,
    agent: &'static str,
    /// Removes secrets from what is shown.
    pub(super) redactor: Option<Redactor>,
}

impl Show {
    pub(super) fn new(args: &Run, format: RunFormat, kind: tapline_protocol::Agent, redaction: &Redaction) -> Self {
        let only_value = !args.shown.get.is_empty();
        let live = format == RunFormat::Live && output::is_capable() && !only_value;
        let terminal = view::options(args.shown.look);
        let options = TerminalOptions { thinking: args.shown.thinking, partial: live || args.told.partial, live, ..terminal };
        let rendering = match format {
            RunFormat::Live => RenderAs::Terminal(options),
            RunFormat::Steps => RenderAs::Steps,
            _ => RenderAs::Lines(options),
        };
        let (out, err) = Sink::both();
        Self {
            format,
            only_value,
            wants_session: args.shown.get.first().is_some_and(|path| path == "session.id"),
            session_told: false,
            only: args.shown.only.clone(),
            typing: (format == RunFormat::Text && args.told.partial && !only_value).then(Typing::default),
            label: args.shown.label.as_deref().map(one_line),
            out,
            err,
            renderer: rendering.renderer(),
            live,
            status: Status::default(),
            outputs: if args.shown.messages { Outputs::with_messages() } else { Outputs::default() },
            denials: Denials::default(),
            // A simulated model costs nothing.
            key_known: std::env::var_os("TAPLINE_SIM_KEY").is_some()
                || args.told.env.iter().any(|text| text.split('=').next() == Some(KEY)),
            ending: args.ending.clone(),
            stopping: false,
            agent: kind.name(),
            redactor: redaction.told.then(|| redaction.redactor.clone()),
        }
    }

    /// Resets it for the next attempt. What was said about the run is not repeated.
    pub(super) fn again(&mut self, args: &Run, kind: tapline_protocol::Agent, redaction: &Redaction) {
        let (denials, typing) = (std::mem::take(&mut self.denials), self.typing.take());
        let (key_known, session_told) = (self.key_known, self.session_told);
        *self = Self { session_told, typing, denials, key_known, ..Self::new(args, self.format, kind, redaction) };
    }

    /// Says which clock stopped the agent, and after how long.
    pub(super) fn clock(&self, reason: StopReason) -> Option<String> {
        let limit = match reason {
            StopReason::Timeout => self.ending.timeout?,
            StopReason::Idle => self.ending.idle_timeout?,
            StopReason::Linger => self.ending.linger,
            StopReason::Interrupted | StopReason::Terminated | StopReason::Stopped => return None,
        };
        clock::told(reason, limit)
    }

    /// Returns whether there is a status line.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// Returns whether who reads stderr has seen the view: both are on one terminal, in one file, or in the log of a CI system.
    pub(super) fn has_shown(&self) -> bool {
        self.is_human() && (ci::is_log() && !self.out.is_file() || self.out.is_with(&self.err))
    }

    fn is_human(&self) -> bool {
        matches!(self.format, RunFormat::Live | RunFormat::Lines) && !self.only_value
    }

    /// Shows lines of the agent, which arrived this long after the start. `told` is what people may see of them.
    pub(super) fn all(&mut self, printed: &[Seen], told: &[Seen], elapsed: Duration) {
        for step in told.iter().flat_map(|seen| &seen.steps) {
            self.hear(step);
        }
        for seen in printed {
            if self.format == RunFormat::StreamJson && !self.only_value && self.passes(&seen.record) {
                self.out.put(output::raw_bytes(&seen.record.bytes).as_ref(), Kind::Json);
            }
            if self.format == RunFormat::Json {
                self.outputs.accept(Some(&seen.record), &seen.steps);
            }
            seen.steps.iter().for_each(|step| self.put(step, elapsed));
        }
    }

    /// Whether a line is passed on: by its type, or `type/subtype`.
    fn passes(&self, record: &Record) -> bool {
        let Some(kind) = record.envelope.kind.as_deref() else { return self.only.is_empty() };
        self.only.is_empty() || self.only.iter().any(|only| only == kind || record.tag().is_some_and(|tag| *only == tag))
    }

    /// Shows prompts that were sent to the agent.
    pub(super) fn sent(&mut self, steps: &[Step], elapsed: Duration) {
        match self.format {
            RunFormat::Json => self.outputs.accept(None, steps),
            RunFormat::Steps => steps.iter().for_each(|step| self.put(step, elapsed)),
            RunFormat::Live
            | RunFormat::Lines
            | RunFormat::Text
            | RunFormat::StreamJson
            | RunFormat::Report
            | RunFormat::Quiet => {}
        }
    }

    /// Shows any other update.
    pub(super) fn update(&mut self, update: &Update) {
        match update {
            // If only a value is wanted, failures are shown at the end.
            Update::Stderr(line) if self.is_human() || self.format == RunFormat::StreamJson => self.note_of(self.agent, line),
            // Lost data is reported in every format.
            Update::Lost(_) if self.format == RunFormat::Quiet => {
                let warning = warning(update).unwrap_or_default();
                self.error_line(&format!("tapline: {}", visible(&warning)));
            }
            Update::Lost(_) | Update::Trouble(_) | Update::Left(_) => self.note(&warning(update).unwrap_or_default()),
            Update::Settled(settled) => self.denials.settle(settled),
            Update::Stopping(reason) => {
                let by_a_person = matches!(reason, StopReason::Interrupted | StopReason::Terminated);
                let again = if by_a_person { " (again to kill it at once)" } else { "" };
                let why = self.clock(*reason).map(|clock| format!("{clock}: ")).unwrap_or_default();
                self.stopping = true;
                self.note(&format!("{why}stopping the agent{again}"));
            }
            Update::Record(_) | Update::Sent(_) | Update::Stderr(_) | Update::Over(_) => {}
        }
    }

    /// Reports what people should know about a step in addition to the view.
    fn hear(&mut self, step: &Step) {
        match &step.what {
            // A key in the environment takes precedence over a login, and its owner may not have meant it to be used.
            What::Session(info) if !self.key_known && self.is_human() => {
                self.key_known = true;
                if info.setup.api_key_source.as_deref() == Some(KEY) {
                    self.note(&format!("the agent uses the API key in {KEY}: the run is billed to it"));
                }
            }
            // On a terminal, the view itself shows it.
            What::Odd(odd) if odd.code == "malformed-line" && !self.live => {
                self.note(&format!("line {}: malformed: {}", step.line, odd.message));
            }
            _ => {}
        }
        self.denials.accept(step);
    }

    /// Writes a step in the requested format.
    fn put(&mut self, step: &Step, elapsed: Duration) {
        if let Some(id) = step.session_id.as_ref().filter(|_| self.wants_session && !self.session_told) {
            self.session_told = true;
            self.line(&output::raw(id), Kind::Text);
        }
        if let Some(text) = self.typing.as_mut().and_then(|typing| typing.step(step)) {
            self.write(output::raw(&text).as_bytes());
        }
        let passes = self.only.is_empty() || self.only.iter().any(|only| only == step.what.name());
        if self.format == RunFormat::Steps && !self.only_value && passes {
            let line = self.renderer.step(step);
            self.out.put(output::raw(&line).as_bytes(), Kind::Json);
        }
        if self.is_human() {
            self.draw(step, elapsed);
        }
    }

    fn draw(&mut self, step: &Step, elapsed: Duration) {
        self.status.accept(step, elapsed);
        if self.live {
            let (columns, rows) = output::size();
            self.renderer.resize(columns, rows);
        }
        let text = self.renderer.step(step);
        self.write_lines(&text);
    }

    /// Writes text for people. In a log, every line has its time.
    fn write_lines(&mut self, text: &str) {
        if self.format == RunFormat::Live {
            return self.write(text.as_bytes());
        }
        let time = now().unwrap_or_default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            // A paragraph of the agent's text may end here.
            self.write(format!("{}\n", format!("{time}  {line}").trim_end()).as_bytes());
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.out.put(bytes, Kind::Text);
    }

    /// Flushes the output.
    pub(super) fn flush(&mut self) {
        self.out.flush();
    }

    /// Waits until more can be written.
    pub(super) async fn ready(&self) {
        self.out.ready().await;
        self.err.ready().await;
    }

    /// Stops writing, because nobody reads it.
    pub(super) fn give_up(&self) {
        self.out.give_up();
        self.err.give_up();
    }

    /// Says how much of stdout nobody read, if stderr can be written.
    pub(super) async fn not_taken(&mut self) {
        let bytes = self.out.waiting();
        if bytes > 0 && self.err.waiting() == 0 {
            self.error_line(&format!(
                "tapline: WARNING: {bytes} bytes were not written to stdout: its reader, or the disk, did not respond"
            ));
            let _ = tokio::time::timeout(super::NOT_TAKEN, self.err.flushed()).await;
        }
    }

    /// Waits until everything is written.
    pub(super) async fn flushed(&mut self) {
        self.flush();
        self.out.flushed().await;
        self.err.flushed().await;
    }

    /// Updates the status line.
    pub(super) fn tick(&mut self, elapsed: Duration) {
        if self.live {
            let (columns, rows) = output::size();
            self.renderer.resize(columns, rows);
            let stopping = if self.stopping { " · stopping" } else { "" };
            let text = self.renderer.status(Some(self.status.line(elapsed) + stopping));
            self.write(text.as_bytes());
            self.flush();
        }
    }

    /// Shows what the run waits for, on the status line or, once, in the log.
    pub(super) fn waiting(&mut self, left: Duration, first: bool) {
        let text = format!("trying again in {}", tapline_session::render::clock(left));
        if self.live {
            let text = self.renderer.status(Some(text));
            self.write(text.as_bytes());
            self.flush();
        } else if first {
            #[expect(clippy::cast_precision_loss, reason = "nobody waits that long")]
            self.note(&format!("trying again in {}", duration(left.as_millis() as f64)));
        }
    }

    /// Ends the wait.
    pub(super) fn waited(&mut self, interrupted: bool) {
        let text = self.renderer.status(None);
        if self.live {
            self.write(text.as_bytes());
        }
        if interrupted && self.is_human() {
            self.write_lines("! interrupted\n");
        }
        self.flush();
    }

    /// Writes a line to stderr, marked with tapline's name.
    pub(super) fn note(&mut self, text: &str) {
        self.note_of("tapline", &one_line(text));
    }

    /// Writes several lines. Only the first is marked with tapline's name; the others are to copy.
    pub(super) fn block(&mut self, text: &str) {
        self.note_of("tapline", text);
    }

    fn note_of(&mut self, who: &str, text: &str) {
        if self.format == RunFormat::Quiet {
            return;
        }
        let name = self.label.as_ref().map(|label| format!("[{label}]")).unwrap_or_default();
        let room = if self.live { self.renderer.pause() } else { String::new() };
        self.write(room.as_bytes());
        self.flush();
        let text = self.clean(&format!("{who}{}: {}\n", visible(&name), visible(text)));
        self.err.write(text.as_bytes());
        let back = if self.live { self.renderer.resume() } else { String::new() };
        self.write(back.as_bytes());
        self.flush();
    }

    /// Writes the end of the view or log. A renderer is for one attempt.
    pub(super) fn finish(&mut self, summary: &Summary) {
        self.denials.reject(&summary.rejected);
        if self.is_human() {
            let text = self.renderer.finish(summary);
            self.write_lines(&text);
        }
        self.flush();
    }

    /// Returns the answer, if there is one and it was not printed as it arrived.
    pub(super) fn answer(&mut self, answer: Option<&str>) {
        let typed = self.typing.take().unwrap_or_default();
        self.write(typed.line_end().as_bytes());
        if let Some(answer) = answer.filter(|answer| !typed.has(answer)) {
            self.line(&output::raw(answer.strip_suffix('\n').unwrap_or(answer)), Kind::Text);
        }
    }

    /// Writes a line to stdout.
    pub(super) fn line(&mut self, text: &str, kind: Kind) {
        self.out.put(format!("{text}\n").as_bytes(), kind);
        self.flush();
    }

    /// Starts a group in a CI log, which can be folded.
    pub(super) fn group(&mut self, name: &str) {
        let name = self.clean(name);
        self.out.group(&name);
    }

    /// Ends the group.
    pub(super) fn end_group(&mut self) {
        self.out.end_group();
    }

    /// Writes an annotation in a CI log.
    pub(super) fn annotate(&mut self, level: Level, title: &str, text: &str) {
        let (title, text) = (self.clean(title), self.clean(text));
        self.err.annotate(level, &title, &text);
    }

    /// Writes a line of tapline's own to stderr, in every format.
    pub(super) fn error_line(&mut self, text: &str) {
        let text = self.clean(text);
        self.err.write(format!("{text}\n").as_bytes());
    }

    /// Removes secrets from a text, if they are removed.
    pub(super) fn clean(&self, text: &str) -> String {
        self.redactor.as_ref().map_or_else(|| text.to_owned(), |redactor| redactor.text(text).into_owned())
    }

    /// Returns why stdout could not be written. It is not an error if the reader is gone.
    pub(super) fn failure(&self) -> Option<String> {
        self.out.failure()
    }
}

/// The variable that Claude Code reads its API key from first.
const KEY: &str = "ANTHROPIC_API_KEY";
