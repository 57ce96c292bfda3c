//! The pages of docs/, built into the binary: an error can point at one, and `tapline help TOPIC` prints it.

/// A page.
pub(crate) struct Topic {
    /// What people type. No command has the same name.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Its file in docs/, which other pages link to.
    pub(crate) file: &'static str,
    pub(crate) text: &'static str,
}

/// One row per page: the name, the file, what it is about.
macro_rules! topics {
    ($($name:literal $file:literal $about:literal)+) => {
        pub(crate) const TOPICS: &[Topic] = &[
            $(Topic { name: $name, about: $about, file: $file, text: include_str!(concat!("../docs/", $file)) },)+
        ];
    };
}

topics! {
    "running" "RUN.md" "run an agent: input, output, timeouts, recordings"
    "fleet" "FLEET.md" "run many jobs from a file: steps, worktrees, limits, budgets, resuming"
    "chatting" "CHAT.md" "talk with an agent: keys, questions, scripts"
    "permissions" "PERMISSIONS.md" "rules that decide which tool calls an agent may make"
    "policy" "POLICY.md" "rules that a run is checked against: tools, model, cost"
    "redact" "REDACT.md" "what counts as a secret, and where tapline replaces it"
    "report" "REPORT.md" "the report: its keys, the verdicts, the warning codes"
    "steps" "STEPS.md" "the steps: what happened, one JSON object per line"
    "browsing" "SESSIONS.md" "find a session, open it, go on with it"
    "counting" "STATS.md" "count tokens and costs over all sessions: `stats`, `statusline`"
    "prices" "PRICES.md" "what requests cost, and how to use your own prices"
    "searching" "SEARCH.md" "search all sessions: words, filters, the JSON, what is searched"
    "serving" "SERVE.md" "watch all sessions in a browser: the page, its safety, the API, pushing streams"
    "exporting" "EXPORT.md" "tables of sessions, messages, calls and costs; copies that outlive transcripts"
    "findings" "CHECK.md" "what `tapline check` finds"
    "scenarios" "SIM.md" "scripts for the model of `tapline sim`"
    "replaying" "REPLAY.md" "record what an agent and its host send each other, and replay it"
    "session" "SESSION.md" "drive an agent from Rust"
    "ci" "CI.md" "run an agent in GitHub Actions and other CI systems"
    "migrating" "MIGRATING.md" "from your own reader of an agent's output to tapline"
}

/// The page with this name.
pub(crate) fn named(name: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.name == name)
}

/// The page in this file.
pub(crate) fn in_file(file: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.file == file)
}
