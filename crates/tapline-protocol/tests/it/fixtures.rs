//! The fixture streams, found rather than listed: a new file in `fixtures/` is tested without a line here.

use std::fs;
use std::path::Path;

use tapline_protocol::{Decoder, Input, InputFormat, Record};
use tapline_testkit::files::files_below;
use tapline_testkit::fixtures;

/// One file of `fixtures/`.
pub(crate) struct Fixture {
    /// Its path below `fixtures/`.
    pub(crate) name: String,
    /// What it holds.
    pub(crate) bytes: Vec<u8>,
}

/// Every stream, by name. `cases/` holds tables of streams, and `transcripts/` what agents wrote for themselves: they are not streams.
pub(crate) fn all() -> Vec<Fixture> {
    let is_stream = |path: &Path| path.extension().is_some_and(|extension| extension == "jsonl" || extension == "tee");
    let is_other = |name: &str| name.starts_with("cases/") || name.starts_with("transcripts/");
    let mut found = Vec::new();
    for path in files_below(fixtures()).into_iter().filter(|path| is_stream(path)) {
        let name = path.strip_prefix(fixtures()).unwrap().to_str().unwrap().to_owned();
        if !is_other(&name) {
            found.push(Fixture { name, bytes: fs::read(&path).unwrap() });
        }
    }
    assert!(found.len() > 20, "the fixtures are gone");
    found
}

impl Fixture {
    /// The events in it: of a `.tee` those of both directions, of an array its items, else the lines.
    pub(crate) fn records(&self) -> Vec<Record> {
        let tee = Path::new(&self.name).extension().is_some_and(|extension| extension == "tee");
        let stream = if tee { both_ways(&self.bytes) } else { self.bytes.clone() };
        let input = Input::open(stream.as_slice(), InputFormat::Auto, Decoder::default()).unwrap();
        input.map(Result::unwrap).collect()
    }
}

/// The lines without the mark that says who wrote them.
fn both_ways(tee: &[u8]) -> Vec<u8> {
    let lines = tee.split_inclusive(|&byte| byte == b'\n');
    lines.flat_map(|line| line.strip_prefix(b"> ").or(line.strip_prefix(b"< ")).unwrap()).copied().collect()
}
