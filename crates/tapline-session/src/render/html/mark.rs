//! What the table of contents and the timeline need to know about a card. There may be many, so it is little.

use tapline_protocol::Moment;

use super::card::Card;
use crate::step::CallStatus;

/// A card, in short.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) n: usize,
    pub(super) kind: &'static str,
    pub(super) parent: Option<usize>,
    pub(super) depth: usize,
    pub(super) arrived: Option<Moment>,
    /// When a call ended.
    pub(super) ended: Option<Moment>,
    /// How a call stands.
    pub(super) status: Option<CallStatus>,
    pub(super) cost_usd: Option<f64>,
    /// What it is about. Only prompts and calls are listed by it.
    pub(super) title: String,
}

impl Mark {
    pub(super) fn of(card: &Card) -> Self {
        let (kind, status) = (card.kind(), card.call().map(|(_, status)| status));
        let title = if kind == "prompt" || status.is_some() { card.title() } else { String::new() };
        Self {
            n: card.n,
            kind,
            parent: card.parent,
            depth: card.depth,
            arrived: card.arrived,
            ended: card.ended(),
            status,
            cost_usd: card.cost_usd(),
            title,
        }
    }
}
