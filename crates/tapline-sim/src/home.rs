//! What an agent finds around it: a HOME of its own, a key that is none, and the scripted model as the only one it knows.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tapline_recording::create_private_folder;
use uuid::Uuid;

use crate::error::SimError;

/// Nobody's key.
const KEY: &str = "sk-tapline-sim-not-a-key";
/// The variable that Codex reads its key from.
const CODEX_KEY: &str = "TAPLINE_SIM_KEY";
/// Variables by which an agent might find somebody's account, or another model.
pub(crate) const LOGINS: &[&str] = &[
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_MODEL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
];
/// What alone is passed on.
const PASSED_ON: &[&str] = &["PATH", "TERM", "LANG"];

/// A HOME for agents.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// It is ours, and goes with us.
    fresh: bool,
}

impl Folder {
    /// Makes a fresh one, or furnishes the one that is given.
    pub(crate) fn make(given: Option<PathBuf>, address: SocketAddr) -> Result<Self, SimError> {
        let fresh = given.is_none();
        let path =
            given.map_or_else(|| temporary("tapline-sim"), |path| std::path::absolute(&path).map_err(|error| (path, error)));
        let path = path.map_err(|(path, error)| SimError::Make { path, error })?;
        let folder = Self { path, fresh };
        for path in [folder.path.join("tmp"), folder.path.join(".codex")] {
            create_private_folder(&path).map_err(|error| SimError::Make { path, error })?;
        }
        let config = folder.path.join(".codex/config.toml");
        // A HOME that is given may be somebody's.
        if std::fs::read(&config).is_ok_and(|text| !text.starts_with(WRITTEN.as_bytes())) {
            return Err(SimError::NotOurs(config));
        }
        std::fs::write(&config, codex_config(address)).map_err(|error| SimError::Make { path: config, error })?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.fresh {
            remove(&self.path);
        }
    }
}

/// Removes a folder of ours. What an agent left running may still write there: it is tried again.
pub(crate) fn remove(path: &Path) {
    for _ in 0..5 {
        if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A private folder with a name that nobody else has.
pub(crate) fn temporary(prefix: &str) -> Result<PathBuf, (PathBuf, std::io::Error)> {
    let path = std::env::temp_dir().join(format!("{prefix}-{}", Uuid::new_v4().simple()));
    create_private_folder(&path).map_err(|error| (path.clone(), error))?;
    Ok(path)
}

/// By this line a configuration of ours is known.
const WRITTEN: &str = "# Written by tapline sim.\n";

fn codex_config(address: SocketAddr) -> String {
    format!(
        "{WRITTEN}model_provider = \"tapline\"\n\n[model_providers.tapline]\nname = \"tapline sim\"\nbase_url = \"http://{address}/v1\"\n\
         wire_api = \"responses\"\nenv_key = \"{CODEX_KEY}\"\nrequest_max_retries = 2\nstream_max_retries = 2\n\n\
         # Offline, these only wait for a network.\n[analytics]\nenabled = false\n\n[features]\nplugins = false\napps = false\n"
    )
}

/// What an agent needs to ask the model at this address.
pub(crate) fn variables(address: SocketAddr) -> Vec<(String, OsString)> {
    let pairs = [
        ("ANTHROPIC_BASE_URL", format!("http://{address}")),
        ("ANTHROPIC_API_KEY", KEY.to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        // As root, Claude Code skips permissions only where it is told that nothing can come of it.
        ("IS_SANDBOX", "1".to_owned()),
        (CODEX_KEY, KEY.to_owned()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// The whole environment.
pub(crate) fn environment(address: SocketAddr, home: &Path) -> Vec<(String, OsString)> {
    let passed_on = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)));
    let own = [("HOME", home.to_owned()), ("TMPDIR", home.join("tmp")), ("CODEX_HOME", home.join(".codex"))];
    let own = own.into_iter().map(|(name, path)| (name.to_owned(), path.into_os_string()));
    passed_on.chain(own).chain(variables(address)).collect()
}
