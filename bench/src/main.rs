//! The project's benchmarks, each beside a peer in one run: `BENCHMARKS.md` says what they measure, `scripts/bench`
//! runs all of them.

mod agents;
mod between;
mod corpus;
mod decode;
#[path = "../../crates/tapline-recording/tests/it/hostile.rs"]
mod hostile;
mod redact;
mod row;
mod text;
mod watch;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use corpus::{Generator, Kind};
use row::Row;

const USAGE: &str = "\
usage: bench decode [--mb N] [--rounds N] [--corpus long|short|mixed|fixtures]… [--file FILE] [--only PEER]…
       bench redact [--mb N] [--rounds N] [--hostile]
       bench run latency|overhead|tee|replay TAPLINE FOLDER [--quick | --smoke]
       bench run many FOLDER STREAM [--count N] [--quick | --smoke]
       bench watch clients|sessions|hour FOLDER [--quick | --smoke] [--seconds N] [--rounds N] [--follow N] [--batch N]
       bench make-stream PATH|- MB [--kind long|short|mixed]
With --json, each row of the table is a line of JSON.";

/// How much a benchmark does.
#[derive(Clone, Copy, Debug)]
enum Extent {
    /// Enough for figures that are judged.
    Full,
    /// Enough for figures.
    Quick,
    /// Enough to show that it runs.
    Smoke,
}

impl Extent {
    fn pick<T>(self, full: T, quick: T, smoke: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
            Self::Smoke => smoke,
        }
    }
}

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
            if flags.contains(&arg) || arg == "--json" {
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

    fn is(&self, flag: &str) -> bool {
        !self.all(flag).is_empty()
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        self.all(name).last().map_or(Ok(default), |text| number(text))
    }

    fn count(&self, name: &str, default: usize) -> Result<usize, String> {
        usize::try_from(self.number(name, default as u64)?).map_err(|error| error.to_string())
    }

    fn extent(&self) -> Extent {
        match () {
            () if self.is("--smoke") => Extent::Smoke,
            () if self.is("--quick") => Extent::Quick,
            () => Extent::Full,
        }
    }

    fn print(&self, rows: &[Row]) -> Result<(), String> {
        let mut out = io::stdout().lock();
        for row in rows {
            let text = if self.is("--json") {
                serde_json::to_string(row).map_err(|error| error.to_string())?
            } else {
                row.to_string()
            };
            writeln!(out, "{text}").map_err(|error| error.to_string())?;
        }
        out.flush().map_err(|error| error.to_string())
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| format!("`{text}` is not a number above 0\n{USAGE}"))
}

fn numbers<const N: usize>(args: &[String]) -> Result<[u64; N], String> {
    let numbers: Vec<u64> = args.iter().map(|text| number(text)).collect::<Result<_, _>>()?;
    numbers.try_into().map_err(|_| USAGE.to_owned())
}

fn kind(name: &str) -> Result<Kind, String> {
    Kind::named(name).ok_or_else(|| format!("`{name}` is not a kind of stream\n{USAGE}"))
}

fn redact_command(args: &[String]) -> Result<(), String> {
    let options = Options::read(args, &["--mb", "--rounds"], &["--hostile"])?;
    let (size, rounds) = (options.number("--mb", 100)? * 1_000_000, options.count("--rounds", 5)?);
    let hostile = redact::hostile(usize::try_from(size / 10).unwrap_or(usize::MAX).min(4_000_000), rounds.min(3));
    if options.is("--hostile") {
        return options.print(&hostile);
    }
    let mut rows = redact::beside(size, rounds);
    let benchmark = format!("redact, text made to be slow, the slowest of {} / a quarter of it", hostile.len());
    let slowest = hostile.into_iter().min_by(|one, other| one.tapline.value.total_cmp(&other.tapline.value));
    rows.extend(slowest.map(|row| Row { benchmark, ..row }));
    options.print(&rows)
}

fn run_command(args: &[String]) -> Result<(), String> {
    let options = Options::read(args, &["--count"], &["--quick", "--smoke"])?;
    let extent = options.extent();
    let rows = match options.rest[..] {
        ["latency", tapline, folder] => agents::latency(extent, tapline, folder.as_ref()),
        ["tee", tapline, folder] => between::tee(extent, tapline, folder.as_ref()),
        ["replay", tapline, folder] => between::replay(extent, tapline, folder.as_ref()),
        ["overhead", tapline, folder] => agents::overhead(extent, tapline, folder.as_ref()),
        ["many", folder, stream] => {
            agents::many(options.number("--count", extent.pick(1_000, 200, 20))?, folder.as_ref(), stream.as_ref())
        }
        _ => return Err(USAGE.to_owned()),
    };
    options.print(&rows.map_err(|error| error.to_string())?)
}

fn watch_command(args: &[String]) -> Result<(), String> {
    let options = Options::read(args, &["--seconds", "--rounds", "--follow", "--batch"], &["--quick", "--smoke"])?;
    let mut extent = options.extent().pick(watch::Extent::FULL, watch::Extent::QUICK, watch::Extent::SMOKE);
    extent.seconds = options.number("--seconds", extent.seconds)?;
    extent.rounds = options.count("--rounds", extent.rounds)?;
    extent.follow = options.count("--follow", extent.follow)?;
    extent.batch = options.number("--batch", extent.batch)?;
    let rows = match options.rest[..] {
        ["sessions", folder] => watch::sessions(extent, folder.as_ref()),
        ["clients", folder] => watch::clients(extent, folder.as_ref()),
        ["hour", folder] => watch::hour(extent, folder.as_ref()),
        ["serve", ref rest @ ..] => watch::serve(rest).map(|()| Vec::new()),
        _ => return Err(USAGE.to_owned()),
    };
    options.print(&rows.map_err(|error| error.to_string())?)
}

/// Plays an agent, for the others: LINES MICROSECONDS SIZE.
fn play_command(args: &[String]) -> Result<(), String> {
    let [lines, micros, size] = numbers(args)?;
    agents::play(lines, micros, size).map_err(|error| error.to_string())
}

/// Plays an agent that reads too, for the others: MICROSECONDS SIZE LINES.
fn converse_command(args: &[String]) -> Result<(), String> {
    let [micros, size, lines] = numbers(args)?;
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
    let options = Options::read(args, &["--mb", "--rounds", "--corpus", "--file", "--only"], &[])?;
    if !options.rest.is_empty() {
        return Err(USAGE.to_owned());
    }
    let size = options.number("--mb", 210)? * 1_000_000;
    let rounds = options.count("--rounds", 5)?;
    let only = options.all("--only");
    if let Some(unknown) = only.iter().find(|name| !decode::PEERS.iter().any(|peer| peer.name == **name)) {
        let known: Vec<_> = decode::PEERS.iter().map(|peer| peer.name).collect();
        return Err(format!("`{unknown}` is not a peer: {}", known.join(", ")));
    }
    let run = |name: &str, stream: &[u8]| {
        let measured = decode::measure(stream, rounds, |peer| only.is_empty() || only.contains(&peer));
        options.print(&decode::rows(name, &measured))
    };
    if let Some(path) = options.all("--file").last() {
        let stream = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        return run(path, &stream);
    }
    let corpora = options.all("--corpus");
    for name in if corpora.is_empty() { vec!["long", "short", "fixtures"] } else { corpora } {
        match name {
            "fixtures" => run("recorded sessions", &corpus::recorded(size))?,
            name => run(&format!("{name} lines"), &Generator::in_memory(kind(name)?, size))?,
        }
    }
    Ok(())
}
