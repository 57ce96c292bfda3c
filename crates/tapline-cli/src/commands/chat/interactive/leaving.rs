//! How a chat ends: stop the agent properly, restore the terminal, and say how to continue.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use tapline_session::render::Style;
use tapline_session::text::{count_of, dollars, one_line};

use super::{Args, Chat, Left};
use crate::exit;
use crate::signals::Signals;

/// If it takes longer than this, say so.
const PATIENT: Duration = Duration::from_secs(1);

impl Chat {
    /// Ends the agent properly. Another Ctrl-C does not wait.
    pub(super) async fn end(mut self, args: &Args, left: Left, signals: &mut Signals) -> Result<u8> {
        self.screen.finish();
        // Nobody is left to answer.
        drop(self.questions);
        if left == Left::InHaste || matches!(left, Left::Signal(_)) {
            self.talk.stop();
        }
        drop(self.terminal);
        let stopper = self.talk.stopper();
        let finish = self.talk.finish();
        tokio::pin!(finish);
        let mut patient = true;
        let report = loop {
            tokio::select! {
                report = &mut finish => break report,
                () = tokio::time::sleep(PATIENT), if patient => {
                    patient = false;
                    self.screen.remark(self.screen.style().dim, "·", "waiting for running tasks (Ctrl-C to stop waiting)");
                }
                _ = signals.next() => stopper.iter().for_each(tapline_runner::Stopper::terminate),
            }
        };
        let Style { dim, reset, .. } = self.screen.style();
        if let Some(report) = &report {
            let turns = self.prompts;
            let cost = report.ledger.cost_usd.map(|cost| format!(" · {}", dollars(cost))).unwrap_or_default();
            let mut text = format!("{dim}{}{cost}{reset}\n", count_of(turns, "prompt"));
            if let Some(recording) = &report.run.recording {
                let _ = writeln!(text, "{dim}{}{reset}", one_line(&crate::store::recorded_in(recording.as_ref())));
            }
            if let (Some(id), true) = (&report.session.id, turns > 0) {
                let _ = writeln!(text, "{dim}{}{reset}", super::super::go_on(self.kind, id));
            }
            self.screen.say(&text);
        }
        if left == Left::Agent
            && let Some(error) = report.as_ref().and_then(|report| report.verdict.error.as_ref())
        {
            self.screen.remark(self.screen.style().red, "✗", &format!("the agent has ended: {error}"));
        }
        self.screen.flushed().await;
        Ok(match left {
            Left::Person | Left::InHaste => report.map_or(0, |report| super::super::fail_on(args, &report, 0, false)),
            Left::Signal(number) => u8::try_from(128 + number).unwrap_or(exit::FAILED),
            Left::Agent => report.map_or(exit::FAILED, |report| report.verdict.exit_code().max(exit::FAILED)),
        })
    }
}
