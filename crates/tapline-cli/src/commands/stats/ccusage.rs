//! `tapline stats --json --shape ccusage`: the numbers under the keys that ccusage writes, so that scripts which read those need no change. Its
//! reports of all agents and of one name some things differently: here they have both names.

use anyhow::{Result, bail};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tapline_archive::stats::{Block, Query, Row, Stats, Totals};

use crate::args::stats::By;

/// The list of rows, and what a row is of.
fn names(by: By) -> Option<(&'static str, &'static str)> {
    Some(match by {
        By::Day => ("daily", "date"),
        By::Week => ("weekly", "week"),
        By::Month => ("monthly", "month"),
        By::Session => ("sessions", "sessionId"),
        By::Block => ("blocks", "id"),
        _ => return None,
    })
}

/// Refuses rows that ccusage does not have.
pub(super) fn check(by: By) -> Result<()> {
    if names(by).is_none() {
        bail!("ccusage has no such rows: `--shape ccusage` is for `--by day`, `week`, `month`, `session` and `block`");
    }
    Ok(())
}

/// Writes what was counted.
pub(super) fn json(stats: &Stats, by: By, query: &Query) -> Value {
    let Some((list, name)) = names(by) else { return Value::Null };
    if by == By::Block {
        return json!({ list: stats.rows.iter().filter_map(|row| of_block(row, query)).collect::<Vec<_>>() });
    }
    let mut totals = sums(&stats.totals);
    if !stats.unknown_models.is_empty() {
        totals.insert("unpricedModels".to_owned(), stats.unknown_models.clone().into());
    }
    if query.instances {
        let mut projects: Map<String, Value> = Map::new();
        for row in &stats.rows {
            let of = projects.entry(row.project.clone().unwrap_or_default()).or_insert_with(|| json!([]));
            of.as_array_mut().into_iter().for_each(|rows| rows.push(of_row(row, name)));
        }
        return json!({ "projects": projects, "totals": totals });
    }
    let rows: Vec<Value> = stats.rows.iter().map(|row| of_row(row, name)).collect();
    if by == By::Session {
        return json!({ list: rows, "session": rows, "totals": totals });
    }
    json!({ list: rows, "totals": totals })
}

fn sums(totals: &Totals) -> Map<String, Value> {
    let mut sums = of_model(totals);
    sums.insert("totalTokens".to_owned(), totals.tokens.into());
    sums.insert("totalCost".to_owned(), totals.cost_usd.usd().into());
    sums
}

fn of_model(totals: &Totals) -> Map<String, Value> {
    let Totals { input, output, cache_read, cache_write, .. } = *totals;
    let sums = [
        ("inputTokens", input),
        ("outputTokens", output),
        ("cacheCreationTokens", cache_write),
        ("cacheReadTokens", cache_read),
    ];
    sums.into_iter().map(|(name, sum)| (name.to_owned(), sum.into())).collect()
}

fn of_row(row: &Row, name: &str) -> Value {
    let mut out = sums(&row.totals);
    let mut set = |name: &str, value: Value| drop(out.insert(name.to_owned(), value));
    set(name, row.key.as_str().into());
    set("period", row.key.as_str().into());
    row.project.iter().for_each(|project| set("project", project.as_str().into()));
    set("modelsUsed", row.models.keys().cloned().collect());
    let models = row.models.iter().map(|(model, totals)| {
        let mut of = of_model(totals);
        of.insert("modelName".to_owned(), model.as_str().into());
        of.insert("cost".to_owned(), totals.cost_usd.usd().into());
        Value::from(of)
    });
    set("modelBreakdowns", models.collect());
    if let Some(about) = &row.about {
        set("agent", about.agent.as_str().into());
        set("firstActivity", about.first.map(time).into());
        set("lastActivity", about.last.map(time).into());
        set("metadata", json!({ "lastActivity": about.last.map(time) }));
        set("projectPath", about.folder.as_str().into());
    }
    out.into()
}

fn time(ms: u64) -> String {
    format!("{:.3}", Timestamp::from_millisecond(ms.cast_signed()).unwrap_or_default())
}

#[expect(clippy::cast_precision_loss, reason = "a projection has few digits")]
fn of_block(row: &Row, query: &Query) -> Option<Value> {
    let Block { start, resets, active, tokens_per_minute, usd_per_hour, projected_usd, .. } = row.block.as_ref()?;
    let totals = &row.totals;
    let minutes = resets.saturating_sub(query.now) / 60_000;
    let rate = tokens_per_minute.unwrap_or_default();
    let burn =
        active.then(|| json!({ "tokensPerMinute": rate, "tokensPerMinuteForIndicator": rate, "costPerHour": usd_per_hour }));
    let projection = active.then(|| {
        json!({ "totalTokens": (totals.tokens as f64 + rate * minutes as f64).round(), "totalCost": projected_usd, "remainingMinutes": minutes })
    });
    Some(json!({
        "id": time(*start), "startTime": time(*start), "endTime": time(*resets), "actualEndTime": null, "isActive": active, "isGap": false,
        "entries": totals.requests,
        "tokenCounts": {
            "inputTokens": totals.input, "outputTokens": totals.output,
            "cacheCreationInputTokens": totals.cache_write, "cacheReadInputTokens": totals.cache_read,
        },
        "totalTokens": totals.tokens, "costUSD": totals.cost_usd.usd(), "models": row.models.keys().collect::<Vec<_>>(),
        "burnRate": burn, "projection": projection,
    }))
}
