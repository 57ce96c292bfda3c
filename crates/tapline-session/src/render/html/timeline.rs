//! What ran when, and at the same time: each call as a bar, in as few rows as do.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Write as _;

use super::mark::Mark;
use super::{clock, escaped};
use crate::time::short_duration;

/// How many calls are shown: the longest.
const MOST: usize = 600;
/// How many rows there are.
const ROWS: usize = 8;
/// The width, in units of the picture.
const WIDTH: u64 = 1_000;
/// The width of the shortest bar.
const NARROWEST: u64 = 6;
/// The height of a row.
const ROW: usize = 9;

/// Writes the picture. It is left out if fewer than two moments are known.
pub(super) fn write(cards: &[Mark], out: &mut String) {
    let moments = || cards.iter().flat_map(|card| [card.arrived, card.ended]).flatten();
    let (Some(start), Some(end)) = (moments().min(), moments().max()) else { return };
    let Some(whole) = end.millis_since(start).filter(|whole| *whole > 0) else { return };
    let length = |card: &Mark| card.ended.zip(card.arrived).and_then(|(end, began)| end.millis_since(began)).unwrap_or(0);
    let mut calls: Vec<&Mark> = cards.iter().filter(|card| card.ended.is_some()).collect();
    calls.sort_by_key(|card| Reverse(length(card)));
    calls.truncate(MOST);
    calls.sort_by_key(|card| card.arrived);
    let agents: HashSet<usize> = cards.iter().filter_map(|card| card.parent).collect();
    let scaled = |ms: u64| u64::try_from(u128::from(ms) * u128::from(WIDTH) / u128::from(whole)).unwrap_or(WIDTH);
    let mut rows: Vec<u64> = Vec::new();
    let mut bars = String::new();
    for card in calls {
        let began = card.arrived.and_then(|began| began.millis_since(start)).unwrap_or(0);
        let ends = began + length(card);
        let free = rows.iter().position(|free| *free <= began);
        let row = free.unwrap_or(rows.len()).min(ROWS - 1);
        rows.resize(rows.len().max(row + 1), 0);
        rows[row] = ends;
        let class = match card.status {
            _ if agents.contains(&card.n) => "agent",
            Some(status) => status.word(),
            None => continue,
        };
        let _ = writeln!(
            bars,
            "<a href=\"#step-{}\"><rect class={class} x={} y={} width={} height={} rx=1><title>{} · {}</title></rect></a>",
            card.n,
            scaled(began).min(WIDTH - NARROWEST),
            12 + row * ROW,
            (scaled(ends) - scaled(began)).max(NARROWEST),
            ROW - 2,
            escaped(&card.title),
            short_duration(length(card)),
        );
    }
    let prompts = cards.iter().filter(|card| card.kind == "prompt");
    for began in prompts.filter_map(|card| card.arrived?.millis_since(start)).take(MOST) {
        let _ = writeln!(bars, "<rect class=prompt x={} y=0 width=4 height=10></rect>", scaled(began).min(WIDTH - 4));
    }
    let height = 12 + rows.len().max(1) * ROW;
    let _ = writeln!(
        out,
        "<section>\n<h2>Timeline</h2>\n<svg class=timeline viewBox=\"0 0 {WIDTH} {height}\" height={height} preserveAspectRatio=none role=img \
         aria-label=\"When each call ran\">\n<rect class=base x=0 y=4 width={WIDTH} height=2></rect>\n{bars}</svg>\n\
         <div class=axis><span>0:00</span><span>{}</span></div>\n</section>",
        clock(whole),
    );
}
