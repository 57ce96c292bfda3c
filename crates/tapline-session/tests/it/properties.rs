//! Whatever comes, there is a report; however it comes, it is the same one.

use proptest::prelude::*;
use serde_json::Value;
use tapline_protocol::InputFormat;
use tapline_session::Ending;
use tapline_session::render::RenderAs;
use tapline_testkit::fixture;

use crate::read_stream::{show, tell, tell_plainly};

fn streams() -> Vec<Vec<u8>> {
    let names = [
        "claude-2.1.325/tools-partial.jsonl",
        "claude-2.1.325/subagent.jsonl",
        "codex-0.166.0/tools.jsonl",
        "events/claude-catalogue.jsonl",
    ];
    names.iter().map(|name| std::fs::read(fixture(name)).unwrap()).collect()
}

/// Everything that can be made of a stream is made of it.
fn make_everything(bytes: &[u8]) {
    let told = tell_plainly(bytes);
    let report: Value = serde_json::from_str(&told.report.to_json()).unwrap();
    assert_eq!(report["schema"], 1);
    for format in [RenderAs::Markdown, RenderAs::Html, RenderAs::Steps] {
        show(&told, format);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_report(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        make_everything(&bytes);
    }

    #[test]
    fn any_cut_of_a_stream_gives_a_report(which in 0..4_usize, from in 0.0..1.0_f64, to in 0.0..1.0_f64) {
        let stream = &streams()[which];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a file")]
        let place = |part: f64| (part * stream.len() as f64) as usize;
        let (from, to) = (place(from.min(to)), place(from.max(to)));
        make_everything(&stream[from..to]);
    }

    #[test]
    fn lines_in_any_order_give_a_report(which in 0..4_usize, order in proptest::collection::vec(any::<proptest::sample::Index>(), 1..60)) {
        let stream = &streams()[which];
        let lines: Vec<&[u8]> = stream.split_inclusive(|byte| *byte == b'\n').collect();
        let shuffled: Vec<u8> = order.iter().flat_map(|index| index.get(&lines).iter().copied()).collect();
        make_everything(&shuffled);
    }

    #[test]
    fn chunks_do_not_show(which in 0..4_usize, chunk in 1..4_000_usize) {
        let stream = &streams()[which];
        let whole = tell(stream, 1 << 20, InputFormat::Auto, None, &Ending::default());
        let parts = tell(stream, chunk, InputFormat::Auto, None, &Ending::default());
        prop_assert_eq!(&whole.records, &parts.records);
        prop_assert_eq!(whole.report.to_json(), parts.report.to_json());
        prop_assert_eq!(show(&whole, RenderAs::Steps), show(&parts, RenderAs::Steps));
    }
}
