//! Watches sessions of coding agents: transcripts and recordings as they grow, and streams that other machines push.
//!
//! A [`Server`] serves a page, a JSON API with server-sent events, and metrics. It answers only to its own names, only to its own page or to
//! whoever has its token, and it reads files without changing them.
//!
//! ```no_run
//! use tapline_server::{Server, ServerOptions};
//!
//! # async fn example() -> Result<(), tapline_server::ServerError> {
//! let server = Server::bind(ServerOptions::default()).await?;
//! println!("{}", server.link());
//! server.run(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod api;
mod app;
mod assets;
mod bodies;
mod budget;
mod connections;
mod controls;
mod error;
mod feed;
mod follower;
mod guard;
mod hub;
mod ingest;
mod metrics;
mod otlp;
mod questions;
mod routes;
mod row;
mod secret;
mod server;
mod shelf;
mod spool;
mod sse;
mod table;
mod tickets;
mod tokens;
mod track;
mod watch;

pub use app::ResumeCommand;
pub use budget::Budget;
pub use error::ServerError;
pub use ingest::PUSHED_AS;
pub use otlp::{OtlpError, OtlpOptions, OtlpSender, OtlpTarget};
pub use questions::question_digest;
pub use server::{Server, ServerOptions};
pub use shelf::Warn;
pub use tickets::links_of_running_servers;
pub use tokens::{ServerTokens, TokensError};

/// Checks that the README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
