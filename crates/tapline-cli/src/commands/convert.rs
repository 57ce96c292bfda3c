//! `tapline convert`: converts a stream to another format.

#[cfg(test)]
mod tests;

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use tapline_archive::Finished;
use tapline_session::Collector;
use tapline_session::render::{OutputError, Outputs, RenderAs, has_documents, verbose_item};

use crate::args::{Convert, Target};
use crate::ci::Kind;
use crate::source::Source;
use crate::{exit, output};

pub(crate) fn run(args: &Convert) -> Result<u8> {
    anyhow::ensure!(!args.messages || target(args) == Target::Json, "--messages works only with --to json");
    if let (Some(from), Some(to)) = (&args.stream.file, &args.output) {
        let same = from.canonicalize().is_ok_and(|from| to.canonicalize().is_ok_and(|to| from == to));
        anyhow::ensure!(!same, "{} is the input and would be overwritten: use another file", to.display());
    }
    let source = Source::open(args.stream.file.as_ref(), &args.facts)?;
    let source = if args.redact { source.redacted()? } else { source };
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        None => {
            let kind = match target(args) {
                Target::Json | Target::JsonVerbose | Target::StreamJson | Target::Steps => Kind::Json,
                Target::Text | Target::Markdown | Target::Html => Kind::Text,
            };
            write(source, args, &mut *output::raw_stdout(kind))
        }
        Some(path) => {
            let mut file = output::OutputFile::open(path)?;
            let code = write(source, args, &mut file)?;
            if code == 0 {
                file.keep()?;
            }
            Ok(code)
        }
    }
}

/// The format to write: messages are a part of `json`.
fn target(args: &Convert) -> Target {
    args.to.unwrap_or(Target::Json)
}

fn write(source: Source, args: &Convert, out: &mut dyn Write) -> Result<u8> {
    let done = match target(args) {
        Target::StreamJson => pass_on(source, out),
        Target::JsonVerbose => array(source, out),
        Target::Text | Target::Json => result(source, args, out),
        Target::Markdown => render(source, RenderAs::Markdown, out),
        Target::Html => render(source, RenderAs::Html, out),
        Target::Steps => render(source, RenderAs::Steps, out),
    };
    if let Err(error) = &done
        && error.downcast_ref() == Some(&OutputError::NoResult)
    {
        output::fail(&error.to_string());
        return Ok(exit::INCOMPLETE);
    }
    done?;
    out.flush()?;
    Ok(0)
}

/// Copies the bytes as they arrive.
fn pass_on(mut source: Source, out: &mut dyn Write) -> Result<()> {
    while let Some(record) = source.next_record()? {
        out.write_all(&record.bytes)?;
        if !source.inner.is_ready() {
            out.flush()?;
        }
    }
    Ok(())
}

fn render(mut source: Source, format: RenderAs, out: &mut dyn Write) -> Result<()> {
    let mut renderer = format.renderer();
    while let Some((_, steps)) = source.next()? {
        for step in &steps {
            out.write_all(renderer.step(step).as_bytes())?;
        }
        if !source.inner.is_ready() {
            out.flush()?;
        }
    }
    for step in source.inner.unfinished() {
        out.write_all(renderer.step(&step).as_bytes())?;
    }
    let summary = source.finish().0.summary;
    out.write_all(renderer.finish(&summary).as_bytes())?;
    Ok(())
}

/// Writes every event into one array, as they arrive.
fn array(mut source: Source, out: &mut dyn Write) -> Result<()> {
    let mut before = "[";
    while let Some((record, _)) = source.next()? {
        let Some(record) = record else { continue };
        has_documents(source.inner.agent())?;
        if let Some(item) = verbose_item(&record) {
            write!(out, "{before}{item}")?;
            before = ",";
        }
    }
    if before == "[" {
        out.write_all(b"[")?;
    }
    out.write_all(b"]\n")?;
    Ok(())
}

fn result(mut source: Source, args: &Convert, out: &mut dyn Write) -> Result<()> {
    let mut outputs = if args.messages { Outputs::with_messages() } else { Outputs::default() };
    let mut collector = Collector::default();
    while let Some((record, steps)) = source.next()? {
        outputs.accept(record.as_ref(), &steps);
        for step in steps.iter().filter(|_| args.messages) {
            collector.accept(step);
        }
    }
    let Finished { summary, format, ending, run, .. } = source.finish().0;
    // An agent that prints no documents gets the one that `run` prints for it, because messages were asked for.
    if args.messages && has_documents(summary.agent).is_err() {
        anyhow::ensure!(outputs.has_result(), OutputError::NoResult);
        let report = collector.report(summary, format, run, &ending);
        return Ok(writeln!(out, "{}", outputs.document(&report))?);
    }
    let printed = match target(args) {
        Target::Json => outputs.json(summary.agent)?,
        _ => outputs.text(summary.agent, summary.answer.as_deref())?,
    };
    out.write_all(printed.as_bytes())?;
    Ok(())
}
