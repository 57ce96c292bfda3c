//! `tapline view`: shows a stream for people.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use tapline_session::Verdict;
use tapline_session::render::{Hints, RenderAs, TerminalOptions, Times};
use tapline_session::text::visible;

use crate::args::{Look, View};
use crate::follow::Follow;
use crate::source::{Source, is_live, is_stdin};
use crate::{ci, exit, output, store};

pub(crate) fn run(args: &View) -> Result<u8> {
    let options = TerminalOptions { thinking: args.thinking, partial: args.partial, full: args.full, ..options(args.look) };
    let files = &args.files;
    ensure!(!args.follow || files.len() < 2, "--follow takes one file; run tapline once for each file");
    let mut worst = 0;
    for (at, file) in files.iter().map(Some).chain(files.is_empty().then_some(None)).enumerate() {
        if files.len() > 1 {
            let gap = if at > 0 { "\n" } else { "" };
            let mut out = output::stdout();
            let name = file.map_or(Path::new("-"), PathBuf::as_path).display().to_string();
            writeln!(out, "{gap}==> {} <==", visible(&name))?;
            out.flush()?;
        }
        let source = match file {
            Some(path) if args.follow && !is_stdin(Some(path)) => {
                Source::of(path.display().to_string(), Box::new(Follow::open(&store::to_follow(path)?)), &args.facts)
            }
            file => Source::open(file, &args.facts),
        };
        match source {
            Ok(source) => {
                let source = if args.redact { source.redacted()? } else { source.annotated(args.exit_status) };
                let is_timed = args.times && (args.follow || is_live(file.map(PathBuf::as_path)));
                let source = if is_timed { source.timed() } else { source };
                let since = source.inner.started().map_or(Times::SinceFirst, Times::Since);
                let times = if args.times { since } else { Times::Hidden };
                let verdict = show(source, TerminalOptions { times, ..options })?;
                if let Some(why) = exit::failure(&verdict).filter(|_| args.exit_status) {
                    ci::annotate(&why);
                    worst = if worst == 0 { verdict.exit_code() } else { worst };
                }
            }
            // The others are still shown.
            Err(error) if files.len() > 1 => {
                output::fail(&format!("{error:#}"));
                worst = exit::USAGE;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(worst)
}

/// The flags that show the rest of what is shown in part.
pub(crate) const HINTS: Hints = Hints {
    warnings: ": --json lists all",
    answer: ": --get answer prints all",
    prompts: ": --get 'prompts[]' prints all",
    earlier_run: ", from --context",
};

/// Returns how the output looks, with or without a terminal.
pub(crate) fn options(look: Look) -> TerminalOptions {
    TerminalOptions {
        style: look.style(),
        width: output::is_terminal().then(|| output::size().0),
        rows: output::size().1,
        live: output::is_capable(),
        thinking: false,
        partial: false,
        full: false,
        times: Times::Hidden,
        hints: HINTS,
    }
}

/// Shows a stream as it arrives, and returns its verdict.
pub(crate) fn show(mut source: Source, options: TerminalOptions) -> Result<Verdict> {
    let mut renderer = RenderAs::Terminal(options).renderer();
    let mut out = output::stdout();
    let mut waits_for_times = options.times != Times::Hidden;
    while let Some((_, steps)) = source.next()? {
        if waits_for_times {
            waits_for_times = steps.iter().all(|step| step.arrived.is_none());
            if waits_for_times && source.inner.has_no_times() {
                waits_for_times = false;
                source.tell_no_times();
            }
        }
        if options.live {
            let (columns, rows) = output::size();
            renderer.resize(columns, rows);
        }
        for step in &steps {
            out.write_all(renderer.step(step).as_bytes())?;
        }
        if !source.inner.is_ready() {
            out.flush()?;
        }
    }
    if waits_for_times {
        source.tell_no_times();
    }
    if !options.partial {
        for step in source.inner.unfinished() {
            out.write_all(renderer.step(&step).as_bytes())?;
        }
    }
    let (finished, told) = source.finish();
    out.write_all(renderer.finish(&finished.summary).as_bytes())?;
    out.flush()?;
    Ok(told)
}
