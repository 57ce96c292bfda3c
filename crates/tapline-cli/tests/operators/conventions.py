"""What OpenTelemetry's conventions for generative AI want of spans and metrics. Names come from OpenTelemetry's own package."""

from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

KNOWN = {value for name, value in vars(gen_ai_attributes).items() if name.isupper() and isinstance(value, str)}
KNOWN_METRICS = {value for name, value in vars(gen_ai_metrics).items() if name.isupper() and isinstance(value, str)}
# Newer than the package: docs/gen-ai/gen-ai-metrics.md of open-telemetry/semantic-conventions-genai.
NEW_METRICS = {"gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration"}
CONTENT = {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}
TOKENS = [4**power for power in range(14)]
SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
TURN_SECONDS = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6]
PROVIDERS = {"anthropic", "openai"}


def value(any_value):
    kind = any_value.WhichOneof("value")
    assert kind, "a value that is none"
    if kind == "array_value":
        return [value(one) for one in any_value.array_value.values]
    return getattr(any_value, kind)


def attributes(of):
    pairs = [(pair.key, value(pair.value)) for pair in of.attributes]
    assert len({key for key, _ in pairs}) == len(pairs), f"an attribute twice: {pairs}"
    assert all(key for key, _ in pairs)
    return dict(pairs)


def check_spans(spans, with_content=False, whole=True):
    """Checks spans, and returns them by id with their attributes."""
    by_id = {}
    for span in spans:
        assert len(span.trace_id) == 16 and any(span.trace_id) and len(span.span_id) == 8 and any(span.span_id)
        key = (span.trace_id, span.span_id)
        assert key not in by_id, f"{span.name} is there twice"
        by_id[key] = (span, attributes(span))
    for span, attrs in by_id.values():
        check_span(span, attrs, with_content)
        if span.parent_span_id:
            above = by_id.get((span.trace_id, span.parent_span_id))
            if above is None:
                assert not whole, f"the parent of {span.name} is missing"
                continue
            check_parent(span, attrs, *above)
        else:
            assert span.name.startswith("session"), f"{span.name} has no parent"
    for span, _ in by_id.values():
        seen = set()
        while span.parent_span_id and (span.trace_id, span.parent_span_id) in by_id:
            assert span.span_id not in seen, "a circle"
            seen.add(span.span_id)
            span = by_id[(span.trace_id, span.parent_span_id)][0]
    return by_id


def check_span(span, attrs, with_content):
    assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano, span.name
    unknown = {key for key in attrs if not key.startswith("tapline.") and key != "error.type"} - KNOWN
    assert not unknown, f"{span.name}: {unknown}"
    assert with_content or not CONTENT & set(attrs), f"{span.name} has content"
    operation = attrs.get("gen_ai.operation.name")
    kind, last = {
        "chat": (Span.SPAN_KIND_CLIENT, attrs.get("gen_ai.request.model")),
        "execute_tool": (Span.SPAN_KIND_INTERNAL, attrs.get("gen_ai.tool.name")),
        "invoke_agent": (Span.SPAN_KIND_INTERNAL, attrs.get("gen_ai.agent.name")),
        None: (Span.SPAN_KIND_INTERNAL, attrs.get("gen_ai.agent.name")),
    }[operation]
    name = operation or "session"
    assert span.name == (f"{name} {last}" if last else name), (span.name, attrs)
    assert span.kind == kind, span.name
    assert attrs["gen_ai.provider.name"] in PROVIDERS, attrs
    assert attrs["gen_ai.conversation.id"], attrs
    if operation == "execute_tool":
        assert attrs["gen_ai.tool.type"] in ("function", "extension", "datastore") and attrs["gen_ai.tool.call.id"]
    # Errors: https://opentelemetry.io/docs/specs/semconv/general/recording-errors/
    if "error.type" in attrs:
        assert span.status.code == Status.STATUS_CODE_ERROR and attrs["error.type"]
        assert len(attrs["error.type"]) < 60, "an error's class is short"
    else:
        assert span.status.code == Status.STATUS_CODE_UNSET
    assert with_content or not span.status.message
    for key, number in attrs.items():
        if key.startswith("gen_ai.usage."):
            assert isinstance(number, int) and number >= 0, (key, number)
    cached = attrs.get("gen_ai.usage.cache_read.input_tokens", 0) + attrs.get("gen_ai.usage.cache_creation.input_tokens", 0)
    assert attrs.get("gen_ai.usage.input_tokens", 0) >= cached, "input includes what was cached"
    assert isinstance(attrs.get("gen_ai.response.finish_reasons", []), list)


def check_parent(span, attrs, parent, above):
    operation, over = attrs.get("gen_ai.operation.name"), above.get("gen_ai.operation.name")
    allowed = {"chat": {"invoke_agent"}, "execute_tool": {"invoke_agent"}, "invoke_agent": {None, "execute_tool"}, None: set()}
    assert over in allowed[operation], (span.name, parent.name)
    assert span.start_time_unix_nano >= parent.start_time_unix_nano, (span.name, parent.name)
    assert attrs["gen_ai.conversation.id"] == above["gen_ai.conversation.id"]


def check_metrics(metrics):
    """Checks the metrics of one request, and returns the points of each by name, with their attributes."""
    found = {}
    for metric in metrics:
        assert metric.name not in found, f"{metric.name} twice"
        assert metric.description
        if metric.name == "tapline.cost":
            assert (metric.unit, metric.sum.is_monotonic) == ("USD", True)
            assert metric.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
            points = metric.sum.data_points
            required, allowed = {"gen_ai.provider.name"}, {"gen_ai.request.model", "gen_ai.agent.name"}
        else:
            assert metric.name in KNOWN_METRICS | NEW_METRICS, metric.name
            assert metric.histogram.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
            points = metric.histogram.data_points
            unit, bounds, required, allowed = {
                "gen_ai.client.token.usage": ("{token}", TOKENS, {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.token.type"}, {"gen_ai.request.model", "gen_ai.response.model"}),
                "gen_ai.client.operation.duration": ("s", SECONDS, {"gen_ai.operation.name", "gen_ai.provider.name"}, {"gen_ai.request.model", "gen_ai.response.model", "error.type"}),
                "gen_ai.invoke_agent.duration": ("s", TURN_SECONDS, set(), {"gen_ai.agent.name", "error.type", "gen_ai.request.model"}),
                "gen_ai.execute_tool.duration": ("s", SECONDS, {"gen_ai.tool.name"}, {"gen_ai.agent.name", "error.type"}),
            }[metric.name]
            assert metric.unit == unit, metric.name
            for point in points:
                assert list(point.explicit_bounds) == bounds, metric.name
                assert len(point.bucket_counts) == len(bounds) + 1 and sum(point.bucket_counts) == point.count > 0
                assert point.min <= point.max <= point.sum or point.sum == 0
        seen = set()
        for point in points:
            assert 0 < point.start_time_unix_nano <= point.time_unix_nano
            attrs = attributes(point)
            assert required <= set(attrs) <= required | allowed, (metric.name, attrs)
            assert tuple(sorted(attrs.items())) not in seen, "two points of the same"
            seen.add(tuple(sorted(attrs.items())))
        found[metric.name] = [(point, attributes(point)) for point in points]
    return found


def tokens(found, kind):
    return sum(point.sum for point, attrs in found["gen_ai.client.token.usage"] if attrs["gen_ai.token.type"] == kind)
