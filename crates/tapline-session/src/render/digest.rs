//! A run as a page of Markdown: for the summary of a CI job, or to send to somebody.

use std::fmt::Write as _;

use super::markdown::{code_block, inline, prose};
use crate::report::{Report, name_of};
use crate::step::CallStatus;
use crate::text::{count_of, grouped, head};
use crate::time::duration;
use crate::verdict::Outcome;

/// How many calls and warnings are listed.
const LISTED: usize = 20;
/// How many characters of the answer are shown.
const ANSWER: usize = 20_000;

/// Summarises a run in Markdown, with the denied calls and what would have allowed them. The agent's text stays plain
/// text in it.
pub fn digest(report: &Report, failed_for: Option<&str>, denied: &[String], advice: &[String]) -> String {
    let verdict = &report.verdict;
    let mark = match verdict.outcome {
        Outcome::Success if failed_for.is_some() => "❌",
        Outcome::Success if verdict.clean => "✅",
        Outcome::Success | Outcome::Interrupted => "⚠️",
        Outcome::Failure | Outcome::Incomplete => "❌",
    };
    let category = verdict.category.map(|category| format!(" ({})", category.word()));
    let label = report.run.label.as_ref().map(|label| format!("{}: ", inline(label))).unwrap_or_default();
    let mut out = format!("### {mark} {label}{}{}\n\n", verdict.outcome, category.unwrap_or_default());
    if let Some(error) = verdict.error_for_people().filter(|_| verdict.outcome != Outcome::Interrupted) {
        let _ = writeln!(out, "{}\n", code_block(error));
    }
    if let Some(why) = failed_for {
        let _ = writeln!(out, "Exit code 1: {}\n", inline(why));
    }
    out += "| | |\n|---|---|\n";
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "| {name} | {} |", value.replace('|', "\\|"));
    };
    let agent = name_of(report.agent);
    let version = report.session.setup.cli_version.as_ref().map(|version| format!(" {}", inline(version)));
    row("agent", agent.to_owned() + &version.unwrap_or_default());
    for (name, value) in [("model", &report.session.setup.model), ("session", &report.session.id)] {
        if let Some(value) = value {
            row(name, inline(value));
        }
    }
    if let Some(ms) = report.took_ms() {
        row("time", duration(ms));
    }
    if report.run.attempts > 1 {
        row("attempts", report.run.attempts.to_string());
    }
    let tokens = &report.ledger.tokens;
    if tokens.total() > 0 {
        let exact = if report.ledger.exact { "" } else { " (not exact)" };
        row("tokens", format!("{} in · {} out{exact}", grouped(tokens.input), grouped(tokens.output)));
    }
    if let Some(cost) = report.ledger.cost() {
        row("cost", cost);
    }
    let calls = &report.tools.calls;
    let failed: Vec<_> = calls.iter().filter(|call| matches!(call.status, CallStatus::Error | CallStatus::Denied)).collect();
    let [errors, refused] =
        [CallStatus::Error, CallStatus::Denied].map(|status| failed.iter().filter(|call| call.status == status).count());
    if !calls.is_empty() {
        row("calls", format!("{}, {errors} failed, {refused} denied", count_of(calls.len(), "call")));
    }
    if let Some(answer) = report.answer.as_ref().filter(|answer| !answer.trim().is_empty()) {
        let (text, cut) = head(answer.trim(), ANSWER);
        let _ = writeln!(out, "\n{}{}", prose(text), if cut { "\n\n… (cut)" } else { "" });
    }
    if !denied.is_empty() {
        out += "\n**Not everything was permitted**\n\n";
        for call in denied {
            let _ = writeln!(out, "- {}", inline(call));
        }
        let _ = writeln!(out, "\n{}", code_block(&advice.join("\n")));
    }
    let failed = failed.iter().filter(|call| call.status == CallStatus::Error).collect::<Vec<_>>();
    list(&mut out, "Failed calls", failed.iter().map(|call| inline(&format!("{} {}", call.name, call.title))));
    let warnings = verdict.warnings_for_people();
    let warnings = warnings.iter().map(|warning| format!("{}: {}", warning.code, inline(&warning.message)));
    list(&mut out, "Warnings", warnings);
    out
}

fn list(out: &mut String, title: &str, items: impl ExactSizeIterator<Item = String>) {
    let count = items.len();
    if count == 0 {
        return;
    }
    let _ = writeln!(out, "\n<details><summary>{title}: {count}</summary>\n");
    for item in items.take(LISTED) {
        let _ = writeln!(out, "- {item}");
    }
    if count > LISTED {
        let _ = writeln!(out, "- … and {} more", count - LISTED);
    }
    *out += "\n</details>\n";
}
