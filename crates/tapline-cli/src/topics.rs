//! The pages of docs/, built into the binary: an error can point at one, and `tapline help TOPIC` prints it.

/// A page.
pub(crate) struct Topic {
    /// What people type. No command has the same name.
    pub(crate) name: &'static str,
    /// Other words that people try.
    pub(crate) also: &'static [&'static str],
    /// The commands that it is about.
    pub(crate) commands: &'static [&'static str],
    pub(crate) about: &'static str,
    /// Its file in docs/, which other pages link to.
    pub(crate) file: &'static str,
    pub(crate) text: &'static str,
}

/// One row per page: the name, the file, what it is about; other words for it; its commands.
macro_rules! topics {
    ($($name:literal $file:literal $about:literal [$($also:literal)*] [$($command:literal)*])+) => {
        pub(crate) const TOPICS: &[Topic] = &[
            $(Topic {
                name: $name,
                also: &[$($also),*],
                commands: &[$($command),*],
                about: $about,
                file: $file,
                text: include_str!(concat!("../docs/", $file)),
            },)+
        ];
    };
}

topics! {
    "running" "RUN.md" "run an agent: input, output, timeouts, recordings" ["recording" "recordings" "timeouts" "retries"] ["run"]
    "fleet" "FLEET.md" "run many jobs from a file, here or on workers: steps, limits, budgets" ["jobs" "batches" "worktrees" "queue" "workers" "nats" "partitions" "s3"] ["batch" "worker" "collect"]
    "chatting" "CHAT.md" "talk with an agent: keys, questions, scripts" ["keys" "scripts"] ["chat"]
    "permissions" "PERMISSIONS.md" "rules that decide which tool calls an agent may make" ["rules" "permission"] []
    "policy" "POLICY.md" "rules that a run is checked against: tools, model, cost" ["policies" "limits"] []
    "redact" "REDACT.md" "what counts as a secret, and where tapline replaces it" ["secrets" "redaction" "redacting"] []
    "report" "REPORT.md" "the report: its keys, the verdicts, the warning codes" ["reports" "json" "verdict" "verdicts" "warnings"] ["inspect"]
    "steps" "STEPS.md" "the steps: what happened, one JSON object per line" ["step"] []
    "browsing" "SESSIONS.md" "find a session, open it, go on with it" ["transcripts" "resume" "resuming" "picker"] ["sessions"]
    "counting" "STATS.md" "count tokens and costs over all sessions: `stats`, `statusline`" ["costs" "cost" "tokens" "usage" "statistics"] ["stats" "statusline"]
    "prices" "PRICES.md" "what requests cost, and how to use your own prices" ["price" "pricing"] []
    "searching" "SEARCH.md" "search all sessions: words, filters, the JSON, what is searched" ["find" "finding" "filters"] ["search"]
    "serving" "SERVE.md" "watch all sessions in a browser: the page, its safety, the API, pushing streams" ["server" "browser" "watching" "api" "push"] ["serve"]
    "exporting" "EXPORT.md" "tables of sessions, messages, calls and costs; copies that outlive transcripts" ["tables" "csv" "parquet" "keeping"] ["export"]
    "findings" "CHECK.md" "what `tapline check` finds" ["checking" "checks" "drift"] ["check"]
    "scenarios" "SIM.md" "scripts for the model of `tapline sim`" ["scenario" "simulating" "simulation"] ["sim"]
    "replaying" "REPLAY.md" "record what an agent and its host send each other, and replay it" ["host" "shims"] ["replay" "tee" "shim"]
    "session" "SESSION.md" "drive an agent from Rust" ["rust" "library"] []
    "ci" "CI.md" "run an agent in GitHub Actions and other CI systems" ["github" "actions"] []
    "migrating" "MIGRATING.md" "from your own reader of an agent's output to tapline" ["migration"] []
}

/// The page with this name, or one of its other names.
pub(crate) fn named(name: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.name == name || topic.also.contains(&name))
}

/// The page about a command.
pub(crate) fn about(command: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.commands.contains(&command))
}

/// The page in this file.
pub(crate) fn in_file(file: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.file == file)
}
