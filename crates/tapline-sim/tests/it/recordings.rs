//! Recordings to play, and a host to play them to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use tapline_recording::{End, Meta, Recorder, Recording, Stream, Sync};
use tapline_sim::{HostEnds, Played, ReplayOptions, replay};
use tapline_testkit::fixture;

/// What is said between host and agent: `>` to the agent, `<` from it, `!` from it beside.
pub(crate) fn record(folder: &Path, said: &[(char, String)], end: &End) {
    record_every(Duration::from_millis(10), folder, said, end);
}

/// The same, with so much time between what is said.
pub(crate) fn record_every(gap: Duration, folder: &Path, said: &[(char, String)], end: &End) {
    let meta = Meta { schema: 1, agent: Some("claude".to_owned()), ..Meta::default() };
    let mut recorder = Recorder::create(folder, &meta, Sync::EverySecond).unwrap();
    let mut at = Duration::ZERO;
    for (who, text) in said {
        let stream = match who {
            '>' => Stream::Stdin,
            '<' => Stream::Stdout,
            _ => Stream::Stderr,
        };
        recorder.write_at(stream, text.as_bytes(), at);
        at += gap;
    }
    if said.iter().any(|(who, _)| *who == '>') {
        recorder.close_at(Stream::Stdin, at);
    }
    recorder.finish(end).unwrap();
}

/// An SDK's session with a real Claude Code: permissions, a hook, a tool of the host's, model and mode changes, an interrupt.
pub(crate) fn conversation() -> Vec<(char, String)> {
    let text = std::fs::read_to_string(fixture("claude-2.1.325/control-both-ways.tee")).unwrap();
    let said = |line: &str| (line.chars().next().unwrap(), format!("{}\n", &line[2..]));
    text.lines().map(said).collect()
}

/// What a host saw of a replay.
pub(crate) struct Saw {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) played: Played,
}

/// Plays to a host that sends all of this at once and closes its end.
pub(crate) fn play(folder: &Path, options: &ReplayOptions, sends: &str) -> Saw {
    let recording = Recording::open(folder).unwrap();
    let (ours, mut stdin) = UnixStream::pair().unwrap();
    let [(out, stdout), (err, stderr)] = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
    let read = |mut stream: UnixStream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    std::thread::scope(|scope| {
        let (stdout, stderr) = (scope.spawn(move || read(stdout)), scope.spawn(move || read(stderr)));
        scope.spawn(move || {
            let _ = stdin.write_all(sends.as_bytes());
        });
        let host = HostEnds { stdin: Some(Box::new(ours)), stdout: Box::new(out), stderr: Box::new(err) };
        let played = replay(&recording, options, host).unwrap();
        Saw { stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap(), played }
    })
}

/// Plays to a host that says its lines as it said them, each once it has read what came before. `change` is what it does to a
/// line of its own; where that is nothing, it closes its end. Returns what it read.
pub(crate) fn converse(
    folder: &Path,
    options: &ReplayOptions,
    said: &[(char, String)],
    change: impl Fn(&str) -> String,
) -> (Vec<String>, Played) {
    let recording = Recording::open(folder).unwrap();
    let (ours, stdin) = UnixStream::pair().unwrap();
    let (out, stdout) = UnixStream::pair().unwrap();
    let mut stdin = Some(stdin);
    std::thread::scope(|scope| {
        let host = HostEnds { stdin: Some(Box::new(ours)), stdout: Box::new(out), stderr: Box::new(std::io::sink()) };
        let playing = scope.spawn(move || replay(&recording, options, host).unwrap());
        let (mut reader, mut read) = (BufReader::new(stdout), Vec::new());
        for (who, text) in said {
            if *who == '>' {
                if change(text).is_empty() {
                    break;
                }
                if stdin.as_mut().unwrap().write_all(change(text).as_bytes()).is_err() {
                    break;
                }
                continue;
            }
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() == 0 {
                break;
            }
            read.push(line);
        }
        stdin.take();
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        read.extend(rest.lines().map(str::to_owned));
        (read, playing.join().unwrap())
    })
}
