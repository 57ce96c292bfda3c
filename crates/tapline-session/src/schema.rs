//! JSON Schemas (2020-12) of what this crate writes: a public interface, as the report and the steps are.

/// The schema of a [`Report`](crate::Report).
pub const REPORT: &str = include_str!("../schemas/report.json");

/// The schema of a [`Step`](crate::Step), one line of the steps format.
pub const STEPS: &str = include_str!("../schemas/steps.json");
