//! The fold and the report: any stream, cut anywhere, gives one report, and it is JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tapline_fuzz::{Case, is_json};
use tapline_protocol::{Decoder, InputShape};
use tapline_session::{Collector, Ending, Fold, Run, StreamFormat};

fuzz_target!(|data: &[u8]| {
    let Some(case) = Case::of(data) else { return };
    let report = case.read_both_ways(|chunks| {
        let mut decoder = Decoder::with_line_limit(case.limit);
        let (mut fold, mut collector) = (Fold::default(), Collector::default());
        let mut apply = |records: Vec<_>| {
            for step in records.iter().flat_map(|record| fold.apply(record)) {
                collector.accept(&step);
            }
        };
        chunks.for_each(|chunk| apply(decoder.push(chunk)));
        apply(decoder.finish());
        let ending = Ending { exit_code: i32::try_from(case.chunk % 3).ok(), ..Ending::default() };
        let format = StreamFormat::of(InputShape::Lines, fold.agent());
        collector.report(fold.finish(&ending), format, Run::default(), &ending).to_json()
    });
    assert!(is_json(&report), "{report}");
});
