//! A policy: what a run may have, do and cost. The caller reads it from TOML; docs/POLICY.md describes it. It is
//! checked step by step, so that a live run can be stopped at the first violation.

mod read;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use crate::fold::Rejected;
use crate::ledger::exact_dollars;
use crate::pattern::matches;
pub use crate::pattern::{Patterns, VersionRange, WrongRange};
use crate::step::{McpServer, SessionInfo, SoFar, Step, Turn, What};
use crate::text::dollars;
use crate::time::duration;
pub use read::{meant_mode, unknown_mode};

/// The limits of a run. Everything is optional, and what is not given is not checked.
///
/// ```
/// use tapline_session::policy::Policy;
///
/// let policy: Policy = "[limits]\ncost_usd = 2.5\n[calls]\nforbid = [\"WebFetch\"]".parse()?;
/// assert_eq!(policy.limits.cost_usd, Some(2.5));
/// assert!("[limits]\ncost = 2.5".parse::<Policy>().is_err(), "a mistake is not passed over");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Tools that are offered or called.
    pub tools: ToolRules,
    /// Tools that are called.
    pub calls: CallRules,
    /// MCP servers.
    pub mcp: McpRules,
    /// The start of the session.
    pub session: SessionRules,
    /// Upper limits.
    pub limits: PolicyLimits,
}

/// Rules about the tools of a session. They also apply to calls.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolRules {
    /// Only these.
    pub allow: Option<Patterns>,
    /// None of these.
    pub forbid: Patterns,
    /// For each of these, at least one tool.
    pub require: Patterns,
}

/// Rules about the tools that are called.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallRules {
    /// Only these.
    pub allow: Option<Patterns>,
    /// None of these.
    pub forbid: Patterns,
}

/// Rules about MCP servers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct McpRules {
    /// For each of these, at least one server must exist and be connected.
    pub connected: Patterns,
    /// Every server must be connected.
    pub all_connected: bool,
    /// Only these servers.
    pub allow: Option<Patterns>,
}

/// Rules about the start of a session.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionRules {
    /// The allowed models.
    pub model: Option<Patterns>,
    /// The allowed versions of the agent.
    pub cli_version: Option<VersionRange>,
    /// The allowed permission modes.
    pub permission_mode: Option<Patterns>,
    /// The allowed sources of the API key.
    pub key_source: Option<Patterns>,
    /// The allowed kinds of sub-agents.
    pub agents: Option<Patterns>,
    /// The allowed skills.
    pub skills: Option<Patterns>,
    /// The allowed plugins.
    pub plugins: Option<Patterns>,
}

/// Upper limits for the whole run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyLimits {
    /// The cost in dollars.
    pub cost_usd: Option<f64>,
    /// The number of requests to the model, as the agent counts them.
    pub turns: Option<u64>,
    /// The time of all turns, in seconds.
    pub seconds: Option<f64>,
    /// The number of tool calls.
    pub calls: Option<u64>,
    /// The number of denied calls. 0 means that none may be denied.
    pub denials: Option<u64>,
}

/// The only rule that needs a clock.
pub const LIMIT_OF_TIME: &str = "limits.seconds";

/// A broken rule.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Violation {
    /// The rule: `tools.forbid`, `limits.cost_usd`, …
    pub rule: &'static str,
    /// What was found.
    pub message: String,
    /// The line that broke it.
    pub line: Option<u64>,
}

/// Checks a policy during a run.
#[derive(Clone, Debug)]
pub struct PolicyChecker {
    policy: Policy,
    started: bool,
    /// The tools of the session that the policy names. The agent decides which others there are.
    offered: BTreeSet<String>,
    doubted: bool,
    cost: f64,
    turns: u64,
    ms: f64,
    calls: u64,
    denials: u64,
    told: Vec<&'static str>,
    told_of_start: BTreeSet<(&'static str, String)>,
    /// Whether a turn ended, and whether any turn had a cost and a duration.
    ended: bool,
    cost_known: bool,
    time_known: bool,
}

impl PolicyChecker {
    /// Creates a checker for one run.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            started: false,
            offered: BTreeSet::new(),
            doubted: false,
            cost: 0.0,
            turns: 0,
            ms: 0.0,
            calls: 0,
            denials: 0,
            told: Vec::new(),
            told_of_start: BTreeSet::new(),
            ended: false,
            cost_known: false,
            time_known: false,
        }
    }

    /// Returns how long a run may take, for callers with a clock.
    pub fn seconds(&self) -> Option<f64> {
        self.policy.limits.seconds
    }

    /// Lists what is most likely a mistake in the policy, now that the tools of the session are known. The list is
    /// returned once.
    pub fn doubts(&mut self) -> Vec<String> {
        if std::mem::replace(&mut self.doubted, true) {
            return Vec::new();
        }
        let is_empty = self.policy == Policy::default();
        let mut doubts = self.policy.doubts(&self.offered);
        doubts.extend(is_empty.then(|| "it has no rules, so every run keeps it".to_owned()));
        doubts
    }

    /// Takes the next step and returns the rules that it breaks.
    pub fn accept(&mut self, step: &Step) -> Vec<Violation> {
        let mut found = self.broken_by(step);
        // A session that starts again breaks the same rules again. They are reported once.
        if matches!(step.what, What::Session(_)) {
            found.retain(|violation| self.told_of_start.insert((violation.rule, violation.message.clone())));
        }
        found
    }

    fn broken_by(&mut self, step: &Step) -> Vec<Violation> {
        let mut found = Found { line: step.line, list: Vec::new() };
        if let What::Session(info) = &step.what {
            self.session(info, &mut found);
        } else if let What::Call(call) = &step.what {
            self.calls += 1;
            let (tools, calls) = (&self.policy.tools, &self.policy.calls);
            let said = format!("{} was called", call.name);
            found.unless_permitted(["tools.allow", "tools.forbid"], tools.allow.as_ref(), &tools.forbid, &call.name, &said);
            found.unless_permitted(["calls.allow", "calls.forbid"], calls.allow.as_ref(), &calls.forbid, &call.name, &said);
            if let Some(limit) = self.policy.limits.calls.filter(|limit| self.calls > *limit) {
                self.ceiling("limits.calls", format!("call number {}, {limit} allowed", self.calls), &mut found);
            }
        } else if let What::Denied(denied) = &step.what {
            self.denials += 1;
            if self.policy.limits.denials.is_some_and(|limit| self.denials > limit) {
                found.add("limits.denials", format!("{} was not permitted", denied.name.as_deref().unwrap_or("a tool")));
            }
        } else if let What::Turn(turn) = &step.what {
            self.turn(turn, &mut found);
        }
        found.list
    }

    /// Takes the calls that were denied without a step, after the run has ended.
    pub fn rejected(&mut self, calls: &[Rejected]) -> Vec<Violation> {
        let mut found = Vec::new();
        for call in calls {
            self.denials += 1;
            if self.policy.limits.denials.is_some_and(|limit| self.denials > limit) {
                found.push(Violation { rule: "limits.denials", message: format!("denied: {call}"), line: None });
            }
        }
        found
    }

    /// Returns the violation for a run that takes too long.
    pub fn too_long(&self) -> Option<Violation> {
        let limit = duration(self.policy.limits.seconds? * 1_000.0);
        Some(Violation { rule: LIMIT_OF_TIME, message: format!("the run takes longer than {limit}"), line: None })
    }

    /// Returns the violations that show only at the end of a run that took this long, unless rules are already broken.
    /// Missing facts count only against a successful run: a failed one has a better explanation.
    pub fn conclude(&self, broken: bool, succeeded: bool, took: Option<Duration>) -> Vec<Violation> {
        if broken {
            return Vec::new();
        }
        if self.seconds().zip(took).is_some_and(|(limit, took)| took.as_secs_f64() > limit) {
            return self.too_long().into_iter().collect();
        }
        let unknown = if succeeded { self.finish() } else { Vec::new() };
        unknown.into_iter().filter(|unknown| took.is_none() || unknown.rule != LIMIT_OF_TIME).collect()
    }

    /// Returns a violation for each rule that needs a fact which the stream does not contain. A budget that cannot be
    /// checked is not kept.
    pub fn finish(&self) -> Vec<Violation> {
        let Policy { session, mcp, tools, limits, .. } = &self.policy;
        let SessionRules { model, cli_version, permission_mode, key_source, agents, skills, plugins } = session;
        let lists = [model, permission_mode, key_source, agents, skills, plugins, &mcp.allow, &tools.allow];
        let about_start = lists.into_iter().any(Option::is_some)
            || cli_version.is_some()
            || mcp.all_connected
            || !mcp.connected.is_empty()
            || !tools.require.is_empty()
            || !tools.forbid.is_empty();
        let unknown = [
            ("session", about_start && !self.started, "the session never started: what it was started with is not known"),
            ("limits.cost_usd", limits.cost_usd.is_some() && !self.cost_known, "the stream does not say what the run cost"),
            ("limits.turns", limits.turns.is_some() && !self.ended, "the stream has no result: its turns are not known"),
            (LIMIT_OF_TIME, limits.seconds.is_some() && !self.time_known, "the stream does not say how long the run took"),
        ];
        let broken = unknown.into_iter().filter(|(_, broken, _)| *broken);
        broken.map(|(rule, _, message)| Violation { rule, message: message.to_owned(), line: None }).collect()
    }

    fn session(&mut self, info: &SessionInfo, found: &mut Found) {
        self.started = true;
        let Policy { tools, calls, mcp, session, .. } = &self.policy;
        let lists = [tools.allow.as_ref(), Some(&tools.forbid), calls.allow.as_ref(), Some(&calls.forbid)];
        let named: BTreeSet<&str> = lists.into_iter().flatten().flat_map(Patterns::iter).collect();
        self.offered.extend(info.setup.tools.iter().filter(|tool| named.contains(tool.as_str())).cloned());
        for tool in &info.setup.tools {
            let said = format!("{tool} is offered");
            found.unless_permitted(["tools.allow", "tools.forbid"], tools.allow.as_ref(), &tools.forbid, tool, &said);
        }
        let offered = |pattern: &&str| info.setup.tools.iter().any(|tool| matches(pattern, tool));
        for tool in tools.require.iter().filter(|tool| !offered(tool)) {
            found.add("tools.require", format!("{tool} is not offered"));
        }
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "(no name)".to_owned());
        for server in mcp.connected.iter() {
            let is_one = |known: &&McpServer| known.name.as_ref().is_some_and(|name| matches(server, name));
            let states: Vec<_> = info.setup.mcp_servers.iter().filter(is_one).map(|known| known.status.as_deref()).collect();
            if states.is_empty() {
                found.add("mcp.connected", format!("{server} is not there"));
            } else if !states.contains(&Some("connected")) {
                found.add("mcp.connected", format!("{server} is {}", states[0].unwrap_or("in no known state")));
            }
        }
        for server in &info.setup.mcp_servers {
            if mcp.all_connected && server.status.as_deref() != Some("connected") {
                found.add(
                    "mcp.all_connected",
                    format!("{} is {}", name(&server.name), server.status.as_deref().unwrap_or("in no known state")),
                );
            }
            if mcp.allow.as_ref().is_some_and(|allow| !allow.match_any(&name(&server.name))) {
                found.add("mcp.allow", format!("{} is there", name(&server.name)));
            }
        }
        let one_of = [
            ("session.model", &session.model, &info.setup.model),
            ("session.permission_mode", &session.permission_mode, &info.setup.permission_mode),
            ("session.key_source", &session.key_source, &info.setup.api_key_source),
        ];
        for (rule, allowed, value) in one_of {
            if let Some(allowed) = allowed {
                match value {
                    Some(value) if allowed.match_any(value) => {}
                    Some(value) => found.add(rule, format!("it is {value}, not {allowed}")),
                    None => found.add(rule, format!("it is not known, and must be {allowed}")),
                }
            }
        }
        if let Some(range) = &session.cli_version {
            match &info.setup.cli_version {
                Some(version) if range.contains(version) => {}
                Some(version) => found.add("session.cli_version", format!("it is {version}, not {range}")),
                None => found.add("session.cli_version", format!("it is not known, and must be {range}")),
            }
        }
        let plugins: Vec<String> = info.setup.plugins.iter().map(|plugin| name(&plugin.name)).collect();
        let only = [
            ("session.agents", &session.agents, &info.setup.agents),
            ("session.skills", &session.skills, &info.setup.skills),
            ("session.plugins", &session.plugins, &plugins),
        ];
        for (rule, allowed, values) in only {
            for value in values {
                if allowed.as_ref().is_some_and(|allowed| !allowed.match_any(value)) {
                    found.add(rule, format!("{value} is there"));
                }
            }
        }
    }

    fn turn(&mut self, turn: &Turn, found: &mut Found) {
        self.ended = true;
        self.cost_known |= turn.cost_usd.is_some();
        self.time_known |= turn.duration_ms.is_some();
        let SoFar { turns: so_far, duration_ms, .. } = &turn.so_far;
        self.cost = exact_dollars(self.cost + turn.cost_usd.unwrap_or(0.0));
        self.turns = *so_far;
        self.ms = duration_ms.unwrap_or(0.0);
        let PolicyLimits { cost_usd, turns, seconds, .. } = self.policy.limits.clone();
        if let Some(limit) = cost_usd.filter(|limit| self.cost > *limit) {
            self.ceiling("limits.cost_usd", format!("{} so far, {} allowed", dollars(self.cost), dollars(limit)), found);
        }
        if let Some(limit) = turns.filter(|limit| self.turns > *limit) {
            self.ceiling("limits.turns", format!("{} so far, {limit} allowed", self.turns), found);
        }
        if let Some(limit) = seconds.filter(|limit| self.ms / 1_000.0 > *limit) {
            let message = format!("{} so far, {} allowed", duration(self.ms), duration(limit * 1_000.0));
            self.ceiling(LIMIT_OF_TIME, message, found);
        }
    }

    /// Reports a crossed limit once.
    fn ceiling(&mut self, rule: &'static str, message: String, found: &mut Found) {
        if !self.told.contains(&rule) {
            self.told.push(rule);
            found.add(rule, message);
        }
    }
}

struct Found {
    line: u64,
    list: Vec<Violation>,
}

impl Found {
    /// Reports what is not in an allow list, or is in a forbid list.
    fn unless_permitted(
        &mut self,
        rules: [&'static str; 2],
        allow: Option<&Patterns>,
        forbid: &Patterns,
        name: &str,
        said: &str,
    ) {
        if allow.is_some_and(|allow| !allow.match_any(name)) {
            self.add(rules[0], said.to_owned());
        }
        if forbid.match_any(name) {
            self.add(rules[1], said.to_owned());
        }
    }

    fn add(&mut self, rule: &'static str, message: String) {
        self.list.push(Violation { rule, message, line: Some(self.line) });
    }
}
