"""Reading streams: lines, steps, reports. Nothing here raises on bad input; only I/O can fail."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, Literal, Union

from . import _native
from ._report import Report

Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, IO[bytes], IO[str], Iterable[bytes], Iterable[str]]
"""A path (of a file or of a recording), bytes, an open file, or an iterable of lines."""

Agent = Literal["claude", "codex"]
Format = Literal["auto", "stream-json", "exec-json", "json"]


def read(
    source: Source, *, agent: Agent | None = None, format: Format = "auto", line_limit: int | None = None
) -> Iterator[_native.Record]:
    """Reads a stream line by line.

    Every line gives a record, also one that is not JSON: its bytes are never lost. `record.data` is made only when it
    is asked for. Lines are handed on as they arrive, so `source` can be the output of a running process. The GIL is
    released while tapline reads.

    >>> for record in tapline.read("run.jsonl"):
    ...     if record.kind == "assistant":
    ...         print(record.data["message"]["content"])

    Raises OSError if `source` cannot be opened or read, and whatever an iterator raises.
    """
    return _native.read(source, {"agent": agent, "format": format, "line_limit": line_limit})


def steps(
    source: Source, *, agent: Agent | None = None, format: Format = "auto", line_limit: int | None = None
) -> Iterator[_native.Step]:
    """Reads what happened, step by step: texts, tool calls, results, turns (see `tapline.step`).

    >>> for step in tapline.steps("run.jsonl"):
    ...     match step:
    ...         case tapline.step.Text(text):
    ...             print(text)
    ...         case tapline.step.Call(name, title):
    ...             print(f"{step.doing}: {title}")

    Raises OSError if `source` cannot be opened or read, and whatever an iterator raises.
    """
    return _native.steps(source, {"agent": agent, "format": format, "line_limit": line_limit})


def report(
    source: Source,
    *,
    agent: Agent | None = None,
    format: Format = "auto",
    line_limit: int | None = None,
    exit_code: int | None = None,
    signal: str | None = None,
    stderr: str | None = None,
    timed_out: bool = False,
    last_message: str | None = None,
    heuristics: bool = True,
) -> Report:
    """Reads a stream to its end and says what happened: verdict, answer, tool calls, cost.

    What a stream does not contain can be given: `exit_code`, `signal` ("SIGTERM"), `stderr`, `timed_out`, and for
    Codex its `last_message`. A recording contains all of it. `heuristics=False` turns off the advisory categories
    (`interactive`, `background_task`).

    >>> report = tapline.report("run.jsonl")
    >>> report.verdict.outcome, report.answer, report.cost_usd

    Raises OSError if `source` cannot be opened or read, and whatever an iterator raises.
    """
    known = {
        "agent": agent,
        "format": format,
        "line_limit": line_limit,
        "exit_code": exit_code,
        "signal": signal,
        "stderr": stderr,
        "timed_out": timed_out,
        "last_message": last_message,
        "heuristics": heuristics,
    }
    return Report(_native.report(source, known))


def tool_summary(tool_use: Mapping[str, Any] | str | bytes) -> str | None:
    """What a tool call does, in a person's words: "running: `ls -la`", "reading: src/main.py".

    Takes a `tool_use` block, or a whole line: then there is one line for each of its calls. None if there is none.
    """
    if isinstance(tool_use, Mapping):
        try:
            line = json.dumps({"type": "assistant", "message": {"content": [dict(tool_use)]}})
        except (TypeError, ValueError, RecursionError):
            return None
        return _native.summary_of_line(line)
    return _native.summary_of_line(tool_use)
