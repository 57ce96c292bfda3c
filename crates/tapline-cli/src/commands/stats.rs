//! `tapline stats`: what all sessions add up to.

mod explain;
mod table;
mod watch;

use std::io::Write as _;

use anyhow::{Result, ensure};
use tapline_archive::Prices;
use tapline_archive::stats::{Query, Stats as Counted, stats};

use crate::args::stats::{By, Filter, Stats};
use crate::when::{now, span};
use crate::{archive, output, prices};

pub(crate) fn run(args: &Stats) -> Result<u8> {
    let prices = Prices::embedded().clone().with(&prices::own(&args.prices)?);
    ensure!(args.limit.is_none() || args.by == By::Block, "`--limit` is for windows of five hours: add `--by block`");
    let query = query(args)?;
    if args.watch && output::is_capable() {
        return watch::run(args, &prices, query);
    }
    let quiet = args.quiet || args.json || args.csv;
    if let Some(session) = &args.explain {
        let explained = archive::read(&args.paths, quiet, |archive| explain::read(archive, &prices, session))?;
        return explain::write(&explained, &query, args);
    }
    let counted = archive::read(&args.paths, quiet, |archive| Ok(stats(&archive.index, &prices, &archive.selection, &query)?))?;
    archive::tell_damaged(&counted.damaged_files);
    write(&counted, &query, args)
}

fn write(counted: &Counted, query: &Query, args: &Stats) -> Result<u8> {
    if args.json {
        output::json(&serde_json::to_string(counted)?)?;
        return Ok(0);
    }
    let mut out = output::stdout();
    if args.csv {
        out.write_all(table::csv(counted, query.breakdown).as_bytes())?;
    } else {
        let width = output::is_terminal().then(|| output::size().0);
        if counted.totals.requests == 0
            && let Some(nothing) = archive::nothing_there(&args.paths, "tapline stats PATH")
        {
            out.write_all(nothing.as_bytes())?;
            out.flush()?;
            return Ok(0);
        }
        out.write_all(table::render(counted, query, width, args.look.style()).as_bytes())?;
    }
    out.flush()?;
    Ok(0)
}

fn query(args: &Stats) -> Result<Query> {
    let Filter { project, model, agent, .. } = &args.filter;
    let span = span(&args.filter)?;
    let mut query = Query::default();
    query.by = args.by.into();
    (query.since, query.until, query.zone) = (span.since, span.until, span.zone);
    (query.projects, query.models) = (project.clone(), model.clone());
    query.agents = agent.iter().map(|agent| agent.name().to_owned()).collect();
    (query.breakdown, query.limit, query.now) = (args.breakdown, args.limit, now());
    // If the rows are times, they are already a trend.
    let is_time = matches!(args.by, By::Day | By::Week | By::Month | By::Hour | By::Block);
    query.trend = !args.json && !args.csv && !is_time;
    Ok(query)
}

/// Returns from when to when requests count. `7d` means something else a minute later.
fn times(args: &Stats) -> Result<(Option<u64>, Option<u64>)> {
    let span = span(&args.filter)?;
    Ok((span.since, span.until))
}
