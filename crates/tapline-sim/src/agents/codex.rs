//! Codex as a client of the scripted model.

use std::net::SocketAddr;

use super::{Guest, KEY};

/// The variable with its key, as its configuration says.
const KEY_VARIABLE: &str = "TAPLINE_SIM_KEY";

pub(super) const GUEST: Guest = Guest {
    logins: &["OPENAI_API_KEY", "CODEX_API_KEY"],
    variables: |_| vec![(KEY_VARIABLE, KEY.to_owned())],
    folder: ("CODEX_HOME", ".codex"),
    config: Some(("config.toml", config)),
    of_sub_agents: "x-openai-subagent",
    asks_aside: None,
    version: None,
};

fn config(address: SocketAddr) -> String {
    format!(
        "model_provider = \"tapline\"\n\n[model_providers.tapline]\nname = \"tapline sim\"\nbase_url = \"http://{address}/v1\"\n\
         wire_api = \"responses\"\nenv_key = \"{KEY_VARIABLE}\"\nrequest_max_retries = 2\nstream_max_retries = 2\n\n\
         # Offline, these only wait for a network.\n[analytics]\nenabled = false\n\n[features]\nplugins = false\napps = false\n"
    )
}
