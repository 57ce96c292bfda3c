"""Functions of this program that answer what the agent asks: permissions, hooks, tools. What an answer means is decided in Rust."""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

logger = logging.getLogger("tapline")


@dataclass(frozen=True, slots=True)
class Allow:
    """The tool may run, with other input if `updated_input` is given; `updated_permissions` is what the agent should remember."""

    updated_input: Mapping[str, Any] | None = None
    updated_permissions: Sequence[Mapping[str, Any]] | None = None
    behavior: Literal["allow"] = "allow"


@dataclass(frozen=True, slots=True)
class Deny:
    """The tool may not run. The model reads the message; `interrupt` also ends the turn."""

    message: str = ""
    interrupt: bool = False
    behavior: Literal["deny"] = "deny"


@dataclass(frozen=True, slots=True)
class Answers:
    """What the agent asks the user (`AskUserQuestion`) has these answers: for each question of `input["questions"]` the label of an option, several, or words of your own."""

    answers: Mapping[str, str | Sequence[str]]
    behavior: Literal["allow"] = "allow"


class PermissionAnswer(Protocol):
    """What answers a permission question: `Allow`, `Deny`, `Answers`, or the result classes of the official SDK."""

    @property
    def behavior(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionContext:
    """More about the call that the agent asks about. `request` has everything that it sent."""

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


@dataclass(frozen=True, slots=True)
class Handler:
    """A function of this program, and what it is called with."""

    function: Callable[..., object]
    arguments: Callable[[Any], tuple[Any, ...]] = lambda question: (question,)

    @property
    def is_async(self) -> bool:
        """Whether it can be seen that the function is async. One that is not may still return an awaitable."""
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(getattr(self.function, "__call__", None))

    def __call__(self, question: Any) -> object:
        return self.function(*self.arguments(question))


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
    content blocks: `{"content": [{"type": "text", "text": "..."}], "is_error": False}`. If it raises, the model reads the error.

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
        found["can_use_tool"] = Handler(
            options["can_use_tool"], lambda request: (request.get("tool_name") or "", request.get("input") or {}, _context(request))
        )
        options["can_use_tool"] = True
    if options.get("on_elicitation") is not None:
        found["on_elicitation"] = Handler(options["on_elicitation"])
        options["on_elicitation"] = True
    hooks: list[tuple[str, str | None, float | None]] = []
    wanted: Mapping[str, Sequence[Any]] = options.pop("hooks", None) or {}
    for event, matchers in wanted.items():
        for matcher in matchers:
            functions: Sequence[HookFunction] | None = getattr(matcher, "hooks", None)
            for function in [matcher] if functions is None else functions:
                found[f"hook/{len(hooks)}"] = Handler(function, _asked_of_a_hook)
                hooks.append((event, getattr(matcher, "matcher", None), getattr(matcher, "timeout", None)))
    if hooks:
        options["hooks"] = hooks
    _tools(options, found)
    return found


def _asked_of_a_hook(question: Any) -> tuple[Any, ...]:
    return question["input"], question["tool_use_id"], {"signal": None}


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
            found[f"tool/{name}/{one.name}"] = Handler(one.handler)


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
    if isinstance(value, Answers):
        return {"behavior": "allow", "answers": {asked: [one] if isinstance(one, str) else list(one) for asked, one in value.answers.items()}}
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
