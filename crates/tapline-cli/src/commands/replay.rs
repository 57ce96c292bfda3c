//! `tapline replay`: plays a recorded agent to the host that started it in the agent's place.

use std::io::{IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tapline_recording::{Recording, recordings_in};
use tapline_session::parse_signal;
use tapline_sim::{HostEnds, Played, ReplayOptions, recorded_version, replay};

use super::tee::is_question;
use crate::args::offline::Replay;
use crate::plain::Plain;
use crate::{exit, output, secrets, store};

pub(crate) fn run(args: &Replay) -> Result<u8> {
    if args.args.len() == 1 && is_question(&args.args[0]) {
        return version(&first(&store::recorded(&args.recording)?)?);
    }
    // In the form that a recording has them.
    let given: Vec<_> = args.args.iter().map(|argument| argument.to_string_lossy()).collect();
    let given = secrets::redactor()?.args(given.iter().map(AsRef::as_ref));
    let recording = choose(&args.recording, &given)?;
    if let Some(why) = args.strict.then(|| other_arguments(&recording, &given)).flatten() {
        output::fail(&format!("replay: the host does not follow the recording: {why}"));
        return Ok(exit::VIOLATED);
    }
    let options = ReplayOptions {
        speed: args.speed,
        chunks: args.chunks,
        stop_after: args.stop_after,
        hang_at: args.hang_at,
        drop_result: args.drop_result,
        strict: args.strict,
        ..ReplayOptions::default()
    };
    // A person who watches sends nothing.
    let stdin = if std::io::stdin().is_terminal() { None } else { Some(Box::new(Plain::stdin()?) as Box<dyn Read + Send>) };
    let host = HostEnds {
        stdin,
        stdout: shown(Plain::stdout, std::io::stdout().is_terminal())?,
        stderr: shown(Plain::stderr, std::io::stderr().is_terminal())?,
    };
    let played = replay(&recording, &options, host).with_context(|| format!("cannot play {}", args.recording.display()))?;
    for flaw in recording.flaws() {
        output::tell(&format!("the recording is incomplete or was edited: {flaw}"));
    }
    Ok(match played {
        Played::Exit(code) => u8::try_from(code & 0xff).unwrap_or(exit::FAILED),
        Played::Signal(name) => {
            let number = parse_signal(&name).and_then(exit::signal_number);
            if let Some(number) = number {
                exit::die_of(number);
            }
            number.and_then(|number| u8::try_from(128 + number).ok()).unwrap_or(exit::FAILED)
        }
        Played::NoEnd => exit::INCOMPLETE,
        Played::Departed(why) => {
            output::fail(&format!("replay: the host does not follow the recording: {why}"));
            exit::VIOLATED
        }
        Played::Unread => 0,
    })
}

/// Returns the recording, or the first one in a folder of recordings.
pub(super) fn first(path: &Path) -> Result<Recording> {
    let inner = if Recording::is_one(path) { Vec::new() } else { recordings_in(path).unwrap_or_default() };
    Ok(Recording::open(inner.first().map_or(path, PathBuf::as_path))?)
}

/// Returns the recording. From a folder of them, it is the first with these arguments: a host may start its agent more
/// than once.
fn choose(path: &Path, given: &[String]) -> Result<Recording> {
    let path = &*store::recorded(path)?;
    if Recording::is_one(path) || !path.is_dir() {
        return Ok(Recording::open(path)?);
    }
    let mut all = recordings_in(path)?.iter().map(|path| Recording::open(path)).collect::<Result<Vec<_>, _>>()?;
    let same = all.iter().position(|recording| !given.is_empty() && other_arguments(recording, given).is_none());
    match (same, all.len()) {
        (_, 0) => Ok(Recording::open(path)?),
        (Some(found), _) => Ok(all.swap_remove(found)),
        (None, 1) => Ok(all.swap_remove(0)),
        (None, count) if given.is_empty() => bail!("{} has {count} recordings: name one of them", path.display()),
        (None, count) => bail!("none of the {count} recordings in {} was made with these arguments", path.display()),
    }
}

/// Says where the host's arguments differ from the recorded ones. If there are none, they were not passed on.
fn other_arguments(recording: &Recording, given: &[String]) -> Option<String> {
    let recorded = recording.meta.argv.get(1..)?;
    if given.is_empty() {
        return None;
    }
    let at = recorded.iter().zip(given).take_while(|(one, other)| one == other).count();
    let word = |list: &[String]| list.get(at).map_or_else(|| "missing".to_owned(), |word| format!("{word:?}"));
    (recorded != given).then(|| format!("argument {} was {} and is {}", at + 1, word(recorded), word(given)))
}

/// Returns a stream for the agent's output. On a terminal, control characters are made visible.
fn shown(
    stream: impl FnOnce() -> std::io::Result<Plain>,
    at_terminal: bool,
) -> std::io::Result<Box<dyn std::io::Write + Send>> {
    let stream = stream()?;
    Ok(if at_terminal { Box::new(output::Visible::new(stream)) } else { Box::new(stream) })
}

/// Prints the version, which a host may ask for.
fn version(recording: &Recording) -> Result<u8> {
    let version = recorded_version(recording).unwrap_or_else(|| "0.0.0".to_owned());
    let mut out = output::stdout();
    writeln!(out, "{} (tapline replay)", output::raw(&version))?;
    // A host that checks what the agent can do then does the same as in the recording.
    for flag in recording.meta.argv.iter().filter(|flag| *flag == "--include-hook-events") {
        writeln!(out, "  {flag}")?;
    }
    out.flush()?;
    Ok(0)
}
