//! Permission modes of agents, from the strictest to the loosest.

use std::fmt;
use std::str::FromStr;

use tapline_session::policy::meant_mode;

/// How much an agent may do without asking, from the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PermissionMode {
    /// It only looks.
    Plan,
    /// It asks. Nobody is there who could answer, so what it asks about is denied.
    Default,
    /// It changes files.
    AcceptEdits,
    /// It decides itself what it asks about.
    #[default]
    Auto,
    /// It asks about nothing.
    BypassPermissions,
}

impl PermissionMode {
    /// The modes, by their names.
    const NAMES: [(&str, Self); 8] = [
        ("plan", Self::Plan),
        ("default", Self::Default),
        ("manual", Self::Default),
        ("dontAsk", Self::Default),
        ("acceptEdits", Self::AcceptEdits),
        ("auto", Self::Auto),
        ("delegate", Self::Auto),
        ("bypassPermissions", Self::BypassPermissions),
    ];
}

impl FromStr for PermissionMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode);
        let meant = || meant_mode(name).map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default();
        found.ok_or_else(|| format!("no permission mode named `{name}` is known{}", meant()))
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name))
    }
}
