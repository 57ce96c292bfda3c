//! Claude Code as a client of the scripted model.

use std::net::SocketAddr;

use super::{Guest, KEY};

pub(super) const GUEST: Guest = Guest {
    logins: &[
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_CUSTOM_HEADERS",
        "ANTHROPIC_MODEL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CODE_USE_FOUNDRY",
    ],
    variables,
    folder: ("CLAUDE_CONFIG_DIR", ".claude"),
    config: None,
    of_sub_agents: "x-claude-code-agent-id",
    asks_aside: Some("claude-cli"),
    version: Some("claude_code_version"),
};

fn variables(address: SocketAddr) -> Vec<(&'static str, String)> {
    vec![
        ("ANTHROPIC_BASE_URL", format!("http://{address}")),
        ("ANTHROPIC_API_KEY", KEY.to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        // As root, it skips permissions only if it is told that it runs in a sandbox.
        ("IS_SANDBOX", "1".to_owned()),
    ]
}
