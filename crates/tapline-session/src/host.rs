//! What is sent to the agent. It is part of the conversation, but missing from the agent's own stream.

use tapline_protocol::{Decoder, Moment, Record};

use crate::fold::Fold;
use crate::step::Step;

/// What stands around an earlier run that is put before a prompt.
const EARLIER_RUN: (&str, &str) = ("<earlier-run>\n", "\n</earlier-run>\n\n");

/// What was said in an earlier run, to be put before a prompt.
pub fn earlier_run(told: &str) -> String {
    let (open, close) = EARLIER_RUN;
    // It ends where we say it ends.
    let told = told.trim().replace("</earlier-run", "<\\/earlier-run");
    format!("{open}{told}{close}")
}

/// How many lines of an earlier run stand before a prompt, and the prompt itself: what people look for.
pub(crate) fn without_earlier_run(prompt: &str) -> (usize, &str) {
    let (open, close) = EARLIER_RUN;
    let parts = prompt.strip_prefix(open).and_then(|rest| rest.split_once(close));
    parts
        .filter(|(_, prompt)| !prompt.trim().is_empty())
        .map_or((0, prompt), |(told, prompt)| (told.lines().count(), prompt.trim()))
}

/// Reads what is sent to an agent and folds it into the conversation, live or from a recording.
#[derive(Debug)]
pub struct Host {
    /// Where it sends messages, one a line.
    messages: Option<Decoder>,
    /// Where it sends text: all of it is one prompt.
    text: Vec<u8>,
    /// When it sent something last.
    last: Option<Moment>,
}

impl Host {
    /// The input consists of messages, one JSON object per line (`--input-format stream-json`).
    pub fn with_messages() -> Self {
        Self { messages: Some(Decoder::default()), text: Vec::new(), last: None }
    }

    /// The input is text: all of it is one prompt.
    pub fn with_text() -> Self {
        Self { messages: None, text: Vec::new(), last: None }
    }

    /// Takes bytes that were sent at this moment and returns the prompts that they complete.
    pub fn push(&mut self, bytes: &[u8], at: Option<Moment>, fold: &mut Fold) -> Vec<Step> {
        if !bytes.is_empty() {
            self.last = at;
        }
        let Some(decoder) = &mut self.messages else {
            self.text.extend_from_slice(bytes);
            fold.sends(self.last);
            return Vec::new();
        };
        decoder.push(bytes).into_iter().flat_map(|record| fold.sent(&Record { arrived: at, ..record })).collect()
    }

    /// The input has ended.
    pub fn close(&mut self, fold: &mut Fold) -> Vec<Step> {
        if let Some(decoder) = &mut self.messages {
            let (records, arrived) = (decoder.finish().into_iter(), self.last);
            return records.flat_map(|record| fold.sent(&Record { arrived, ..record })).collect();
        }
        let text = std::mem::take(&mut self.text);
        let text = String::from_utf8_lossy(&text);
        if text.trim().is_empty() { Vec::new() } else { fold.prompt(&text, self.last).into_iter().collect() }
    }
}
