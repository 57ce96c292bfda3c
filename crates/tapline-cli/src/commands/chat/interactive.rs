//! A chat at a terminal: one loop that takes keys, the agent's output, and the agent's requests, in any order.

mod leaving;
mod obeying;
mod pressing;

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use anyhow::Result;
use tapline_runner::{Agent, Update};
use tapline_session::What;
use tapline_session::render::{Style, TerminalOptions};
use tapline_session::text::{fit, visible};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::editor::Editor;
use super::history::History;
use super::keys::Keys;
use super::questions::{self, Asked, Questions};
use super::screen::Screen;
use super::slash::Now;
use super::spent::Spent;
use super::talk::Talk;
use super::terminal::{self, Terminal};
use crate::agents::habits;
use crate::args::chat::Chat as Args;
use crate::commands::updates::warning;
use crate::commands::view;
use crate::push::PageCommand;
use crate::signals::Signals;
use crate::{ci, exit, store};

/// The byte that a terminal sends for Ctrl-C in raw mode.
const CTRL_C: u8 = 3;
/// How often the status is updated.
const TICK: Duration = Duration::from_millis(250);
/// A key that is pressed this soon after a question was shown was meant for something else.
const TOO_SOON: Duration = Duration::from_millis(500);
/// A second Ctrl-C within this time ends the chat.
const AGAIN: Duration = Duration::from_secs(2);

/// Runs a chat. What somebody asks for on a page arrives in `page`.
pub(super) async fn run(args: &Args, agent: Agent, page: mpsc::UnboundedReceiver<PageCommand>) -> Result<u8> {
    let kind = agent.kind;
    // The user may take any time, unless they say otherwise.
    let within = args.pushed.ask_timeout.unwrap_or(Duration::MAX);
    let (agent, asked) =
        if habits(kind).listens { questions::asking(agent, within) } else { (agent, mpsc::unbounded_channel().1) };
    let mut signals = Signals::listen()?;
    // Open it first: what is typed ahead belongs to the prompt.
    let terminal = Terminal::open()?;
    let mut typed = terminal::typed();
    let mut ahead = Vec::new();
    let start = Talk::start(agent, args.redact || ci::is_log());
    tokio::pin!(start);
    let talk = loop {
        tokio::select! {
            talk = &mut start => match talk {
                Ok(talk) => break talk,
                Err(failure) => {
                    drop(terminal);
                    return Ok(super::not_started(kind, &failure));
                }
            },
            signal = signals.next() => return Ok(u8::try_from(128 + signal).unwrap_or(exit::FAILED)),
            Some(bytes) = typed.recv() => {
                if bytes.contains(&CTRL_C) {
                    return Ok(exit::INTERRUPTED);
                }
                ahead.extend(bytes);
            }
        }
    };
    let history = if args.no_history { None } else { store::store().ok().map(|store| store.root().join("chat-history")) };
    let options = TerminalOptions { thinking: args.thinking, partial: true, ..view::options(args.look) };
    let (told, tell) = mpsc::unbounded_channel();
    let mut chat = Chat {
        talk,
        screen: Screen::new(options),
        editor: Editor::default(),
        why: Editor::default(),
        history: History::open(history),
        questions: Questions::default(),
        mode: Mode::Prompt,
        under_way: BTreeSet::new(),
        woken: false,
        began: Instant::now(),
        interrupted: None,
        interrupting: false,
        shown_at: None,
        asked_at: None,
        armed: false,
        leaves: false,
        terminal,
        told,
        now: Now::default(),
        spent: Spent::new(super::is_resumed(args)),
        prompts: 0,
        later: VecDeque::new(),
        kind,
    };
    let dim = chat.screen.style();
    chat.screen.say(&format!("{}{}{}\n", dim.dim, HINT, dim.reset));
    if let Some(prompt) = &args.prompt {
        chat.say(prompt.clone()).await;
    }
    chat.draw();
    let ended = chat.talk(Heard { asked, tell, page }, &mut signals, typed, ahead).await;
    chat.end(args, ended, &mut signals).await
}

const HINT: &str = "/help lists commands; Ctrl-C interrupts, Ctrl-D ends the chat";

/// What keys do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The agent waits, and keys edit the prompt.
    Prompt,
    /// The agent works. What is typed is sent with Enter.
    Working,
    /// A request of the agent must be answered.
    Question,
    /// The reason for a denial, or the text of an answer, is typed.
    Words,
}

/// Why a chat ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The user left.
    Person,
    /// The user left and does not want to wait.
    InHaste,
    /// A signal.
    Signal(i32),
    /// The agent has ended.
    Agent,
}

struct Chat {
    talk: Talk,
    screen: Screen,
    editor: Editor,
    /// The other text that can be typed: an answer.
    why: Editor,
    history: History,
    questions: Questions,
    mode: Mode,
    /// Messages whose turns have not ended.
    under_way: BTreeSet<String>,
    /// Whether the agent started a turn by itself.
    woken: bool,
    began: Instant,
    /// When Ctrl-C was last pressed, and whether its turn is still running.
    interrupted: Option<Instant>,
    interrupting: bool,
    /// When a question was last shown, and when that was or the user last typed.
    shown_at: Option<Instant>,
    asked_at: Option<Instant>,
    /// Whether the chat ends with the turn.
    leaves: bool,
    /// Whether the next key answers the question although there is a draft.
    armed: bool,
    terminal: Terminal,
    told: mpsc::UnboundedSender<Result<String>>,
    now: Now,
    spent: Spent,
    /// How many prompts were sent.
    prompts: usize,
    /// Messages from a page for an agent that reads prompts only between turns.
    later: VecDeque<String>,
    kind: tapline_protocol::Agent,
}

/// What else a chat hears: requests of the agent, results of commands, and what somebody asks for on a page.
struct Heard {
    asked: mpsc::UnboundedReceiver<Asked>,
    tell: mpsc::UnboundedReceiver<Result<String>>,
    page: mpsc::UnboundedReceiver<PageCommand>,
}

impl Chat {
    async fn talk(&mut self, heard: Heard, signals: &mut Signals, mut typed: mpsc::Receiver<Vec<u8>>, ahead: Vec<u8>) -> Left {
        let Heard { mut asked, mut tell, mut page } = heard;
        let mut keys = Keys::default();
        if let Some(left) = self.press_all(&keys.push(&ahead)).await {
            return left;
        }
        let Ok(mut resized) = signal(SignalKind::window_change()) else { return Left::Person };
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // When an incomplete key sequence is given up.
        let mut close_at = None;
        loop {
            let room = self.screen.has_room();
            tokio::select! {
                biased;
                signal = signals.next() => return Left::Signal(signal),
                bytes = typed.recv() => {
                    let Some(bytes) = bytes else { return Left::Person };
                    let pressed = keys.push(&bytes);
                    close_at = keys.waits().map(|wait| tokio::time::Instant::now() + wait);
                    if let Some(left) = self.press_all(&pressed).await {
                        return left;
                    }
                }
                () = tokio::time::sleep_until(close_at.unwrap_or_else(tokio::time::Instant::now)), if close_at.is_some() => {
                    close_at = None;
                    if let Some(left) = self.press_all(&keys.close()).await {
                        return left;
                    }
                }
                () = self.questions.withdrawn() => {
                    let more = self.questions.drop_withdrawn();
                    self.screen.remark(self.screen.style().dim, "·", "the agent withdrew its question");
                    self.answered(more);
                }
                Some(command) = page.recv() => self.obey(command).await,
                Some(told) = tell.recv() => {
                    let Style { red, dim, reset, .. } = self.screen.style();
                    match told {
                        Ok(text) => {
                            let columns = Screen::size().0.saturating_sub(1);
                            let lines = text.lines().map(|line| format!("{dim}{}{reset}\n", fit(&visible(line), columns)));
                            self.screen.say(&lines.collect::<String>());
                        }
                        Err(error) => self.screen.remark(red, "✗", &format!("{error:#}")),
                    }
                    self.draw();
                }
                () = self.screen.ready(), if !room => {}
                // While a question is open, nothing may push it away.
                update = self.talk.next(), if room && !self.is_asking() => {
                    let Some(update) = update else { return Left::Agent };
                    self.update(update);
                    self.say_later().await;
                    if self.leaves && self.mode == Mode::Prompt {
                        return Left::Person;
                    }
                    if !self.talk.is_ready() {
                        self.draw();
                    }
                }
                Some(asked) = asked.recv() => {
                    if self.questions.add(asked) {
                        self.ask(false);
                    }
                }
                _ = tick.tick(), if self.mode == Mode::Working => self.draw(),
                Some(()) = resized.recv() => self.draw(),
            }
        }
    }

    fn is_asking(&self) -> bool {
        matches!(self.mode, Mode::Question | Mode::Words)
    }

    /// Draws the lower part again.
    fn draw(&mut self) {
        let (columns, rows) = Screen::size();
        match self.mode {
            Mode::Prompt => self.screen.prompt(self.editor.rows(columns, rows.saturating_sub(2))),
            // A draft is shown below the question, and keys go to the draft.
            Mode::Question | Mode::Words if !self.editor.is_empty() && (self.mode == Mode::Question || self.keeps_draft()) => {
                let hint = match (self.mode == Mode::Question, self.armed) {
                    (true, true) => "y, a, n or w to answer",
                    (true, false) => "Esc, then y, a, n or w to answer",
                    (false, _) => "Esc, then your answer",
                };
                let mut rows = self.editor.rows(columns, rows.saturating_sub(3));
                rows.rows.insert(0, fit(hint, columns.saturating_sub(1)).into_owned());
                rows.cursor.0 += 1;
                self.screen.below(rows);
            }
            Mode::Question => self.screen.nothing_below(),
            Mode::Words => self.screen.prompt(self.why.rows(columns, rows.saturating_sub(2))),
            Mode::Working => {
                let queued = self.under_way.len().saturating_sub(1);
                let queued = if queued > 0 { format!(" · {queued} queued") } else { String::new() };
                let hint = match (self.interrupting, self.leaves) {
                    (true, _) => " · interrupting (Ctrl-C again ends the chat)",
                    (false, true) => " · the chat ends after this turn",
                    (false, false) => "",
                };
                self.screen.work(self.began.elapsed(), &format!("{queued}{hint}"));
                if !self.editor.is_empty() {
                    self.screen.below(self.editor.rows(columns, rows.saturating_sub(3)));
                }
            }
        }
    }

    fn update(&mut self, update: Update) {
        let Style { red, yellow, .. } = self.screen.style();
        match update {
            Update::Record(seen) => {
                for step in &seen.steps {
                    if let What::Session(info) = &step.what {
                        self.begin(step.parent.is_none());
                        // It is shown once; further turns start silently.
                        let same = self.now.model.is_some() && self.now.model == info.setup.model;
                        self.now.accept(step);
                        if same {
                            continue;
                        }
                    }
                    // The request is shown below, with its details. And users need not be told what they did
                    // themselves.
                    let known = match &step.what {
                        What::Question(question) => question.kind == "can_use_tool",
                        What::Denied(_) => true,
                        What::Prompt { text } => text.starts_with("[Request interrupted by user") || self.command_said(text),
                        _ => false,
                    };
                    if known {
                        continue;
                    }
                    self.screen.step(step, self.began.elapsed());
                    if let What::Turn(turn) = &step.what
                        && let Some(spent) = self.spent.turn(turn)
                    {
                        self.screen.remark(self.screen.style().dim, "·", &spent);
                    }
                }
            }
            Update::Over(over) => {
                for message in &over.messages {
                    self.under_way.remove(message);
                }
                if let Some(turn) = over.turn.as_ref().filter(|turn| turn.failed && turn.subtype.is_none()) {
                    self.screen.remark(red, "✗", turn.message.as_deref().unwrap_or("the turn ended without an answer"));
                }
                self.woken = false;
                self.interrupting = false;
                self.questions.end_turn();
                if !habits(self.kind).listens {
                    // What a run leaves unfinished ends with it.
                    self.screen.renew();
                }
                if self.under_way.is_empty() && self.mode == Mode::Working {
                    self.mode = Mode::Prompt;
                }
            }
            Update::Stderr(line) => self.screen.remark(yellow, "!", &format!("{}: {line}", self.kind.name())),
            Update::Lost(_) | Update::Trouble(_) | Update::Left(_) => {
                self.screen.remark(yellow, "!", &warning(&update).unwrap_or_default());
            }
            Update::Sent(_) | Update::Stopping(_) | Update::Settled(_) => {}
        }
    }

    /// Shows the output of one of the agent's own commands, without its tags.
    fn command_said(&mut self, text: &str) -> bool {
        let Some(said) = text.trim().strip_prefix("<local-command-stdout>") else { return false };
        let said = said.trim_end_matches("</local-command-stdout>").trim();
        // A change of model was already reported.
        if !said.is_empty() && !said.starts_with("Set model to") {
            self.screen.remark(self.screen.style().dim, "·", said);
        }
        true
    }

    /// Starts a turn, which the agent may have started by itself.
    fn begin(&mut self, main: bool) {
        self.woken |= main && self.under_way.is_empty();
        if main && self.mode == Mode::Prompt {
            self.began = Instant::now();
            self.mode = Mode::Working;
        }
    }
}
