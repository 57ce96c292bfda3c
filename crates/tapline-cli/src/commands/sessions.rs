//! `tapline sessions`: lists sessions, and opens one.

mod list;
mod picker;
mod shown;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use tapline_archive::sessions::{ListedSession, SessionFilter, sessions};
use tapline_archive::{IndexedFile, Money, Prices};
use tapline_protocol::Agent;
use tapline_session::SessionState;

use super::{convert, view};
use crate::args::sessions::Sessions;
use crate::args::{Convert, Facts, Look, Stream, Target, View, stats};
use crate::when::{Span, now, span};
use crate::{agents, archive, output, prices};
use picker::Picked;
use shown::Shown;

pub(crate) fn run(args: &Sessions) -> Result<u8> {
    if let Some(start) = &args.resume_command {
        return print_resume_command(args, start);
    }
    let Span { since, until, zone } = span(&times(args))?;
    let prices = Prices::embedded().clone().with(&prices::own(&args.prices)?);
    let mut filter = SessionFilter::default();
    (filter.since, filter.until, filter.now) = (since, until, now());
    filter.projects.clone_from(&args.filter.project);
    filter.agents = args.filter.agent.iter().map(|agent| agent.name().to_owned()).collect();
    filter.states.extend(args.filter.failed.then_some(SessionState::Failed));
    filter.states.extend(args.filter.waiting.then_some(SessionState::Waiting));
    filter.cost_over = args.filter.cost_over.map(Money::from_usd);
    let mut found = archive::read(&args.paths, args.quiet || args.json, |archive| {
        Ok(sessions(&archive.index, &prices, &archive.selection, &filter)?)
    })?;
    let all = found.len();
    found.truncate(args.limit.unwrap_or(usize::MAX));
    if args.json {
        output::json(&list::json(&found, all).to_string())?;
        return Ok(0);
    }
    let shown: Vec<Shown> = found.iter().map(|session| Shown::of(session, &zone, filter.now)).collect();
    let picks = !args.list && !shown.is_empty() && output::is_capable() && std::io::stdin().is_terminal();
    if picks {
        return match picker::pick(&found, &shown, args.look.style())? {
            Picked::Nothing => Ok(0),
            Picked::Signal(code) => Ok(code),
            Picked::View(at) => view(&found[at], args.look),
            Picked::Page(at) => page(&found[at]),
            Picked::Resume(at) => tell_resume(&found[at]),
        };
    }
    let mut out = output::stdout();
    if shown.is_empty()
        && let Some(nothing) = archive::nothing_there(&args.paths, "tapline sessions PATH")
    {
        out.write_all(nothing.as_bytes())?;
        out.flush()?;
        return Ok(0);
    }
    let width = output::is_terminal().then(|| output::size().0);
    out.write_all(list::render(&shown, all, width, args.look.style()).as_bytes())?;
    out.flush()?;
    Ok(0)
}

fn times(args: &Sessions) -> stats::Filter {
    let filter = &args.filter;
    stats::Filter {
        since: filter.since.clone(),
        until: filter.until.clone(),
        last: filter.last.clone(),
        timezone: filter.timezone.clone(),
        ..stats::Filter::default()
    }
}

/// Returns what opens a session.
fn file_of(session: &ListedSession) -> Result<PathBuf> {
    match session.opens().map(PathBuf::from).or_else(|| archive::kept::of_session(&session.facts.id)) {
        Some(path) => Ok(path),
        None => bail!("the files of session {} are gone; only its numbers are kept", session.facts.id),
    }
}

fn view(session: &ListedSession, look: Look) -> Result<u8> {
    let files = vec![file_of(session)?];
    view::run(&View {
        files,
        follow: false,
        thinking: false,
        full: false,
        partial: false,
        times: false,
        redact: false,
        exit_status: false,
        look,
        facts: Facts::default(),
    })
}

/// Writes a session as a page, in a folder that only the user can read.
fn page(session: &ListedSession) -> Result<u8> {
    let from = file_of(session)?;
    let id: String = session.facts.id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
    let to = output::private_folder()?.join(format!("session-{id}.html"));
    let code = convert::run(&Convert {
        stream: Stream { file: Some(from) },
        to: Some(Target::Html),
        output: Some(to.clone()),
        messages: false,
        redact: false,
        facts: Facts::default(),
    })?;
    if code == 0 {
        let mut out = output::stdout();
        writeln!(out, "{}", output::raw(&to.display().to_string()))?;
        out.flush()?;
        output::tell("open this file in a browser; it has what the agent read and wrote, secrets included");
    }
    Ok(code)
}

fn tell_resume(session: &ListedSession) -> Result<u8> {
    check_is_there(&session.facts.id, session.facts.files.iter())?;
    let recordings = session.facts.files.iter().filter_map(|file| file.recording.as_deref());
    print_command(&session.facts.agent, &session.facts.id, &session.facts.folder, recordings)
}

fn print_resume_command(args: &Sessions, start: &str) -> Result<u8> {
    let found = archive::session(start, &args.paths, args.quiet)?;
    let index = archive::open_index()?;
    let files: Vec<_> = index.files()?.into_iter().filter(|(_, session)| *session == found.id).map(|(file, _)| file).collect();
    check_is_there(&found.id, files.iter())?;
    print_command(&found.agent, &found.id, &found.folder, found.recording.as_deref().into_iter())
}

/// Fails if the agent's own files of a session are gone: it cannot go on with what it does not find.
fn check_is_there<'f>(id: &str, files: impl Iterator<Item = &'f IndexedFile>) -> Result<()> {
    let mut own: Vec<_> = files.filter(|file| file.recording.is_none()).collect();
    // Files of sub-agents are not named after the session.
    let is_named = |file: &&IndexedFile| file.path.file_name().is_some_and(|name| name.to_string_lossy().contains(id));
    if own.iter().any(is_named) {
        own.retain(is_named);
    }
    let copies = archive::kept::kept()?;
    let is_copy = |file: &IndexedFile| file.path.starts_with(copies.folder());
    if own.is_empty() || own.iter().any(|file| file.path.exists() && !is_copy(file)) {
        return Ok(());
    }
    if own.iter().any(|file| is_copy(file) || copies.find(&file.path).is_some()) {
        let id = output::quoted(id);
        bail!("the agent deleted the transcript of session {id}: `tapline archive restore {id}` puts it back from its copy");
    }
    bail!("the transcript of session {id} was deleted, and there is no copy: its agent cannot resume it")
}

fn print_command<'r>(agent: &str, id: &str, folder: &str, mut recordings: impl Iterator<Item = &'r Path>) -> Result<u8> {
    if recordings.any(|recording| recording.ends_with(id)) {
        bail!("the agent of recording {id} began no session that could be resumed: `tapline view {id}` shows what happened");
    }
    let Some(agent) = Agent::named(agent) else { bail!("no known agent wrote session {id}, so tapline cannot resume it") };
    let mut out = output::stdout();
    writeln!(out, "{}", output::raw(&resume_command(agent, id, folder)))?;
    out.flush()?;
    Ok(0)
}

/// Returns the command that resumes a session, for a shell. An id or a folder can hold anything.
fn resume_command(agent: Agent, id: &str, folder: &str) -> String {
    let words: Vec<String> = (agents::habits(agent).resume)(id).iter().map(|word| output::quoted(word)).collect();
    let resume = words.join(" ");
    if folder.is_empty() { resume } else { format!("cd {} && {resume}", output::quoted(folder)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_take_for_more_is_quoted() {
        let command = resume_command(Agent::ALL[0], "a; rm -rf ~", "/home/it's $(here)");
        assert!(command.starts_with(r"cd '/home/it'\''s $(here)' && "), "{command}");
        assert!(command.ends_with("'a; rm -rf ~'"), "{command}");
    }
}
