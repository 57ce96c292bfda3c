//! A session that is read while it is written gives the same steps as when it is read afterwards.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tapline_archive::{Places, Source, SourceOptions, is_of_subagent};
use tapline_protocol::Moment;
use tapline_recording::{End, Meta, Recorder, Stream, Sync};
use tapline_session::Step;
use tapline_testkit::files::append;
use tapline_testkit::{TempFolder, fixture};

type Followed = Source<Box<dyn std::io::Read + Send>>;

/// Reads what is there. Returns whether more may come.
fn read(source: &mut Followed, steps: &mut Vec<Step>) -> bool {
    loop {
        match source.advance() {
            Ok(Some((_, new))) => steps.extend(new),
            Ok(None) => return false,
            Err(error) => {
                assert!(error.is_pending(), "{error}");
                return true;
            }
        }
    }
}

#[test]
fn a_recording_that_grows_piece_by_piece() {
    let folder = TempFolder::new();
    let whole = folder.join("whole");
    let mut recorder = Recorder::create(
        &whole,
        &Meta { agent: Some("claude".to_owned()), started_ms: Some(Moment::from_millis(1)), ..Meta::default() },
        Sync::EverySecond,
    )
    .unwrap();
    recorder.write_at(Stream::Stdin, b"a prompt", Duration::from_millis(1));
    recorder.close_at(Stream::Stdin, Duration::from_millis(2));
    let text = fs::read_to_string(fixture("claude-2.1.325/tools-partial.jsonl")).unwrap();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        recorder.write_at(Stream::Stdout, line.as_bytes(), Duration::from_millis(10 + at as u64));
    }
    recorder.finish(&End { exit_code: Some(1), ..End::default() }).unwrap();
    let mut wanted = Vec::new();
    let mut source = Source::open(&whole, SourceOptions::default()).unwrap();
    assert!(!read(&mut source, &mut wanted));
    let verdict = source.finish().summary.verdict;

    let path = folder.join("recording");
    fs::create_dir(&path).unwrap();
    fs::copy(whole.join("meta.json"), path.join("meta.json")).unwrap();
    for name in ["stdout", "stdin", "stderr", "times"] {
        append(path.join(name), b"");
    }
    let mut source = Source::follow(&path, SourceOptions::default()).unwrap();
    let mut steps = Vec::new();
    assert!(read(&mut source, &mut steps) && steps.is_empty());
    // Bytes come before their line of `times`, in the order in which `times` lists them.
    let mut done = [0, 0, 0];
    let times = fs::read_to_string(whole.join("times")).unwrap();
    for line in times.split_inclusive('\n') {
        let at = "oei".find(&line[..1]).unwrap();
        let name = ["stdout", "stderr", "stdin"][at];
        let end: usize = line.split(' ').nth(1).unwrap().parse().unwrap();
        let bytes = fs::read(whole.join(name)).unwrap();
        let (half, end) = (done[at] + (end - done[at]) / 2, end);
        append(path.join(name), &bytes[done[at]..half]);
        assert!(read(&mut source, &mut steps));
        append(path.join(name), &bytes[half..end]);
        let (start, rest) = line.split_at(line.len() / 2);
        append(path.join("times"), start.as_bytes());
        append(path.join("times"), rest.as_bytes());
        assert!(read(&mut source, &mut steps));
        done[at] = end;
    }
    fs::copy(whole.join("end.json"), path.join("end.json")).unwrap();
    assert!(!read(&mut source, &mut steps), "it ends with its recording");
    assert_eq!(steps, wanted);
    assert_eq!(source.finish().summary.verdict, verdict);
}

#[test]
fn a_transcript_that_grows_byte_by_byte() {
    let folder = fixture("transcripts/claude-denied/claude/projects");
    let project = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let file = fs::read_dir(project).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_file()).unwrap();
    let text = fs::read(&file).unwrap();

    let temp = TempFolder::new();
    let path = temp.join(file.file_name().unwrap());
    append(&path, b"");
    let mut source = Source::follow(&path, SourceOptions::default()).unwrap();
    let mut steps = Vec::new();
    for piece in text.chunks(997) {
        append(&path, piece);
        assert!(read(&mut source, &mut steps), "a transcript never ends");
    }
    assert!(source.is_transcript());
    let mut wanted = Vec::new();
    let mut at_rest = Source::open(&file, SourceOptions::default()).unwrap();
    assert!(!read(&mut at_rest, &mut wanted));
    // What only the end of a file shows is told by `untold_end`.
    let names =
        |steps: &[Step]| steps.iter().map(|step| step.what.name()).filter(|name| *name != "session").collect::<Vec<_>>();
    let (steps, wanted) = (names(&steps), names(&wanted));
    assert!(wanted.starts_with(&steps) && wanted.len() - steps.len() <= 1, "{steps:?} {wanted:?}");
    assert_eq!(source.untold_end().is_some(), wanted.len() > steps.len());
}

/// Which files are not sessions of their own. The archive counts the same ones to another session.
#[test]
fn files_of_sub_agents_are_known_by_their_first_lines() {
    let cases = [
        ("claude-subagents/claude", 2),
        ("claude-background/claude", 1),
        ("codex-subagents/codex", 2),
        ("claude-1.0.128/claude", 0),
        ("codex-0.60.1/codex", 0),
    ];
    for (folder, side) in cases {
        let places = Places::below(&[fixture("transcripts").join(folder)]);
        let found: Vec<_> = places.files.iter().filter(|found| is_of_subagent(&found.path)).collect();
        assert!(found.len() == side && places.files.len() > side, "{folder}: {found:?}");
    }
    assert!(!is_of_subagent(Path::new("/nowhere")));
}
