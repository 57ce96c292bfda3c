//! The results of a batch for people and for CI: `JUnit` XML, Markdown, JSON. Results in, text out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use tapline_protocol::without_lone_surrogates;
use tapline_session::render::Style;
use tapline_session::short_duration;
use tapline_session::text::{count_of, dollars, one_line};

use crate::batch::BatchEnd;
use crate::result::{JobOutcome, JobResult};

#[derive(Serialize)]
struct Written<'a> {
    schema: u32,
    batch: &'a str,
    complete: bool,
    jobs: usize,
    cost_usd: f64,
    exit_code: u8,
    results: &'a [JobResult],
}

/// The results as one JSON object on one line.
pub fn json(batch: &str, end: &BatchEnd, exit_code: u8) -> String {
    let BatchEnd { results, jobs, cost_usd, .. } = end;
    let written =
        Written { schema: 1, batch, complete: end.is_complete(), jobs: *jobs, cost_usd: *cost_usd, exit_code, results };
    let text = serde_json::to_string(&written).unwrap_or_default();
    without_lone_surrogates(&text).into_owned()
}

/// One result as a line of JSON, with the columns of the row that its job was made of.
pub fn json_line(result: &JobResult, row: Option<&BTreeMap<String, String>>) -> String {
    #[derive(Serialize)]
    struct Line<'r> {
        #[serde(flatten)]
        result: &'r JobResult,
        row: Option<&'r BTreeMap<String, String>>,
    }
    without_lone_surrogates(&serde_json::to_string(&Line { result, row }).unwrap_or_default()).into_owned()
}

/// The results as `JUnit` XML: a suite for the batch, a case for each job.
pub fn junit(batch: &str, end: &BatchEnd) -> String {
    let count = |is: fn(&JobResult) -> bool| end.results.iter().filter(|result| is(result)).count();
    let seconds = |ms: Option<u64>| format!("{:.3}", std::time::Duration::from_millis(ms.unwrap_or_default()).as_secs_f64());
    let failures = count(JobResult::is_failure);
    let skipped = count(|result| result.outcome == JobOutcome::Skipped);
    let missing = end.jobs.saturating_sub(end.results.len());
    let took = seconds(Some(end.results.iter().filter_map(|result| result.duration_ms).sum()));
    let name = xml(&format!("tapline batch {batch}"));
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let total = end.results.len() + missing;
    let errors = usize::from(missing > 0);
    let _ = writeln!(
        out,
        "<testsuites tests=\"{total}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{took}\">"
    );
    let _ = writeln!(
        out,
        "  <testsuite name=\"{name}\" tests=\"{total}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{took}\">"
    );
    for result in &end.results {
        let (job, step, took) = (xml(&result.job), xml(&result.step), seconds(result.duration_ms));
        let _ = write!(out, "    <testcase name=\"{job}\" classname=\"{step}\" time=\"{took}\"");
        let why = result.error.as_deref().unwrap_or_default();
        match result.outcome {
            JobOutcome::Success if result.warnings.is_empty() => {
                let _ = writeln!(out, "/>");
                continue;
            }
            JobOutcome::Success => out.push('>'),
            JobOutcome::Skipped => {
                let _ = write!(out, "><skipped message=\"{}\"/>", xml(why));
            }
            JobOutcome::Failure | JobOutcome::Interrupted | JobOutcome::Incomplete => {
                let kind = result.category.map_or(result.outcome.word(), |category| category.word());
                let _ = write!(
                    out,
                    "><failure type=\"{}\" message=\"{}\">{}</failure>",
                    xml(kind),
                    xml(&one_line(why)),
                    xml(&about(result))
                );
            }
        }
        if !result.warnings.is_empty() {
            let lines = [&[result.glance(Style::plain())], result.warnings.as_slice()].concat().join("\n");
            let _ = write!(out, "<system-err>{}</system-err>", xml(&lines));
        }
        out.push_str("</testcase>\n");
    }
    if missing > 0 {
        let why = format!("{} without a result: the batch was stopped", count_of(missing, "job"));
        let _ = writeln!(
            out,
            "    <testcase name=\"(not run)\" classname=\"{name}\"><error message=\"{}\"/></testcase>",
            xml(&why)
        );
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// Where more about a result is.
fn about(result: &JobResult) -> String {
    let mut lines = vec![result.error.clone().unwrap_or_default()];
    lines.extend(result.recording.iter().map(|recording| format!("recorded in {recording}")));
    lines.extend(result.worker.iter().map(|worker| format!("worker {worker}")));
    lines.extend(result.session.iter().map(|session| format!("session {session}")));
    lines.join("\n")
}

/// Escapes a text for XML. Characters that XML cannot have become U+FFFD.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' | '\r' | '\t' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The results as Markdown: a line for the batch, a table of jobs.
pub fn markdown(batch: &str, end: &BatchEnd) -> String {
    let mut out = format!("## Batch {}\n\n{}\n", plain(batch), counted(end));
    if end.results.is_empty() {
        return out;
    }
    // Only a batch with an engine has workers.
    let has_workers = end.results.iter().any(|result| result.worker.is_some());
    let (head, rule) = if has_workers { (" worker |", "---|") } else { ("", "") };
    let _ = write!(out, "\n| job | result | cost | time |{head} |\n|---|---|---:|---:|{rule}---|\n");
    for result in &end.results {
        let judged = result.words("", Style::plain());
        let told = match (&result.error, &result.branch, &result.patch) {
            (Some(error), ..) if result.outcome != JobOutcome::Success => plain(error),
            (_, Some(branch), _) => format!("branch `{}`", branch.replace('`', "")),
            (_, _, Some(patch)) => format!("patch `{}`", patch.replace('`', "")),
            (..) => plain(result.answer.as_deref().unwrap_or_default()),
        };
        let cost = result.cost().unwrap_or_default();
        let took = result.duration_ms.map(short_duration).unwrap_or_default();
        let worker = result.worker.as_deref().map(plain).unwrap_or_default();
        let worker = if has_workers { format!(" {worker} |") } else { String::new() };
        let told = result.doubt.iter().map(|doubt| plain(doubt)).chain(Some(told)).filter(|part| !part.is_empty());
        let told = told.collect::<Vec<_>>().join(" · ");
        let _ = writeln!(out, "| {} | {judged} | {cost} | {took} |{worker} {told} |", plain(&result.job));
    }
    out
}

/// How many jobs ended how, in one line.
pub fn counted(end: &BatchEnd) -> String {
    let count = |is: fn(&JobResult) -> bool| end.results.iter().filter(|result| is(result)).count();
    let mut parts = vec![format!("{} of {}", count(|result| result.outcome == JobOutcome::Success), count_of(end.jobs, "job"))];
    parts[0].push_str(" succeeded");
    let more = [
        (count(|result| result.doubt.is_some()), "not clean"),
        (count(JobResult::is_failure), "failed"),
        (count(|result| result.outcome == JobOutcome::Skipped), "skipped"),
        (end.jobs.saturating_sub(end.results.len()), "not finished"),
    ];
    parts.extend(more.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    if end.results.iter().any(|result| result.cost_usd.is_some()) {
        parts.push(dollars(end.cost_usd));
    }
    parts.join(" · ")
}

/// A text in a cell of a table: one line, nothing that Markdown or HTML would read, and not too long.
fn plain(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = one_line(text);
    let cut: String = line.chars().take(LONGEST).collect();
    let more = if line.chars().count() > LONGEST { "…" } else { "" };
    let mut out = String::new();
    for c in cut.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out + more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end() -> BatchEnd {
        let result = |job: &str, outcome, error: Option<&str>| JobResult {
            job: job.to_owned(),
            step: "s".to_owned(),
            outcome,
            error: error.map(str::to_owned),
            duration_ms: Some(1_500),
            cost_usd: Some(0.25),
            answer: Some("all | <good>".to_owned()),
            ..JobResult::default()
        };
        BatchEnd {
            results: vec![
                result("a", JobOutcome::Success, None),
                result("b", JobOutcome::Failure, Some("no <way> \"x\" & \u{1b}[31m\nmore")),
                result("c", JobOutcome::Skipped, Some("not needed")),
            ],
            jobs: 4,
            cost_usd: 0.75,
            halt: None,
            stopped: true,
        }
    }

    #[test]
    fn junit_is_well_formed_whatever_agents_say() {
        let text = junit("id", &end());
        assert!(text.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""), "{text}");
        assert!(text.contains("<testcase name=\"a\" classname=\"s\" time=\"1.500\"/>"), "{text}");
        assert!(text.contains("no &lt;way&gt; &quot;x&quot; &amp; "), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.contains("1 job without a result"), "{text}");
    }

    #[test]
    fn a_table_stays_a_table_whatever_agents_say() {
        let text = markdown("id", &end());
        assert!(text.contains("1 of 4 jobs succeeded · 1 failed · 1 skipped · 1 not finished · $0.75"), "{text}");
        assert!(text.contains("| a | ✓ success | $0.25 | 1.5s | all \\| &lt;good&gt; |"), "{text}");
        assert!(text.lines().filter(|line| line.starts_with("| ")).count() == 4, "{text}");
    }

    #[test]
    fn the_worker_of_a_result_is_named() {
        let mut end = end();
        assert!(!json("id", &end, 1).contains("worker") && !markdown("id", &end).contains("worker"));
        end.results[1].worker = Some("big|box".to_owned());
        let text = markdown("id", &end);
        assert!(text.contains("\n| job | result | cost | time | worker | |\n|---|---|---:|---:|---|---|\n"), "{text}");
        assert!(text.contains("| 1.5s | big\\|box | no &lt;way") && text.contains("| 1.5s |  | all"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&json("id", &end, 1)).unwrap_or_default();
        assert_eq!(value["results"][1]["worker"], "big|box");
        assert!(junit("id", &end).contains("worker big|box"));
    }

    #[test]
    fn json_has_every_result() {
        let value: serde_json::Value = serde_json::from_str(&json("id", &end(), 1)).unwrap_or_default();
        assert_eq!(value["results"].as_array().map(Vec::len), Some(3));
        assert_eq!((&value["complete"], &value["jobs"]), (&serde_json::json!(false), &serde_json::json!(4)));
        assert_eq!(value["results"][1]["outcome"], "failure");
    }
}
