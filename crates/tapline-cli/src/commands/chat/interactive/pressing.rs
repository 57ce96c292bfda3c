//! What the user does: keys, prompts, commands, answers.

use std::time::Instant;

use super::super::editor::Edited;
use super::super::keys::Key;
use super::super::questions::{Decided, Questions, Wants};
use super::super::slash::{self, Slash};
use super::super::terminal::Terminal;
use super::{AGAIN, Chat, Left, Mode, Screen, TOO_SOON};

impl Chat {
    /// Takes keys that arrived together.
    pub(super) async fn press_all(&mut self, keys: &[Key]) -> Option<Left> {
        for key in keys {
            if let Some(left) = self.press(key).await {
                return Some(left);
            }
        }
        self.draw();
        None
    }

    /// Takes a key. Returns why the chat ends, if it does.
    async fn press(&mut self, key: &Key) -> Option<Left> {
        match key {
            Key::Ctrl('c') => return self.interrupt(),
            Key::Ctrl('z') => {
                Terminal::suspend();
                if self.mode == Mode::Question {
                    self.ask(false);
                }
                return None;
            }
            Key::Ctrl('d') if self.editor.is_empty() && self.mode == Mode::Prompt => return Some(Left::Person),
            Key::Ctrl('d') if self.editor.is_empty() && self.mode == Mode::Working => {
                self.leaves = true;
                return None;
            }
            _ => {}
        }
        match self.mode {
            Mode::Question if self.answers(key) => self.press_question(key),
            // A user who is typing has not read the question. The text belongs to the prompt until there is a pause.
            Mode::Question => return self.type_on(key).await,
            Mode::Words if self.keeps_draft() => {
                if *key != Key::Escape {
                    return self.type_on(key).await;
                }
                self.arm();
            }
            Mode::Words => {
                if *key == Key::Escape && self.questions.wants() == Wants::Text {
                    let decided = self.questions.say("");
                    self.decided(decided.as_ref());
                } else if *key == Key::Escape {
                    self.ask(false);
                } else if let Edited::Sent(text) = self.why.press(key, &[]) {
                    let decided = self.questions.say(&text);
                    let goes_on = decided.is_none();
                    self.decided(decided.as_ref());
                    if goes_on {
                        // The next part of the same question: the user is reading.
                        (self.asked_at, self.armed) = (None, true);
                    }
                }
            }
            Mode::Prompt | Mode::Working => {
                if let Edited::Sent(text) = self.editor.press(key, &self.history.entries) {
                    return self.send(text).await;
                }
            }
        }
        None
    }

    /// Returns whether the user is typing.
    fn is_typing(&self) -> bool {
        self.asked_at.is_some_and(|at| at.elapsed() < TOO_SOON)
    }

    /// Returns whether a key answers the question. It does not while the user types, nor while there is a draft, unless
    /// Esc was pressed.
    fn answers(&self, key: &Key) -> bool {
        let answer = matches!(key, Key::Char(c) if Questions::is_answer(*c));
        *key == Key::Escape || answer && (self.armed || self.editor.is_empty() && !self.is_typing())
    }

    /// Takes a key for the prompt while there is a question.
    async fn type_on(&mut self, key: &Key) -> Option<Left> {
        (self.asked_at, self.armed) = (Some(Instant::now()), false);
        match self.editor.press(key, &[]) {
            Edited::Sent(text) => {
                let left = self.send(text).await;
                // The question must come last.
                if matches!(self.mode, Mode::Question | Mode::Words) {
                    self.ask(false);
                }
                left
            }
            Edited::Changed | Edited::Nothing => None,
        }
    }

    /// Returns whether text goes to the draft although an answer is wanted.
    pub(super) fn keeps_draft(&self) -> bool {
        self.questions.wants() == Wants::Text && !self.armed && (self.is_typing() || !self.editor.is_empty())
    }

    /// Makes the next key answer the question, unless the question has only just appeared.
    fn arm(&mut self) {
        self.armed = self.shown_at.is_some_and(|at| at.elapsed() >= TOO_SOON);
    }

    fn press_question(&mut self, key: &Key) {
        if *key == Key::Escape {
            return self.arm();
        }
        self.armed = false;
        match key {
            Key::Char('w') => {
                let dim = self.screen.style().dim;
                self.screen.remark(dim, "·", "why not? (Enter alone: no reason; Esc: back)");
                (self.mode, self.asked_at) = (Mode::Words, None);
            }
            Key::Char('v') => self.ask(true),
            Key::Char(c) => {
                if let Some(decided) = self.questions.press(*c) {
                    self.decided(Some(&decided));
                }
            }
            _ => {}
        }
    }

    /// Shows the question that must be answered.
    pub(super) fn ask(&mut self, whole: bool) {
        let (style, (columns, _)) = (self.screen.style(), Screen::size());
        let text = self.questions.shown(style, columns, whole);
        self.screen.quiet();
        self.screen.say(&format!("\n{text}"));
        self.why.clear();
        (self.asked_at, self.shown_at, self.armed) = (Some(Instant::now()), Some(Instant::now()), false);
        self.mode = if self.questions.wants() == Wants::Text { Mode::Words } else { Mode::Question };
        self.draw();
    }

    /// Shows an answer. `None` if there is more to answer.
    fn decided(&mut self, decided: Option<&Decided>) {
        let green = self.screen.style().green;
        match decided {
            Some(Decided::Allowed(how)) => self.screen.remark(green, "✓", &format!("allowed, {how}")),
            Some(Decided::Answered) => self.screen.remark(green, "✓", "answered"),
            // The agent reports it itself.
            Some(Decided::Denied) | None => {}
        }
        let more = self.questions.current().is_some();
        self.answered(more);
    }

    /// Shows the next question, or continues.
    pub(super) fn answered(&mut self, more: bool) {
        if more {
            self.ask(false);
        } else {
            self.why.clear();
            let idle = self.under_way.is_empty() && !self.woken;
            self.mode = if idle { Mode::Prompt } else { Mode::Working };
            // Between two turns, no result says that an interrupt is finished.
            self.interrupting &= !idle;
            self.draw();
        }
    }

    /// Handles Ctrl-C: it ends the turn, and a second one the chat.
    fn interrupt(&mut self) -> Option<Left> {
        if self.mode == Mode::Prompt && !self.editor.is_empty() {
            self.editor.clear();
            return None;
        }
        // It was pressed twice in a short time, or again before the first has ended the turn.
        if self.interrupting || self.interrupted.is_some_and(|at| at.elapsed() < AGAIN) {
            return Some(Left::InHaste);
        }
        self.interrupted = Some(Instant::now());
        if self.mode == Mode::Prompt {
            self.screen.remark(self.screen.style().dim, "·", "Ctrl-C again ends the chat");
        } else {
            self.interrupting = true;
            self.talk.interrupt();
        }
        None
    }

    /// Sends a prompt.
    async fn send(&mut self, text: String) -> Option<Left> {
        if text.trim().is_empty() {
            return None;
        }
        self.history.add(&text);
        match slash::read(&text) {
            Some(Slash::Quit) => return Some(Left::Person),
            Some(slash) => {
                self.screen.said(&text);
                self.leaves = false;
                if let Slash::Model(model) = &slash {
                    self.talk.set_model(model.clone());
                }
                let (control, told, now) = (self.talk.control(), self.told.clone(), self.now.clone());
                tokio::spawn(async move { told.send(slash::run(slash, now, control).await).is_ok() });
            }
            None if !self.talk.knows(&text) => {
                self.screen.said(&text);
                let why = "unknown command (/help lists commands; to send it as a prompt, start with a space)";
                self.screen.remark(self.screen.style().red, "✗", why);
            }
            None => self.say(text).await,
        }
        None
    }

    pub(super) async fn say(&mut self, text: String) {
        match self.talk.say(text.clone()).await {
            Ok(name) => {
                self.screen.said(&text);
                self.under_way.insert(name);
                self.prompts += 1;
                (self.interrupted, self.interrupting) = (None, false);
                if self.mode == Mode::Prompt {
                    self.began = Instant::now();
                    self.mode = Mode::Working;
                }
            }
            Err(error) => {
                self.screen.remark(self.screen.style().red, "✗", &format!("{error:#}"));
                self.editor.put_back(&text);
            }
        }
    }
}
