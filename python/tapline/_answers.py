"""Functions of this program that answer what the agent asks: permissions, hooks, tools. What an answer means is decided in Rust."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Literal, Protocol, cast

from . import _native

logger = logging.getLogger("tapline")


@dataclass(frozen=True, slots=True)
class Allow:
    """The tool may run, with other input if `updated_input` is given; `updated_permissions` is what the agent shall remember."""

    updated_input: Mapping[str, Any] | None = None
    updated_permissions: Sequence[Mapping[str, Any]] | None = None
    behavior: Literal["allow"] = "allow"


@dataclass(frozen=True, slots=True)
class Deny:
    """The tool may not run. The model reads the message; `interrupt` also ends the turn."""

    message: str = ""
    interrupt: bool = False
    behavior: Literal["deny"] = "deny"


class PermissionAnswer(Protocol):
    """What answers a permission question: `Allow`, `Deny`, or the result classes of the official SDK."""

    @property
    def behavior(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionContext:
    """What else the agent says of a call that it asks about. `request` has all of it."""

    tool_use_id: str | None = None
    suggestions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    agent_id: str | None = None
    blocked_path: str | None = None
    decision_reason: str | None = None
    title: str | None = None
    display_name: str | None = None
    description: str | None = None
    request: dict[str, Any] = field(default_factory=dict[str, Any])


HookFunction = Callable[[dict[str, Any], "str | None", dict[str, Any]], "Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None"]
CanUseTool = Callable[[str, dict[str, Any], PermissionContext], "Awaitable[PermissionAnswer | bool] | PermissionAnswer | bool"]
OnElicitation = Callable[[dict[str, Any]], "Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None"]
OnStderr = Callable[[str], object]
Handler = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class HookMatcher:
    """Hooks for some tools: `matcher` is `Bash`, `Write|Edit`, a regular expression; None for all. `timeout` is how many
    seconds each of them may take, in place of `answer_within`."""

    matcher: str | None = None
    hooks: Sequence[HookFunction] = ()
    timeout: float | None = None


Hooks = Mapping[str, "Sequence[HookMatcher | HookFunction]"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of this program that the agent can call. Made with `@tool`."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    handler: Callable[[dict[str, Any]], object]


def tool(
    name: str, description: str, input_schema: Mapping[str, Any]
) -> Callable[[Callable[[dict[str, Any]], object]], Tool]:
    """Makes a tool of a plain or async function, which gets its arguments as a dict.

    `input_schema` is a JSON schema of an object, or short: `{"a": float, "b": float}`. The function returns a text, or
    content blocks: `{"content": [{"type": "text", "text": "..."}], "is_error": False}`. What it raises, the model reads.

    >>> @tapline.tool("add", "Adds two numbers", {"a": float, "b": float})
    ... async def add(args):
    ...     return str(args["a"] + args["b"])
    """
    return lambda handler: Tool(name, description, input_schema, handler)


@dataclass(frozen=True, slots=True)
class ToolServer:
    """Tools under a name of their own: the agent calls them `mcp__NAME__TOOL`."""

    tools: Sequence[Tool]


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def _schema(given: Mapping[str, Any]) -> dict[str, Any]:
    if given.get("type") == "object" or "$schema" in given:
        return dict(given)
    wrong = [name for name, kind in given.items() if kind not in _TYPES and not isinstance(kind, Mapping)]
    if wrong:
        raise TypeError(f"input_schema: the type of {wrong[0]} is one of str, int, float, bool, list, dict, or a JSON schema")
    properties = {name: {"type": _TYPES[kind]} if kind in _TYPES else kind for name, kind in given.items()}
    return {"type": "object", "properties": properties, "required": list(given)}


def handlers(options: dict[str, Any]) -> dict[str, Handler]:
    """Takes the functions out of the options: each by the key by which Rust asks for it, its answer as JSON."""
    found: dict[str, Handler] = {}
    if options.get("can_use_tool") is not None:
        can_use_tool = options["can_use_tool"]
        found["can_use_tool"] = lambda request: can_use_tool(
            request.get("tool_name") or "", request.get("input") or {}, _context(request)
        )
        options["can_use_tool"] = True
    if options.get("on_elicitation") is not None:
        found["on_elicitation"] = options["on_elicitation"]
        options["on_elicitation"] = True
    hooks: list[tuple[str, str | None, float | None]] = []
    wanted: Mapping[str, Sequence[Any]] = options.pop("hooks", None) or {}
    for event, matchers in wanted.items():
        for matcher in matchers:
            functions: Sequence[HookFunction] | None = getattr(matcher, "hooks", None)
            for function in [matcher] if functions is None else functions:
                found[f"hook/{len(hooks)}"] = _hook(function)
                hooks.append((event, getattr(matcher, "matcher", None), getattr(matcher, "timeout", None)))
    if hooks:
        options["hooks"] = hooks
    _tools(options, found)
    return found


def _hook(function: HookFunction) -> Handler:
    return lambda question: function(question["input"], question["tool_use_id"], {"signal": None})


def _tools(options: dict[str, Any], found: dict[str, Handler]) -> None:
    servers: dict[str, Sequence[Tool]] = {}
    configured: dict[str, Any] = {}
    given: Mapping[str, Any] = options.pop("mcp_servers", None) or {}
    for name, server in given.items():
        if isinstance(server, ToolServer):
            servers[name] = server.tools
        else:
            configured[name] = server
    own: Sequence[Tool] = options.pop("tools", None) or ()
    if own:
        servers["tapline"] = [*servers.get("tapline", ()), *own]
    if configured:
        options["mcp_config"] = [json.dumps({"mcpServers": configured})]
    if servers:
        options["tool_servers"] = {
            name: [(one.name, one.description, json.dumps(_schema(one.input_schema))) for one in tools]
            for name, tools in servers.items()
        }
    for name, tools in servers.items():
        for one in tools:
            found[f"tool/{name}/{one.name}"] = one.handler


def _context(request: dict[str, Any]) -> PermissionContext:
    known = {one.name for one in dataclasses.fields(PermissionContext)} - {"suggestions", "request"}
    said = {key: value for key, value in request.items() if key in known}
    return PermissionContext(suggestions=request.get("permission_suggestions") or [], request=request, **said)


def answer(key: str, value: object) -> str:
    """What a function returned, as the JSON that goes to the agent."""
    if key == "can_use_tool":
        return json.dumps(_permission(value))
    if key.startswith("tool/"):
        return json.dumps(_tool_result(value))
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise TypeError(f"a dict or None must be returned, not {type(value).__name__}")
    # `continue` and `async` are words of Python's own.
    return json.dumps({name.rstrip("_"): one for name, one in cast("Mapping[str, Any]", value).items()})


def _permission(value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"behavior": "allow" if value else "deny"}
    behavior = getattr(value, "behavior", None)
    if behavior == "allow":
        updates: list[Any] = getattr(value, "updated_permissions", None) or []
        plain = [one.to_dict() if hasattr(one, "to_dict") else dict(one) for one in updates]
        return {"behavior": behavior, "updatedInput": getattr(value, "updated_input", None), "updatedPermissions": plain}
    if behavior == "deny":
        return {"behavior": behavior, "message": getattr(value, "message", ""), "interrupt": getattr(value, "interrupt", False)}
    raise TypeError(f"can_use_tool must return Allow, Deny or a bool, not {type(value).__name__}")


def _tool_result(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": value}]}
    if not isinstance(value, Mapping) or "content" not in value:
        raise TypeError("a tool must return a text or a dict with 'content'")
    result = cast("Mapping[str, Any]", value)
    is_error = bool(result.get("is_error", result.get("isError", False)))
    return {"content": result["content"], "isError": is_error, "structuredContent": result.get("structuredContent")}


def _told(key: str, error: BaseException) -> str:
    """Tells the program of a function that failed, with its traceback; the agent gets one line."""
    logger.error("the function for %s raised %s", key, type(error).__name__, exc_info=error)
    return f"{type(error).__name__}: {error}"


class OnLoop:
    """Runs the functions on an event loop, each in a task of its own."""

    def __init__(self, found: dict[str, Handler], loop: asyncio.AbstractEventLoop) -> None:
        self._found = found
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, key: str, question: Any, reply: _native.Reply) -> Callable[[], object]:
        """Called from a thread of Rust's. Returns how to cancel it, for the same thread."""
        begun: list[asyncio.Task[None]] = []

        def begin() -> None:
            task = self._loop.create_task(self._answer(key, question, reply))
            begun.append(task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        def cancel() -> None:
            for task in begun:
                task.cancel()

        self._loop.call_soon_threadsafe(begin)
        return lambda: self._loop.call_soon_threadsafe(cancel)

    async def _answer(self, key: str, question: Any, reply: _native.Reply) -> None:
        try:
            value = self._found[key](question)
            if inspect.isawaitable(value):
                value = await value
            reply.set(answer(key, value))
        except asyncio.CancelledError:
            reply.fail("it was cancelled")
            raise
        except Exception as error:
            reply.fail(_told(key, error))
        except BaseException as error:
            reply.fail(f"{type(error).__name__}: {error}")
            raise


class OnThread:
    """Runs the functions on the thread that waits for the run, one after the other."""

    def __init__(self, found: dict[str, Handler], jobs: SimpleQueue[Callable[[], None]]) -> None:
        self._found = found
        self._jobs = jobs
        self._closed = threading.Event()

    def close(self) -> None:
        """Calls no function any more: what the agent asks now gets no answer but the end."""
        self._closed.set()

    def ask(self, key: str, question: Any, reply: _native.Reply) -> Callable[[], object]:
        """Called from a thread of Rust's. What has begun on the caller's thread cannot be cancelled."""
        cancelled = threading.Event()

        def job() -> None:
            if not cancelled.is_set() and not self._closed.is_set():
                self._answer(key, question, reply)

        self._jobs.put(job)
        return cancelled.set

    def _answer(self, key: str, question: Any, reply: _native.Reply) -> None:
        try:
            value = self._found[key](question)
            if inspect.isawaitable(value):
                value = _wait_for(value)
            reply.set(answer(key, value))
        except Exception as error:
            reply.fail(_told(key, error))
        except BaseException as error:
            reply.fail(f"{type(error).__name__}: {error}")
            raise


def _wait_for(value: Awaitable[object]) -> object:
    """Waits for what an async function returns, on a loop of its own."""

    async def wait() -> object:
        return await value

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    # This thread's loop is held up by the run, and only one can run in a thread.
    waited: list[object] = []
    thread = threading.Thread(target=lambda: waited.append(asyncio.run(wait())), name="tapline-callback")
    thread.start()
    thread.join()
    if not waited:
        raise RuntimeError("the async function raised: see the traceback above")
    return waited[0]
