//! A chat from a script: one prompt per line, all in one conversation.

use std::io::{BufReader, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tapline_runner::{Agent, Stopper, Update};
use tapline_session::render::{Render, RenderAs, Style, TerminalOptions};
use tapline_session::step::Turn;
use tapline_session::text::{one_line, visible};
use tapline_session::{Step, What};

use super::slash::{self, Now, Slash};
use super::spent::Spent;
use super::talk::Talk;
use crate::args::chat::{Chat, ScriptFormat};
use crate::ci::Kind;
use crate::commands::denials::{Denials, Started};
use crate::commands::updates::warning;
use crate::commands::view;
use crate::push::Asks;
use crate::signals::Signals;
use crate::sink::Sink;
use crate::source::is_stdin;
use crate::{ci, errors, exit, output};

pub(super) async fn run(args: &Chat, agent: Agent, page: &Asks) -> Result<u8> {
    let mut prompts = prompts(args)?;
    let kind = agent.kind;
    let mut signals = Signals::listen()?;
    // No agent is started for an empty script. A prompt that comes later finds the agent ready.
    let first = tokio::select! {
        first = prompts.recv() => Some(first.context(NO_PROMPTS)?),
        () = tokio::time::sleep(HEAD_START) => None,
        signal = signals.next() => return Ok(code_of(signal)),
    };
    let mut talk = tokio::select! {
        talk = Talk::start(agent, args.redact || ci::is_log()) => match talk {
            Ok(talk) => talk,
            Err(failure) => return Ok(super::not_started(kind, &failure)),
        },
        signal = signals.next() => return Ok(code_of(signal)),
    };
    // An agent that reads prompts only between turns takes no messages from elsewhere.
    page.reach(talk.control().ok());
    if args.format == Some(ScriptFormat::StreamJson) && !args.redact {
        // The program that reads stdout gets the lines unchanged. Only people get them without secrets.
        talk.keep_raw();
    }
    let options = TerminalOptions { thinking: args.thinking, live: false, ..view::options(args.look) };
    let mut script = Script {
        args,
        denials: Denials::default(),
        talk,
        kind,
        format: args.format.unwrap_or(ScriptFormat::View),
        keep_going: args.keep_going,
        renderer: RenderAs::Terminal(options).renderer(),
        out: Sink::stdout(),
        answers: 0,
        seen: false,
        asked: false,
        failed: false,
        now: Now::default(),
        spent: Spent::new(super::is_resumed(args)),
        style: options.style,
    };
    let mut signalled = tokio::select! {
        read = script.read(first, prompts) => {
            read?;
            None
        }
        signal = signals.next() => Some(signal),
    };
    let stopper = script.talk.stopper();
    if signalled.is_some() {
        stopper.iter().for_each(Stopper::terminate);
    }
    let finish = script.finish();
    tokio::pin!(finish);
    let code = loop {
        tokio::select! {
            code = &mut finish => break code,
            signal = signals.next() => {
                signalled.get_or_insert(signal);
                stopper.iter().for_each(Stopper::terminate);
            }
        }
    };
    Ok(signalled.map_or(code, code_of))
}

fn code_of(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(exit::FAILED)
}

/// How a turn of a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Well,
    Badly,
    /// The script ends the chat.
    Quit,
    /// The agent has ended.
    Gone,
}

struct Script<'a> {
    args: &'a Chat,
    denials: Denials,
    talk: Talk,
    kind: tapline_protocol::Agent,
    format: ScriptFormat,
    keep_going: bool,
    renderer: Box<dyn Render>,
    out: Sink,
    answers: u64,
    /// Whether there was a prompt or a command.
    seen: bool,
    /// Whether a prompt was sent to the agent.
    asked: bool,
    failed: bool,
    now: Now,
    spent: Spent,
    style: Style,
}

impl Script<'_> {
    /// Sends one prompt after the other, until there are no more, one fails, or the agent ends.
    async fn read(&mut self, mut first: Option<std::io::Result<Prompt>>, mut prompts: Prompts) -> Result<()> {
        loop {
            let next = async { if first.is_some() { first.take() } else { prompts.recv().await } };
            let prompt = tokio::select! {
                prompt = next => prompt,
                // The agent may write something, or end, between prompts.
                update = self.talk.next() => {
                    let Some(update) = update else {
                        self.failed = true;
                        return Ok(());
                    };
                    self.update(&update);
                    continue;
                }
            };
            let Some(prompt) = prompt.transpose().context("cannot read the script")? else { return Ok(()) };
            self.seen = true;
            let place = prompt.line.map_or_else(|| "the first prompt".to_owned(), |line| format!("line {line} of the script"));
            let ended = self.turn(prompt.text).await?;
            self.failed |= matches!(ended, Ended::Badly | Ended::Gone);
            if ended == Ended::Badly && !self.keep_going {
                output::tell(&format!("the chat ends at {place}, which failed (--keep-going goes on with the next)"));
            }
            if ended == Ended::Gone || ended == Ended::Quit || self.failed && !self.keep_going || self.out.failure().is_some() {
                return Ok(());
            }
        }
    }

    async fn turn(&mut self, prompt: String) -> Result<Ended> {
        match slash::read(&prompt) {
            Some(Slash::Quit) => return Ok(Ended::Quit),
            Some(slash) => return Ok(self.slash(slash).await),
            None if !self.talk.knows(&prompt) => {
                output::fail(&format!("unknown command: {prompt} (to send it as a prompt, start with a space)"));
                return Ok(Ended::Badly);
            }
            None => {}
        }
        if self.format == ScriptFormat::View {
            let shown = self.talk.told(&prompt);
            self.put(&format!("\n› {}\n", one_line(&shown)));
        }
        self.asked = true;
        let name = self.talk.say(prompt).await?;
        let mut said = None;
        while let Some(update) = self.talk.next().await {
            said = self.update(&update).or(said);
            match update {
                Update::Over(over) if over.messages.contains(&name) => return Ok(self.over(over.turn.as_deref(), said)),
                Update::Over(_)
                | Update::Record(_)
                | Update::Sent(_)
                | Update::Stderr(_)
                | Update::Lost(_)
                | Update::Stopping(_)
                | Update::Left(_)
                | Update::Settled(_)
                | Update::Trouble(_) => {}
            }
            self.out.ready().await;
        }
        Ok(Ended::Gone)
    }

    async fn slash(&mut self, slash: Slash) -> Ended {
        if let Slash::Model(model) = &slash {
            self.talk.set_model(model.clone());
        }
        match slash::run(slash, self.now.clone(), self.talk.control()).await {
            Ok(text) if self.format == ScriptFormat::View => self.put(&format!("{}\n", visible(&text))),
            // In the other formats, stdout has nothing but answers or the agent's lines.
            Ok(text) => output::tell(&text),
            Err(error) => {
                output::fail(&format!("{error:#}"));
                return Ended::Badly;
            }
        }
        Ended::Well
    }

    /// Shows an update. Returns the main agent's text in it, if any.
    fn update(&mut self, update: &Update) -> Option<String> {
        let mut said = None;
        let raw = self.talk.take_raw();
        if let Some(raw) = &raw {
            self.pass_on(raw);
        }
        match update {
            Update::Record(seen) => {
                for step in &seen.steps {
                    self.now.accept(step);
                    self.denials.accept(step);
                    if let (What::Text(text), None) = (&step.what, &step.parent) {
                        said = Some(text.text.clone());
                    }
                    if self.format == ScriptFormat::View {
                        let text = self.renderer.step(step);
                        self.put(&text);
                        self.tell_spent(step);
                    }
                }
                if self.format == ScriptFormat::StreamJson && raw.is_none() {
                    self.pass_on(&seen.record.bytes);
                }
            }
            Update::Settled(settled) => self.denials.settle(settled),
            Update::Over(_) => self.denials.reject(&self.talk.take_rejected()),
            Update::Stderr(line) => output::tell_of(self.kind.name(), line),
            Update::Lost(_) | Update::Trouble(_) | Update::Left(_) => output::tell(&warning(update).unwrap_or_default()),
            Update::Sent(_) | Update::Stopping(_) => {}
        }
        said
    }

    fn pass_on(&mut self, lines: &[u8]) {
        self.out.put(output::raw_bytes(lines).as_ref(), Kind::Json);
        self.out.flush();
    }

    /// Shows what a turn used, below its end.
    fn tell_spent(&mut self, step: &Step) {
        let Style { dim, reset, .. } = self.style;
        if let What::Turn(turn) = &step.what
            && let Some(spent) = self.spent.turn(turn)
        {
            self.put(&format!("{dim}· {spent}{reset}\n"));
        }
    }

    fn over(&mut self, turn: Option<&Turn>, said: Option<String>) -> Ended {
        let Some(turn) = turn else { return Ended::Badly };
        if turn.failed {
            let why = turn.message.as_deref().unwrap_or("the turn was interrupted");
            // The view has already said so.
            if self.format != ScriptFormat::View || turn.subtype.is_none() {
                output::tell(why);
            }
            ci::annotate(why);
            return Ended::Badly;
        }
        if self.format == ScriptFormat::Text {
            let answer = turn.answer_or(said);
            let gap = if self.answers > 0 { "\n" } else { "" };
            self.answers += 1;
            self.out.write(format!("{gap}{}\n", output::raw(answer.trim_end())).as_bytes());
        }
        Ended::Well
    }

    fn put(&mut self, text: &str) {
        self.out.write(text.as_bytes());
    }

    /// Ends the chat: how it ended, and how to continue.
    async fn finish(self) -> u8 {
        let Self { args, mut denials, mut talk, kind, format, out, seen, asked, failed, .. } = self;
        denials.reject(&talk.take_rejected());
        let redactor = talk.redactor();
        let report = talk.finish().await;
        // A reader that does not read is not waited for long.
        let _ = tokio::time::timeout(NOT_TAKEN, out.flushed()).await;
        if let Some(error) = out.failure() {
            output::fail(&format!("cannot write: {error}"));
            return exit::USAGE;
        }
        let Chat { whose, told, extra, .. } = args;
        let denied = denials.told(&Started { whose, told, extra }, redactor.as_ref());
        let shown = format == ScriptFormat::View && ci::is_log() && !out.is_file();
        denied.told(shown).iter().chain(&denied.advice).for_each(|line| output::tell(line));
        let Some(report) = report else { return u8::from(failed) };
        if let Some(tip) = exit::unclean(&report.verdict, &args.fail_on, false).filter(|_| !failed) {
            output::tell(&tip);
        }
        if format == ScriptFormat::View {
            if let Some(recording) = &report.run.recording {
                output::tell(&crate::store::recorded_in(recording.as_ref()));
            }
            if let Some(id) = &report.session.id {
                output::tell(&super::go_on(kind, id));
            }
        }
        let code = report.verdict.exit_code();
        let code = match (asked, failed, code) {
            (false, false, exit::INCOMPLETE) if !seen => {
                output::fail(NO_PROMPTS);
                exit::USAGE
            }
            // Nothing was asked, and nothing answered.
            (false, false, exit::INCOMPLETE) => 0,
            (false, true, exit::INCOMPLETE) if seen => exit::FAILED,
            (_, true, 0) => exit::FAILED,
            (true, true, exit::INCOMPLETE) => {
                output::fail(report.verdict.error.as_deref().unwrap_or("the agent ended without a result"));
                code
            }
            _ => code,
        };
        super::fail_on(args, &report, code, !denied.calls.is_empty())
    }
}

const NO_PROMPTS: &str = "no prompts: each line of the script, or of stdin, is a prompt (tapline chat --help)";

/// How long to wait for the first prompt before the agent is started.
const HEAD_START: Duration = Duration::from_millis(300);

/// How long to wait for a reader that does not read.
const NOT_TAKEN: Duration = Duration::from_secs(10);

type Prompts = tokio::sync::mpsc::Receiver<std::io::Result<Prompt>>;

/// A prompt, and where the script has it.
struct Prompt {
    text: String,
    /// The line that it ends in; none for the one on the command line.
    line: Option<u64>,
}

/// Reads the prompts as they arrive: the program that writes them may wait for the answers.
fn prompts(args: &Chat) -> Result<Prompts> {
    let source: Box<dyn Read + Send> = match &args.script {
        Some(path) if !is_stdin(Some(path)) => Box::new(open(path)?),
        _ => Box::new(std::io::stdin()),
    };
    let (send, prompts) = tokio::sync::mpsc::channel(1);
    let first = args.prompt.clone();
    std::thread::spawn(move || {
        let first = first.into_iter().map(|text| Ok(Prompt { text, line: None }));
        for prompt in first.chain(Lines { reader: BufReader::new(source), line: 0, ended: false }) {
            let failed = prompt.is_err();
            if send.blocking_send(prompt).is_err() || failed {
                return;
            }
        }
    });
    Ok(prompts)
}

/// Prompts, one per line. `\` at the end of a line continues it.
struct Lines<R> {
    reader: R,
    /// How many lines were read.
    line: u64,
    ended: bool,
}

impl<R: std::io::BufRead> Iterator for Lines<R> {
    type Item = std::io::Result<Prompt>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut prompt = String::new();
        while !self.ended {
            let mut line = Vec::new();
            if let Err(error) = self.reader.read_until(b'\n', &mut line) {
                return Some(Err(error));
            }
            self.line += 1;
            self.ended = !line.ends_with(b"\n");
            let text = String::from_utf8_lossy(&line);
            if matches!(text, std::borrow::Cow::Owned(_)) {
                output::tell("WARNING: a prompt is not valid UTF-8; invalid bytes are replaced with U+FFFD");
            }
            let text = text.trim_end_matches(['\n', '\r']);
            if let Some(goes_on) = text.strip_suffix('\\').filter(|_| !self.ended) {
                prompt.push_str(goes_on);
                prompt.push('\n');
                continue;
            }
            prompt += text;
            if !prompt.trim().is_empty() {
                return Some(Ok(Prompt { text: prompt, line: Some(self.line) }));
            }
            prompt.clear();
        }
        None
    }
}

fn open(path: &Path) -> Result<std::fs::File> {
    let advice = "write one with a prompt in each line; `tapline help chatting`";
    std::fs::File::open(path).map_err(|error| errors::unreadable(error, "script", path, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_a_line() {
        let prompts = |text: &'static str| Lines { reader: text.as_bytes(), line: 0, ended: false }.map_while(Result::ok);
        let read = |text| prompts(text).map(|prompt| prompt.text).collect::<Vec<_>>();
        assert_eq!(read("one\n\n  \ntwo\r\nthree\\\ngoes on\nlast"), ["one", "two", "three\ngoes on", "last"]);
        let lines: Vec<_> = prompts("one\n\n  \ntwo\r\nthree\\\ngoes on\nlast").filter_map(|prompt| prompt.line).collect();
        assert_eq!(lines, [1, 4, 6, 7]);
        assert_eq!(read("ends with\\"), ["ends with\\"], "nothing follows");
        assert_eq!(read("\n\n"), Vec::<String>::new());
        assert_eq!(read(""), Vec::<String>::new());
    }
}
