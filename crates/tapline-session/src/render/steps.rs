//! Every step, as one JSON object per line.

use tapline_protocol::without_lone_surrogates;

use super::Render;
use crate::fold::Summary;
use crate::step::Step;

pub(super) struct Steps;

impl Render for Steps {
    fn step(&mut self, step: &Step) -> String {
        let line = serde_json::to_string(step).unwrap_or_default();
        format!("{}\n", without_lone_surrogates(&line))
    }

    fn finish(&mut self, summary: &Summary) -> String {
        let end = serde_json::json!({
            "line": summary.stream.lines.total,
            "depth": 0,
            "step": "end",
            "session": summary.session.ids.first(),
            "answer": summary.answer,
            "verdict": summary.verdict,
            "ledger": summary.ledger,
        });
        format!("{end}\n")
    }
}
