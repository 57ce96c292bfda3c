//! The tables of an export and their columns. docs/EXPORT.md shows them; a test holds the two together.

use std::fmt;

use ColumnType::{Day, Flag, Money, Text, Time, Whole};

/// A table of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ExportTable {
    /// One row for each session.
    Sessions,
    /// One row for each answer of a model.
    Messages,
    /// One row for each tool call.
    Calls,
    /// One row for each part of the cost: what a call answers for, or an answer without calls.
    Costs,
}

impl ExportTable {
    /// All tables.
    pub const ALL: [Self; 4] = [Self::Sessions, Self::Messages, Self::Calls, Self::Costs];

    /// Returns its name, which is also the name of its file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Messages => "messages",
            Self::Calls => "calls",
            Self::Costs => "costs",
        }
    }

    /// Returns its columns, in their order.
    pub const fn columns(self) -> &'static [ExportColumn] {
        match self {
            Self::Sessions => SESSIONS,
            Self::Messages => MESSAGES,
            Self::Calls => CALLS,
            Self::Costs => COSTS,
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportColumn {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub holds: ColumnType,
    /// Whether a row can have nothing in it.
    pub nullable: bool,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnType {
    /// Text.
    Text,
    /// A whole number.
    Whole,
    /// US dollars, exact to twelve decimals.
    Money,
    /// A moment, in UTC, to the millisecond.
    Time,
    /// A day.
    Day,
    /// True or false.
    Flag,
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Text => "text",
            Whole => "whole number",
            Money => "decimal",
            Time => "time",
            Day => "day",
            Flag => "flag",
        })
    }
}

const fn always(name: &'static str, holds: ColumnType) -> ExportColumn {
    ExportColumn { name, holds, nullable: false }
}

const fn maybe(name: &'static str, holds: ColumnType) -> ExportColumn {
    ExportColumn { name, holds, nullable: true }
}

const SESSIONS: &[ExportColumn] = &[
    always("session", Text),
    always("agent", Text),
    maybe("version", Text),
    maybe("title", Text),
    maybe("folder", Text),
    maybe("branch", Text),
    maybe("forked_from", Text),
    maybe("began", Time),
    maybe("ended", Time),
    maybe("state", Text),
    always("prompts", Whole),
    always("busy_ms", Whole),
    always("requests", Whole),
    always("request_errors", Whole),
    always("unlisted", Whole),
    always("calls", Whole),
    always("call_errors", Whole),
    always("call_denials", Whole),
    always("web_searches", Whole),
    always("input", Whole),
    always("output", Whole),
    always("cache_read", Whole),
    always("cache_write", Whole),
    always("cache_write_1h", Whole),
    always("reasoning", Whole),
    always("cost_usd", Money),
    always("cost_reported_usd", Money),
    always("cost_computed_usd", Money),
    always("cost_unknown", Whole),
    always("exact", Flag),
    always("damaged_lines", Whole),
    maybe("file", Text),
    always("files", Whole),
    always("files_gone", Whole),
];

const MESSAGES: &[ExportColumn] = &[
    maybe("message", Text),
    always("session", Text),
    always("time", Time),
    always("day", Day),
    always("agent", Text),
    maybe("model", Text),
    maybe("folder", Text),
    maybe("branch", Text),
    maybe("subagent", Text),
    always("input", Whole),
    always("output", Whole),
    always("cache_read", Whole),
    always("cache_write", Whole),
    always("cache_write_1h", Whole),
    always("reasoning", Whole),
    always("web_searches", Whole),
    always("calls", Whole),
    maybe("cost_usd", Money),
    maybe("cost_computed_usd", Money),
    always("cost_basis", Text),
    always("exact", Flag),
    always("unlisted", Flag),
    always("error", Flag),
];

const CALLS: &[ExportColumn] = &[
    maybe("message", Text),
    always("call", Whole),
    always("session", Text),
    always("time", Time),
    always("day", Day),
    always("agent", Text),
    maybe("model", Text),
    maybe("folder", Text),
    maybe("branch", Text),
    maybe("subagent", Text),
    always("tool", Text),
    always("ended", Text),
];

const COSTS: &[ExportColumn] = &[
    maybe("message", Text),
    maybe("call", Whole),
    always("session", Text),
    always("time", Time),
    always("day", Day),
    always("agent", Text),
    maybe("model", Text),
    maybe("folder", Text),
    maybe("branch", Text),
    maybe("subagent", Text),
    always("tool", Text),
    maybe("ended", Text),
    always("input", Whole),
    always("output", Whole),
    always("cache_read", Whole),
    always("cache_write", Whole),
    always("cache_write_1h", Whole),
    always("reasoning", Whole),
    maybe("cost_usd", Money),
    maybe("cost_computed_usd", Money),
    always("cost_basis", Text),
];
