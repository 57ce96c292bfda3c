//! `tapline inspect`: what happened in a stream.

use std::io::Write as _;

use anyhow::Result;
use tapline_archive::Finished;
use tapline_session::render::render_summary;
use tapline_session::{Collector, Warned};

use super::view::HINTS;
use crate::args::Inspect;
use crate::source::Source;
use crate::{ci, exit, output, values};

pub(crate) fn run(args: &Inspect) -> Result<u8> {
    values::check(&args.get)?;
    let source = Source::open(args.stream.file.as_ref(), &args.facts)?;
    // Whoever says what counts as a failure wants to have it in the exit code.
    let judged = args.exit_status || !args.fail_on.is_empty();
    let mut source = if args.redact { source.redacted()? } else { source.annotated(judged) };
    let mut collector = match args.get.as_slice() {
        [] => Collector::default(),
        paths => Collector::for_paths(paths.iter().map(String::as_str)),
    };
    while let Some((_, steps)) = source.next()? {
        for step in steps {
            collector.take(step);
        }
    }
    let (Finished { summary, format, ending, run, .. }, told) = source.finish();
    let report = collector.report(summary.clone(), format, run, &ending);
    let mut code = if judged { report.verdict.exit_code() } else { 0 };
    if let Some(why) = exit::failure(&told).filter(|_| code != 0) {
        ci::annotate(&why);
    }
    if let Some(warning) = Warned::of(&told, &args.fail_on, args.require_clean).filter(|_| code == 0) {
        let why = warning.to_string();
        // The summary itself shows the warning.
        let shown = args.get.is_empty() && !args.json;
        output::tell(&if shown { exit::warned_after(&warning) } else { why.clone() });
        ci::annotate(&why);
        code = exit::FAILED;
    }
    if !args.get.is_empty() {
        let found = values::of(&report, &args.get);
        for value in &found.lines {
            let mut out = output::stdout_for(values::kind_of(value));
            writeln!(out, "{}", output::raw(value))?;
            out.flush()?;
        }
        for why in &found.missing {
            output::fail(why);
            code = if code == 0 { exit::FAILED } else { code };
        }
    } else if args.json {
        output::json(&report.to_json())?;
    } else {
        let mut out = output::stdout();
        let style = args.look.style();
        let width = output::is_terminal().then(|| output::size().0);
        out.write_all(render_summary(&report, &summary, style, width, HINTS).as_bytes())?;
        out.flush()?;
    }
    Ok(code)
}
