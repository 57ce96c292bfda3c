//! Spans and measures as OTLP messages (opentelemetry-proto, version 1). The numbers are those of its fields.

use tapline_protocol::Moment;

use super::measures::{Attributes, Histogram, Measures, OVERFLOW};
use super::span::{AgentSpan, AttributeValue, SpanKind};
use super::wire::{Proto, fields};

/// Who sends: attributes of everything that is sent.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct OtlpResource {
    /// The attributes: names and values.
    pub attributes: Vec<(String, String)>,
    /// The version of tapline.
    pub version: String,
}

impl OtlpResource {
    /// A resource with these attributes. A later value of a name replaces an earlier one.
    pub fn new(version: impl Into<String>, attributes: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut all: Vec<(String, String)> = Vec::new();
        for (name, value) in attributes {
            all.retain(|(known, _)| *known != name);
            all.push((name, value));
        }
        Self { attributes: all, version: version.into() }
    }

    fn write(&self, to: &mut Proto) {
        to.message(1, |resource| {
            for (name, value) in &self.attributes {
                attribute(resource, 1, name, &AttributeValue::Text(value.clone()));
            }
        });
    }

    fn scope(&self, to: &mut Proto) {
        to.message(1, |scope| {
            scope.text(1, "tapline");
            scope.text(2, &self.version);
        });
    }
}

fn nanos(moment: Moment) -> u64 {
    moment.as_millis().saturating_mul(1_000_000)
}

fn value(to: &mut Proto, value: &AttributeValue) {
    match value {
        AttributeValue::Text(text) => to.bytes(1, text.as_bytes()),
        AttributeValue::Flag(flag) => to.whole(2, u64::from(*flag)),
        AttributeValue::Whole(number) => to.whole(3, (*number).min(i64::MAX.cast_unsigned())),
        AttributeValue::Number(number) => to.double(4, *number),
        AttributeValue::Texts(texts) => to.message(5, |array| {
            for text in texts {
                array.message(1, |one| one.bytes(1, text.as_bytes()));
            }
        }),
    }
}

fn attribute(to: &mut Proto, field: u64, name: &str, what: &AttributeValue) {
    to.message(field, |pair| {
        pair.text(1, name);
        pair.message(2, |to| value(to, what));
    });
}

/// Returns a span as a message, for [`encode_traces`].
pub fn encode_span(span: &AgentSpan) -> Vec<u8> {
    let mut to = Proto::default();
    to.bytes(1, &span.trace_id);
    to.bytes(2, &span.span_id);
    if let Some(parent) = &span.parent {
        to.bytes(4, parent);
    }
    to.text(5, &span.name);
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Client => 3,
    };
    to.whole(6, kind);
    to.fixed(7, nanos(span.start));
    to.fixed(8, nanos(span.end));
    for (name, value) in &span.attributes {
        attribute(&mut to, 9, name, value);
    }
    if span.error.is_some() {
        to.message(15, |status| {
            status.text(2, span.message.as_deref().unwrap_or_default());
            status.whole(3, 2);
        });
    }
    to.0
}

/// Returns a request to `/v1/traces` with these spans, each as [`encode_span`] wrote it.
pub fn encode_traces<'s>(resource: &OtlpResource, spans: impl IntoIterator<Item = &'s [u8]>) -> Vec<u8> {
    let mut to = Proto::default();
    to.message(1, |all| {
        resource.write(all);
        all.message(2, |scoped| {
            resource.scope(scoped);
            spans.into_iter().for_each(|span| scoped.bytes(2, span));
        });
    });
    to.0
}

/// Returns a request to `/v1/metrics`: what was measured from `start` to `end`, as sums since `start`.
pub fn encode_metrics(resource: &OtlpResource, measures: &Measures, start: Moment, end: Moment) -> Vec<u8> {
    /// Sums since the start, and not since the last request.
    const CUMULATIVE: u64 = 2;
    let attributes = |to: &mut Proto, field: u64, of: &Attributes| {
        for (name, value) in of {
            let value = if *name == OVERFLOW { AttributeValue::Flag(true) } else { AttributeValue::Text(value.clone()) };
            attribute(to, field, name, &value);
        }
    };
    let times = |to: &mut Proto| {
        to.fixed(2, nanos(start));
        to.fixed(3, nanos(end));
    };
    let point = |to: &mut Proto, of: &Attributes, bounds: &[f64], histogram: &Histogram| {
        times(to);
        to.fixed(4, histogram.count);
        to.double(5, histogram.sum);
        to.packed(6, histogram.buckets.iter().copied());
        to.packed(7, bounds.iter().map(|bound| bound.to_bits()));
        attributes(to, 9, of);
        to.double(11, histogram.min);
        to.double(12, histogram.max);
    };
    let mut to = Proto::default();
    to.message(1, |all| {
        resource.write(all);
        all.message(2, |scoped| {
            resource.scope(scoped);
            for (instrument, points) in measures.histograms() {
                scoped.message(2, |metric| {
                    metric.text(1, instrument.name);
                    metric.text(2, instrument.about);
                    metric.text(3, instrument.unit);
                    metric.message(9, |histogram| {
                        for (of, one) in &points {
                            histogram.message(1, |to| point(to, of, instrument.bounds, one));
                        }
                        histogram.whole(2, CUMULATIVE);
                    });
                });
            }
            if measures.costs().len() > 0 {
                scoped.message(2, |metric| {
                    metric.text(1, "tapline.cost");
                    metric.text(2, "What requests to models cost, as far as it is known.");
                    metric.text(3, "USD");
                    metric.message(7, |sum| {
                        for (of, usd) in measures.costs() {
                            sum.message(1, |point| {
                                times(point);
                                point.double(4, usd);
                                attributes(point, 7, of);
                            });
                        }
                        sum.whole(2, CUMULATIVE);
                        sum.whole(3, 1);
                    });
                });
            }
        });
    });
    to.0
}

/// Reads an answer to either request: how many spans or points the receiver refused although it answered with success, and why.
pub fn rejected(answer: &[u8]) -> Option<(u64, String)> {
    let (_, partial) = fields(answer).find(|(field, value)| *field == 1 && value.is_err())?;
    let (mut count, mut why) = (0, String::new());
    for (field, value) in fields(partial.err()?) {
        match (field, value) {
            (1, Ok(number)) => count = number,
            (2, Err(text)) => why = String::from_utf8_lossy(text).into_owned(),
            _ => {}
        }
    }
    (count > 0).then_some((count, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_receiver_refuses_is_read() {
        let mut answer = Proto::default();
        answer.message(1, |partial| {
            partial.whole(1, 300);
            partial.text(2, "too old");
        });
        assert_eq!(rejected(&answer.0), Some((300, "too old".to_owned())));
        // An answer without complaints, and one that is no message.
        assert_eq!(
            (rejected(&[]), rejected(b"\x0a\x00"), rejected(b"<html>"), rejected(&[0x0a, 0xff, 0xff])),
            (None, None, None, None)
        );
    }
}
