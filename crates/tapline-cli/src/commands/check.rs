//! `tapline check`: finds problems in a stream, and checks it against a policy and permission rules.

mod clean;
mod held;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tapline_archive::Finished;
use tapline_recording::Recording;
use tapline_session::Outcome;
use tapline_session::check::{CheckReport, Checker};
use tapline_session::permission::{PermissionChecker, Permissions, WrongRules};
use tapline_session::policy::{LIMIT_OF_TIME, Policy, PolicyChecker, Violation};
use tapline_session::render::Style;
use tapline_session::text::{count_of, one_line};

use crate::args::{Check, Facts};
use crate::source::Source;
use crate::{ci, errors, exit, output, secrets, store};
use clean::CleanCheck;
use held::Held;

pub(crate) fn run(args: &Check) -> Result<u8> {
    let redactor = if args.redact { Some(secrets::redactor()?) } else { None };
    let mut policy = args.policy.as_deref().map(read_policy).transpose()?.map(PolicyChecker::new);
    let rules = args.permissions.as_deref().map(|path| read_rules::<Permissions>(path, PERMISSIONS)).transpose()?;
    let mut doubts = rules.as_ref().map(|rules| named(args.permissions.as_deref(), &rules.doubts())).unwrap_or_default();
    // This HOME is the best guess: the recording does not say which user ran the agent.
    let home = std::env::var("HOME").ok();
    let rules = rules.map(|rules| home.map_or_else(|| rules.clone(), |home| rules.clone().with_home(&home)));
    let mut rules = rules.map(PermissionChecker::new);
    let file = args.stream.file.as_deref().map(store::meant).transpose()?;
    let mut held = Held::of(file.as_deref().filter(|_| rules.is_some()));
    let mut source = Source::open(file.as_ref(), &args.facts)?;
    // Rules judge what was really done. What is printed has no secrets with `--redact`, and annotations never have any.
    let public = redactor.clone().or_else(|| ci::is_job().then(|| ci::redactor().clone()));
    let mut told = public.map(|redactor| CleanCheck::new(redactor, source.inner.agent()));
    // Whether the run kept this policy is judged here, not taken from the run.
    let stopped_for = source.inner.ending_mut().violated.take().filter(|_| policy.is_some());
    let took = source.inner.run().duration_ms.map(Duration::from_millis);
    if let Some(policy) = &mut policy {
        let counted = count_earlier(&source.inner.earlier_attempts(), policy, &args.facts)?;
        let missing = source.inner.run().attempts.saturating_sub(1 + counted);
        if missing > 0 {
            let missing = count_of(usize::try_from(missing).unwrap_or(usize::MAX), "earlier attempt");
            output::tell(&format!("{missing} of this run cannot be read: the policy's limits are checked without it"));
        }
    }
    let mut checker = Checker::default();
    let mut violations = Vec::new();
    while let Some((record, steps)) = source.next()? {
        if let Some(told) = &mut told {
            told.accept(record.as_ref(), &steps);
        }
        if let Some(record) = &record {
            checker.accept(record, &steps);
        }
        if let Some(rules) = &mut rules {
            for step in &steps {
                held.accept(step, rules.accept(step));
            }
        }
        if let Some(policy) = &mut policy {
            violations.extend(steps.iter().flat_map(|step| policy.accept(step)));
        }
    }
    let is_transcript = source.inner.is_transcript();
    let Finished { summary, ending, run, .. } = source.finish().0;
    violations.extend(policy.as_mut().map(|policy| policy.rejected(&summary.rejected)).unwrap_or_default());
    let late = stopped_for.is_some_and(|rule| rule.starts_with(LIMIT_OF_TIME));
    if let Some(policy) = &mut policy {
        // Now the tools of the session are known.
        doubts.extend(doubts_of(args.policy.as_deref(), policy));
        let succeeded = summary.verdict.outcome == Outcome::Success;
        match run.recording.filter(|_| took.is_some()) {
            // Only the run had a clock, and that was the first rule to be broken.
            Some(_) if late => drop(violations.splice(0..0, policy.too_long())),
            // As `run` does.
            Some(_) => violations.extend(policy.conclude(!violations.is_empty(), succeeded, took)),
            None => violations.extend(policy.finish()),
        }
    }
    if let Some(told) = &mut told {
        told.rest();
        if args.redact {
            told.violations(&mut violations);
            held.clean(told);
        }
    }
    violations.extend(held.violations());
    if summary.agent.is_none() && (policy.is_some() || rules.is_some()) {
        let message = "no known agent wrote this stream, so tapline cannot tell what was done".to_owned();
        violations.push(Violation { rule: "stream", message, line: None });
    }
    doubt(doubts, args.strict, told.as_mut().filter(|_| args.redact), &mut checker);
    let mut report = checker.finish(&summary, violations, args.strict);
    let annotated = match told {
        Some(told) if args.redact => {
            told.report(&mut report, &ending);
            None
        }
        told => told,
    };
    if is_transcript {
        // Every line of a transcript differs from a stream, and a note already says that this is one.
        report.drift.clear();
    }
    if args.json {
        let mut report = serde_json::to_value(&report)?;
        if rules.is_some() {
            report["decisions"] = serde_json::to_value(held.decisions())?;
        }
        let line = report.to_string();
        // The whole line is redacted, with the ids of calls.
        let line = redactor.as_ref().map_or_else(|| line.as_bytes().into(), |redactor| redactor.line(line.as_bytes()));
        output::json(&String::from_utf8_lossy(&line))?;
    } else {
        let style = args.look.style();
        let otherwise = match held.differing() {
            0 => String::new(),
            count => format!(" ({} would be decided differently)", count_of(count, "call")),
        };
        let rules_kept = format!("rules kept{otherwise}");
        let kept = [(args.policy.is_some(), "policy kept"), (args.permissions.is_some(), &*rules_kept)];
        let text = held.render(style) + &render(&report, &kept, style);
        let mut out = output::stdout();
        out.write_all(text.as_bytes())?;
        out.flush()?;
    }
    annotate(&report, held, annotated);
    Ok(if report.ok { 0 } else { exit::VIOLATED })
}

/// Annotates violations. A title may cut a secret in half, so calls are named as in the redacted lines, if these were read.
fn annotate(report: &CheckReport, mut held: Held, clean: Option<CleanCheck>) {
    let mut violations = report.violations.clone();
    if let Some(clean) = clean {
        held.clean(&clean);
        violations.retain(|violation| violation.rule != held::DENIED);
        violations.extend(held.violations());
    }
    for violation in violations.iter().take(SHOWN) {
        let what = if violation.rule == held::DENIED { "rule broken" } else { "policy violated" };
        ci::annotate(&format!("{what}: {}: {}", violation.rule, violation.message));
    }
    if !report.ok && violations.is_empty() {
        ci::annotate("something is odd about the stream or the rules (check --strict)");
    }
}

/// Counts the earlier attempts of the run for the policy, as the run did. If they had broken it, the run would have
/// ended. Returns their number.
fn count_earlier(attempts: &[PathBuf], policy: &mut PolicyChecker, facts: &Facts) -> Result<u64> {
    let mut count = 0;
    for attempt in attempts.iter().filter(|path| Recording::is_one(path)) {
        let mut source = Source::open(Some(attempt), facts)?;
        while let Some((_, steps)) = source.next()? {
            for step in &steps {
                policy.accept(step);
            }
        }
        policy.rejected(&source.finish().0.summary.rejected);
        count += 1;
    }
    Ok(count)
}

/// Reads a policy. An error names its line and reason.
pub(crate) fn read_policy(path: &Path) -> Result<Policy> {
    read_rules(path, ("policy", "`tapline help policy`"))
}

/// Lists what is most likely a mistake in a policy.
pub(crate) fn doubts_of(path: Option<&Path>, policy: &mut PolicyChecker) -> Vec<String> {
    named(path, &policy.doubts())
}

/// Puts the name of the file before each doubt about it.
fn named(path: Option<&Path>, doubts: &[String]) -> Vec<String> {
    let name = path.unwrap_or(Path::new("the rules")).display();
    doubts.iter().map(|doubt| format!("{name}: {doubt}")).collect()
}

/// Reports doubts about rules. A rule that nothing can break is a hole, so a strict check counts it as a problem.
fn doubt(doubts: Vec<String>, is_strict: bool, mut told: Option<&mut CleanCheck>, checker: &mut Checker) {
    for doubt in doubts {
        match told.as_mut() {
            None if is_strict => checker.doubt(doubt),
            None => output::tell(&doubt),
            Some(told) if is_strict => told.doubt(checker, &doubt),
            Some(told) => output::tell(&told.text(&doubt)),
        }
    }
}

/// Reads permission rules.
pub(crate) fn read_permissions(path: &Path) -> Result<Permissions> {
    let rules: Permissions = read_rules(path, PERMISSIONS)?;
    for doubt in named(Some(path), &rules.doubts()) {
        output::tell(&doubt);
    }
    Ok(rules)
}

/// What a file of rules is called, and what describes it.
const PERMISSIONS: (&str, &str) = ("permission file", "`tapline help permissions`");

fn read_rules<T: std::str::FromStr<Err = WrongRules>>(path: &Path, (what, described): (&str, &str)) -> Result<T> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| errors::unreadable(error, what, path, &format!("{described} has an example to start from")))?;
    text.parse::<T>().with_context(|| format!("the {what} {name} is wrong ({described} describes it)"))
}

fn render(report: &CheckReport, kept: &[(bool, &str)], style: Style) -> String {
    let Style { red, yellow, green, dim, bold, reset, .. } = style;
    let mut out = String::new();
    let place = |line: Option<u64>| line.map(|line| format!("line {line}: ")).unwrap_or_default();
    // A call that a rule denies is already listed, with its outcome.
    for violation in report.violations.iter().filter(|violation| violation.rule != held::DENIED) {
        let message = one_line(&violation.message);
        let _ = writeln!(out, "{red}✗{reset} {}{bold}{}{reset}: {message}", place(violation.line), violation.rule);
    }
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in &report.findings {
        let count = shown.entry(&*finding.code).or_default();
        *count += 1;
        if *count > SHOWN {
            continue;
        }
        let _ = writeln!(out, "{yellow}!{reset} {}{}: {}", place(finding.line), finding.code, one_line(&finding.message));
    }
    for (code, count) in shown.iter().filter(|(_, count)| **count > SHOWN) {
        let _ = writeln!(out, "{yellow}!{reset} … and {} more {code} (--json lists them)", count - SHOWN);
    }
    for drift in &report.drift {
        let version = drift.cli_version.as_deref().unwrap_or("unknown version");
        let what = match (drift.unknown_type, drift.unknown_keys.is_empty()) {
            (true, _) => "tapline does not know this type yet".to_owned(),
            (false, _) => format!("unknown keys {}", drift.unknown_keys.join(", ")),
        };
        let text = one_line(&format!("{}: {what} ({version}, {})", drift.event, times(drift.count)));
        let _ = writeln!(out, "{dim}~{reset} line {}: drift: {text}", drift.line);
    }
    let kept = match report.violations.len() {
        0 => kept.iter().filter(|(given, _)| *given).flat_map(|(_, words)| [" · ", words]).collect(),
        count => format!(" · {}", count_of(count, "violation")),
    };
    let odd = !report.findings.is_empty() || !report.drift.is_empty();
    let mark = match (report.ok, odd) {
        (true, false) => format!("{green}✓{reset}"),
        (true, true) => format!("{yellow}!{reset}"),
        (false, _) => format!("{red}✗{reset}"),
    };
    let lines = count_of(usize::try_from(report.lines).unwrap_or(usize::MAX), "line");
    let findings = count_of(report.findings.len(), "finding");
    let drift = match report.drift.len() {
        0 => "no drift".to_owned(),
        count => format!("drift in {}", count_of(count, "event type")),
    };
    let _ = writeln!(out, "{mark} {lines} · {findings} · {drift}{kept}");
    out
}

/// How many findings with one code are shown.
const SHOWN: usize = 10;

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}
