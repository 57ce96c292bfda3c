//! Claude Code's types, as `claude --output-format stream-json` writes them.

pub mod content;
pub mod control;
mod event;
pub mod message;
pub mod partial;
pub mod result;
pub mod system;
mod transcript;

pub use event::{Event, NOTICES};
