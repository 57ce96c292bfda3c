//! Finds problems in a stream: lines that cannot be read, unknown events, tool results without calls, missing results,
//! and partial messages that differ from the complete ones.

mod deltas;
mod splice;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use tapline_protocol::{Agent, Record};

use crate::fold::Summary;
use crate::policy::Violation;
use crate::step::{Step, What};
use deltas::Deltas;

/// A problem in a stream.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// A stable code: `malformed-line`, `spliced-line`, `delta-differs`, …
    pub code: Cow<'static, str>,
    /// The message.
    pub message: String,
    /// The line that caused it, if one did.
    pub line: Option<u64>,
}

/// Something in an event that this version does not know.
#[derive(Clone, Debug, Serialize)]
pub struct Drift {
    /// The agent's version, from its last `init`.
    pub cli_version: Option<String>,
    /// The event: a type, or `system/<subtype>`.
    pub event: String,
    /// Whether the event itself is unknown.
    pub unknown_type: bool,
    /// The unknown top-level keys.
    pub unknown_keys: Vec<String>,
    /// The number of such lines.
    pub count: u64,
    /// The first such line.
    pub line: u64,
}

/// The result of a check.
#[derive(Debug, Serialize)]
pub struct CheckReport {
    /// Whether nothing was found that makes the check fail.
    pub ok: bool,
    /// The number of lines.
    pub lines: u64,
    /// The problems.
    pub findings: Vec<Finding>,
    /// What this version does not know.
    pub drift: Vec<Drift>,
    /// The rules of the policy that were broken.
    pub violations: Vec<Violation>,
}

/// Warnings of the verdict that are about the stream and not about the run.
const ABOUT_THE_STREAM: &[&str] = &[
    "no-result",
    "orphan-result",
    "pending-call",
    "result-gap",
    "duplicate-result",
    "truncated-tail",
    "line-too-long",
    "dropped-events",
];

/// How many unknown keys of one event are listed.
const KEYS: usize = 256;

/// How many findings with one code are listed. The rest are counted.
const PER_CODE: usize = 1_000;

/// Checks a stream while it is read.
#[derive(Debug, Default)]
pub struct Checker {
    findings: Vec<Finding>,
    counts: BTreeMap<Cow<'static, str>, usize>,
    drift: BTreeMap<(Option<String>, String), Drift>,
    version: Option<String>,
    deltas: Deltas,
}

impl Checker {
    /// Takes the next record and its steps.
    pub fn accept(&mut self, record: &Record, steps: &[Step]) {
        let mut unknown_type = None;
        for step in steps {
            if let What::Session(info) = &step.what {
                self.version = info.setup.cli_version.clone().or(self.version.take());
            } else if let What::Odd(odd) = &step.what {
                unknown_type = odd.unknown.clone().or(unknown_type);
                let is_malformed = odd.code == "malformed-line";
                if let Some(splice) = is_malformed.then(|| splice::diagnose(&record.text())).flatten() {
                    self.add("spliced-line", Some(step.line), splice);
                } else if odd.code != "unknown-type" {
                    self.add(odd.code.clone(), Some(step.line), odd.message.clone());
                }
            }
            for (code, message) in self.deltas.accept(step) {
                self.add(code, Some(step.line), message);
            }
        }
        self.drifted(record, unknown_type);
    }

    fn drifted(&mut self, record: &Record, unknown_type: Option<String>) {
        let unknown_keys = record.unknown_keys();
        if unknown_type.is_none() && unknown_keys.is_empty() {
            return;
        }
        let is_unknown = unknown_type.is_some();
        let event = unknown_type.or_else(|| record.tag()).unwrap_or_default();
        let entry = self.drift.entry((self.version.clone(), event.clone())).or_insert_with(|| Drift {
            cli_version: self.version.clone(),
            event,
            unknown_type: is_unknown,
            unknown_keys: Vec::new(),
            count: 0,
            line: record.line,
        });
        entry.count += 1;
        for key in unknown_keys {
            if entry.unknown_keys.len() < KEYS && !entry.unknown_keys.contains(&key) {
                entry.unknown_keys.push(key);
            }
        }
    }

    fn add(&mut self, code: impl Into<Cow<'static, str>>, line: Option<u64>, message: String) {
        let code = code.into();
        let count = self.counts.entry(code.clone()).or_default();
        *count += 1;
        if *count <= PER_CODE {
            self.findings.push(Finding { code, message, line });
        }
    }

    /// Takes a doubt about the rules that the stream is held against: most likely they are not meant so.
    pub fn doubt(&mut self, message: String) {
        self.add("doubtful-rule", None, message);
    }

    /// Returns all findings. With `strict`, they make the check fail.
    pub fn finish(mut self, summary: &Summary, violations: Vec<Violation>, strict: bool) -> CheckReport {
        for (code, message) in self.deltas.finish() {
            self.add(code, None, message);
        }
        for warning in summary.verdict.warnings.iter().filter(|warning| ABOUT_THE_STREAM.contains(&&*warning.code)) {
            self.add(warning.code.clone(), warning.line, warning.message.clone());
        }
        if summary.stream.lines.total == 0 {
            self.add("no-events", None, "the input is empty".to_owned());
        } else if *summary.stream.known == 0 {
            let agents: Vec<_> = Agent::ALL.iter().map(|agent| agent.name()).collect();
            self.add("no-events", None, format!("no line is an event of {}: is this an agent's stream?", agents.join(" or ")));
        }
        self.findings.sort_by_key(|finding| finding.line.unwrap_or(u64::MAX));
        for (code, count) in self.counts {
            if count > PER_CODE {
                self.findings.push(Finding { code, message: format!("and {} more of these", count - PER_CODE), line: None });
            }
        }
        let drift: Vec<_> = self.drift.into_values().collect();
        let clean = self.findings.is_empty() && drift.is_empty();
        CheckReport {
            ok: violations.is_empty() && (clean || !strict),
            lines: summary.stream.lines.total,
            findings: self.findings,
            drift,
            violations,
        }
    }
}
