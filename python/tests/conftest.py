"""What the tests share: fixtures of streams, agents that are scripts, and a look at what is still running."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STREAMS = sorted(path for path in (ROOT / "fixtures").rglob("*.jsonl"))

pytest_plugins = ["pytester"]


def installed(agent: str) -> Path:
    name = f"TAPLINE_{agent.upper()}_BIN"
    program = os.environ.get(name)
    if not program:
        pytest.fail(f"{name} must name the real {agent}: scripts/python sets it")
    return Path(program)


@pytest.fixture
def claude() -> Path:
    """The real Claude Code. scripts/python installs it."""
    return installed("claude")


@pytest.fixture
def codex() -> Path:
    """The real Codex. scripts/python installs it."""
    return installed("codex")


@pytest.fixture
def agent(tmp_path: Path) -> Callable[[str], Path]:
    """Makes an agent that is a script of Python's; `say(object)` writes a line."""

    def make(body: str) -> Path:
        program = tmp_path / f"agent-{uuid.uuid4().hex[:8]}"
        head = "import json, os, signal, subprocess, sys, time\ndef say(line): print(json.dumps(line), flush=True)\n"
        program.write_text(f"#!{sys.executable}\n{head}{body}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    return make


def running(mark: str) -> list[str]:
    """The command lines of all processes that have this mark in theirs."""
    found: list[str] = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if mark in words:
                found.append(words)
    return found


def nothing_is_left(mark: str) -> None:
    """Waits until no process has this mark, apart from a program of Python's that has it in its text."""
    wait_until(lambda: [words for words in running(mark) if "import asyncio" not in words] == [])


def tasks() -> int:
    """How many threads this process has, those of Rust's included."""
    return len(list(Path("/proc/self/task").iterdir()))


def threads() -> list[str]:
    """The threads of Python's that this process has, but for the one that waits for them."""
    dummy = threading._DummyThread  # pyright: ignore
    return [one.name for one in threading.enumerate() if not isinstance(one, dummy) and one is not threading.current_thread()]


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits for something to become true; fails if it does not."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            pytest.fail("it did not happen in time")
        time.sleep(0.02)


@pytest.fixture
def mark() -> str:
    """A number of seconds to sleep that no other process has."""
    return f"98765.{uuid.uuid4().int % 10**9:09}"


INIT = '{"type": "system", "subtype": "init", "session_id": "s-1", "model": "m", "tools": [], "apiKeySource": "none"}'
# Starts a process in a session of its own, says so, and never ends by itself.
STUBBORN = f"""
say({INIT})
say({{"type": "assistant", "message": {{"id": "m1", "role": "assistant", "content": [{{"type": "text", "text": "so far"}}]}}, "session_id": "s-1"}})
subprocess.Popen(["sleep", sys.argv[-1].split("=")[-1]], start_new_session=True)
subprocess.Popen(["sleep", sys.argv[-1].split("=")[-1]])
say({{"type": "assistant", "message": {{"id": "m2", "role": "assistant", "content": [{{"type": "text", "text": "begun"}}]}}, "session_id": "s-1"}})
time.sleep(float(sys.argv[-1].split("=")[-1]))
"""
# Answers, and ends.
GOOD = f"""
sys.stdin.read()
say({INIT})
say({{"type": "assistant", "message": {{"id": "m1", "role": "assistant", "content": [{{"type": "text", "text": "four"}}]}}, "session_id": "s-1"}})
say({{"type": "result", "subtype": "success", "is_error": False, "result": "four", "num_turns": 1, "total_cost_usd": 0.01, "session_id": "s-1", "usage": {{"input_tokens": 3, "output_tokens": 4}}}})
"""
# Speaks the control protocol. For each message it asks for so many permissions at once as the message says, and answers with what it
# was told.
ASKING = f"""
def lines():
    for line in sys.stdin:
        yield json.loads(line)
for line in (all := lines()):
    if line["type"] == "control_request":
        if line["request"]["subtype"] == "never": continue
        answer = {{"subtype": "success", "request_id": line["request_id"], "response": {{"asked": line["request"]}}}}
        if line["request"]["subtype"] == "refuse": answer = {{"subtype": "error", "request_id": line["request_id"], "error": "not today"}}
        say({{"type": "control_response", "response": answer}})
    if line["type"] != "user": continue
    say({INIT})
    who, count = line["message"]["content"].split()
    for n in range(int(count)):
        say({{"type": "control_request", "request_id": f"{{who}}-{{n}}", "request": {{"subtype": "can_use_tool", "tool_name": "Bash", "input": {{"command": f"{{who}} {{n}}"}}, "tool_use_id": f"{{who}}-{{n}}"}}}})
    told = {{}}
    while len(told) < int(count):
        line = next(all)
        if line["type"] == "control_response":
            told[line["response"]["request_id"]] = line["response"]["response"]
    say({{"type": "result", "subtype": "success", "is_error": False, "result": json.dumps(told), "num_turns": 1, "session_id": "s-1"}})
"""
# The same, with a process in a session of its own.
ASKING_WITH_A_CHILD = f"""
(seconds,) = [word.split("=")[1] for word in sys.argv if word.startswith("--sleep=")]
subprocess.Popen(["sleep", seconds], start_new_session=True)
{ASKING}"""
