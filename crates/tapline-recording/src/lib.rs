//! A recording is a folder of plain files, private to its owner. It can be opened whatever happened to the program that
//! wrote it.
//!
//! ```text
//! meta.json   what was started: agent, arguments (redacted), names of environment variables, time (`started_ms`: in
//!             milliseconds since 1970)
//! stdout      the exact bytes that the agent wrote to stdout
//! stderr      what it wrote to stderr
//! stdin       what was sent to it
//! times       when each piece came: `o 5321 1045123`, stream, end offset, microseconds; the same offset
//!             as the line before means that the stream was closed
//! end.json    how it ended; missing if the writer was killed
//! ```
//!
//! ```
//! use std::time::Duration;
//!
//! use tapline_recording::{End, Meta, Recorder, Recording, Stream, Sync};
//!
//! # let temporary = tapline_testkit::TempFolder::new();
//! # let folder = temporary.join("recording");
//! let mut recorder = Recorder::create(&folder, &Meta::default(), Sync::EverySecond)?;
//! recorder.write_at(Stream::Stdout, b"{\"type\":\"keep_alive\"}\n", Duration::from_millis(850));
//! recorder.finish(&End { exit_code: Some(0), ..End::default() })?;
//!
//! let recording = Recording::open(&folder)?;
//! assert_eq!(std::fs::read(recording.stdout())?, b"{\"type\":\"keep_alive\"}\n");
//! assert_eq!(recording.end.unwrap().exit_code, Some(0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

// Every crate that does more than read streams depends on this one, so the check is here, once.
#[cfg(not(unix))]
compile_error!(
    "tapline does not support Windows yet: it needs Unix processes, signals and file permissions. Use Linux, macOS or WSL."
);

mod beneath;
mod chunks;
mod error;
mod reading;
mod redact;
mod sent;
mod store;
mod syncing;
mod times;
mod writing;

pub use beneath::Beneath;
pub use chunks::Chunks;
pub use error::RecordingError;
pub use reading::Recording;
pub use redact::{BadPattern, PieceRedactor, REDACTED, Redactor, SHAPES, SHORTEST_VALUE, Shape, StreamRedactor};
pub use sent::{SentPiece, SentPieces};
pub use store::{FindError, Store, attempt_folder, recording_name, recordings_in};
pub use times::{Arrivals, TimedPiece};
pub use writing::{End, Loss, Meta, Recorder, Stop, Stream, Sync, create_private_folder};

/// Checks that the README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
