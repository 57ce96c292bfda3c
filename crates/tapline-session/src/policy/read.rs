//! Reads a policy from TOML. It rejects what can never hold, and warns about what is most likely a mistake: a rule that
//! nothing can break is a security hole.

use std::collections::BTreeSet;

use super::Policy;
use crate::pattern::{Patterns, VersionRange};
use crate::permission::naming::{self, WrongName};
use crate::rulefile::{self, File, Holds, Key, RuleFile, WrongRules, filled};
use crate::text::nearest;

/// The keys of a policy.
const FILE: File = File {
    kind: RuleFile::Policy,
    keys: &[
        Key("tools", Holds::Table(TOOLS), r#"[tools] with forbid = ["WebFetch"] below it"#),
        Key("calls", Holds::Table(CALLS), r#"[calls] with forbid = ["WebFetch"] below it"#),
        Key("mcp", Holds::Table(MCP), r#"[mcp] with connected = ["github"] below it"#),
        Key("session", Holds::Table(SESSION), r#"[session] with model = "claude-opus-*" below it"#),
        Key("limits", Holds::Table(LIMITS), "[limits] with cost_usd = 0.50 below it"),
    ],
    example: "forbid = [\"WebFetch\"], below a line with [calls]",
    other: (&["allow", "deny", "ask"], RuleFile::Permissions),
};

const TOOLS: &[Key] = &[
    Key("allow", Holds::Names(tool), r#"allow = ["Bash", "Read"]"#),
    Key("forbid", Holds::Names(tool), r#"forbid = ["WebFetch"]"#),
    Key("require", Holds::Names(tool), r#"require = ["Bash"]"#),
];

const CALLS: &[Key] = &[
    Key("allow", Holds::Names(tool), r#"allow = ["Read", "Grep"]"#),
    Key("forbid", Holds::Names(tool), r#"forbid = ["Bash"]"#),
];

const MCP: &[Key] = &[
    Key("connected", Holds::Names(filled), r#"connected = ["github"]"#),
    Key("all_connected", Holds::Flag, "all_connected = true"),
    Key("allow", Holds::Names(filled), r#"allow = ["github", "docs"]"#),
];

const SESSION: &[Key] = &[
    Key("model", Holds::SomeNames(filled), r#"model = "claude-opus-*""#),
    Key("cli_version", Holds::Text(version), r#"cli_version = ">=2.1.74, <3""#),
    Key("permission_mode", Holds::SomeNames(filled), r#"permission_mode = ["default", "plan"]"#),
    Key("key_source", Holds::SomeNames(filled), r#"key_source = "ANTHROPIC_API_KEY""#),
    Key("agents", Holds::Names(filled), r#"agents = ["Explore"]"#),
    Key("skills", Holds::Names(filled), "skills = []"),
    Key("plugins", Holds::Names(filled), "plugins = []"),
];

const LIMITS: &[Key] = &[
    Key("cost_usd", Holds::Amount, "cost_usd = 0.50"),
    Key("turns", Holds::Count, "turns = 20"),
    Key("seconds", Holds::SomeAmount, "seconds = 600"),
    Key("calls", Holds::Count, "calls = 100"),
    Key("denials", Holds::Count, "denials = 0"),
];

/// The permission modes of Claude Code in all versions that were tried. Not every version has all of them.
const MODES: &[&str] = &["default", "acceptEdits", "plan", "dontAsk", "auto", "manual", "delegate", "bypassPermissions"];

/// Says why a permission mode is most likely a mistake: no mode with this name is known.
pub fn unknown_mode(name: &str) -> Option<String> {
    if MODES.contains(&name) {
        return None;
    }
    let meant = meant_mode(name).map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default();
    Some(format!("no mode named `{name}` is known{meant} (there are {})", MODES.join(", ")))
}

/// Returns the permission mode that is probably meant by a name that is none.
pub fn meant_mode(name: &str) -> Option<&'static str> {
    let same = MODES.iter().copied().find(|mode| mode.eq_ignore_ascii_case(name));
    same.or_else(|| nearest(name, MODES.iter().copied()))
}

/// Reads a policy from TOML. An error names its line.
impl std::str::FromStr for Policy {
    type Err = WrongRules;

    fn from_str(text: &str) -> Result<Self, WrongRules> {
        rulefile::read(text, &FILE)
    }
}

/// Says why no tool can have this name.
fn tool(name: &str) -> Option<String> {
    let wrong = WrongName::of(name);
    if let Some(WrongName::OfAgent { tool, rule }) = &wrong {
        return Some(format!(
            "`{name}` is a permission rule, and a policy names tools: write {tool:?} for every call of it; to hold back some of \
             them, put {rule} into a permission file"
        ));
    }
    wrong.map(|wrong| wrong.told(name, "")).or_else(|| filled(name))
}

fn version(text: &str) -> Option<String> {
    text.parse::<VersionRange>().err().map(|wrong| wrong.to_string())
}

impl Policy {
    /// Lists what is most likely a mistake, each with its key. `offered` is the tools of the session, as far as they
    /// are known.
    pub fn doubts(&self, offered: &BTreeSet<String>) -> Vec<String> {
        let mut doubts = Vec::new();
        let Self { tools, calls, mcp, session, .. } = self;
        let none = Patterns::default();
        let any = |patterns: &Option<Patterns>| patterns.clone().unwrap_or_default();
        for (key, names) in [
            ("tools.allow", &any(&tools.allow)),
            ("tools.forbid", &tools.forbid),
            ("calls.allow", &any(&calls.allow)),
            ("calls.forbid", &calls.forbid),
        ] {
            let is_new = |name: &&str| !offered.contains(*name);
            doubts.extend(names.iter().filter(is_new).filter_map(|name| Some(format!("{key}: {}", naming::unknown(name)?))));
        }
        for name in tools.require.iter().filter(|name| !name.contains('*')) {
            let forbidden = [
                ("tools.forbid", tools.forbid.match_any(name)),
                ("tools.allow", !tools.allow.as_ref().unwrap_or(&none).match_any(name) && tools.allow.is_some()),
            ];
            if let Some((key, _)) = forbidden.into_iter().find(|(_, forbidden)| *forbidden) {
                doubts.push(format!("tools.require: `{name}` must be offered, but {key} forbids it: no run can keep both"));
            }
        }
        for (key, names) in [("mcp.connected", &mcp.connected), ("mcp.allow", &any(&mcp.allow))] {
            let server = |name: &str| Some(name.strip_prefix("mcp__")?.split("__").next()?.to_owned());
            let doubt = |name: &str| Some(format!("{key}: `{name}` is the name of a tool; its server is `{}`", server(name)?));
            doubts.extend(names.iter().filter_map(doubt));
        }
        let modes = any(&session.permission_mode);
        let unknown = modes.iter().filter(|name| !name.contains('*')).filter_map(unknown_mode);
        doubts.extend(unknown.map(|doubt| format!("session.permission_mode: {doubt}")));
        doubts
    }
}
