//! Spans of a text that will be replaced.

use std::ops::Range;

/// Sorts spans, and joins those that touch or overlap.
pub(super) fn merge(spans: &mut Vec<Range<usize>>) {
    spans.sort_unstable_by_key(|span| span.start);
    spans.dedup_by(|next, kept| {
        let joined = next.start <= kept.end;
        if joined {
            kept.end = kept.end.max(next.end);
        }
        joined
    });
}
