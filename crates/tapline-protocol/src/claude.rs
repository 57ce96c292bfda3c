//! Claude Code's shapes, as `claude --output-format stream-json` writes them.

pub mod content;
pub mod control;
pub mod message;
pub mod partial;
pub mod result;
pub mod system;
