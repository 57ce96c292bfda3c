//! What operators read: steps as spans and measures in OpenTelemetry's conventions for generative AI, and both as OTLP (protobuf). Pure: times
//! come with the steps, ids follow from what a session says, and nothing is sent from here.

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
