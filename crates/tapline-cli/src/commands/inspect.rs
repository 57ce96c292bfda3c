//! `tapline inspect`: what happened in a stream.

use std::io::Write as _;

use anyhow::Result;
use tapline_session::{Collector, Run, get};

use crate::args::Inspect;
use crate::source::Source;
use crate::{exit, output};

pub(crate) fn run(args: &Inspect) -> Result<u8> {
    let mut source = Source::open(args.stream.file.as_ref(), &args.stream.facts)?;
    let mut collector = match &args.get {
        Some(path) => Collector::for_path(path),
        None => Collector::default(),
    };
    while let Some((_, steps)) = source.next()? {
        for step in &steps {
            collector.accept(step);
        }
    }
    let (summary, format, ending) = source.finish();
    let report = collector.report(summary, format, Run::default(), &ending);
    let mut out = output::stdout();
    let mut code = if args.exit_status { report.verdict.exit_code() } else { 0 };
    if let Some(path) = &args.get {
        match get(&report.to_json(), path) {
            Some(value) => writeln!(out, "{value}")?,
            None => {
                output::tell(&format!("the report has no value at `{path}`"));
                code = if args.exit_status && code != 0 { code } else { exit::FAILED };
            }
        }
    } else {
        writeln!(out, "{}", report.to_json())?;
    }
    out.flush()?;
    Ok(code)
}
