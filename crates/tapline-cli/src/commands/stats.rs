//! `tapline stats`: what all sessions add up to.

mod ccusage;
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
    let is_time = matches!(args.by, By::Day | By::Week | By::Month | By::Hour);
    ensure!(!args.active || args.by == By::Block, "`--active` is for windows of five hours: add `--by block`");
    ensure!(!args.instances || is_time, "`--instances` is for rows of times: use `--by day`, `week`, `month` or `hour`");
    if args.shape.is_some() {
        ccusage::check(args.by)?;
    }
    let query = query(args)?;
    if args.watch && output::is_capable() {
        return watch::run(args, &prices, query);
    }
    let quiet = args.quiet || args.json || args.csv;
    if let Some(session) = &args.explain {
        let explained = archive::read(&args.paths, quiet, |archive| explain::read(archive, &prices, session))?;
        return explain::write(&explained, &query, args);
    }
    let counted = archive::read(&args.paths, quiet, |archive| count(archive, &prices, &query, args))?;
    archive::tell_damaged(&counted.damaged_files);
    write(&counted, &query, args)
}

/// Counts what the command line asks for.
fn count(archive: &archive::Archive, prices: &Prices, query: &Query, args: &Stats) -> Result<Counted> {
    let mut counted = stats(&archive.index, prices, &archive.selection, query)?;
    if args.active {
        counted.rows.retain(|row| row.block.as_ref().is_some_and(|block| block.active));
        counted.totals = counted.rows.first().map(|row| row.totals.clone()).unwrap_or_default();
    }
    Ok(counted)
}

fn write(counted: &Counted, query: &Query, args: &Stats) -> Result<u8> {
    if args.shape.is_some() {
        output::json(&ccusage::json(counted, args.by, query).to_string())?;
        return Ok(0);
    }
    if args.json {
        output::json(&serde_json::to_string(counted)?)?;
        return Ok(0);
    }
    let mut out = output::stdout();
    if args.csv {
        out.write_all(table::csv(counted, args.breakdown, args.instances).as_bytes())?;
    } else {
        let width = output::is_terminal().then(|| output::size().0);
        if counted.totals.requests == 0
            && let Some(nothing) = archive::nothing_there(&args.paths, "tapline stats PATH")
        {
            out.write_all(nothing.as_bytes())?;
            out.flush()?;
            return Ok(0);
        }
        if args.active && counted.rows.is_empty() {
            out.write_all(b"No window of five hours is open.\n")?;
            out.flush()?;
            return Ok(0);
        }
        out.write_all(table::render(counted, query, args.breakdown, width, args.look.style()).as_bytes())?;
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
    // A wide table names the models of each row.
    let is_wide = !args.json && !args.csv && output::is_terminal() && output::size().0 >= table::WIDE;
    query.breakdown = args.breakdown || args.shape.is_some() || is_wide;
    (query.instances, query.limit, query.now) = (args.instances, args.limit, now());
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
