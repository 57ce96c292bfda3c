//! The fixture streams, found rather than listed: a new file in `fixtures/` is tested without a line here.

use std::fs;
use std::path::Path;

use tapline_protocol::{Decoder, Input, InputFormat, Record};

/// One file of `fixtures/`.
pub(crate) struct Fixture {
    /// Its path below `fixtures/`.
    pub(crate) name: String,
    /// What it holds.
    pub(crate) bytes: Vec<u8>,
}

/// Every stream, by name. `cases/` holds tables of streams, and `transcripts/` what agents wrote for themselves: they are not streams.
pub(crate) fn all() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.extend((!path.ends_with("cases") && !path.ends_with("transcripts")).then_some(path));
            } else if path.extension().is_some_and(|extension| extension == "jsonl" || extension == "tee") {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.push(Fixture { name, bytes: fs::read(&path).unwrap() });
            }
        }
    }
    assert!(found.len() > 20, "the fixtures are gone");
    found.sort_by(|a, b| a.name.cmp(&b.name));
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
