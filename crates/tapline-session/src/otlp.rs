//! What operators read: steps as spans and measures in OpenTelemetry's conventions for generative AI, and both as OTLP (protobuf). Pure: times
//! come with the steps, ids follow from what a session says, and nothing is sent from here.
//!
//! ```
//! use tapline_protocol::Reader;
//! use tapline_session::Fold;
//! use tapline_session::otlp::Spans;
//!
//! let stream = br#"{"type":"system","subtype":"init","session_id":"s","model":"m","timestamp":"2026-01-01T00:00:00Z"}
//! {"type":"assistant","session_id":"s","timestamp":"2026-01-01T00:00:02Z","message":{"id":"msg_1","model":"m","content":[{"type":"text","text":"4"}]}}
//! "#;
//! let (mut fold, mut spans) = (Fold::default(), Spans::default());
//! for record in Reader::new(stream.as_slice()) {
//!     fold.apply(&record?).iter().for_each(|step| spans.accept(step));
//! }
//! spans.finish(None);
//! let names: Vec<String> = spans.take().into_iter().map(|span| span.name).collect();
//! assert_eq!(names, ["chat m", "invoke_agent claude", "session claude"]);
//! # Ok::<(), std::io::Error>(())
//! ```

mod content;
mod encode;
mod measures;
mod span;
mod spans;
mod wire;

pub use content::Clean;
pub use encode::{OtlpResource, encode_metrics, encode_span, encode_traces, rejected};
pub use measures::{Measures, OtlpPoint, RequestUsage};
pub use span::{AgentSpan, AttributeValue, Operation, SpanKind};
pub use spans::Spans;

use tapline_protocol::Agent;

use crate::agents::profile;

/// Returns whose models an agent asks, as the conventions name them. With a proxy it may be somebody else.
pub fn provider(agent: Option<Agent>) -> &'static str {
    agent.map_or("unknown", |agent| profile(agent).provider)
}
