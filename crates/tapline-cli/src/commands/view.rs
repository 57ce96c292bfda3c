//! `tapline view`: a stream as a person wants to see it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use tapline_session::render::{Format, Style, TerminalOptions};

use crate::args::{Look, View};
use crate::follow::Follow;
use crate::output;
use crate::source::{Source, is_stdin};

pub(crate) fn run(args: &View) -> Result<u8> {
    let options = TerminalOptions { thinking: args.thinking, partial: args.partial, ..options(args.look) };
    let files = &args.streams.files;
    for (at, file) in files.iter().map(Some).chain(files.is_empty().then_some(None)).enumerate() {
        if files.len() > 1 {
            let gap = if at > 0 { "\n" } else { "" };
            let mut out = output::stdout();
            writeln!(out, "{gap}==> {} <==", file.map_or(Path::new("-"), PathBuf::as_path).display())?;
            out.flush()?;
        }
        let source = match file {
            Some(path) if args.follow && !is_stdin(Some(path)) => {
                Source::of(path.display().to_string(), Box::new(Follow::open(path)?), &args.streams.facts)?
            }
            file => Source::open(file, &args.streams.facts)?,
        };
        show(source, options)?;
    }
    Ok(0)
}

/// How the terminal, or the lack of one, lets it look.
pub(crate) fn options(look: Look) -> TerminalOptions {
    let terminal = output::is_terminal();
    TerminalOptions {
        style: if output::colour(look) { Style::ansi() } else { Style::plain() },
        width: terminal.then(output::width),
        live: terminal,
        thinking: false,
        partial: false,
        ci_log: std::env::var_os("GITHUB_ACTIONS").is_some(),
    }
}

/// Shows a stream as it comes.
pub(crate) fn show(mut source: Source, options: TerminalOptions) -> Result<()> {
    let mut renderer = Format::Terminal(options).renderer();
    let mut out = output::stdout();
    while let Some((_, steps)) = source.next()? {
        for step in &steps {
            out.write_all(renderer.step(step).as_bytes())?;
        }
        if source.may_wait() {
            out.flush()?;
        }
    }
    let (summary, ..) = source.finish();
    out.write_all(renderer.finish(&summary).as_bytes())?;
    out.flush()?;
    Ok(())
}
