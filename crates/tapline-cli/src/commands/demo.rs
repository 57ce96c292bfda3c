//! `tapline demo`: a session of the real claude, recorded with a scripted model and shown through the real pipeline.

use std::io::{self, Read, Write as _};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::args::{Demo, Facts};
use crate::output;
use crate::source::Source;

const SESSION: &[u8] = include_bytes!("demo/session.jsonl");

pub(crate) fn run(args: &Demo) -> Result<u8> {
    if args.raw {
        let mut out = output::json_stdout();
        out.write_all(SESSION)?;
        out.flush()?;
        return Ok(0);
    }
    let speed = args.speed.unwrap_or(if output::is_terminal() { 1.0 } else { 0.0 });
    ensure!(speed.is_finite() && speed >= 0.0, "--speed must be 0 or more: 1 is the speed of a real agent, 0 does not wait");
    let source = Source::of("the demo".to_owned(), Box::new(Paced { rest: SESSION, speed }), &Facts::default())?;
    let options = super::view::options(args.look);
    super::view::show(source, tapline_session::render::TerminalOptions { partial: options.live, ..options })?;
    Ok(0)
}

/// The recording, one line at a time, about as fast as an agent works.
struct Paced {
    rest: &'static [u8],
    speed: f64,
}

impl Read for Paced {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let line = self.rest.iter().position(|&byte| byte == b'\n').map_or(self.rest.len(), |at| at + 1);
        if self.speed > 0.0 {
            sleep(pause(&self.rest[..line]).div_f64(self.speed));
        }
        let count = line.min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest = &self.rest[count..];
        Ok(count)
    }
}

/// Returns how long an agent takes for such a line: text is quick, tools and the model take longer.
fn pause(line: &[u8]) -> Duration {
    let says = |text: &[u8]| line.windows(text.len()).any(|part| part == text);
    Duration::from_millis(if says(b"\"tool_result\"") {
        900
    } else if says(b"content_block_delta") {
        70
    } else if says(b"message_start") {
        500
    } else {
        15
    })
}
