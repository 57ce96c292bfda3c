//! What somebody asks for on the page of `tapline serve`: the same as at the terminal. Whoever is first has done it.

use tapline_session::render::Style;

use super::super::questions::Elsewhere;
use super::{Chat, Mode};
use crate::agents::habits;
use crate::push::PageCommand;

impl Chat {
    /// Does what somebody asks for on the page.
    pub(super) async fn obey(&mut self, command: PageCommand) {
        let Style { dim, .. } = self.screen.style();
        match command {
            PageCommand::Answer { question, answer } => {
                if self.questions.settle(&question, answer) == Elsewhere::Shown {
                    self.screen.remark(dim, "·", "answered on the page");
                    let more = self.questions.current().is_some();
                    self.answered(more);
                }
            }
            PageCommand::Message(text) if text.trim().is_empty() => {}
            PageCommand::Message(text) => {
                self.later.push_back(text);
                self.say_later().await;
            }
            // At the prompt there is nothing to interrupt.
            PageCommand::Interrupt if self.mode == Mode::Prompt => {}
            PageCommand::Interrupt => {
                self.screen.remark(dim, "·", "interrupted on the page");
                self.talk.interrupt();
            }
        }
        self.draw();
    }

    /// Sends messages from the page, as soon as the agent reads them.
    pub(super) async fn say_later(&mut self) {
        while habits(self.kind).listens || self.mode == Mode::Prompt {
            let Some(text) = self.later.pop_front() else { return };
            self.say(text).await;
            // The question must come last.
            if self.is_asking() {
                self.ask(false);
            }
        }
    }
}
