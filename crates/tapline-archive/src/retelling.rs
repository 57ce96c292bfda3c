//! Transcripts, the session files that agents keep for themselves, as the streams that the agents would have written,
//! so that everything that reads streams reads them, too: one file here for each agent. What a transcript does not say
//! is left out. In particular a turn ends only where the transcript shows it.

mod claude;
mod codex;
mod telling;

use std::path::Path;

use tapline_protocol::{Agent, Decoder, Dialect, Record, Tape};
use tapline_recording::Redactor;
use tapline_session::{Fold, SessionPhase, Step, StreamStats, What, parse_moment};

use telling::{About, StreamPart, Teller};

/// A transcript that is being turned into a stream.
#[derive(Debug)]
pub(crate) struct Retelling {
    agent: Agent,
    teller: Box<dyn Teller>,
    decoder: Decoder,
    tape: Tape,
    /// What the file itself contains. The fold counts the lines of the stream.
    stats: StreamStats,
    ended: bool,
}

impl Retelling {
    /// Tells a transcript of this agent. Other files of the same session lie beside its path, if it has one.
    pub(crate) fn of(agent: Agent, path: Option<&Path>) -> Self {
        let teller: Box<dyn Teller> = match agent {
            Agent::Claude => Box::new(claude::Transcript::beside(path)),
            Agent::Codex => Box::<codex::Rollout>::default(),
        };
        let decoder = Decoder::default().for_agent(Some(agent));
        Self { agent, teller, decoder, tape: Tape::default(), stats: StreamStats::default(), ended: false }
    }

    /// Looks at a line ahead. Returns whether a look at the next one can tell more.
    pub(crate) fn look(&mut self, record: &Record) -> bool {
        if let Ok(line) = self.tape.parse(&record.text()) {
            self.teller.look(line);
        }
        self.teller.looks_on()
    }

    /// Tells a record of the file: returns its steps.
    pub(crate) fn tell(&mut self, record: &Record, redactor: Option<&Redactor>, fold: &mut Fold) -> Vec<Step> {
        self.count(record);
        let mut told = Vec::new();
        let mut tape = std::mem::take(&mut self.tape);
        let text = record.text();
        let is_object = match tape.parse(&text) {
            Ok(line) if record.envelope.kind.is_some() => {
                self.teller.line(line, &|text| cleaned(text, redactor), &mut told);
                true
            }
            _ => false,
        };
        self.tape = tape;
        if is_object {
            return self.steps(told, record.line, fold);
        }
        // A line that is not an object is as odd here as in a stream of this agent.
        fold.apply(&Record { dialect: Dialect::of(Some(self.agent)), ..record.clone() })
    }

    /// Tells what the end of the file shows. Returns nothing the second time.
    pub(crate) fn end(&mut self, redactor: Option<&Redactor>, fold: &mut Fold) -> Vec<Step> {
        let mut told = Vec::new();
        if !std::mem::replace(&mut self.ended, true) {
            self.teller.end(&|text| cleaned(text, redactor), &mut told);
        }
        self.steps(told, self.stats.lines.total, fold)
    }

    fn steps(&mut self, told: Vec<StreamPart>, line: u64, fold: &mut Fold) -> Vec<Step> {
        let about = self.teller.about();
        let mut steps = Vec::new();
        for told in told {
            match told {
                StreamPart::Turn => fold.begin_turn(),
                StreamPart::Prompt(text, at) => {
                    if let Some(mut step) = fold.prompt(&text, at) {
                        step.line = line;
                        steps.push(step);
                    }
                }
                StreamPart::Line(text, at) => {
                    let mut record = self.decoder.decode_line(line, text.into_bytes());
                    record.arrived = at.or_else(|| record.envelope.timestamp.as_deref().and_then(parse_moment));
                    steps.extend(fold.apply(&record));
                }
            }
        }
        for step in &mut steps {
            if let What::Session(info) = &mut step.what {
                let setup = &mut info.setup;
                setup.model = setup.model.take().or_else(|| about.model.clone());
                setup.cwd = setup.cwd.take().or_else(|| about.cwd.clone());
                setup.cli_version = setup.cli_version.take().or_else(|| about.version.clone());
            }
        }
        steps
    }

    /// Counts what the file contains.
    fn count(&mut self, record: &Record) {
        use tapline_protocol::LineKind;
        let lines = &mut self.stats.lines;
        lines.total = lines.total.max(record.line);
        match record.event.line_kind() {
            LineKind::Object => lines.objects += 1,
            LineKind::NotObject => lines.non_object += 1,
            LineKind::Malformed => {
                lines.malformed += 1;
                self.stats.malformed_at.push(record.line);
            }
            LineKind::Blank => lines.blank += 1,
            LineKind::Rest => {}
        }
        self.stats.bytes += record.bytes.len() as u64;
        match &record.envelope.kind {
            Some(kind) => *self.stats.types.entry(kind.to_string()).or_default() += 1,
            None => self.stats.lines.untyped += u64::from(record.event.line_kind() == LineKind::Object),
        }
    }

    /// Returns what the file contains.
    pub(crate) fn stats(&self) -> StreamStats {
        self.stats.clone()
    }

    /// Returns whether a person interrupted the last turn.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.teller.is_interrupted()
    }

    /// Returns how the last turn ended, if it has ended and no step has told it yet.
    pub(crate) fn untold_end(&self) -> Option<SessionPhase> {
        if self.is_interrupted() { Some(SessionPhase::Interrupted) } else { self.teller.untold_end() }
    }

    /// Returns how the ends of turns are known, if no line says them outright.
    pub(crate) fn infers(&self) -> Option<&'static str> {
        self.teller.infers()
    }

    /// Returns what the session was started with.
    pub(crate) fn about(&self) -> About {
        self.teller.about()
    }
}

fn cleaned(text: String, redactor: Option<&Redactor>) -> String {
    match redactor {
        Some(redactor) => String::from_utf8_lossy(&redactor.line(text.as_bytes())).into_owned(),
        None => text,
    }
}
