//! Counters of the server, for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use tapline_session::SessionState;

use crate::budget::BudgetRow;
use crate::hub::Hub;
use crate::otlp::{Otlp, OtlpCounts};
use crate::row::Row;

/// What the server counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Answers by the first digit of their status.
    answers: [AtomicU64; 6],
    ingested: AtomicU64,
}

impl Metrics {
    /// Counts an answer.
    pub(crate) fn answered(&self, status: u16) {
        if let Some(count) = self.answers.get(usize::from(status / 100)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts bytes that were pushed.
    pub(crate) fn ingested(&self, bytes: usize) {
        self.ingested.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Writes everything in Prometheus' text format.
    pub(crate) fn text(&self, hub: &Hub, budgets: &[BudgetRow]) -> String {
        let rows = hub.rows();
        let mut out = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, values: &[(String, String)]| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(out, "{name}{labels} {value}");
            }
        };
        let states = SessionState::ALL.map(|state| {
            let count = rows.iter().filter(|row| row.state.kind == state).count();
            (format!("{{state=\"{}\"}}", state.name()), count.to_string())
        });
        metric("tapline_sessions", "gauge", "Sessions by state.", &states);
        let mut agents: BTreeMap<&str, Sums> = BTreeMap::new();
        for row in &rows {
            agents.entry(&row.agent).or_default().add(row);
        }
        let by_agent = |value: fn(&Sums) -> String| -> Vec<_> {
            agents.iter().map(|(agent, sums)| (format!("{{agent=\"{}\"}}", escaped(agent)), value(sums))).collect()
        };
        metric(
            "tapline_cost_usd_total",
            "counter",
            "Cost of all sessions in USD, as far as it is known.",
            &by_agent(|sums| sums.cost.to_string()),
        );
        let mut tokens = Vec::new();
        for (agent, sums) in &agents {
            for (kind, count) in ["input", "output", "cache_read", "cache_write"].into_iter().zip(sums.tokens) {
                tokens.push((format!("{{agent=\"{}\",type=\"{kind}\"}}", escaped(agent)), count.to_string()));
            }
        }
        metric("tapline_tokens_total", "counter", "Tokens of all sessions.", &tokens);
        let of_budgets = |value: fn(&BudgetRow) -> f64| -> Vec<_> {
            let labels = |row: &BudgetRow| {
                row.project.as_ref().map(|project| format!("{{project=\"{}\"}}", escaped(project))).unwrap_or_default()
            };
            budgets.iter().map(|row| (labels(row), value(row).to_string())).collect()
        };
        if !budgets.is_empty() {
            let help = "What this month may cost in USD; without a label in all projects.";
            metric("tapline_budget_usd", "gauge", help, &of_budgets(|row| row.limit_usd));
            metric(
                "tapline_budget_used_usd",
                "gauge",
                "What this month has cost of a budget in USD.",
                &of_budgets(|row| row.spent_usd),
            );
        }
        let answers: Vec<_> = (1..6)
            .map(|class| (format!("{{class=\"{class}xx\"}}"), self.answers[class].load(Ordering::Relaxed).to_string()))
            .collect();
        metric("tapline_http_responses_total", "counter", "Answers of the server by class of status.", &answers);
        let one = |value: u64| [(String::new(), value.to_string())];
        metric(
            "tapline_ingested_bytes_total",
            "counter",
            "Bytes that were pushed and kept.",
            &one(self.ingested.load(Ordering::Relaxed)),
        );
        let live = hub.live();
        let readers = live.iter().map(|live| live.feed.readers()).sum::<usize>() + hub.list.readers();
        metric("tapline_event_readers", "gauge", "Readers of event streams.", &one(readers as u64));
        let broken = hub.broken.load(Ordering::Relaxed);
        metric("tapline_broken_sessions_total", "counter", "Sessions that could not be read any further.", &one(broken));
        metric("tapline_followed_sessions", "gauge", "Sessions that are read as they grow.", &one(live.len() as u64));
        let none = OtlpCounts::default();
        let otlp = hub.otlp.as_ref().map_or(&none, Otlp::counts);
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let spans = [("sent", &otlp.sent), ("dropped", &otlp.dropped), ("refused", &otlp.refused)]
            .map(|(outcome, spans)| (format!("{{outcome=\"{outcome}\"}}"), count(spans).to_string()));
        metric("tapline_otlp_spans_total", "counter", "Spans that were sent over OTLP, and those that were not.", &spans);
        metric("tapline_otlp_waiting_spans", "gauge", "Spans that wait for the receiver.", &one(count(&otlp.waiting)));
        metric("tapline_otlp_failures_total", "counter", "Requests over OTLP that failed.", &one(count(&otlp.failures)));
        out
    }
}

/// What the sessions of an agent add up to.
#[derive(Default)]
struct Sums {
    cost: f64,
    tokens: [u64; 4],
}

impl Sums {
    fn add(&mut self, row: &Row) {
        self.cost += row.cost_usd.unwrap_or(0.0);
        let tokens = row.tokens;
        for (sum, count) in self.tokens.iter_mut().zip([tokens.input, tokens.output, tokens.cache_read, tokens.cache_write()]) {
            *sum = sum.saturating_add(count);
        }
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
