//! Files that run code by themselves: git, a shell, an editor or an agent runs what is in them as soon as it opens
//! their folder. A rule allows writing such a file only if it names it.

/// Names of files and folders in lower case. A name with a slash is a path of several.
pub(super) const UNASKED: &[&str] = &[
    // git and other version control: configuration and hooks.
    ".git",
    ".gitconfig",
    ".gitmodules",
    ".config/git",
    ".hg",
    ".hgrc",
    ".svn",
    ".jj",
    ".husky",
    ".githooks",
    ".config/hg",
    ".config/jj",
    // Agents: settings, hooks, servers.
    ".claude",
    ".claude.json",
    ".codex",
    ".mcp.json",
    ".cursor",
    ".gemini",
    ".opencode",
    ".windsurf",
    ".config/opencode",
    ".config/tapline",
    // Shells.
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".bash_completion",
    ".config/nushell",
    ".config/tmux",
    ".config/direnv",
    ".direnvrc",
    ".config/fish",
    ".envrc",
    ".direnv",
    ".tmux.conf",
    ".screenrc",
    // Editors.
    ".vscode",
    ".idea",
    ".zed",
    ".devcontainer",
    ".devcontainer.json",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".vim",
    ".config/nvim",
    ".emacs",
    ".emacs.d",
    ".dir-locals.el",
    // Files that a package manager or compiler reads first.
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".pnpmfile.cjs",
    ".cargo",
    ".pypirc",
    ".config/pip",
    ".gdbinit",
    ".lldbinit",
    ".rprofile",
    ".ghci",
    ".mvn",
    ".yarn/releases",
    ".yarn/plugins",
    ".config/gdb",
    // Keys and sessions.
    ".ssh",
    ".gnupg",
    ".pam_environment",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".config/autostart",
    ".config/systemd",
    ".config/environment.d",
    ".local/bin",
];

/// Returns whether the file systems of a Mac ignore this character in names.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}')
}

/// Returns a name as lenient file systems compare it: `.GIT`, `.git.`, `.git::$DATA` and `GIT~1` are `.git`.
fn folded(name: &str) -> String {
    let name: String = name.chars().filter(|c| !is_unseen(*c)).flat_map(char::to_lowercase).collect();
    let name = name.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    if name.strip_prefix("git~").is_some_and(|number| number.bytes().all(|c| c.is_ascii_digit())) {
        return ".git".to_owned();
    }
    name.to_owned()
}

/// Returns whether what is written to this file or folder may run without a permission request: `.git/config`,
/// `.bashrc` and the like.
pub fn runs_code_unasked(path: &str, home: Option<&str>) -> bool {
    is_unnamed(path, "", home)
}

/// Returns whether a path contains such a name that the pattern does not. The folder where the agent was started is the
/// user's choice, so its own parents do not count.
pub(super) fn is_unnamed(path: &str, pattern: &str, home: Option<&str>) -> bool {
    let below = |text: &str| {
        let inner = home.and_then(|home| text.strip_prefix(home)).filter(|rest| rest.starts_with('/'));
        inner.unwrap_or(text).split('/').map(folded).filter(|part| !part.is_empty()).collect::<Vec<_>>()
    };
    let (path, pattern) = (below(path), below(pattern));
    // git treats a folder with a file of this name as a repository, and runs what its `config` says.
    let is_head = |parts: &[String]| parts.last().is_some_and(|name| name == "head");
    let unnamed = |name: &&str| {
        let name: Vec<_> = name.split('/').collect();
        let holds = |parts: &[String]| parts.windows(name.len()).any(|part| part == name);
        holds(&path) && !holds(&pattern)
    };
    (is_head(&path) && !is_head(&pattern)) || UNASKED.iter().any(unnamed)
}
