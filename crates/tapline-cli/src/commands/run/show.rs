//! What a run puts out while it goes on: to stdout in the format that was asked for, to stderr what a person should know at
//! once. Whatever fails here never ends the run.

use std::time::Duration;

use tapline_protocol::Record;
use tapline_recording::Redactor;
use tapline_runner::{Seen, StopReason, Update, now};
use tapline_session::permission::Ruling;
use tapline_session::render::{Format as Rendering, Outputs, Render, Status, TerminalOptions};
use tapline_session::step::{Odd, Step, What};
use tapline_session::text::{one_line, visible};
use tapline_session::{Summary, duration};

use super::redaction::Redaction;
use crate::args::run::{Format, Run};
use crate::commands::view;
use crate::output;
use crate::sink::Sink;

/// Shows a run.
pub(super) struct Show {
    format: Format,
    /// One value is wanted, and nothing else.
    only_value: bool,
    label: Option<String>,
    out: Sink,
    err: Sink,
    /// What is to be written at the next flush.
    buffer: Vec<u8>,
    renderer: Box<dyn Render>,
    live: bool,
    status: Status,
    pub(super) outputs: Outputs,
    key_told: bool,
    stopping: bool,
    agent: &'static str,
    /// Takes secrets out of what is told.
    redactor: Option<Redactor>,
}

impl Show {
    pub(super) fn new(args: &Run, format: Format, kind: tapline_protocol::Agent, redaction: &Redaction) -> Self {
        let only_value = args.shown.get.is_some();
        let live = format == Format::Live && output::is_capable() && !only_value;
        let terminal = view::options(args.shown.look);
        let options = TerminalOptions { thinking: args.shown.thinking, partial: live || args.told.partial, live, ..terminal };
        let rendering = if format == Format::Live { Rendering::Terminal(options) } else { Rendering::Lines(options) };
        Self {
            format,
            only_value,
            label: args.shown.label.clone(),
            out: Sink::stdout(),
            err: Sink::stderr(),
            buffer: Vec::new(),
            renderer: rendering.renderer(),
            live,
            status: Status::default(),
            outputs: Outputs::default(),
            key_told: false,
            stopping: false,
            agent: kind.name(),
            redactor: redaction.told.then(|| redaction.redactor.clone()),
        }
    }

    /// Whether there is a status line.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    fn is_human(&self) -> bool {
        matches!(self.format, Format::Live | Format::Lines) && !self.only_value
    }

    /// Lines of the agent's came, this long after the start.
    pub(super) fn all(&mut self, seen: &[Seen], elapsed: Duration) {
        for seen in seen {
            self.seen(seen, elapsed);
        }
    }

    /// A line of the agent's came, this long after the start.
    fn seen(&mut self, seen: &Seen, elapsed: Duration) {
        if self.format == Format::StreamJson && !self.only_value {
            self.pass_on(&seen.record);
        }
        if self.format == Format::Json {
            self.outputs.accept(&seen.record, &seen.steps);
        }
        for step in &seen.steps {
            self.step(step, elapsed);
        }
    }

    /// Something else happened.
    pub(super) fn update(&mut self, update: &Update) {
        match update {
            // Where one value is wanted, what went wrong is told at the end.
            Update::Stderr(line) if self.is_human() || self.format == Format::StreamJson => self.note_of(self.agent, line),
            // Said in every format.
            Update::Lost(what) if self.format == Format::Quiet => {
                self.error_line(&format!("tapline: WARNING: {}", visible(what)));
            }
            Update::Lost(what) | Update::Trouble(what) => self.note(&format!("WARNING: {what}")),
            Update::Left(count) => {
                self.note(&format!("WARNING: {count} of the agent's processes cannot be ended: the system holds them"));
            }
            Update::Settled(settled) if settled.ruling == Ruling::Deny && self.is_human() => {
                let rule = settled.rule.as_ref().map(|rule| format!(" ({rule})")).unwrap_or_default();
                let why = settled.reason.as_deref().unwrap_or_default();
                self.note(&format!("denied: {}: {why}{rule}", settled.tool));
            }
            Update::Stopping(reason) => {
                let why = match reason {
                    StopReason::Timeout => "timeout (--timeout): stopping the agent",
                    StopReason::Idle => "no sign of life (--idle-timeout): stopping the agent",
                    StopReason::Linger => "the agent stayed after its last word: stopping it",
                    StopReason::Interrupted | StopReason::Terminated => "stopping the agent (again to stop it at once)",
                    StopReason::Stopped => "stopping the agent",
                };
                self.stopping = true;
                self.note(why);
            }
            _ => {}
        }
    }

    fn step(&mut self, step: &Step, elapsed: Duration) {
        match &step.what {
            What::Session(info) if !self.key_told => {
                self.key_told = true;
                if let Some(source) = &info.setup.api_key_source {
                    self.note(&format!("apiKeySource={source}"));
                }
            }
            // On a terminal the view itself shows it.
            What::Odd(Odd { code: "malformed-line", message, .. }) if !self.live => {
                self.note(&format!("line {}: malformed: {message}", step.line));
            }
            _ => {}
        }
        if !self.is_human() {
            return;
        }
        self.status.accept(step, elapsed);
        if self.live {
            let (columns, rows) = output::size();
            self.renderer.resize(columns, rows);
        }
        let text = self.renderer.step(step);
        self.write_lines(&text);
    }

    /// The line as it is. In a CI log it could be a command: then, and only then, it is changed.
    fn pass_on(&mut self, record: &Record) {
        if output::is_ci_log() {
            let text = String::from_utf8_lossy(&record.bytes);
            let is_event = record.envelope.kind.is_some();
            let safe = if is_event { output::json(&text).into_owned() } else { output::human(text.into_owned()) };
            return self.write(safe.as_bytes());
        }
        self.write(output::raw_bytes(&record.bytes).as_ref());
    }

    /// Text for people: in a log every line has its time.
    fn write_lines(&mut self, text: &str) {
        if self.format == Format::Live {
            return self.write(text.as_bytes());
        }
        let time = now().unwrap_or_default();
        for line in text.split_inclusive('\n').filter(|line| !line.trim().is_empty()) {
            self.write(format!("{time}  {line}").as_bytes());
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() > BUFFER {
            self.flush();
        }
    }

    /// What was put out must be seen now.
    pub(super) fn flush(&mut self) {
        self.out.write(&self.buffer);
        self.buffer.clear();
    }

    /// Waits until more can be put out.
    pub(super) async fn ready(&self) {
        self.out.ready().await;
        self.err.ready().await;
    }

    /// Nobody takes it: nothing more is put out.
    pub(super) fn give_up(&self) {
        self.out.give_up();
        self.err.give_up();
    }

    /// Waits until everything is out.
    pub(super) async fn flushed(&mut self) {
        self.flush();
        self.out.flushed().await;
        self.err.flushed().await;
    }

    /// Time passes.
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

    /// What the run waits for, on the status line or, once, in the log.
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

    /// It waits no more.
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

    /// A line on stderr, marked with the run's name.
    pub(super) fn note(&mut self, text: &str) {
        self.note_of("tapline", &one_line(text));
    }

    fn note_of(&mut self, who: &str, text: &str) {
        if self.format == Format::Quiet {
            return;
        }
        let name = self.label.as_ref().map(|label| format!("[{label}]")).unwrap_or_default();
        let room = if self.live { self.renderer.pause() } else { String::new() };
        self.write(room.as_bytes());
        self.flush();
        let text = self.clean(&format!("{who}{name}: {}\n", visible(text)));
        let text = output::human(text);
        self.err.write(text.as_bytes());
        let back = if self.live { self.renderer.resume() } else { String::new() };
        self.write(back.as_bytes());
        self.flush();
    }

    /// The last words of the view or log. A renderer is good for one attempt.
    pub(super) fn finish(&mut self, summary: &Summary) {
        if self.is_human() {
            let text = self.renderer.finish(summary);
            self.write_lines(&text);
        }
        self.flush();
    }

    /// A line of tapline's own on stdout.
    pub(super) fn line(&mut self, text: &str) {
        self.write(text.as_bytes());
        self.write(b"\n");
        self.flush();
    }

    /// A line of tapline's own on stderr, in every format.
    pub(super) fn error_line(&mut self, text: &str) {
        let text = self.clean(text);
        self.err.write(format!("{text}\n").as_bytes());
    }

    /// The text as it may be told.
    pub(super) fn clean(&self, text: &str) -> String {
        self.redactor.as_ref().map_or_else(|| text.to_owned(), |redactor| redactor.text(text).into_owned())
    }

    /// Why stdout could not be written. A reader that has gone is no error.
    pub(super) fn failure(&self) -> Option<String> {
        self.out.failure()
    }
}

/// So much is put together before it is written.
const BUFFER: usize = 64 << 10;
