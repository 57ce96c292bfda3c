//! How each surface is asked, and what it answers.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use tapline_session::text::dollars;

use super::otlp::{receiver, spans};
use super::{Facts, Stage, money, shown, tokens, verdict_in};
use crate::serve::Serving;
use crate::tapline::{command, ran};

fn count(of: &Value, key: &str) -> String {
    of[key].as_u64().unwrap_or(0).to_string()
}

fn text(of: &Value, key: &str) -> String {
    of[key].as_str().unwrap_or_default().to_owned()
}

fn cost(of: &Value, key: &str) -> Option<(&'static str, String)> {
    of[key].as_f64().map(|usd| ("cost", money(usd)))
}

pub(super) fn run(stage: &Stage) -> Facts {
    verdict_in(&stage.run.out)
}

pub(super) fn inspect(stage: &Stage) -> Facts {
    verdict_in(stage.tapline(&["inspect", &stage.recording]).out.lines().next().unwrap_or_default())
}

pub(super) fn view(stage: &Stage) -> Facts {
    verdict_in(&stage.tapline(&["view", &stage.recording]).out)
}

/// The report again, as a reader of the recording makes it.
pub(super) fn again(stage: &Stage) -> Facts {
    let report = stage.json(&["inspect", "--json", &stage.recording]);
    let calls = report["tools"]["calls"].as_array().cloned().unwrap_or_default();
    let with = |status: &str| calls.iter().filter(|call| call["status"] == status).count().to_string();
    let facts = Facts::from([
        ("outcome", text(&report["verdict"], "outcome")),
        ("calls", calls.len().to_string()),
        ("errors", with("error")),
        ("denials", count(&report["verdict"], "denials")),
        ("tokens", tokens(&report["ledger"]["tokens"])),
        ("turns", report["turns"].as_array().map_or(0, Vec::len).to_string()),
    ]);
    facts.into_iter().chain(cost(&report["ledger"], "cost_usd")).collect()
}

pub(super) fn job_summary(stage: &Stage) -> Facts {
    let page = std::fs::read_to_string(stage.home.join("summary.md")).unwrap();
    let row = |name: &str| {
        let start = format!("| {name} | ");
        page.lines().find_map(|line| Some(line.strip_prefix(&start)?.strip_suffix(" |")?.to_owned()))
    };
    let mut facts = Facts::new();
    facts.extend(row("time").map(|time| ("time shown", time)));
    facts.extend(row("cost").map(|cost| ("cost shown", cost)));
    // `4 calls, 1 failed, 2 denied`; without a call there is no row.
    let calls = row("calls").unwrap_or_else(|| "0 calls, 0 failed, 0 denied".to_owned());
    let counts: Vec<&str> = calls.split(", ").filter_map(|part| part.split(' ').next()).collect();
    facts.extend(["calls", "errors", "denials"].into_iter().zip(counts).map(|(fact, count)| (fact, count.to_owned())));
    facts
}

pub(super) fn batch(stage: &Stage) -> Facts {
    let end: Value = serde_json::from_str(&stage.jobs.out).unwrap_or_else(|error| panic!("{error}: {}", stage.jobs.err));
    let job = &end["results"][0];
    let mut facts = Facts::from([
        ("outcome", text(job, "outcome")),
        ("denials", count(job, "denials")),
        ("tokens", tokens(&job["tokens"])),
        ("answer", text(job, "answer")),
    ]);
    facts.extend(cost(job, "cost_usd"));
    facts.insert("time", count(job, "duration_ms"));
    facts
}

pub(super) fn batch_summary(stage: &Stage) -> Facts {
    let page = std::fs::read_to_string(stage.batch.join("s.md")).unwrap();
    let row = page.lines().find_map(|line| line.strip_prefix("| j | ")).unwrap();
    let [judged, cost] = row.splitn(3, " | ").take(2).collect::<Vec<_>>()[..] else { panic!("{row}") };
    let mut facts = shown(judged);
    facts.extend(Some(cost).filter(|cost| !cost.is_empty()).map(|cost| ("cost shown", cost.to_owned())));
    facts
}

pub(super) fn junit(stage: &Stage) -> Facts {
    let xml = std::fs::read_to_string(stage.batch.join("j.xml")).unwrap();
    let case = xml.lines().find(|line| line.contains("<testcase ")).unwrap();
    let seconds: f64 = case.split("time=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap();
    let is_good = !xml.contains("<failure") && !xml.contains("<error");
    let truth = text(&stage.report["verdict"], "outcome");
    // It tells only a success from what is none.
    let outcome = if is_good == (truth == "success") { truth } else { format!("not {truth}") };
    Facts::from([("outcome", outcome), ("time", format!("{:.0}", seconds * 1_000.0))])
}

/// The only one of a list.
fn only(list: &Value, name: &str) -> Value {
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 1, "{name}: {list:?}");
    list[0].clone()
}

/// What the archive says of a session. A cost that is not known is no cost.
fn archived(row: &Value) -> Facts {
    let mut facts = Facts::from([("tokens", tokens(row))]);
    facts.extend(cost(row, "cost_usd").filter(|_| row["cost_unknown"] == 0));
    facts
}

pub(super) fn sessions(stage: &Stage) -> Facts {
    let row = only(&stage.json(&["sessions", "--json"])["sessions"], &stage.case.name);
    let mut facts = archived(&row);
    facts.extend([("state", text(&row, "state")), ("title", text(&row, "title")), ("time", count(&row, "busy_ms"))]);
    facts
}

fn calls(row: &Value) -> [(&'static str, String); 3] {
    [("calls", "calls"), ("errors", "call_errors"), ("denials", "call_denials")].map(|(fact, key)| (fact, count(row, key)))
}

pub(super) fn stats(stage: &Stage) -> Facts {
    let totals = stage.json(&["stats", "--json"])["totals"].clone();
    archived(&totals).into_iter().chain(calls(&totals)).collect()
}

pub(super) fn export(stage: &Stage) -> Facts {
    let row = stage.tapline(&["export", "--to", "ndjson", "--table", "sessions"]).out;
    // A session without a request has no row.
    let Ok(row) = serde_json::from_str::<Value>(&row) else { return Facts::new() };
    let mut facts = archived(&row);
    facts.extend(calls(&row));
    facts.extend([("state", text(&row, "state")), ("title", text(&row, "title"))]);
    facts
}

pub(super) fn statusline(stage: &Stage) -> Facts {
    let told = json!({"session_id": "another", "model": {"display_name": "M"}, "workspace": {"current_dir": "/"}});
    let mut command = command(&["statusline", "--color", "never"]);
    let mut child = command.envs(stage.home.environment()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(told.to_string().as_bytes()).unwrap();
    let line = ran(child.wait_with_output().unwrap()).out;
    let today = line.trim().split(" · ").find_map(|part| part.strip_prefix("today "));
    // The fixtures' requests are of other days.
    let of_today = stage.tapline(&["stats", "--json", "--last", "1h"]).out;
    let of_today: Value = serde_json::from_str(&of_today).unwrap();
    let is_today = of_today["totals"]["requests"].as_u64() == stage.json(&["stats", "--json"])["totals"]["requests"].as_u64();
    today
        .filter(|_| is_today)
        .map(|cost| ("cost today", if cost == "$0" { dollars(0.0) } else { cost.to_owned() }))
        .into_iter()
        .collect()
}

pub(super) fn page(stage: &Stage) -> Facts {
    let serving = Serving::start(&stage.home, &[]);
    let row = tapline_testkit::wait_for("the page has read it", || {
        serving
            .rows()
            .into_iter()
            .find(|row| row["steps"].as_u64() > Some(0) && !row["cost_exact"].is_null() && row["state"]["kind"] != "running")
    });
    let details = serving.json(&format!("/api/v1/sessions/{}", row["id"].as_str().unwrap()));
    let turns = details["turns"].as_array().cloned().unwrap_or_default();
    let mut facts = Facts::from([
        ("state", text(&row["state"], "kind")),
        ("title", text(&row, "title")),
        ("tokens", tokens(&row["tokens"])),
        ("outcome", text(&details["verdict"], "outcome")),
        ("denials", count(&details["verdict"], "denials")),
        ("turns", turns.iter().filter(|turn| !turn["duration_ms"].is_null()).count().to_string()),
    ]);
    facts.extend(cost(&row, "cost_usd"));
    facts
}

pub(super) fn otlp(stage: &Stage) -> Facts {
    let (address, told) = receiver();
    stage.tapline(&["export", "--to", "otlp", "--endpoint", &format!("http://{address}")]);
    let all: Vec<_> = told.try_iter().flat_map(|body| spans(&body)).collect();
    if all.is_empty() {
        return Facts::new();
    }
    let calls: Vec<_> = all.iter().filter(|span| span.name.starts_with("execute_tool ")).collect();
    let with = |error: &str| {
        let is_one = |(key, value): &(String, String)| key == "error.type" && value == error;
        calls.iter().filter(|span| span.texts.iter().any(is_one)).count().to_string()
    };
    let mut facts =
        Facts::from([("calls", calls.len().to_string()), ("errors", with("tool_error")), ("denials", with("denied"))]);
    let session = all.iter().find(|span| span.name.starts_with("session "));
    let usd = session.and_then(|span| span.numbers.iter().find(|(key, _)| key == "tapline.cost_usd"));
    facts.extend(usd.map(|(_, usd)| ("cost", money(*usd))));
    facts
}
