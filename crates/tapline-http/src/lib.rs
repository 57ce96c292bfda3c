//! The one HTTP client of tapline: for recordings that are pushed, for spans and metrics over OTLP, and for tables in an S3 store.
//!
//! An [`Address`] is read once. [`exchange`] sends a request to it and gives the answer as it arrives. [`send`] also reads the answer, with one
//! deadline for everything. A thread without a runtime uses a [`BlockingClient`].

#![forbid(unsafe_code)]

mod address;
mod client;
mod connect;
mod error;
#[cfg(feature = "https")]
mod proxy;
mod request;
#[cfg(feature = "https")]
mod tls;

pub use address::{Address, AddressError, percent_decoded};
pub use client::{BlockingClient, exchange, send};
pub use error::{HttpError, root_cause};
pub use request::{HttpAnswer, HttpRequest};

/// Checks that the README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
