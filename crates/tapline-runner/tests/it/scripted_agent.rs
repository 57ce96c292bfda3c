//! An agent that plays a conversation as it is written in a test: `>` what the host says, which is waited for, `<` what it gets.

use std::time::Duration;

use tapline_recording::{End, Meta, Recorder, Stream, Sync};
use tapline_runner::Agent;
use tapline_sim::{FakeAgent, ReplayOptions};
use tapline_testkit::{HANG, TempFolder};

/// The conversation's own program, and what it was made of.
pub(crate) struct Scripted {
    pub(crate) agent: FakeAgent,
    pub(crate) folder: TempFolder,
}

/// What every session begins with.
pub(crate) const BEGINS: &str = r#"
> {"type":"control_request","request_id":"h1","request":{"subtype":"initialize"}}
< {"type":"control_response","response":{"subtype":"success","request_id":"h1","response":{"claude_code_version":"2.1.325"}}}
"#;

impl Scripted {
    /// Plays this behind the beginning of every session.
    pub(crate) fn new(lines: &str, options: ReplayOptions) -> Self {
        let folder = TempFolder::new();
        let recording = folder.join("recording");
        let meta = Meta { schema: 1, agent: Some("claude".to_owned()), ..Meta::default() };
        let mut recorder = Recorder::create(&recording, &meta, Sync::EverySecond).unwrap();
        let all = [BEGINS, lines].concat();
        for (at, line) in (0..).zip(all.lines().map(str::trim).filter(|line| !line.is_empty())) {
            let stream = if line.starts_with('>') { Stream::Stdin } else { Stream::Stdout };
            recorder.write_at(stream, format!("{}\n", &line[2..]).as_bytes(), Duration::from_millis(10 * at));
        }
        recorder.close_at(Stream::Stdin, Duration::from_secs(3600));
        recorder.finish(&End { exit_code: Some(0), ..End::default() }).unwrap();
        Self { agent: FakeAgent::replaying(&recording, options).unwrap(), folder }
    }

    /// A Claude that plays it.
    pub(crate) fn claude(&self) -> Agent {
        Agent::claude()
            .bin(self.agent.program())
            .record(self.folder.join("session"))
            .grace(Duration::from_millis(300))
            .linger(HANG)
            .timeout(HANG)
    }

    /// What the session has said to it so far.
    pub(crate) fn said(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.folder.join("session/stdin")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
