//! A chat by a script: one prompt a line, all of them one conversation.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use tapline_runner::{Agent, Update};
use tapline_session::What;
use tapline_session::render::{Format, Render};
use tapline_session::text::{one_line, visible};

use super::slash::{self, Slash};
use super::talk::Talk;
use crate::args::chat::{Chat, ScriptFormat};
use crate::commands::view;
use crate::signals::Signals;
use crate::source::is_stdin;
use crate::{exit, output};

pub(super) async fn run(args: &Chat, agent: Agent) -> Result<u8> {
    let format = args.format.unwrap_or(ScriptFormat::View);
    let mut prompts = prompts(args)?;
    let kind = agent.kind;
    let mut signals = Signals::listen()?;
    let talk = match Talk::start(agent).await {
        Ok(talk) => talk,
        Err(failure) => return Ok(super::not_started(kind, &failure)),
    };
    let options = tapline_session::render::TerminalOptions { thinking: args.thinking, live: false, ..view::options(args.look) };
    let mut script = Script { talk, format, renderer: Format::Terminal(options).renderer(), answers: 0 };
    let mut failed = false;
    let mut gone = false;
    while let Some(prompt) = next(&mut prompts).await? {
        let ended = tokio::select! {
            ended = script.turn(prompt) => ended?,
            signal = signals.next() => {
                script.talk.stop();
                script.finish().await?;
                return Ok(u8::try_from(128 + signal).unwrap_or(exit::FAILED));
            }
        };
        failed |= matches!(ended, Ended::Badly | Ended::Gone);
        gone = ended == Ended::Gone;
        if gone || failed && !args.keep_going || ended == Ended::Quit {
            break;
        }
    }
    let code = script.finish().await?;
    Ok(if failed && !gone { exit::FAILED.max(code) } else { code })
}

/// How a turn of a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Well,
    Badly,
    /// The script wants no more.
    Quit,
    /// The agent is gone.
    Gone,
}

struct Script {
    talk: Talk,
    format: ScriptFormat,
    renderer: Box<dyn Render>,
    answers: u64,
}

impl Script {
    async fn turn(&mut self, prompt: String) -> Result<Ended> {
        match slash::read(&prompt) {
            Some(Slash::Quit) => return Ok(Ended::Quit),
            Some(slash) => {
                if let Slash::Model(Some(model)) = &slash {
                    self.talk.set_model(Some(model.clone()));
                }
                return Ok(match slash::run(slash, self.talk.control()).await {
                    Ok(text) => {
                        if self.format == ScriptFormat::View {
                            put(&format!("{}\n", visible(&text)))?;
                        }
                        Ended::Well
                    }
                    Err(error) => {
                        output::tell(&format!("{error:#}"));
                        Ended::Badly
                    }
                });
            }
            None => {}
        }
        if self.format == ScriptFormat::View {
            put(&format!("\n› {}\n", one_line(&prompt)))?;
        }
        let name = self.talk.say(prompt).await?;
        let mut said = None;
        while let Some(update) = self.talk.next().await {
            match update {
                Update::Record(seen) => {
                    for step in &seen.steps {
                        if let (What::Text(text), None) = (&step.what, &step.parent) {
                            said = Some(text.text.clone());
                        }
                        if self.format == ScriptFormat::View {
                            let text = self.renderer.step(step);
                            put(&text)?;
                        }
                    }
                    if self.format == ScriptFormat::StreamJson {
                        let mut out = output::raw_stdout();
                        out.write_all(&seen.record.bytes)?;
                        out.flush()?;
                    }
                }
                Update::Stderr(line) => output::tell(&line),
                Update::Lost(what) | Update::Trouble(what) => output::tell(&format!("WARNING: {what}")),
                Update::Over(over) if over.messages.contains(&name) => return self.over(over.turn.as_deref(), said),
                _ => {}
            }
        }
        Ok(Ended::Gone)
    }

    fn over(&mut self, turn: Option<&tapline_session::step::Turn>, said: Option<String>) -> Result<Ended> {
        let Some(turn) = turn else { return Ok(Ended::Badly) };
        if turn.failed {
            let why = turn.message.as_deref().unwrap_or("the turn was cut short");
            // The view has said so.
            if self.format != ScriptFormat::View || turn.subtype.is_none() {
                output::tell(why);
            }
            return Ok(Ended::Badly);
        }
        if self.format == ScriptFormat::Text {
            let answer = turn.result.clone().filter(|text| !text.is_empty()).or(said).unwrap_or_default();
            let gap = if self.answers > 0 { "\n" } else { "" };
            self.answers += 1;
            let mut out = output::stdout();
            writeln!(out, "{gap}{}", output::raw(answer.trim_end()))?;
            out.flush()?;
        }
        Ok(Ended::Well)
    }

    /// The last words: how it all ended, and how to go on.
    async fn finish(self) -> Result<u8> {
        let (format, report) = (self.format, self.talk.finish().await);
        let Some(report) = report else { return Ok(0) };
        if format == ScriptFormat::View {
            if let Some(recording) = &report.run.recording {
                output::tell(&format!("recorded in {recording}"));
            }
            if let Some(id) = &report.session.id {
                output::tell(&format!("go on with: tapline chat --resume {id}"));
            }
        }
        Ok(if report.turns.is_empty() && report.verdict.exit_code() == exit::INCOMPLETE {
            0
        } else {
            report.verdict.exit_code()
        })
    }
}

fn put(text: &str) -> Result<()> {
    let mut out = output::stdout();
    out.write_all(output::human(text.to_owned()).as_bytes())?;
    Ok(out.flush()?)
}

type Prompts = tokio::sync::mpsc::Receiver<std::io::Result<String>>;

/// The prompts as they come: who writes them may wait for the answers.
fn prompts(args: &Chat) -> Result<Prompts> {
    let source: Box<dyn Read + Send> = match &args.script {
        Some(path) if !is_stdin(Some(path)) => Box::new(open(path)?),
        _ => Box::new(std::io::stdin()),
    };
    let (send, prompts) = tokio::sync::mpsc::channel(1);
    let first = args.prompt.clone();
    std::thread::spawn(move || {
        if let Some(first) = first
            && send.blocking_send(Ok(first)).is_err()
        {
            return;
        }
        let mut reader = BufReader::new(source);
        let mut prompt = String::new();
        loop {
            let mut line = Vec::new();
            let read = reader.read_until(b'\n', &mut line);
            if let Err(error) = read {
                let _ = send.blocking_send(Err(error));
                return;
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            if let Some(goes_on) = text.strip_suffix('\\').filter(|_| !line.is_empty()) {
                prompt += goes_on;
                prompt.push('\n');
                continue;
            }
            prompt += text;
            if !prompt.trim().is_empty() && send.blocking_send(Ok(std::mem::take(&mut prompt))).is_err() {
                return;
            }
            prompt.clear();
            if line.is_empty() {
                return;
            }
        }
    });
    Ok(prompts)
}

async fn next(prompts: &mut Prompts) -> Result<Option<String>> {
    prompts.recv().await.transpose().context("cannot read the script")
}

fn open(path: &Path) -> Result<std::fs::File> {
    std::fs::File::open(path).with_context(|| format!("cannot read the script {}", path.display()))
}
