"""Functions of the program that block for ever, raise or end the program: the run ends in time, and says where they were."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tapline
from tapline._calling import Listener

from conftest import ASKING, ASKING_WITH_A_CHILD, GOOD, INIT, nothing_is_left, running, tasks, threads, wait_until

Make = Callable[[str], Path]
KINDS = ["plain", "async", "returns an awaitable"]
WAYS = ["run", "start", "Session"]


def use(way: str, program: Path, message: str, **options: Any) -> str | None:
    """The agent's answer to a message, in one of the ways to run it."""

    async def main() -> str | None:
        if way == "start":
            return (await tapline.start(message, program=program, **options)).answer
        async with tapline.Session(program=program, **options) as session:
            return (await session.turn(message)).answer

    return tapline.run(message, program=program, **options).answer if way == "run" else asyncio.run(main())


def one_of(kind: str, plain: Callable[[], bool], asynchronous: Callable[[], Any]) -> Any:
    """The same function, of each kind."""

    async def ask(*_: object) -> bool:
        return bool(await asynchronous())

    return {"plain": lambda *_: plain(), "async": ask, "returns an awaitable": lambda *_: ask()}[kind]


@pytest.fixture
def block() -> Iterator[Callable[[], bool]]:
    """Blocks its thread until the test is over."""
    over = threading.Event()

    def block_for_ever() -> bool:
        return over.wait()

    yield block_for_ever
    over.set()
    wait_until(lambda: threads() == [])


async def wait_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_one_that_blocks_for_ever_is_denied_in_time(
    agent: Make, block: Callable[[], bool], caplog: pytest.LogCaptureFixture, way: str, kind: str
) -> None:
    ask = one_of(kind, block, wait_for_ever)
    told = json.loads(use(way, agent(ASKING), "w 2", can_use_tool=ask, answer_within=0.3) or "")
    assert all(answer["behavior"] == "deny" and "no answer within 300ms" in answer["message"] for answer in told.values())
    # Where it was, as Python shows it, and from its own line on.
    wait_until(lambda: "the function for can_use_tool has not answered" in caplog.text)
    (first, *_) = [record.getMessage() for record in caplog.records if "has not answered" in record.getMessage()]
    said, head, frame, *_ = first.splitlines()
    assert "nobody waits" in said and head == "Traceback (most recent call last):"
    assert f'File "{__file__}"' in frame
    assert ("in block_for_ever" if kind == "plain" else "in wait_for_ever") in first


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("way", WAYS)
def test_one_that_blocks_for_ever_does_not_outlast_the_run(
    agent: Make, mark: str, block: Callable[[], bool], caplog: pytest.LogCaptureFixture, way: str, kind: str
) -> None:
    begun = threading.Event()

    def plain() -> bool:
        begun.set()
        return block()

    async def asynchronous() -> None:
        begun.set()
        await wait_for_ever()

    options: dict[str, Any] = {"timeout": 5, "grace": 0.2, "extra_args": [f"--sleep={mark}"]}
    try:
        use(way, agent(ASKING_WITH_A_CHILD), "w 1", can_use_tool=one_of(kind, plain, asynchronous), **options)
    except tapline.SessionError:
        assert way == "Session"
    assert begun.is_set() and running(mark) == []
    wait_until(lambda: "Traceback (most recent call last)" in caplog.text)


@pytest.mark.parametrize("way", WAYS)
def test_an_async_one_that_does_not_let_itself_be_cancelled(agent: Make, way: str) -> None:
    over = threading.Event()

    async def ask(*_: object) -> bool:
        while not over.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                pass
        return True

    async def all_of_it() -> str | None:
        # asyncio.run waits for all tasks at its end.
        told = await asyncio.to_thread(use, "run", program, "w 1", **options) if way == "run" else await on_the_loop()
        over.set()
        return told

    async def on_the_loop() -> str | None:
        if way == "start":
            return (await tapline.start("w 1", program=program, **options)).answer
        async with tapline.Session(program=program, **options) as session:
            return (await session.turn("w 1")).answer

    program = agent(ASKING)
    options: dict[str, Any] = {"can_use_tool": ask, "answer_within": 0.3}
    assert "no answer within 300ms" in (asyncio.run(all_of_it()) or "")
    wait_until(lambda: threads() == [])


def test_run_is_not_held_up_by_an_async_one_that_never_awaits(agent: Make, block: Callable[[], bool], caplog: pytest.LogCaptureFixture) -> None:
    async def ask(*_: object) -> bool:
        return block()

    assert "no answer within" in (use("run", agent(ASKING), "w 1", can_use_tool=ask, answer_within=0.3) or "")
    wait_until(lambda: "in block_for_ever" in caplog.text)


@pytest.mark.parametrize("way", ["start", "Session"])
def test_who_blocks_the_loop_itself_is_told_where(agent: Make, caplog: pytest.LogCaptureFixture, way: str) -> None:
    async def ask(*_: object) -> bool:
        # Nothing but this can end it: it holds the program's own loop.
        wait_until(lambda: "has not answered" in caplog.text)
        return True

    assert "no answer within" in (use(way, agent(ASKING), "w 1", can_use_tool=ask, answer_within=0.3) or "")
    assert f'File "{__file__}"' in caplog.text and "in ask" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_one_that_raises_denies_and_says_where(agent: Make, caplog: pytest.LogCaptureFixture, way: str, kind: str) -> None:
    def plain() -> bool:
        raise LookupError("no such rule")

    async def asynchronous() -> None:
        plain()

    told = json.loads(use(way, agent(ASKING), "w 2", can_use_tool=one_of(kind, plain, asynchronous)) or "")
    said = "the permission callback raised LookupError: no such rule"
    assert [(answer["behavior"], answer["message"]) for answer in told.values()] == [("deny", said)] * 2
    (first, *_) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "can_use_tool raised LookupError" in first.getMessage()
    assert "in plain" in caplog.text, "the traceback leads into the callback"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", [SystemExit(7), KeyboardInterrupt("enough")], ids=["SystemExit", "KeyboardInterrupt"])
def test_one_that_ends_the_program_does(agent: Make, mark: str, way: str, kind: str, error: BaseException) -> None:
    def plain() -> bool:
        raise error

    async def asynchronous() -> None:
        plain()

    with pytest.raises(type(error)) as caught:
        use(way, agent(ASKING_WITH_A_CHILD), "w 1", can_use_tool=one_of(kind, plain, asynchronous), grace=0.2, extra_args=[f"--sleep={mark}"])
    assert caught.value is error, "it is the same exception, with its traceback"
    nothing_is_left(mark)


def test_run_inside_a_running_loop(agent: Make, caplog: pytest.LogCaptureFixture) -> None:
    async def ask(*_: object) -> bool:
        raise LookupError("no such rule")

    async def main() -> str | None:
        return use("run", agent(ASKING), "w 1", can_use_tool=ask)

    assert "LookupError: no such rule" in (asyncio.run(main()) or "") and "can_use_tool raised LookupError" in caplog.text


WHERE: contextvars.ContextVar[str] = contextvars.ContextVar("WHERE", default="nowhere")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_context_variables_are_those_of_the_caller(agent: Make, way: str, kind: str) -> None:
    seen: list[str] = []

    def plain() -> bool:
        seen.append(WHERE.get())
        WHERE.set("changed by the callback")
        return True

    async def asynchronous() -> bool:
        return plain()

    token = WHERE.set("the caller")
    try:
        use(way, agent(ASKING), "w 2", can_use_tool=one_of(kind, plain, asynchronous))
    finally:
        WHERE.reset(token)
    assert seen == ["the caller"] * 2


@pytest.mark.parametrize("way", WAYS)
def test_plain_functions_of_a_run_are_called_one_after_the_other(agent: Make, way: str) -> None:
    inside: list[int] = []
    names: set[str] = set()

    def ask(*_: object) -> bool:
        inside.append(1)
        names.add(threading.current_thread().name)
        # Time enough for another to come in.
        time.sleep(0.01)
        assert len(inside) == 1
        inside.pop()
        return True

    told = json.loads(use(way, agent(ASKING), "w 10", can_use_tool=ask) or "")
    assert [answer["behavior"] for answer in told.values()] == ["allow"] * 10 and names == {"tapline-callback"}


def test_plain_functions_of_a_hundred_sessions_take_no_thread_each(agent: Make) -> None:
    program = agent(ASKING)
    most = 0

    async def one(n: int) -> None:
        def ask(tool: str, input: dict[str, Any], context: tapline.PermissionContext) -> tapline.PermissionAnswer:
            nonlocal most
            most = max(most, tasks())
            return tapline.Deny(f"no to {input['command']} from {n}")

        async with tapline.Session(program=program, can_use_tool=ask) as session:
            told = json.loads((await session.turn(f"w{n} 20")).answer)
        assert {key: answer["message"] for key, answer in told.items()} == {f"w{n}-{k}": f"no to w{n} {k} from {n}" for k in range(20)}

    async def main() -> int:
        await one(100)
        before = tasks()
        await asyncio.gather(*(one(n) for n in range(100)))
        return most - before

    # Those for functions, and by how many the pool of the runtime may grow. A thread a session would be a hundred.
    assert asyncio.run(main()) < 50
    wait_until(lambda: threads() == [])


def test_blocked_ones_do_not_use_up_the_threads(agent: Make, block: Callable[[], bool]) -> None:
    program = agent(ASKING)

    async def one(**options: Any) -> str:
        async with tapline.Session(program=program, **options) as session:
            return (await session.turn("w 1")).answer

    async def main() -> None:
        blocked = await asyncio.gather(*(one(can_use_tool=lambda *_: block(), answer_within=1) for _ in range(20)))
        assert all("no answer within 1s" in answer for answer in blocked)
        assert "allow" in await one(can_use_tool=lambda *_: True)

    asyncio.run(main())


# Writes lines to stderr while it answers.
NOISY = f"for n in range(20): print('line', n, file=sys.stderr, flush=True)\n{ASKING}"


def follow(way: str, program: Path, **options: Any) -> None:
    """Reads all that a run says, in one of the ways to run it."""

    async def main() -> None:
        if way == "start":
            async with tapline.start("w 1", program=program, **options) as run:
                assert [one async for one in run]
        else:
            async with tapline.Session(program=program, **options) as session:
                assert [one async for one in session.turn("w 1")]

    options["can_use_tool"] = lambda *_: True
    if way == "run":
        assert tapline.run("w 1", program=program, **options).ok
    else:
        asyncio.run(main())


@pytest.mark.parametrize("way", WAYS)
def test_one_for_stderr_that_blocks_for_ever_does_not_hold_up_the_run(
    agent: Make, block: Callable[[], bool], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr("tapline._calling.PATIENCE", 0.2)
    told: list[str] = []

    def listen(line: str) -> None:
        told.append(line)
        block()

    follow(way, agent(NOISY), stderr=listen)
    assert told == ["line 0"]
    wait_until(lambda: "the function for stderr has not returned" in caplog.text)
    assert "Lines that it was not told of: 19." in caplog.text and "in block_for_ever" in caplog.text


@pytest.mark.parametrize("way", WAYS)
def test_one_for_stderr_is_told_of_all_lines_in_order(agent: Make, way: str) -> None:
    told: list[str] = []

    def listen(line: str) -> None:
        # Slower than the lines come.
        time.sleep(0.01)
        told.append(line)

    follow(way, agent(NOISY), stderr=listen)
    assert told == [f"line {n}" for n in range(20)]


@pytest.mark.parametrize("way", WAYS)
def test_what_one_for_stderr_raises_is_raised(agent: Make, mark: str, way: str) -> None:
    error = LookupError("no such log")

    def listen(line: str) -> None:
        raise error

    with pytest.raises(LookupError) as caught:
        follow(way, agent(NOISY), stderr=listen)
    assert caught.value is error


# Writes a line to stderr, and never ends by itself.
WAITING = f"print('line', file=sys.stderr, flush=True)\nsay({INIT})\ntime.sleep(1000)"


def test_blocked_ones_for_stderr_leave_the_threads_to_the_others(agent: Make, block: Callable[[], bool], caplog: pytest.LogCaptureFixture) -> None:
    blocked: list[str] = []

    def listen(line: str) -> None:
        blocked.append(line)
        block()

    async def read(program: Path) -> None:
        async with tapline.start("x", program=program, stderr=listen, grace=0.2) as run:
            assert [one async for one in run]

    async def main() -> str | None:
        tasks = [asyncio.create_task(read(agent(WAITING))) for _ in range(16)]
        while len(blocked) < 16:
            await asyncio.sleep(0.02)
        try:
            options: dict[str, Any] = {"can_use_tool": lambda *_: True, "answer_within": 10}
            return (await tapline.start("w 1", program=agent(ASKING), **options)).answer
        finally:
            while not all(task.done() for task in tasks):
                for task in tasks:
                    task.cancel()
                await asyncio.sleep(0.02)

    assert "allow" in (asyncio.run(main()) or "")
    # Those that were killed say so, too.
    wait_until(lambda: caplog.text.count("the function for stderr has not returned") == 16)


def test_lines_that_find_no_room_are_counted(block: Callable[[], bool], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapline._calling._MOST_LINES", 3)
    told: list[str] = []
    go = threading.Event()

    def listen(line: str) -> None:
        told.append(line)
        go.wait()

    listener = Listener(listen, lambda: None, may_wait=False)
    listener.hear("0")
    wait_until(lambda: told == ["0"])
    for n in range(1, 20):
        listener.hear(str(n))
    go.set()
    wait_until(lambda: listener.patience(0) == 0)
    listener.close()
    wait_until(lambda: "was not told of everything. Lines that it was not told of: 16." in caplog.text)
    assert told == ["0", "1", "2", "3"]


def test_run_waits_until_there_is_room_for_lines(agent: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapline._calling._MOST_LINES", 2)
    told: list[str] = []

    def listen(line: str) -> None:
        time.sleep(0.01)
        told.append(line)

    follow("run", agent(NOISY), stderr=listen)
    assert told == [f"line {n}" for n in range(20)]


def test_one_for_stderr_is_given_up_when_the_run_is_interrupted(agent: Make, block: Callable[[], bool], caplog: pytest.LogCaptureFixture) -> None:
    begun = threading.Event()

    def listen(line: str) -> None:
        begun.set()
        block()

    def ask(*_: object) -> bool:
        begun.wait()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tapline.run("w 1", program=agent(NOISY), stderr=listen, can_use_tool=ask, grace=0.2)
    wait_until(lambda: "the function for stderr has not returned" in caplog.text)


@pytest.mark.parametrize("way", ["start", "Session"])
def test_a_report_is_kept_if_the_wait_for_stderr_is_cancelled(
    agent: Make, block: Callable[[], bool], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr("tapline._calling.PATIENCE", 1000)
    program = agent(NOISY)
    options: dict[str, Any] = {"stderr": lambda _: block(), "can_use_tool": lambda *_: True}
    run = tapline.start("w 1", program=program, **options)
    session = tapline.Session(program=program, **options)

    async def use() -> None:
        if way == "start":
            async with run:
                assert [one async for one in run]
        else:
            async with session:
                assert [one async for one in session.turn("w 1")]

    def is_over() -> bool:
        try:
            return bool((run if way == "start" else session).report)
        except RuntimeError:
            return False

    async def main() -> None:
        task = asyncio.create_task(use())
        await asyncio.to_thread(wait_until, is_over)
        while not task.done():
            task.cancel()
            await asyncio.sleep(0.02)

    asyncio.run(main())
    assert (run if way == "start" else session).report.ok
    wait_until(lambda: "the function for stderr has not returned" in caplog.text)


def test_a_line_that_was_given_up_counts_for_nothing_in_the_next_turn(agent: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapline._calling.PATIENCE", 0.2)
    told: list[str] = []
    go = threading.Event()
    inside = threading.Lock()

    def listen(line: str) -> None:
        assert inside.acquire(blocking=False), "never two at once"
        with_error = not told
        told.append(line)
        if with_error:
            go.wait()
        inside.release()
        if with_error:
            raise LookupError("too late")

    def ask(*_: object) -> bool:
        if go.is_set():
            wait_until(lambda: "raised LookupError after it was given up" in caplog.text)
        return True

    async def main() -> None:
        async with tapline.Conversation(program=agent(NOISY), stderr=listen, can_use_tool=ask) as conversation:
            assert [one async for one in conversation.turn("w 1")] and told == ["line 0"]
            monkeypatch.setattr("tapline._calling.PATIENCE", 60)
            go.set()
            assert [one async for one in conversation.turn("w 1")]

    asyncio.run(main())
    assert told == ["line 0", *(f"line {n}" for n in range(20))]
    wait_until(lambda: threads() == [])


def test_a_report_needs_no_thread_for_stderr(agent: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    program = agent(f"print('line', file=sys.stderr, flush=True)\n{GOOD}")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert tapline.run("x", program=program, stderr=lambda _: None).ok


PROGRAM = """
import asyncio, logging, os, signal, sys, threading, time, tapline
logging.basicConfig()
signal.signal(signal.SIGINT, signal.default_int_handler)
begun = threading.Event()
def plain(*_):
    begun.set()
    threading.Event().wait()
async def asynchronous(*_):
    begun.set()
    await asyncio.get_running_loop().create_future()
async def never_awaits(*_):
    plain()
options = dict(program=program, extra_args=[f"--sleep={mark}"], grace=0.2, can_use_tool=CALLBACK)
def run(): return tapline.run("w 1", **options)
async def start(): return await tapline.start("w 1", **options)
async def session():
    async with tapline.Session(**options) as session: await session.turn("w 1")
def until_it_blocks():
    begun.wait()
    time.sleep(0.05)
"""
# The main thread ends, or is interrupted, or waits until a limit ends the run.
ENDS = {
    "run in a thread": "threading.Thread(target=run, daemon=True).start(); until_it_blocks(); sys.exit(7)",
    "start in a thread": "threading.Thread(target=lambda: asyncio.run(start()), daemon=True).start(); until_it_blocks(); sys.exit(7)",
    "session in a thread": "threading.Thread(target=lambda: asyncio.run(session()), daemon=True).start(); until_it_blocks(); sys.exit(7)",
    "loop that is left": "loop = asyncio.new_event_loop()\nloop.create_task(session())\nasync def wait():\n"
    "    while not begun.is_set(): await asyncio.sleep(0.01)\nloop.run_until_complete(wait()); sys.exit(7)",
    "limit of run": "options['timeout'] = 5; run(); sys.exit(7)",
    "limit of start": "options['timeout'] = 5; asyncio.run(start()); sys.exit(7)",
}
INTERRUPTED = {"run": "run()", "start": "asyncio.run(start())", "session": "asyncio.run(session())"}


def test_what_is_being_logged_is_written_before_the_interpreter_exits(agent: Make) -> None:
    program = agent(f"print('line', file=sys.stderr, flush=True)\n{GOOD}")
    text = f"""
import logging, sys, threading, time, tapline, tapline._calling
tapline._calling.PATIENCE = 0.2
class Slow(logging.StreamHandler):
    # Before the lock, for which logging itself waits at the end.
    def filter(self, record): time.sleep(0.3); return True
logging.getLogger("tapline").addHandler(Slow())
assert tapline.run("x", program={str(program)!r}, stderr=lambda _: threading.Event().wait()).ok
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert "the function for stderr has not returned" in done.stderr


def program_of(callback: str, body: str, agent: Path, mark: str) -> subprocess.Popen[str]:
    text = f"program, mark = {str(agent)!r}, {mark!r}\n{PROGRAM.replace('CALLBACK', callback)}\n{body}"
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("callback", ["plain", "asynchronous"])
@pytest.mark.parametrize("how", ENDS)
def test_an_interpreter_that_exits_while_one_blocks(agent: Make, mark: str, callback: str, how: str) -> None:
    with program_of(callback, ENDS[how], agent(ASKING_WITH_A_CHILD), mark) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 7, errors
    assert "Fatal" not in errors and "panicked at" not in errors
    assert "limit" not in how or "Traceback (most recent call last):" in errors
    nothing_is_left(mark)


@pytest.mark.parametrize("callback", ["plain", "asynchronous"])
@pytest.mark.parametrize("how", INTERRUPTED)
def test_ctrl_c_while_one_blocks(agent: Make, mark: str, callback: str, how: str) -> None:
    press = "threading.Thread(target=lambda: (until_it_blocks(), os.kill(os.getpid(), signal.SIGINT))).start()\n"
    with program_of(callback, press + INTERRUPTED[how], agent(ASKING_WITH_A_CHILD), mark) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode != 0 and "KeyboardInterrupt" in errors
    assert "Fatal" not in errors and "panicked at" not in errors
    nothing_is_left(mark)


def test_an_interpreter_that_exits_while_one_holds_up_the_loop(agent: Make, mark: str) -> None:
    body = "threading.Thread(target=lambda: asyncio.run(session()), daemon=True).start(); until_it_blocks(); sys.exit(7)"
    with program_of("never_awaits", body, agent(ASKING_WITH_A_CHILD), mark) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 7 and "Fatal" not in errors, errors
    nothing_is_left(mark)
