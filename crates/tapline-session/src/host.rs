//! What is sent to the agent. It is part of the conversation, but missing from the agent's own stream.

use tapline_protocol::{Decoder, Moment, Record};

use crate::fold::Fold;
use crate::step::Step;

/// The tags around an earlier run that comes before a prompt.
const EARLIER_RUN: (&str, &str) = ("<earlier-run>\n", "\n</earlier-run>\n\n");

/// Wraps the conversation of an earlier run, to put it before a prompt.
pub fn earlier_run(told: &str) -> String {
    let (open, close) = EARLIER_RUN;
    // The text must not be able to end the section early.
    let told = told.trim().replace("</earlier-run", "<\\/earlier-run");
    format!("{open}{told}{close}")
}

/// Returns how many lines of an earlier run come before a prompt, and the prompt itself.
pub(crate) fn without_earlier_run(prompt: &str) -> (usize, &str) {
    let (open, close) = EARLIER_RUN;
    let parts = prompt.strip_prefix(open).and_then(|rest| rest.split_once(close));
    parts
        .filter(|(_, prompt)| !prompt.trim().is_empty())
        .map_or((0, prompt), |(told, prompt)| (told.lines().count(), prompt.trim()))
}

/// Folds what is sent to an agent into the conversation, live or from a recording.
#[derive(Debug)]
pub struct Host {
    /// If messages are sent, one per line: their decoder.
    messages: Option<Decoder>,
    /// If text is sent: all of it, as one prompt.
    text: Vec<u8>,
    /// When something was last sent.
    last: Option<Moment>,
}

impl Host {
    /// Reads messages, one JSON object per line (`--input-format stream-json`).
    pub fn with_messages() -> Self {
        Self { messages: Some(Decoder::default()), text: Vec::new(), last: None }
    }

    /// Reads plain text, all of which is one prompt.
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

    /// Ends the input and returns the prompts that this completes.
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
