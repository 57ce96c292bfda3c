"""The options of a run: the keyword arguments of `run`, `start` and `Session`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from ._command import command

if TYPE_CHECKING:
    from ._answers import CanUseTool, Hooks, OnElicitation, OnStderr, Tool, ToolServer
    from ._read import Agent

    Seconds = float | timedelta
    Path = str | os.PathLike[str]


class Options(TypedDict, total=False):
    """The keyword arguments of `run`, `start` and `Session`. An option that the agent does not have raises ValueError.

    Which agent, and what it may do:
        agent: "claude" (the default) or "codex".
        model, permission_mode, max_turns, max_budget_usd, system_prompt, append_system_prompt: as the agent's own flags.
        allowed_tools, disallowed_tools: tools that run without asking, tools that may not be used.
        json_schema: a schema for the answer, as a dict or as text; `report.structured` has it.
        mcp_servers: MCP servers by name: a configuration, or a `ToolServer` with functions of this program.
        tools: functions of this program that the agent can call, made with `@tool`.
        add_dirs, extra_args: more folders that the agent may use; more arguments, passed on unchanged.
        partial: also gives messages while they are being written.
        resume, continue_last, fork: which session to continue, and whether in a copy.

    Where it runs:
        program: the agent's program; by default the one on PATH.
        cwd: the working directory.
        env: environment variables to set. clean_env: inherit only what every program needs.

    How long (in seconds, or a timedelta):
        timeout: the whole run. idle_timeout: without output. linger: after the final result (30). grace: between the
        steps of stopping (5). background_timeout: waiting for background tasks (600). request_timeout: the answer to
        a control request (60). answer_within: how long a callback may take before the answer is no (600).

    Functions that answer the agent (plain or async):
        can_use_tool: asked whether a tool may run. permissions: rules that decide before it is asked, as TOML.
        hooks: called at events. on_elicitation: called when an MCP server asks the user for something.
        stderr: a plain function, called with each line that the agent writes to stderr, on a thread of its own, one line after
            the other. What it raises ends the run; in a Session it is raised at the end of the block.

    What is kept:
        label: a name for the report. record: a folder for a recording. redact: without secrets.
        heuristics: False turns off the advisory categories of the verdict.
    """

    agent: Agent
    model: str | None
    permission_mode: str | None
    allowed_tools: Sequence[str]
    disallowed_tools: Sequence[str]
    max_turns: int | None
    max_budget_usd: float | None
    system_prompt: str | None
    append_system_prompt: str | None
    json_schema: Mapping[str, Any] | str | None
    mcp_servers: Mapping[str, Mapping[str, Any] | ToolServer]
    tools: Sequence[Tool]
    add_dirs: Sequence[Path]
    extra_args: Sequence[str]
    partial: bool
    resume: str | None
    continue_last: bool
    fork: bool
    program: Path | None
    cwd: Path | None
    env: Mapping[str, str]
    clean_env: bool
    timeout: Seconds | None
    idle_timeout: Seconds | None
    linger: Seconds | None
    grace: Seconds | None
    background_timeout: Seconds | None
    request_timeout: Seconds | None
    answer_within: Seconds | None
    can_use_tool: CanUseTool | None
    permissions: str | None
    hooks: Hooks
    on_elicitation: OnElicitation | None
    stderr: OnStderr | None
    label: str | None
    record: Path | None
    redact: bool
    heuristics: bool


_LISTS = ("allowed_tools", "disallowed_tools", "add_dirs", "extra_args")


def native(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as Rust reads them: times in seconds, JSON as text, lists as lists."""
    return {"guard": command(), **{key: _native(key, value) for key, value in options.items()}}


def _native(key: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if key in _LISTS and value is not None:
        if isinstance(value, (str, bytes)):
            raise TypeError(f"{key} is a list of texts, not a text")
        return list(value)
    if key == "env" and value is not None:
        return dict(value)
    return json.dumps(value) if key == "json_schema" and not isinstance(value, (str, type(None))) else value
