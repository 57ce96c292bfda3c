//! The project's benchmarks, each beside a peer in one run: `BENCHMARKS.md` says what they measure, `scripts/bench`
//! runs all of them.

mod agents;
mod between;
mod corpus;
mod decode;
#[path = "../../crates/tapline-recording/tests/it/hostile.rs"]
mod hostile;
mod redact;
mod text;
mod watch;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use agents::Extent;
use corpus::{Generator, Kind};
use decode::{Measured, measure};

const USAGE: &str = "\
usage: bench decode [--mb N] [--rounds N] [--corpus long|short|mixed|fixtures]… [--file FILE] [--only PEER]… [--json]
       bench redact [--mb N] [--rounds N] [--json]
       bench run latency|overhead|tee|replay TAPLINE FOLDER [--smoke]
       bench run many FOLDER STREAM [COUNT | --smoke]
       bench watch clients|sessions|hour FOLDER [--quick | --smoke] [--seconds N] [--rounds N] [--follow N] [--batch N]
       bench make-stream PATH|- MB [--kind long|short|mixed]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((command, rest)) if command == "decode" => decode_command(rest),
        Some((command, rest)) if command == "redact" => redact_command(rest),
        Some((command, rest)) if command == "run" => run_command(rest),
        Some((command, rest)) if command == "watch" => watch_command(rest),
        Some((command, rest)) if command == "play" => play_command(rest),
        Some((command, rest)) if command == "converse" => converse_command(rest),
        Some((command, rest)) if command == "make-stream" => make_stream(rest),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// The options of a command: `--name value` pairs and the rest.
struct Options<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    rest: Vec<&'a str>,
}

impl<'a> Options<'a> {
    fn read(args: &'a [String], names: &[&str], flags: &[&str]) -> Result<Self, String> {
        let mut options = Self { pairs: Vec::new(), rest: Vec::new() };
        let mut args = args.iter().map(String::as_str);
        while let Some(arg) = args.next() {
            if flags.contains(&arg) {
                options.pairs.push((arg, ""));
            } else if names.contains(&arg) {
                options.pairs.push((arg, args.next().ok_or_else(|| format!("{arg} needs a value\n{USAGE}"))?));
            } else if arg.starts_with("--") {
                return Err(format!("{arg} is not an option\n{USAGE}"));
            } else {
                options.rest.push(arg);
            }
        }
        Ok(options)
    }

    fn all(&self, name: &str) -> Vec<&'a str> {
        self.pairs.iter().filter(|pair| pair.0 == name).map(|pair| pair.1).collect()
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        self.all(name).last().map_or(Ok(default), |text| number(text))
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| format!("`{text}` is not a number above 0\n{USAGE}"))
}

fn kind(name: &str) -> Result<Kind, String> {
    Kind::named(name).ok_or_else(|| format!("`{name}` is not a kind of stream\n{USAGE}"))
}

fn redact_command(args: &[String]) -> Result<(), String> {
    let options = Options::read(args, &["--mb", "--rounds"], &["--json"])?;
    let rounds = usize::try_from(options.number("--rounds", 5)?).map_err(|error| error.to_string())?;
    let size = options.number("--mb", 100)? * 1_000_000;
    let text = if options.all("--json").is_empty() {
        redact::measure(size, rounds)
    } else {
        let row = |beside: redact::Beside| {
            let redact::Beside { corpus, floor, tapline, regex } = beside;
            format!("{}\n", serde_json::json!({ "corpus": corpus, "floor": floor, "tapline": tapline, "regex": regex }))
        };
        redact::beside(size, rounds).into_iter().map(row).collect()
    };
    io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

fn run_command(args: &[String]) -> Result<(), String> {
    let options = Options::read(args, &[], &["--smoke"])?;
    let extent = if options.all("--smoke").is_empty() { Extent::Full } else { Extent::Smoke };
    let text = match options.rest[..] {
        ["latency", tapline, folder] => agents::latency(extent, tapline, folder.as_ref()),
        ["tee", tapline, folder] => between::tee(extent, tapline, folder.as_ref()),
        ["replay", tapline, folder] => between::replay(extent, tapline, folder.as_ref()),
        ["overhead", tapline, folder] => agents::overhead(extent, tapline, folder.as_ref()),
        ["many", folder, stream] => agents::many(extent.of(1_000), folder.as_ref(), stream.as_ref()),
        ["many", folder, stream, count] => agents::many(number(count)?, folder.as_ref(), stream.as_ref()),
        _ => return Err(USAGE.to_owned()),
    };
    let text = text.map_err(|error| error.to_string())?;
    io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

fn watch_command(args: &[String]) -> Result<(), String> {
    let options = Options::read(args, &["--seconds", "--rounds", "--follow", "--batch"], &["--quick", "--smoke"])?;
    let is = |flag| !options.all(flag).is_empty();
    let mut extent = match () {
        () if is("--smoke") => watch::Extent::SMOKE,
        () if is("--quick") => watch::Extent::QUICK,
        () => watch::Extent::FULL,
    };
    extent.seconds = options.number("--seconds", extent.seconds)?;
    extent.rounds = usize::try_from(options.number("--rounds", extent.rounds as u64)?).map_err(|error| error.to_string())?;
    extent.follow = usize::try_from(options.number("--follow", extent.follow as u64)?).map_err(|error| error.to_string())?;
    extent.batch = options.number("--batch", extent.batch)?.max(1);
    let text = match options.rest[..] {
        ["sessions", folder] => watch::sessions(extent, folder.as_ref()),
        ["clients", folder] => watch::clients(extent, folder.as_ref()),
        ["hour", folder] => watch::hour(extent, folder.as_ref()),
        ["serve", ref rest @ ..] => watch::serve(rest).map(|()| String::new()),
        _ => return Err(USAGE.to_owned()),
    };
    let text = text.map_err(|error| error.to_string())?;
    io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

/// Plays an agent, for the others: LINES MICROSECONDS SIZE.
fn play_command(args: &[String]) -> Result<(), String> {
    let numbers: Vec<u64> = args.iter().map(|text| number(text)).collect::<Result<_, _>>()?;
    let [lines, micros, size] = numbers[..] else { return Err(USAGE.to_owned()) };
    agents::play(lines, micros, size).map_err(|error| error.to_string())
}

/// Plays an agent that reads too, for the others: MICROSECONDS SIZE LINES.
fn converse_command(args: &[String]) -> Result<(), String> {
    let numbers: Vec<u64> = args.iter().map(|text| number(text)).collect::<Result<_, _>>()?;
    let [micros, size, lines] = numbers[..] else { return Err(USAGE.to_owned()) };
    between::converse(micros, size, lines).map_err(|error| error.to_string())
}

fn make_stream(args: &[String]) -> Result<(), String> {
    let options = Options::read(args, &["--kind"], &[])?;
    let [path, size] = options.rest[..] else { return Err(USAGE.to_owned()) };
    let kind = kind(options.all("--kind").last().unwrap_or(&"mixed"))?;
    let size = number(size)? * 1_000_000;
    let mut generator = Generator::new(kind);
    let done = if path == "-" {
        generator.write(&mut io::stdout().lock(), size)
    } else {
        File::create(path).and_then(|file| generator.write(&mut BufWriter::with_capacity(1 << 20, file), size))
    };
    done.map_err(|error| format!("cannot write {path}: {error}"))
}

fn decode_command(args: &[String]) -> Result<(), String> {
    let options = Options::read(args, &["--mb", "--rounds", "--corpus", "--file", "--only"], &["--json"])?;
    if !options.rest.is_empty() {
        return Err(USAGE.to_owned());
    }
    let size = options.number("--mb", 210)? * 1_000_000;
    let rounds = usize::try_from(options.number("--rounds", 5)?).map_err(|error| error.to_string())?;
    let only = options.all("--only");
    if let Some(unknown) = only.iter().find(|name| !decode::PEERS.iter().any(|peer| peer.name == **name)) {
        let known: Vec<_> = decode::PEERS.iter().map(|peer| peer.name).collect();
        return Err(format!("`{unknown}` is not a peer: {}", known.join(", ")));
    }
    let json = !options.all("--json").is_empty();
    let run = |name: &str, stream: &[u8]| {
        let measured = measure(stream, rounds, |peer| only.is_empty() || only.contains(&peer));
        let text = if json { as_json(name, stream, &measured) } else { as_table(name, stream, rounds, &measured) };
        io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
    };
    if let Some(path) = options.all("--file").last() {
        let stream = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        return run(path, &stream);
    }
    let corpora = options.all("--corpus");
    for name in if corpora.is_empty() { vec!["long", "short", "fixtures"] } else { corpora } {
        match name {
            "fixtures" => run("recorded sessions, repeated", &corpus::recorded(size))?,
            name => run(&format!("{name}-lined"), &Generator::in_memory(kind(name)?, size))?,
        }
    }
    Ok(())
}

fn as_json(name: &str, stream: &[u8], measured: &[Measured]) -> String {
    let peers = measured.iter().map(|peer| {
        let counts = serde_json::json!({
            "mb_per_s": peer.best, "worst": peer.worst, "lines": peer.counts.lines, "errors": peer.counts.errors,
        });
        (peer.name.to_owned(), counts)
    });
    let peers: serde_json::Map<_, _> = peers.collect();
    format!("{}\n", serde_json::json!({ "corpus": name, "bytes": stream.len(), "peers": peers }))
}

fn as_table(name: &str, stream: &[u8], rounds: usize, measured: &[Measured]) -> String {
    use std::fmt::Write as _;
    let lines = memchr::memchr_iter(b'\n', stream).count();
    let mut text = format!(
        "decode, {name}: {:.0} MB, {lines} lines, {} bytes a line on average; best (worst) of {rounds}\n",
        stream.len() as f64 / 1e6,
        stream.len() / lines.max(1)
    );
    for peer in measured {
        let errors = if peer.counts.errors > 0 { format!("; {} lines not read", peer.counts.errors) } else { String::new() };
        let _ = writeln!(text, "  {:<21} {:>8.0} MB/s ({:>6.0})  {}{errors}", peer.name, peer.best, peer.worst, peer.does);
    }
    let best = |name: &str| measured.iter().find(|peer| peer.name == name).map(|peer| peer.best);
    for peer in ["claude-codes", "claude-codes (serde)", "serde_json envelope"] {
        if let (Some(ours), Some(theirs)) = (best("tapline"), best(peer)) {
            let _ = writeln!(text, "  tapline / {peer}: {:.1}×", ours / theirs);
        }
    }
    text.push('\n');
    text
}
