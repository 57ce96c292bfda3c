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
/// Tools of which rules look at nothing but the name.
const NEITHER: &[&str] =
    &["WebFetch", "WebSearch", "Agent", "Task", "TodoWrite", "AskUserQuestion", "ExitPlanMode", "EnterPlanMode"];
/// Tools of which it is known that they write.
const WRITING: &[&str] = &["Write", "Edit", "MultiEdit", "NotebookEdit"];

/// All names of a tool.
pub(super) fn names(tool: &str) -> impl Iterator<Item = &str> {
    let same = SAME.iter().find(|names| names.contains(&tool)).copied().unwrap_or_default();
    [tool].into_iter().chain(same.iter().copied().filter(move |name| *name != tool))
}

/// All tools that are known here, under all their names.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    crate::call::names().chain(SAME.iter().copied().flatten().copied())
}

/// It runs commands, of whatever shell.
pub(super) fn runs_commands(tool: &str) -> bool {
    SHELLS.contains(&tool) || is_powershell(tool)
}

/// It names its files, and runs no command.
pub(super) fn names_files(tool: &str) -> bool {
    !has_neither(tool) && (only_reads(tool) || writes(tool))
}

pub(super) fn has_neither(tool: &str) -> bool {
    NEITHER.contains(&tool)
}

/// The names that a rule about commands may call any tool by that runs one.
pub(super) fn of_commands() -> &'static [&'static str] {
    SHELLS
}

pub(super) fn only_reads(tool: &str) -> bool {
    READING.contains(&tool)
}

fn writes(tool: &str) -> bool {
    WRITING.contains(&tool)
}

/// It runs commands that are no shell's.
pub(super) fn is_powershell(tool: &str) -> bool {
    tool == "PowerShell"
}
