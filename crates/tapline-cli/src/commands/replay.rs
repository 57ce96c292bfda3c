//! `tapline replay`: plays a recorded agent to whoever has started us in its place.

use std::io::{IsTerminal as _, Read, Write as _};

use anyhow::{Context as _, Result};
use tapline_recording::Recording;
use tapline_session::parse_signal;
use tapline_sim::{HostEnds, Played, ReplayOptions, recorded_version, replay};

use super::tee::is_question;
use crate::args::offline::Replay;
use crate::plain::Plain;
use crate::{exit, output};

pub(crate) fn run(args: &Replay) -> Result<u8> {
    let recording = Recording::open(&args.recording)?;
    if args.args.len() == 1 && is_question(&args.args[0]) {
        return version(&recording);
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
        output::tell(&format!("the recording is cut or was edited: {flaw}"));
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
            output::tell(&format!("replay: the host departs from the recording: {why}"));
            exit::VIOLATED
        }
        Played::Unread => 0,
    })
}

/// A stream of the agent's: as it is, but made visible where it is a terminal.
fn shown(
    stream: impl FnOnce() -> std::io::Result<Plain>,
    at_terminal: bool,
) -> std::io::Result<Box<dyn std::io::Write + Send>> {
    let stream = stream()?;
    Ok(if at_terminal { Box::new(output::Visible(stream)) } else { Box::new(stream) })
}

/// A host may want to know whom it has before it.
fn version(recording: &Recording) -> Result<u8> {
    let version = recorded_version(recording).unwrap_or_else(|| "0.0.0".to_owned());
    let mut out = output::stdout();
    writeln!(out, "{} (tapline replay)", output::raw(&version))?;
    out.flush()?;
    Ok(0)
}
