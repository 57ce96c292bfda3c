"""The report: what tapline says about one stream. Rust makes it; here it gets Python's shapes."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

from ._native import Report as NativeReport
from ._native import loads

Outcome = Literal["success", "failure", "interrupted", "incomplete"]
Number = int | float
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What only the program that ran the agent knows; None for a plain file."""

    started_at: str | None = None
    duration_ms: int | None = None
    attempts: int = 1
    label: str | None = None
    recording: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """The session, from its first start."""

    id: str | None = None
    ids: list[str] = field(default_factory=list[str])
    inits: int = 0
    model: str | None = None
    cwd: str | None = None
    cli_version: str | None = None
    permission_mode: str | None = None
    api_key_source: str | None = None
    tools: list[str] = field(default_factory=list[str])
    mcp_servers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    agents: list[str] = field(default_factory=list[str])
    skills: list[str] = field(default_factory=list[str])
    plugins: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    output_style: str | None = None
    fast_mode_state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning:
    """Something that deserves attention, whatever the outcome: a stable code, a message, the line that caused it."""

    code: str = ""
    message: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAdvice:
    """Whether trying again can help, and from when on (RFC 3339) if the stream says so."""

    advice: Literal["no", "now", "later"] = "no"
    at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the agent's process ended, as far as it is known."""

    code: int | None = None
    signal: str | None = None
    class_: Literal["success", "error", "input-error", "interrupted", "other", "unknown"] = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The clock that ended a run, and its limit."""

    name: str = ""
    ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a run ended: one honest verdict from the stream, the exit status, the signal and stderr.

    `clean` is a success without a category, a failed turn, a denied call or an error on the way.
    """

    outcome: Outcome = "incomplete"
    category: str | None = None
    error: str | None = None
    clean: bool = False
    retry: RetryAdvice = RetryAdvice()
    warnings: list[Warning] = field(default_factory=list[Warning])
    exit: Exit = Exit()
    clock: Clock | None = None
    denials: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens by kind; None if the agent is not known. `input` never includes cached tokens."""

    input: int | None = 0
    output: int | None = 0
    cache_read: int | None = 0
    cache_write: int | None = 0
    cache_write_1h: int = 0
    reasoning: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTotals(Tokens):
    """What one model used and cost."""

    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTotals:
    """What a session used and cost: a run, and the earlier runs of the session that it resumed."""

    cost_usd: float | None = None
    tokens: Tokens = Tokens()
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What a run used and cost. `exact` says whether nothing is missing or estimated."""

    cost_usd: float | None = None
    tokens: Tokens = Tokens()
    web_searches: int = 0
    exact: bool = False
    at_least: bool = False
    by_model: dict[str, ModelTotals] = field(default_factory=dict[str, ModelTotals])
    basis: Literal["results", "deltas", "messages", "none"] = "none"
    session: SessionTotals | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool call, as text. `is_error` is literally what the agent said."""

    text: str = ""
    is_error: bool = False
    line: int = 0
    block: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """Who denied a call, and why, as the agent says it."""

    by: Literal["person", "rule", "mode", "hook", "sandbox", "host", "unknown"] = "unknown"
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call and its result. `title` is its main input on one line."""

    id: str | None = None
    name: str = ""
    input: dict[str, Any] | None = None
    parent: str | None = None
    title: str = ""
    status: Literal["ok", "error", "denied", "pending"] = "pending"
    ended: Literal["cancelled", "interrupted", "unknown"] | None = None
    denial: Denial | None = None
    result: ToolResult | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanResult:
    """A result without a call."""

    tool_use_id: str | None = None
    text: str = ""
    is_error: bool = False
    parent: str | None = None
    line: int = 0
    block: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Tool calls and results."""

    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    orphan_results: list[OrphanResult] = field(default_factory=list[OrphanResult])
    server_calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    server_results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """How a turn ended, from the agent's `result`."""

    index: int = 0
    subtype: str | None = None
    is_error: bool = False
    result: str | None = None
    errors: Any = None
    stop_reason: str | None = None
    terminal_reason: str | None = None
    api_error_status: Number | None = None
    num_turns: Number | None = None
    duration_ms: Number | None = None
    duration_api_ms: Number | None = None
    permission_denials: list[Any] = field(default_factory=list[Any])
    structured_output: Any = None
    deferred_tool_use: Any = None
    uuid: str | None = None
    origin: Any = None
    error: Any = None
    failed: bool = False
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    total_cost_usd: Any = None
    model_usage: Any = None
    cost_usd: float | None = None
    elapsed_ms: int | None = None
    own: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAttempt:
    """A request to the model that the agent tried again."""

    attempt: Number | None = None
    max: Number | None = None
    delay_ms: Number | None = None
    status: Number | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The final state of a background task."""

    id: str = ""
    status: str = ""
    terminal: bool = False
    description: str | None = None
    type: str | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """A run of a hook. `outcome` is None while it runs."""

    id: str | None = None
    name: str | None = None
    event: str | None = None
    outcome: str | None = None
    exit_code: Number | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialTexts:
    """The sum of the partial messages."""

    text: str = ""
    thinking: str = ""
    json: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCounts:
    """The lines of the stream by kind."""

    total: int = 0
    objects: int = 0
    malformed: int = 0
    non_object: int = 0
    blank: int = 0
    untyped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """Facts about the stream itself."""

    lines: LineCounts = LineCounts()
    malformed_at: list[int] = field(default_factory=list[int])
    types: dict[str, int] = field(default_factory=dict[str, int])
    unknown_types: list[str] = field(default_factory=list[str])
    bytes: int = 0


@functools.cache
def _fields(kind: Any) -> dict[str, tuple[str, Any]]:
    """The fields of a dataclass by their keys in JSON: `class_` is `class` there."""
    hints = typing.get_type_hints(kind)
    return {one.name.rstrip("_"): (one.name, hints[one.name]) for one in dataclasses.fields(kind)}


def build(kind: Any, value: Any) -> Any:
    """A value of JSON as this type. Keys that the type does not have are left out; what is missing has its default."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        # `X | None`
        return None if value is None else build(parts[0], value)
    if origin is list:
        items: list[Any] = value
        return [build(parts[0], one) for one in items]
    if origin is not dict and not hasattr(kind, "__dataclass_fields__"):
        return value
    entries: dict[str, Any] = value
    if origin is dict:
        return {key: build(parts[1], one) for key, one in entries.items()}
    known = _fields(kind)
    return kind(**{known[key][0]: build(known[key][1], one) for key, one in entries.items() if key in known})


class Report:
    """What tapline says about one run or one stream: verdict, answer, tool calls, cost.

    The same object that `tapline inspect --json` prints, with an attribute for every key (docs/REPORT.md). Parts are
    made when they are first asked for, so that the report on a huge stream costs little until then. A report is a
    value: it can be compared, pickled, and written and read as JSON.
    """

    __slots__ = ("_native", "_parts")

    def __init__(self, native: NativeReport) -> None:
        self._native = native
        self._parts: dict[str, Any] = {}

    def _part(self, name: str, kind: type[T] | Any) -> T:
        if name not in self._parts:
            self._parts[name] = build(kind, self._native.part(name))
        return cast("T", self._parts[name])

    @property
    def schema(self) -> int:
        """The number of the report's schema."""
        return self._part("schema", int)

    @property
    def agent(self) -> str:
        """The agent that wrote the stream: `claude`, `codex` or `unknown`."""
        return self._part("agent", str)

    @property
    def format(self) -> str:
        """The format of the stream: `stream-json`, `json`, `json-verbose`, `exec-json` or `unknown`."""
        return self._part("format", str)

    @property
    def run(self) -> RunInfo:
        """What only the program that ran the agent knows: start, duration, label."""
        return self._part("run", RunInfo)

    @property
    def session(self) -> SessionInfo:
        """The session: its id, model, tools, ..."""
        return self._part("session", SessionInfo)

    @property
    def verdict(self) -> Verdict:
        """How it ended, and why."""
        return self._part("verdict", Verdict)

    @property
    def answer(self) -> str | None:
        """The agent's final answer."""
        return self._part("answer", str | None)

    @property
    def text(self) -> str:
        """Everything the agent wrote, sub-agents included, joined with newlines. After a timeout: what it had written by then."""
        return self._part("text", str)

    @property
    def main_text(self) -> str:
        """What the main agent wrote, without sub-agents."""
        return self._part("main_text", str)

    @property
    def last_text(self) -> str:
        """The last text that is not empty."""
        return self._part("last_text", str)

    @property
    def thinking(self) -> list[str]:
        """The agent's thinking."""
        return self._part("thinking", list[str])

    @property
    def prompts(self) -> list[str]:
        """The prompts that were sent to the agent."""
        return self._part("prompts", list[str])

    @property
    def tools(self) -> Tools:
        """Tool calls and results."""
        return self._part("tools", Tools)

    @property
    def turns(self) -> list[TurnResult]:
        """How each turn ended."""
        return self._part("turns", list[TurnResult])

    @property
    def ledger(self) -> Ledger:
        """What it used and cost."""
        return self._part("ledger", Ledger)

    @property
    def retries(self) -> list[RetryAttempt]:
        """Requests to the model that the agent tried again."""
        return self._part("retries", list[RetryAttempt])

    @property
    def rate_limit(self) -> dict[str, Any] | None:
        """The last `rate_limit_info`, unchanged."""
        return self._part("rate_limit", Any)

    @property
    def rate_limit_events(self) -> int:
        """How many events reported a rate limit."""
        return self._part("rate_limit_events", int)

    @property
    def tasks(self) -> list[Task]:
        """Background tasks in their final state."""
        return self._part("tasks", list[Task])

    @property
    def hooks(self) -> list[HookRun]:
        """Runs of hooks."""
        return self._part("hooks", list[HookRun])

    @property
    def assistant_errors(self) -> list[str]:
        """The `error` strings on assistant events."""
        return self._part("assistant_errors", list[str])

    @property
    def partial(self) -> PartialTexts:
        """The sum of the partial messages."""
        return self._part("partial", PartialTexts)

    @property
    def background_launches(self) -> int:
        """How many calls started a task in the background."""
        return self._part("background_launches", int)

    @property
    def codex(self) -> dict[str, Any] | None:
        """What only Codex has: items, reasoning, stream errors."""
        return self._part("codex", Any)

    @property
    def structured(self) -> Any:
        """The last turn's structured output."""
        value: Any = self._part("structured", object)
        return value

    @property
    def stream(self) -> StreamInfo:
        """Facts about the stream itself: lines, types, bytes."""
        return self._part("stream", StreamInfo)

    @property
    def ok(self) -> bool:
        """Whether the outcome is `success`."""
        return self.verdict.outcome == "success"

    @property
    def category(self) -> str | None:
        """Why it failed, or what makes a success doubtful: `rate_limit`, `timeout`, `interactive`, ..."""
        return self.verdict.category

    @property
    def error(self) -> str | None:
        """The error, for a person to read."""
        return self.verdict.error

    @property
    def session_id(self) -> str | None:
        """The session's id, for `resume`."""
        return self.session.id

    @property
    def cost_usd(self) -> float | None:
        """The cost in dollars; None if the stream does not say."""
        return self.ledger.cost_usd

    @property
    def duration(self) -> float | None:
        """How long the run took, in seconds; None for a plain file."""
        return None if self.run.duration_ms is None else self.run.duration_ms / 1000

    @property
    def exit_code(self) -> int:
        """The exit code that the command `tapline` has for this verdict: 0 for success, 124 for a timeout, ..."""
        return self._native.exit_code()

    def get(self, path: str) -> str | None:
        """One value by its path (`turns[-1].result`), as `tapline inspect --get` prints it; None if it is not there.

        Raises ValueError for a path that no report can have.
        """
        return self._native.get(path)

    def to_json(self) -> str:
        """The report as JSON on one line, as `tapline inspect --json` prints it."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """The report as a dict, with the keys of docs/REPORT.md."""
        return cast("dict[str, Any]", loads(self._native.to_json()))

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Reads a report back from its JSON. Raises ValueError if the text is not a report."""
        return cls(NativeReport.from_json(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and bool(self._native == other._native)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Report.from_json, (self.to_json(),)

    def __repr__(self) -> str:
        verdict, calls = self.verdict, self._native.calls()
        said = [f"{verdict.outcome}" + (f"/{verdict.category}" if verdict.category else "")]
        if verdict.error:
            said.append(f"error={_short(verdict.error)}")
        if self.answer:
            said.append(f"answer={_short(self.answer)}")
        if calls:
            said.append(f"calls={calls}")
        if self.cost_usd is not None:
            said.append(f"cost=${self.cost_usd:.4f}")
        if self.duration is not None:
            said.append(f"duration={self.duration:.1f}s")
        return f"<Report {', '.join(said)}>"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
