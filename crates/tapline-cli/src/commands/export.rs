//! `tapline export`: sessions, messages, tool calls and costs as tables, or as spans and metrics.

#[cfg(feature = "otlp")]
mod otlp;

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use tapline_archive::Prices;
use tapline_archive::export::{Export as Exported, ExportFormat, ExportTable};
use tapline_archive::stats::Query;
use tapline_session::text::count_of;

use crate::args::export::{Export, Format};
use crate::ci::Kind;
#[cfg(not(all(feature = "otlp", feature = "parquet")))]
use crate::features::{Feature, missing};
use crate::output::OutputFile;
use crate::when::span;
use crate::{archive, output, prices, secrets};

pub(crate) fn run(args: &Export) -> Result<u8> {
    let format = match args.to {
        Format::Csv => ExportFormat::Csv,
        Format::Ndjson => ExportFormat::Ndjson,
        #[cfg(feature = "parquet")]
        Format::Parquet => ExportFormat::Parquet,
        #[cfg(feature = "otlp")]
        Format::Otlp => return otlp::run(args),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => return Err(missing("--to parquet", Feature::Parquet)),
        #[cfg(not(feature = "otlp"))]
        Format::Otlp => return Err(missing("--to otlp", Feature::Otlp)),
    };
    ensure!(
        args.endpoint.is_none() && !args.content,
        "--endpoint and --content are for `--to otlp`: tables are written to files"
    );
    let mut tables: Vec<ExportTable> = args.table.iter().map(|table| (*table).into()).collect();
    tables.sort_unstable();
    tables.dedup();
    if tables.is_empty() {
        tables.extend(ExportTable::ALL);
    }
    let mut files = files(args, format, &tables)?;
    let prices = Prices::embedded().clone().with(&prices::own(&args.prices)?);
    let query = query(args)?;
    let redactor = args.redact.then(secrets::redactor).transpose()?;
    let archive = archive::open_checked(&args.paths, args.quiet)?;
    let mut export = Exported::new(format, &query);
    if let Some(redactor) = &redactor {
        export = export.redacted(redactor);
    }
    let outputs: Vec<(ExportTable, &mut (dyn Write + Send))> = if files.is_empty() {
        Vec::new()
    } else {
        tables.iter().copied().zip(files.iter_mut().map(|file| file as &mut (dyn Write + Send))).collect()
    };
    if outputs.is_empty() {
        let mut stdout = stdout(format)?;
        export.write(&archive.index, &prices, &archive.selection, [(tables[0], &mut *stdout)])?;
        stdout.flush()?;
        return Ok(0);
    }
    let rows = export.write(&archive.index, &prices, &archive.selection, outputs)?;
    OutputFile::keep_all(files)?;
    if !args.quiet {
        let rows = rows.iter().map(|(table, rows)| {
            count_of(usize::try_from(*rows).unwrap_or(usize::MAX), table.name().strip_suffix('s').unwrap_or(table.name()))
        });
        let to = args.output.as_deref().unwrap_or(Path::new("-"));
        output::tell(&format!("wrote {} to {}", rows.collect::<Vec<_>>().join(", "), to.display()));
    }
    Ok(0)
}

/// Opens the files to write: none if the one table goes to stdout.
fn files(args: &Export, format: ExportFormat, tables: &[ExportTable]) -> Result<Vec<OutputFile>> {
    let to = args.output.as_deref().filter(|path| *path != Path::new("-"));
    let Some(to) = to else {
        ensure!(
            tables.len() == 1,
            "one table can go to stdout: name it (`--table sessions`), or name a folder for all of them (`-o FOLDER`)"
        );
        ensure!(format.is_text() || !output::is_terminal(), "Parquet is not for a terminal: name a file (`-o FILE`)");
        return Ok(Vec::new());
    };
    let is_folder = to.is_dir();
    if tables.len() > 1 && !is_folder {
        if to.exists() {
            bail!("{} is a file, and there are several tables: name a folder, or one table (`--table sessions`)", to.display());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(to).with_context(|| format!("cannot create {}", to.display()))?;
    }
    let path = |table: &ExportTable| -> PathBuf {
        if is_folder || tables.len() > 1 { to.join(format!("{}.{}", table.name(), format.name())) } else { to.to_owned() }
    };
    tables.iter().map(|table| OutputFile::private(&path(table))).collect()
}

/// Returns stdout. Text stays harmless on a terminal and in a CI log; Parquet is passed on as it is.
fn stdout(format: ExportFormat) -> Result<Box<dyn Write + Send>> {
    Ok(match format {
        ExportFormat::Ndjson => output::shared_stdout(Kind::Json),
        ExportFormat::Csv => output::shared_stdout(Kind::Text),
        _ => Box::new(OutputFile::open(Path::new("-"))?),
    })
}

fn query(args: &Export) -> Result<Query> {
    let span = span(&args.filter)?;
    let mut query = Query::default();
    (query.since, query.until, query.zone) = (span.since, span.until, span.zone);
    (query.projects, query.models) = (args.filter.project.clone(), args.filter.model.clone());
    query.agents = args.filter.agent.iter().map(|agent| agent.name().to_owned()).collect();
    Ok(query)
}
