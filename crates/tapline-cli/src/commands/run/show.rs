//! What a run puts out while it goes on: to stdout in the format that was asked for, to stderr what a person should know at
//! once. Whatever fails here never ends the run.

use std::time::Duration;

use tapline_recording::Redactor;
use tapline_runner::{Seen, StopReason, Update, now};
use tapline_session::render::{Format as Rendering, Outputs, Render, Status, TerminalOptions};
use tapline_session::step::{Step, What};
use tapline_session::text::{one_line, visible};
use tapline_session::{Summary, duration};

use super::redaction::Redaction;
use crate::args::run::{Ending, Format, Run};
use crate::ci::Kind;
use crate::clock;
use crate::commands::denials::Denials;
use crate::commands::updates::warning;
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
    renderer: Box<dyn Render>,
    live: bool,
    status: Status,
    pub(super) outputs: Outputs,
    pub(super) denials: Denials,
    /// Nobody needs to be told whose key the agent uses: it was said, or given.
    key_known: bool,
    clocks: Clocks,
    stopping: bool,
    agent: &'static str,
    /// Takes secrets out of what is told.
    pub(super) redactor: Option<Redactor>,
}

/// How long the clocks run that may stop the agent.
#[derive(Clone, Copy)]
struct Clocks {
    timeout: Option<Duration>,
    idle: Option<Duration>,
    linger: Duration,
}

impl Clocks {
    fn of(ending: &Ending) -> Self {
        Self { timeout: ending.timeout, idle: ending.idle_timeout, linger: ending.linger }
    }

    /// Which clock has stopped the agent, and after how long.
    fn told(self, reason: StopReason) -> Option<String> {
        let limit = match reason {
            StopReason::Timeout => self.timeout?,
            StopReason::Idle => self.idle?,
            StopReason::Linger => self.linger,
            StopReason::Interrupted | StopReason::Terminated | StopReason::Stopped => return None,
        };
        clock::told(reason, limit)
    }
}

impl Show {
    pub(super) fn new(args: &Run, format: Format, kind: tapline_protocol::Agent, redaction: &Redaction) -> Self {
        let only_value = !args.shown.get.is_empty();
        let live = format == Format::Live && output::is_capable() && !only_value;
        let terminal = view::options(args.shown.look);
        let options = TerminalOptions { thinking: args.shown.thinking, partial: live || args.told.partial, live, ..terminal };
        let rendering = if format == Format::Live { Rendering::Terminal(options) } else { Rendering::Lines(options) };
        let (out, err) = Sink::both();
        Self {
            format,
            only_value,
            label: args.shown.label.as_deref().map(one_line),
            out,
            err,
            renderer: rendering.renderer(),
            live,
            status: Status::default(),
            outputs: Outputs::default(),
            denials: Denials::default(),
            // A simulated model bills nobody.
            key_known: std::env::var_os("TAPLINE_SIM_KEY").is_some()
                || args.told.env.iter().any(|text| text.split('=').next() == Some(KEY)),
            clocks: Clocks::of(&args.ending),
            stopping: false,
            agent: kind.name(),
            redactor: redaction.told.then(|| redaction.redactor.clone()),
        }
    }

    /// The same for the next attempt: what was said of the run is said.
    pub(super) fn again(&mut self, args: &Run, kind: tapline_protocol::Agent, redaction: &Redaction) {
        let (denials, key_known) = (std::mem::take(&mut self.denials), self.key_known);
        *self = Self { denials, key_known, ..Self::new(args, self.format, kind, redaction) };
    }

    /// Which clock has stopped the agent, and after how long.
    pub(super) fn clock(&self, reason: StopReason) -> Option<String> {
        self.clocks.told(reason)
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
            if self.format == Format::StreamJson && !self.only_value {
                self.out.put(output::raw_bytes(&seen.record.bytes).as_ref(), Kind::Json);
            }
            if self.format == Format::Json {
                self.outputs.accept(&seen.record, &seen.steps);
            }
            for step in &seen.steps {
                self.step(step, elapsed);
            }
        }
    }

    /// Something else happened.
    pub(super) fn update(&mut self, update: &Update) {
        match update {
            // Where one value is wanted, what went wrong is told at the end.
            Update::Stderr(line) if self.is_human() || self.format == Format::StreamJson => self.note_of(self.agent, line),
            Update::Lost(_) | Update::Trouble(_) | Update::Left(_) => {
                let warning = warning(update).unwrap_or_default();
                // What is lost is said in every format.
                if self.format == Format::Quiet && matches!(update, Update::Lost(_)) {
                    self.error_line(&format!("tapline: {}", visible(&warning)));
                } else {
                    self.note(&warning);
                }
            }
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

    fn step(&mut self, step: &Step, elapsed: Duration) {
        match &step.what {
            // A key that was found in the environment is used before any login, and may be somebody's who did not mean it.
            What::Session(info) if !self.key_known && self.is_human() => {
                self.key_known = true;
                if info.setup.api_key_source.as_deref() == Some(KEY) {
                    self.note(&format!("the agent uses the API key in {KEY}: the run is billed to it"));
                }
            }
            // On a terminal the view itself shows it.
            What::Odd(odd) if odd.code == "malformed-line" && !self.live => {
                self.note(&format!("line {}: malformed: {}", step.line, odd.message));
            }
            _ => {}
        }
        self.denials.accept(step);
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
        self.out.put(bytes, Kind::Text);
    }

    /// What was put out must be seen now.
    pub(super) fn flush(&mut self) {
        self.out.flush();
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

    /// Says what of stdout nobody took, where stderr can be written.
    pub(super) async fn not_taken(&mut self) {
        let bytes = self.out.waiting();
        if bytes > 0 && self.err.waiting() == 0 {
            self.error_line(&format!(
                "tapline: WARNING: {bytes} bytes were not written to stdout: its reader, or the disk, did not respond"
            ));
            let _ = tokio::time::timeout(super::NOT_TAKEN, self.err.flushed()).await;
        }
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

    /// Several lines, of which only the first says who speaks: the others are to be copied.
    pub(super) fn block(&mut self, text: &str) {
        self.note_of("tapline", text);
    }

    fn note_of(&mut self, who: &str, text: &str) {
        if self.format == Format::Quiet {
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

    /// The last words of the view or log. A renderer is good for one attempt.
    pub(super) fn finish(&mut self, summary: &Summary) {
        self.denials.reject(&summary.rejected);
        if self.is_human() {
            let text = self.renderer.finish(summary);
            self.write_lines(&text);
        }
        self.flush();
    }

    /// A line on stdout.
    pub(super) fn line(&mut self, text: &str, kind: Kind) {
        self.out.put(format!("{text}\n").as_bytes(), kind);
        self.flush();
    }

    /// In a CI log, what follows can be folded.
    pub(super) fn group(&mut self, name: &str) {
        let name = self.clean(name);
        self.out.group(&name);
    }

    /// What follows cannot.
    pub(super) fn end_group(&mut self) {
        self.out.end_group();
    }

    /// In a CI log, an annotation.
    pub(super) fn annotate(&mut self, title: &str, text: &str) {
        let text = self.clean(text);
        self.err.annotate(title, &text);
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

/// Where Claude Code looks for a key of the API first.
const KEY: &str = "ANTHROPIC_API_KEY";
