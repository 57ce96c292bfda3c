//! Every step, one JSON object a line.

use super::Render;
use crate::fold::Summary;
use crate::step::Step;

pub(super) struct Steps;

impl Render for Steps {
    fn step(&mut self, step: &Step) -> String {
        let mut line = serde_json::to_string(step).unwrap_or_default();
        line.push('\n');
        line
    }

    fn finish(&mut self, summary: &Summary) -> String {
        let end = serde_json::json!({
            "step": "end",
            "session": summary.session.ids.first(),
            "answer": summary.answer,
            "verdict": summary.verdict,
            "ledger": summary.ledger,
        });
        format!("{end}\n")
    }
}
