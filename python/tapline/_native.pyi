"""The native part of tapline. Its names that people use are in `tapline` and `tapline.step`."""

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, Final, Literal, final

from typing_extensions import Self, disjoint_base

VERSION: Final[str]
"""The version of the package."""

def read(source: object, known: Mapping[str, object] | None) -> Iterator[Record]: ...
def steps(source: object, known: Mapping[str, object] | None) -> Iterator[Step]: ...
def report(source: object, known: Mapping[str, object] | None) -> Report: ...
def loads(text: str) -> Any:
    """A JSON text as Python objects, read as leniently as tapline reads lines; None if it is not JSON."""

def summary_of_line(line: str | bytes) -> str | None: ...
def extract_text(line: str | bytes) -> str | None:
    """The text of an assistant message: its text blocks that are not empty, joined with newlines. None for every other line."""

def extract_tool_uses(line: str | bytes) -> list[dict[str, Any]]:
    """The `tool_use` blocks of an assistant message, each as a dict."""

def extract_tool_results(line: str | bytes) -> list[dict[str, Any]]:
    """The `tool_result` blocks of a user message, each as a dict."""

def extract_tool_result_content(tool_result: Mapping[str, Any]) -> str | None:
    """The text of a `tool_result` block: its content, or the first text in the list that it holds."""

def extract_session_id(line: str | bytes) -> str | None:
    """The line's `session_id`, at the top level and not in the message."""

def start(options: Mapping[str, object], ask: Callable[[str, Any, Reply], Callable[[], object]] | None, post: Callable[[Any], object]) -> Run: ...
def open_session(options: Mapping[str, object], ask: Callable[[str, Any, Reply], Callable[[], object]] | None, post: Callable[[Any], object]) -> SessionHandle: ...
def shut_down() -> None: ...

@final
class Reply:
    def set(self, text: str) -> None: ...
    def fail(self, why: str) -> None: ...

@final
class Run:
    def next(self, post: Callable[[Any], object]) -> None: ...
    def finish(self, post: Callable[[Any], object]) -> None: ...
    def interrupt(self) -> None: ...
    def kill(self) -> None: ...

@final
class ConversationHandle:
    def __new__(cls, options: Mapping[str, object], ask: Callable[[str, Any, Reply], Callable[[], object]] | None) -> Self: ...
    def turn(self, prompt: str, limit: float | None, post: Callable[[Any], object]) -> Run: ...

@final
class SessionHandle:
    def turn(
        self,
        message: Mapping[str, object],
        limit: float | None,
        live: bool,
        listen: Callable[[Any], object],
        post: Callable[[Any], object],
    ) -> None: ...
    def send(self, message: Mapping[str, object]) -> str: ...
    def request(self, subtype: str, fields: str, limit: float | None, post: Callable[[Any], object]) -> None: ...
    def next(self, post: Callable[[Any], object]) -> None: ...
    def finish(self, post: Callable[[Any], object]) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...

@final
class Sim:
    def __new__(cls, scenario: str) -> Self: ...
    def url(self) -> str: ...
    def home(self) -> os.PathLike[str]: ...
    def environment(self) -> dict[str, str]: ...
    def requests(self) -> list[dict[str, Any]]: ...
    def failures(self) -> list[str]: ...
    def notes(self) -> list[str]: ...
    def close(self) -> None: ...

@final
class Replay:
    def __new__(
        cls,
        recording: str | os.PathLike[str],
        speed: float | None,
        stop_after: int | None,
        hang_at: int | None,
        drop_result: bool,
        strict: bool,
    ) -> Self: ...
    def program(self) -> os.PathLike[str]: ...
    def close(self) -> None: ...

@final
class Report:
    def part(self, name: str) -> Any: ...
    def calls(self) -> int: ...
    def exit_code(self) -> int: ...
    def to_json(self) -> str: ...
    @staticmethod
    def from_json(text: str) -> Report: ...
    def get(self, path: str) -> str | None: ...

@final
class Record:
    """One line of a stream: its exact bytes, and what they say."""

    @property
    def raw(self) -> bytes:
        """The exact bytes of the line, with its line end. All of them joined are the stream."""

    @property
    def text(self) -> str:
        """The line's text without blanks and the line end."""

    @property
    def kind(self) -> str | None:
        """The line's `type`; None for a line that has none or is not JSON."""

    @property
    def subtype(self) -> str | None:
        """The `subtype` of a `system` line."""

    @property
    def data(self) -> dict[str, Any] | None:
        """The line as a dict, made again at each access; None for a line that is not a JSON object."""

    @property
    def session_id(self) -> str | None:
        """The line's `session_id`, if that is a string and not empty."""

    @property
    def uuid(self) -> str | None:
        """The line's `uuid`."""

    @property
    def parent(self) -> str | None:
        """The call that started the sub-agent that wrote the line; None for the main agent."""

    @property
    def line(self) -> int:
        """The line's number, from 1. Blank lines count."""

    @property
    def time(self) -> datetime | None:
        """When the line arrived, as an aware datetime; None for a plain file, which has no times."""

@disjoint_base
class Step:
    """One thing that happened, with its place in the stream. Its class says what: see `tapline.step`."""

    @property
    def step(self) -> str:
        """What kind of step it is, in a word: `call`, `text`, `turn`, ..."""

    @property
    def line(self) -> int:
        """The line of the stream, from 1."""

    @property
    def at(self) -> str | None:
        """The agent's own timestamp."""

    @property
    def time(self) -> datetime | None:
        """When the line arrived, as an aware datetime; None for a plain file, which has no times."""

    @property
    def parent(self) -> str | None:
        """The call that started the sub-agent; None for the main agent."""

    @property
    def depth(self) -> int:
        """How deep it is in sub-agents: 0 is the main agent."""

    @property
    def turn(self) -> int:
        """The index of its turn, from 0. What comes after a turn has ended belongs to it until the next one begins."""

    @property
    def session_id(self) -> str | None:
        """The session's id, on the first step that knows it, and again when it changes."""

    @property
    def model(self) -> str | None:
        """The model that wrote the message that this is a part of."""

    @property
    def request(self) -> str | None:
        """The API's id of the request that the message answers that this is a part of."""

    @property
    def stop_reason(self) -> str | None:
        """Why the message that this is a part of ended."""

    @property
    def usage(self) -> dict[str, Any] | None:
        """What the message used that this is a part of, as the agent writes it. All its steps repeat it: do not add it up."""

    def to_dict(self) -> dict[str, Any]:
        """The step as a dict, with the keys of docs/STEPS.md."""

    def to_json(self) -> str:
        """The step as one line of JSON, as `tapline convert --to steps` writes it."""

    @staticmethod
    def from_json(text: str) -> Step:
        """Reads a step back from its JSON."""

@final
class Session(Step):
    """A session (or a thread, as some agents call it) or another turn of it started."""

    __match_args__: ClassVar[tuple[Literal["id"], Literal["model"]]] = ("id", "model")

    @property
    def agent(self) -> str | None:
        """The agent: `claude` or `codex`."""

    @property
    def id(self) -> str | None:
        """The id with which it can be resumed."""

    @property
    def first(self) -> bool:
        """Whether this is the first start in the stream and not another turn."""

    @property
    def model(self) -> str | None:
        """The model."""

    @property
    def cwd(self) -> str | None:
        """The working directory."""

    @property
    def cli_version(self) -> str | None:
        """The agent's version."""

    @property
    def permission_mode(self) -> str | None:
        """What it may do without asking."""

    @property
    def api_key_source(self) -> str | None:
        """The source of its API key: a label, not a secret."""

    @property
    def tools(self) -> list[str]:
        """Its tools."""

    @property
    def mcp_servers(self) -> list[dict[str, Any]]:
        """Its MCP servers: dicts with `name` and `status`."""

    @property
    def agents(self) -> list[str]:
        """Its kinds of sub-agent."""

    @property
    def skills(self) -> list[str]:
        """Its skills."""

    @property
    def plugins(self) -> list[dict[str, Any]]:
        """Its plugins: dicts with `name`."""

    @property
    def output_style(self) -> str | None:
        """The output style."""

    @property
    def fast_mode_state(self) -> str | None:
        """The state of fast mode."""


@final
class Prompt(Step):
    """A person or program sent the agent a prompt."""

    __match_args__: ClassVar[tuple[Literal["text"]]] = ("text",)

    @property
    def text(self) -> str:
        """The prompt."""


@final
class Text(Step):
    """The agent wrote something: the complete text."""

    __match_args__: ClassVar[tuple[Literal["text"]]] = ("text",)

    @property
    def text(self) -> str:
        """The text."""

    @property
    def message_id(self) -> str | None:
        """The message it belongs to."""

    @property
    def uuid(self) -> str | None:
        """The uuid of its event, by which it can be withdrawn."""

    @property
    def aborted(self) -> bool:
        """Whether an interrupt cut it short."""


@final
class Thinking(Step):
    """The agent had a thought."""

    __match_args__: ClassVar[tuple[Literal["text"]]] = ("text",)

    @property
    def text(self) -> str:
        """The text."""

    @property
    def message_id(self) -> str | None:
        """The message it belongs to."""

    @property
    def uuid(self) -> str | None:
        """The uuid of its event, by which it can be withdrawn."""

    @property
    def aborted(self) -> bool:
        """Whether an interrupt cut it short."""


@final
class Call(Step):
    """The agent called a tool."""

    __match_args__: ClassVar[tuple[Literal["name"], Literal["title"]]] = ("name", "title")

    @property
    def id(self) -> str | None:
        """The id that its result refers to."""

    @property
    def name(self) -> str:
        """The tool."""

    @property
    def doing(self) -> str:
        """What it does, as a verb: running, reading, ..."""

    @property
    def done(self) -> str:
        """The same in the past tense: ran, read, ..."""

    @property
    def title(self) -> str:
        """Its main input, on one line."""

    @property
    def input(self) -> dict[str, Any] | None:
        """Its input, if that is an object."""

    @property
    def message_id(self) -> str | None:
        """The message it belongs to."""


@final
class Answer(Step):
    """A call has a result."""

    __match_args__: ClassVar[tuple[Literal["name"], Literal["status"]]] = ("name", "status")

    @property
    def id(self) -> str | None:
        """The call's id."""

    @property
    def name(self) -> str | None:
        """The call's tool."""

    @property
    def title(self) -> str | None:
        """The call's title."""

    @property
    def done(self) -> str | None:
        """What the call did: ran, read, ..."""

    @property
    def status(self) -> Literal["ok", "error", "denied", "pending"]:
        """How it ended: `ok`, `error` or `denied`."""

    @property
    def text(self) -> str:
        """The result, as text."""

    @property
    def is_error(self) -> bool:
        """Whether `is_error` was literally true."""

    @property
    def ended(self) -> Literal["cancelled", "interrupted", "unknown"] | None:
        """How it ended, if the agent says that it did not end by itself: `cancelled`, `interrupted` or `unknown`."""

    @property
    def denial(self) -> dict[str, Any] | None:
        """Who denied it and why, if that was known by then: a dict with `by` and `reason`."""

    @property
    def block(self) -> int:
        """Its index in the event."""

    @property
    def duration_ms(self) -> int | None:
        """The time from the call to this result, in milliseconds."""


@final
class Orphan(Step):
    """A result came for a call that was never seen."""

    __match_args__: ClassVar[tuple[Literal["id"]]] = ("id",)

    @property
    def id(self) -> str | None:
        """The id of the call that is missing."""

    @property
    def status(self) -> Literal["ok", "error", "denied", "pending"]:
        """How it ended: `ok`, `error` or `denied`."""

    @property
    def text(self) -> str:
        """The result, as text."""

    @property
    def is_error(self) -> bool:
        """Whether `is_error` was literally true."""

    @property
    def block(self) -> int:
        """Its index in the event."""


@final
class ServerCall(Step):
    """The API itself ran a tool."""

    __match_args__: ClassVar[tuple[Literal["name"]]] = ("name",)

    @property
    def id(self) -> str | None:
        """The id that its result refers to."""

    @property
    def name(self) -> str | None:
        """The tool."""

    @property
    def input(self) -> Any:
        """Its input."""


@final
class ServerAnswer(Step):
    """The result of a tool that the API ran."""

    __match_args__: ClassVar[tuple[Literal["tool_use_id"]]] = ("tool_use_id",)

    @property
    def tool_use_id(self) -> str | None:
        """The call's id."""

    @property
    def content(self) -> Any:
        """The result."""


@final
class Partial(Step):
    """A part of a message that is still being written."""

    __match_args__: ClassVar[tuple[Literal["text"]]] = ("text",)

    @property
    def part(self) -> str:
        """Which part: `delta`, `message_start`, `block_start`, `block_stop`, `message_delta`, `message_stop`."""

    @property
    def index(self) -> int | None:
        """The block's place in the message."""

    @property
    def kind(self) -> str | None:
        """Of a delta what it adds to: `text`, `thinking` or `json`; of a block its type."""

    @property
    def text(self) -> str:
        """What a delta adds; else empty."""

    @property
    def name(self) -> str | None:
        """The tool of a block that starts a call."""

    @property
    def message_id(self) -> str | None:
        """The id of a message that starts."""

    @property
    def stop_reason(self) -> str | None:
        """Why the message ends."""

    @property
    def output_tokens(self) -> int | None:
        """The tokens the message took."""


@final
class Retracted(Step):
    """The agent withdrew earlier messages."""

    __match_args__: ClassVar[tuple[Literal["uuids"]]] = ("uuids",)

    @property
    def uuids(self) -> list[str]:
        """Their uuids."""


@final
class Turn(Step):
    """A turn ended. The run may continue."""

    __match_args__: ClassVar[tuple[Literal["subtype"], Literal["result"]]] = ("subtype", "result")

    @property
    def index(self) -> int:
        """Its index among the turns, from 0."""

    @property
    def subtype(self) -> str | None:
        """`success`, `error_max_turns`, ... (other agents: `completed`, `failed`)"""

    @property
    def is_error(self) -> bool:
        """Whether `is_error` was literally true."""

    @property
    def result(self) -> str | None:
        """The agent's final text."""

    @property
    def errors(self) -> Any:
        """The errors, if the agent lists them."""

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped."""

    @property
    def terminal_reason(self) -> str | None:
        """Why the turn ended."""

    @property
    def api_error_status(self) -> int | float | None:
        """The API's HTTP status."""

    @property
    def num_turns(self) -> int | float | None:
        """Requests to the model, as the agent counts them."""

    @property
    def duration_ms(self) -> int | float | None:
        """The duration of the turn, as the agent counts it."""

    @property
    def duration_api_ms(self) -> int | float | None:
        """The time spent waiting for the model."""

    @property
    def permission_denials(self) -> list[Any]:
        """Denied calls, unchanged."""

    @property
    def structured_output(self) -> Any:
        """The structured answer."""

    @property
    def deferred_tool_use(self) -> Any:
        """A deferred call."""

    @property
    def uuid(self) -> str | None:
        """The uuid of the result."""

    @property
    def origin(self) -> Any:
        """What started the turn."""

    @property
    def error(self) -> Any:
        """`error`, unchanged."""

    @property
    def failed(self) -> bool:
        """Whether the turn failed."""

    @property
    def message(self) -> str | None:
        """The error message for people."""

    @property
    def repeats_text(self) -> bool:
        """Whether the result repeats the last text."""

    @property
    def category(self) -> str | None:
        """Why the turn failed."""

    @property
    def so_far(self) -> dict[str, Any]:
        """The totals of all turns up to this one."""

    @property
    def thread_usage(self) -> Any:
        """What the turn's thread has used so far, unchanged, if the agent counts by thread."""

    @property
    def usage(self) -> dict[str, Any]:
        """The tokens of this turn's main thread; further keys are unchanged."""

    @property
    def total_cost_usd(self) -> Any:
        """The total the agent reported."""

    @property
    def model_usage(self) -> Any:
        """What the agent reported for each model."""

    @property
    def cost_usd(self) -> float | None:
        """What this turn cost."""

    @property
    def elapsed_ms(self) -> int | None:
        """The time from the turn's prompt or first event to its end, as it arrived."""

    @property
    def own(self) -> dict[str, Any]:
        """What else the agent says of the turn, unchanged."""


@final
class Retry(Step):
    """The agent retries a request to the model."""

    __match_args__: ClassVar[tuple[Literal["status"], Literal["error"]]] = ("status", "error")

    @property
    def attempt(self) -> int | float | None:
        """The number of the attempt."""

    @property
    def max(self) -> int | float | None:
        """The maximum number of attempts."""

    @property
    def delay_ms(self) -> int | float | None:
        """The wait before it."""

    @property
    def status(self) -> int | float | None:
        """The HTTP status."""

    @property
    def error(self) -> str | None:
        """What went wrong."""


@final
class RateLimit(Step):
    """How much of a subscription's limit is used up."""

    __match_args__: ClassVar[tuple[Literal["status"]]] = ("status",)

    @property
    def status(self) -> str | None:
        """`allowed`, `allowed_warning`, `rejected`"""

    @property
    def limit_type(self) -> str | None:
        """Which limit."""

    @property
    def resets_at(self) -> str | None:
        """When it resets, RFC 3339."""

    @property
    def utilization(self) -> float | None:
        """How much is used, 0 to 1."""

    @property
    def info(self) -> dict[str, Any] | None:
        """The unchanged `rate_limit_info`."""


@final
class Task(Step):
    """A background task started, changed or ended."""

    __match_args__: ClassVar[tuple[Literal["id"], Literal["status"]]] = ("id", "status")

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def status(self) -> str:
        """running, pending, paused, completed, failed, stopped, killed, ..."""

    @property
    def terminal(self) -> bool:
        """Whether it has ended."""

    @property
    def description(self) -> str | None:
        """Its description."""

    @property
    def type(self) -> str | None:
        """Its type."""

    @property
    def tool_use_id(self) -> str | None:
        """The call that started it."""

    @property
    def summary(self) -> str | None:
        """What it is doing, or has done."""

    @property
    def duration_ms(self) -> int | None:
        """How long it took, once it has ended."""


@final
class Hook(Step):
    """A hook started or ended."""

    __match_args__: ClassVar[tuple[Literal["name"], Literal["outcome"]]] = ("name", "outcome")

    @property
    def id(self) -> str | None:
        """The id that its end refers to."""

    @property
    def name(self) -> str | None:
        """Its name."""

    @property
    def event(self) -> str | None:
        """The event that triggered it."""

    @property
    def outcome(self) -> str | None:
        """How it ended; None while it runs."""

    @property
    def exit_code(self) -> int | float | None:
        """Its exit code."""


@final
class Denied(Step):
    """A call was denied."""

    __match_args__: ClassVar[tuple[Literal["name"], Literal["message"]]] = ("name", "message")

    @property
    def id(self) -> str | None:
        """The call."""

    @property
    def name(self) -> str | None:
        """The tool."""

    @property
    def title(self) -> str | None:
        """Its main input, on one line."""

    @property
    def message(self) -> str | None:
        """The reason."""

    @property
    def denial(self) -> dict[str, Any] | None:
        """Who denied it and why, as far as it is known: a dict with `by` and `reason`."""

    @property
    def answer_follows(self) -> bool:
        """Whether a result with the denial follows."""


@final
class Question(Step):
    """The agent asks the program that started it, and waits."""

    __match_args__: ClassVar[tuple[Literal["kind"], Literal["about"]]] = ("kind", "about")

    @property
    def request_id(self) -> str | None:
        """The request's id."""

    @property
    def kind(self) -> str:
        """`can_use_tool`, `hook_callback`, ..."""

    @property
    def about(self) -> str | None:
        """What it asks about, on one line."""

    @property
    def tool(self) -> str | None:
        """The tool, if it asks whether one may run."""

    @property
    def input(self) -> Any:
        """The whole input of the call."""

    @property
    def tool_use_id(self) -> str | None:
        """The id of the call."""


@final
class Progress(Step):
    """A tool is still running."""

    __match_args__: ClassVar[tuple[Literal["name"], Literal["elapsed"]]] = ("name", "elapsed")

    @property
    def id(self) -> str | None:
        """The call."""

    @property
    def name(self) -> str | None:
        """The tool."""

    @property
    def elapsed(self) -> float | None:
        """How long it has been running, in seconds."""


@final
class Item(Step):
    """An item, unchanged, from an agent that reports its work in items."""

    __match_args__: ClassVar[tuple[Literal["phase"], Literal["item"]]] = ("phase", "item")

    @property
    def phase(self) -> Literal["started", "updated", "completed"]:
        """How far it is: `started`, `updated` or `completed`."""

    @property
    def item(self) -> dict[str, Any]:
        """Its fields."""

    @property
    def thread(self) -> int:
        """The number of the thread, from 1: each process starts again at its first item."""


@final
class Error(Step):
    """An error of the agent or the model that does not end the turn by itself."""

    __match_args__: ClassVar[tuple[Literal["text"]]] = ("text",)

    @property
    def text(self) -> str:
        """The name or text of the error."""


@final
class Notice(Step):
    """Something a person may want to know."""

    __match_args__: ClassVar[tuple[Literal["text"]]] = ("text",)

    @property
    def level(self) -> Literal["info", "warning", "error"]:
        """Its importance: `info`, `warning` or `error`."""

    @property
    def kind(self) -> str:
        """The event's type, or `system/<subtype>`."""

    @property
    def text(self) -> str:
        """The text."""


@final
class Quiet(Step):
    """Something that a person need not see: states, acknowledgements and similar."""

    __match_args__: ClassVar[tuple[Literal["kind"]]] = ("kind",)

    @property
    def kind(self) -> str:
        """The event's type, or `system/<subtype>`."""

    @property
    def detail(self) -> str | None:
        """Its state or detail, in a word."""


@final
class Odd(Step):
    """A line that could not be read normally."""

    __match_args__: ClassVar[tuple[Literal["code"], Literal["message"]]] = ("code", "message")

    @property
    def code(self) -> str:
        """The warning's code: `malformed-line`, `unknown-type`, ..."""

    @property
    def message(self) -> str:
        """What is wrong."""

    @property
    def unknown(self) -> str | None:
        """The unknown type, or `item/<type>`."""

    @property
    def text(self) -> str | None:
        """The whole line, if the agent is not known yet and there is nothing else to show."""
