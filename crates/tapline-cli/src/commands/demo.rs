//! `tapline demo`: a session of the real claude, recorded with a scripted model and shown through the real pipeline.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Read, Write as _};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tapline_protocol::{Agent, Moment};
use tapline_recording::{End, Meta, Recorder, Store, Stream, Sync};

use crate::args::{Demo, Facts};
use crate::ci::Kind;
use crate::output;
use crate::source::Source;

const SESSION: &[u8] = include_bytes!("demo/session.jsonl");

pub(crate) fn run(args: &Demo) -> Result<u8> {
    if args.raw {
        let mut out = output::stdout_for(Kind::Json);
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

/// The demo as a recording that grows, in a store of its own, which is removed with it.
pub(super) struct Playing {
    pub(super) store: Store,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Playing {
    /// Begins to play.
    pub(super) fn start() -> Result<Self> {
        let unique = RandomState::new().build_hasher().finish();
        let store = Store::at(std::env::temp_dir().join(format!("tapline-demo-{unique:016x}")));
        let (started_at, started_ms) = (tapline_runner::now(), jiff::Timestamp::now().as_millisecond());
        let meta = Meta {
            schema: 1,
            agent: Some(Agent::default().name().to_owned()),
            cwd: Some("/home/dev/project".to_owned()),
            started_at,
            started_ms: Some(Moment::from_millis(started_ms.max(0).cast_unsigned())),
            ..Meta::default()
        };
        let mut recorder = Recorder::create(&store.new_recording(), &meta, Sync::EverySecond)?;
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            for line in SESSION.split_inclusive(|byte| *byte == b'\n') {
                if stopped.recv_timeout(pause(line)) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
                recorder.write_at(Stream::Stdout, line, began.elapsed());
            }
            let duration_ms = u64::try_from(began.elapsed().as_millis()).ok();
            let _ = recorder.finish(&End { exit_code: Some(0), duration_ms, ..End::default() });
        });
        Ok(Self { store, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_dir_all(self.store.root());
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
