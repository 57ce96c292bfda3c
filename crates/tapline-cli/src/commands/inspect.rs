//! `tapline inspect`: what happened in a stream.

use std::io::Write as _;

use anyhow::Result;
use tapline_session::render::{Style, render_summary};
use tapline_session::{Collector, GetError, get};

use crate::args::Inspect;
use crate::source::Source;
use crate::{exit, output};

pub(crate) fn run(args: &Inspect) -> Result<u8> {
    let mut source = Source::open(args.stream.file.as_ref(), &args.facts)?;
    let mut collector = match &args.get {
        Some(path) => Collector::for_path(path),
        None => Collector::default(),
    };
    while let Some((_, steps)) = source.next()? {
        for step in &steps {
            collector.accept(step);
        }
    }
    let (summary, format, ending, run) = source.finish();
    let report = collector.report(summary.clone(), format, run, &ending);
    let mut out = output::stdout();
    let mut code = if args.exit_status { report.verdict.exit_code() } else { 0 };
    if let Some(path) = &args.get {
        match get(&report.to_json(), path) {
            // A list with nothing in it is no line.
            Ok(value) if value.is_empty() => {}
            Ok(value) => writeln!(out, "{}", output::raw(&value))?,
            Err(error) => {
                output::tell(&format!("no value at `{path}`: {error}"));
                let failed = if error == GetError::Syntax { exit::USAGE } else { exit::FAILED };
                code = if code == 0 { failed } else { code };
            }
        }
    } else if args.json {
        writeln!(out, "{}", output::raw(&report.to_json()))?;
    } else {
        let style = if output::colour(args.look) { Style::ansi() } else { Style::plain() };
        let width = output::is_terminal().then(|| output::size().0);
        out.write_all(output::human(render_summary(&report, &summary, style, width)).as_bytes())?;
    }
    out.flush()?;
    Ok(code)
}
