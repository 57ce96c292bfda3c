//! The status line of a run: how long it has been running, what it is doing, and the cost. It takes steps and times,
//! and has no clock.

use std::collections::VecDeque;
use std::time::Duration;

use crate::ledger::Ledger;
use crate::step::{Partial, Step, What};
use crate::text::{one_line, short_count};

/// How many calls are remembered. If more run at once, this many are shown.
const MOST: usize = 256;

/// What a run is doing.
#[derive(Debug, Default)]
pub struct Status {
    /// The calls without a result, the newest last: at most [`MOST`].
    running: VecDeque<(Option<String>, String)>,
    ledger: Ledger,
    /// The output tokens since the last turn ended.
    written: u64,
    thinking: bool,
    retries: usize,
    /// Until when the agent waits before it retries a request, from the start of the run.
    waits_until: Option<Duration>,
}

impl Status {
    /// Takes a step that happened this long after the start.
    pub fn accept(&mut self, step: &Step, elapsed: Duration) {
        if let What::Call(call) = &step.what {
            if self.running.len() == MOST {
                self.running.pop_front();
            }
            self.running.push_back((call.id.clone(), format!("{}: {}", call.doing, call.title)));
        } else if let What::Answer(answer) = &step.what {
            self.running.retain(|(id, _)| id.is_none() || *id != answer.id);
        } else if let What::Turn(turn) = &step.what {
            self.ledger = turn.so_far.ledger.clone();
            self.written = 0;
            self.running.clear();
        } else if let What::Retry(retry) = &step.what {
            self.retries += 1;
            let delay = retry.delay_ms.as_ref().map(tapline_protocol::Number::as_f64).filter(|ms| (0.0..1e10).contains(ms));
            self.waits_until = delay.map(|ms| elapsed + Duration::from_secs_f64(ms / 1_000.0));
        } else if let What::Partial(Partial::MessageDelta { output_tokens, .. }) = &step.what {
            self.written += output_tokens.unwrap_or(0);
        } else if let What::Partial(Partial::BlockStart { kind, .. }) = &step.what {
            self.thinking = kind == "thinking";
        }
        if matches!(step.what, What::Text(_) | What::Thinking(_) | What::Call(_) | What::Turn(_) | What::Partial(_)) {
            self.waits_until = None;
        }
        if matches!(step.what, What::Text(_) | What::Thinking(_) | What::Call(_)) {
            self.thinking = false;
        }
    }

    /// Returns the line, this long after the start: `0:42 · running: cargo test · 12.3k in · 640 out · $0.0413 · 2
    /// retries`.
    pub fn line(&self, elapsed: Duration) -> String {
        let mut parts = vec![clock(elapsed)];
        match (self.waits_until.and_then(|until| until.checked_sub(elapsed)), self.running.back()) {
            (Some(left), _) => parts.push(format!("retries in {}", clock(left + Duration::from_millis(999)))),
            (None, Some((_, doing))) if self.running.len() > 1 => {
                parts.push(format!("{} (and {} more)", one_line(doing), self.running.len() - 1));
            }
            (None, Some((_, doing))) => parts.push(one_line(doing)),
            (None, None) => parts.push(if self.thinking { "thinking" } else { "working" }.to_owned()),
        }
        let tokens = &self.ledger.tokens;
        if tokens.input > 0 {
            parts.push(format!("{} in", short_count(tokens.input)));
        }
        if tokens.output + self.written > 0 {
            parts.push(format!("{} out", short_count(tokens.output + self.written)));
        }
        parts.extend(self.ledger.cost());
        if self.retries > 0 {
            parts.push(format!("{} {}", self.retries, if self.retries == 1 { "retry" } else { "retries" }));
        }
        parts.join(" · ")
    }
}

/// Formats a time as `0:42`, `12:05` or `1:02:03`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Fold;
    use tapline_protocol::Decoder;

    #[test]
    fn a_line_at_every_moment() {
        let (mut status, mut fold, mut decoder) = (Status::default(), Fold::default(), Decoder::default());
        let mut tell = |status: &mut Status, seconds: u64, line: &str| {
            let now = Duration::from_secs(seconds);
            for record in decoder.push(format!("{line}\n").as_bytes()) {
                fold.apply(&record).iter().for_each(|step| status.accept(step, now));
            }
            status.line(now)
        };
        let call = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}"#;
        let retry =
            r#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":5,"retry_delay_ms":5000,"error":"rate_limit"}"#;
        let result = r#"{"type":"result","subtype":"success","result":"ok","total_cost_usd":0.5,"usage":{"input_tokens":1200,"output_tokens":30}}"#;
        assert_eq!(tell(&mut status, 2, r#"{"type":"keep_alive"}"#), "0:02 · working");
        assert_eq!(tell(&mut status, 62, call), "1:02 · running: `ls`");
        assert_eq!(tell(&mut status, 70, retry), "1:10 · retries in 0:05 · 1 retry");
        assert_eq!(status.line(Duration::from_secs(73)), "1:13 · retries in 0:02 · 1 retry");
        assert_eq!(status.line(Duration::from_secs(80)), "1:20 · running: `ls` · 1 retry");
        assert_eq!(tell(&mut status, 3_700, result), "1:01:40 · working · 1.2k in · 30 out · $0.50 · 1 retry");
    }
}
