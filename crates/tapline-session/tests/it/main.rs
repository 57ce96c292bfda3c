//! Tests of the session: the contract's cases, every fixture in every format, hostile text in every field.

mod cases;
mod checks;
mod fixtures;
mod hostile;
mod page;
mod properties;
mod snapshots;
