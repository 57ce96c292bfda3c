//! Names of tools: which mean the same, and which of them run commands.

/// Tools that run a shell's commands. A rule for one is for all.
const SHELLS: &[&str] = &["Bash", "Monitor", "command_execution", "local_shell", "shell", "mcp__workspace__bash"];

/// Names of one tool, old and new.
const SAME: &[&[&str]] = &[
    &["Agent", "Task"],
    &["TaskStop", "KillShell", "KillBash"],
    &["TaskOutput", "BashOutput", "BashOutputTool", "AgentOutput", "AgentOutputTool"],
    &["Edit", "MultiEdit"],
    &["REPL", "Eval"],
    &["ListAgents", "ListPeers"],
    &["SendUserMessage", "Brief"],
    &["ListMcpResourcesTool", "ListMcpResources"],
    &["ReadMcpResourceTool", "ReadMcpResource"],
    &["ReadMcpResourceDirTool", "ReadMcpResourceDir"],
    SHELLS,
];

/// Tools that only look.
const READING: &[&str] = &["Read", "NotebookRead", "Glob", "Grep", "LS", "WebFetch", "WebSearch"];

/// All names of a tool.
pub(super) fn names(tool: &str) -> impl Iterator<Item = &str> {
    let same = SAME.iter().find(|names| names.contains(&tool)).copied().unwrap_or_default();
    [tool].into_iter().chain(same.iter().copied().filter(move |name| *name != tool))
}

/// The names that a rule about commands may call any tool by that runs one.
pub(super) fn of_commands() -> &'static [&'static str] {
    SHELLS
}

pub(super) fn only_reads(tool: &str) -> bool {
    READING.contains(&tool)
}

/// It runs commands that are no shell's.
pub(super) fn is_powershell(tool: &str) -> bool {
    tool == "PowerShell"
}
