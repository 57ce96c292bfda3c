//! `tapline convert`: a stream in another format.

use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::{Context, Result};
use tapline_protocol::Agent;
use tapline_session::render::{Format, OutputError, Outputs, verbose_item};

use crate::args::{Convert, Target};
use crate::output;
use crate::source::Source;

pub(crate) fn run(args: &Convert) -> Result<u8> {
    anyhow::ensure!(!args.messages || args.to == Target::Json, "--messages goes with --to json alone");
    let source = Source::open(args.stream.file.as_ref(), &args.stream.facts)?;
    let mut out: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(BufWriter::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?)),
        None => Box::new(output::stdout()),
    };
    match args.to {
        Target::StreamJson => pass_on(source, &mut out)?,
        Target::JsonVerbose => array(source, &mut out)?,
        Target::Text | Target::Json => result(source, args, &mut out)?,
        Target::Markdown => render(source, Format::Markdown, &mut out)?,
        Target::Html => render(source, Format::Html, &mut out)?,
        Target::Steps => render(source, Format::Steps, &mut out)?,
    }
    out.flush()?;
    Ok(0)
}

/// The same bytes, as they come.
fn pass_on(mut source: Source, out: &mut dyn Write) -> Result<()> {
    while let Some(record) = source.next_record()? {
        out.write_all(&record.bytes)?;
        if source.may_wait() {
            out.flush()?;
        }
    }
    Ok(())
}

fn render(mut source: Source, format: Format, out: &mut dyn Write) -> Result<()> {
    let mut renderer = format.renderer();
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
    Ok(())
}

/// Every event in one array, written as they come.
fn array(mut source: Source, out: &mut dyn Write) -> Result<()> {
    let mut before = "[";
    while let Some((record, _)) = source.next()? {
        if source.agent() == Agent::Codex {
            return Err(OutputError::NotCodex.into());
        }
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
    while let Some((record, steps)) = source.next()? {
        outputs.accept(&record, &steps);
    }
    let (summary, ..) = source.finish();
    let printed = match args.to {
        Target::Json => outputs.json(summary.agent)?,
        _ => outputs.text(summary.agent, summary.answer.as_deref())?,
    };
    out.write_all(output::raw(&printed).as_bytes())?;
    Ok(())
}
