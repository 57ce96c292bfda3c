"""However a program ends, no process stays: Ctrl-C, cancelled tasks, exceptions, the end of the interpreter, fork, SIGKILL."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import tapline
from tapline import step

from conftest import ASKING_WITH_A_CHILD, GOOD, STUBBORN, nothing_is_left, running, wait_until

Make = Callable[[str], Path]
FOLLOW = """
async def follow(then):
    async with tapline.start("x", program=program, extra_args=[f"--sleep={mark}"], grace=0.2) as run:
        async for one in run:
            if isinstance(one, tapline.step.Text) and one.text == "begun":
                print("begun", flush=True)
                await then()
"""


def program(body: str, stubborn: Path, mark: str) -> subprocess.Popen[str]:
    """Starts a program of Python's that uses tapline, and waits until its agent has begun."""
    # Who starts the tests may ignore SIGINT.
    head = "import asyncio, os, signal, sys, threading, time, tapline\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    text = f"{head}program, mark = {str(stubborn)!r}, {mark!r}\n{FOLLOW}\n{body}"
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: sum(words.startswith("sleep") for words in running(mark)) == 2 or process.poll() is not None)
    return process


RUN = 'tapline.run("x", program=program, extra_args=[f"--sleep={mark}"], grace=0.2)'


def test_ctrl_c_in_run(agent: Make, mark: str) -> None:
    with program(RUN, agent(STUBBORN), mark) as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode != 0 and "KeyboardInterrupt" in errors and "Traceback" in errors
    assert running(mark) == []


def test_ctrl_c_in_a_loop(agent: Make, mark: str) -> None:
    with program("asyncio.run(follow(lambda: asyncio.sleep(1000)))", agent(STUBBORN), mark) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode != 0 and "KeyboardInterrupt" in errors
    assert running(mark) == []


@pytest.mark.parametrize(
    "body",
    [
        # The main thread ends while another is in the middle of a run.
        f"threading.Thread(target=lambda: {RUN}, daemon=True).start()\nwhile not os.path.exists(program + '.go'): time.sleep(0.02)\nsys.exit(7)",
        # A callback of the loop ends the program.
        "async def leave(): sys.exit(7)\nasyncio.run(follow(leave))",
        # The loop is just left.
        "loop = asyncio.new_event_loop()\nbegun = asyncio.Event()\n"
        "async def set(): begun.set(); await asyncio.sleep(1000)\n"
        "task = loop.create_task(follow(set))\nloop.run_until_complete(begun.wait())\nsys.exit(7)",
    ],
    ids=["thread", "exit in a task", "loop that is left"],
)
def test_an_interpreter_that_exits_in_the_middle_of_a_run(agent: Make, mark: str, body: str) -> None:
    stubborn = agent(STUBBORN)
    with program(body, stubborn, mark) as process:
        Path(f"{stubborn}.go").touch()
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 7, errors
    assert "Fatal" not in errors and "panicked" not in errors
    nothing_is_left(mark)


@pytest.mark.parametrize("how", ["os._exit(7)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_program_that_dies_at_once(agent: Make, mark: str, how: str) -> None:
    with program(f"async def die(): {how}\nasyncio.run(follow(die))", agent(STUBBORN), mark) as process:
        process.communicate(timeout=120)
    nothing_is_left(mark)


def test_a_cancelled_task(agent: Make, mark: str) -> None:
    stubborn = agent(STUBBORN)

    async def main() -> None:
        begun = asyncio.Event()

        async def follow() -> None:
            async with tapline.start("x", program=stubborn, extra_args=[f"--sleep={mark}"], grace=0.2) as run:
                async for one in run:
                    if isinstance(one, step.Text) and one.text == "begun":
                        begun.set()

        task = asyncio.create_task(follow())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert running(mark) == []

    asyncio.run(main())


def test_a_task_that_is_cancelled_twice_kills_at_once(agent: Make, mark: str) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + STUBBORN

    async def main() -> None:
        run = tapline.start("x", program=agent(deaf), extra_args=[f"--sleep={mark}"], grace=1000)
        task = asyncio.ensure_future(run)
        while len([words for words in running(mark) if words.startswith("sleep")]) < 2:
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.sleep(0.1)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    nothing_is_left(mark)


def test_an_exception_in_the_block(agent: Make, mark: str) -> None:
    async def main() -> None:
        async with tapline.start("x", program=agent(STUBBORN), extra_args=[f"--sleep={mark}"], grace=0.2) as run:
            async for one in run:
                if isinstance(one, step.Text) and one.text == "begun":
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())
    assert running(mark) == []


def test_a_loop_that_is_broken_out_of(agent: Make, mark: str) -> None:
    async def main() -> tapline.Run:
        async with tapline.start("x", program=agent(STUBBORN), extra_args=[f"--sleep={mark}"], grace=0.2) as run:
            async for one in run:
                if isinstance(one, step.Text) and one.text == "begun":
                    break
        return run

    assert asyncio.run(main()).report.verdict.outcome == "interrupted"
    assert running(mark) == []


def test_a_run_that_is_forgotten(agent: Make, mark: str) -> None:
    async def main() -> None:
        run = tapline.start("x", program=agent(STUBBORN), extra_args=[f"--sleep={mark}"])
        await run.__aenter__()
        async for one in run:
            if isinstance(one, step.Text) and one.text == "begun":
                break

    asyncio.run(main())
    gc.collect()
    nothing_is_left(mark)


def test_a_second_run_can_not_enter_the_first(agent: Make) -> None:
    async def main() -> None:
        run = tapline.start("x", program=agent(GOOD))
        with pytest.raises(RuntimeError, match="has not been started"):
            await run.finish()
        async with run:
            with pytest.raises(RuntimeError, match="started already"):
                async with run:
                    pass

    asyncio.run(main())


def answer_of(program: Path) -> str:
    try:
        return str(tapline.run("x", program=program).answer)
    except RuntimeError as error:
        return f"RuntimeError: {error}"


def test_multiprocessing_with_spawn(agent: Make) -> None:
    program = agent(GOOD)
    assert answer_of(program) == "four"
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(answer_of, [program] * 4) == ["four"] * 4


def answer_in(stream: bytes) -> str | None:
    return tapline.report(stream).answer


def test_multiprocessing_with_fork(agent: Make) -> None:
    program = agent(GOOD)
    stream = b'{"type":"result","subtype":"success","is_error":false,"result":"five","num_turns":1,"session_id":"s"}'
    assert answer_of(program) == "four" and answer_in(stream) == "five"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            # Reading needs no thread. What needs one says what to do instead, and never waits for ever.
            assert pool.map(answer_in, [stream] * 4) == ["five"] * 4
            assert all("'spawn' or 'forkserver' method" in said for said in pool.map(answer_of, [program] * 4))
    assert answer_of(program) == "four"


# The child ends as a program does: it runs what is registered for its exit, and takes its objects apart.
ENDS = {
    "after a run": "tapline.run('x', program=good)\nfork()",
    "in the middle of a run": f"threading.Thread(target=lambda: {RUN}, daemon=True).start(); begun(2); fork()",
    "in a session with an open question": """
asked = threading.Event()
def ask(*_):
    asked.set()
    threading.Event().wait()
async def session():
    async with tapline.Session(program=asking, can_use_tool=ask, extra_args=[f"--sleep={mark}"], grace=0.2) as session: await session.turn("w 1")
threading.Thread(target=lambda: asyncio.run(session()), daemon=True).start(); begun(1); asked.wait(); fork()
""",
    "in a block of the parent's": """
from tapline.testing import Replay, Sim
with Sim('turn = [{ text = "Hello." }]') as sim:
    fork()
    assert sim.home.is_dir() and sim.requests == []
tapline.run("x", program=good, record=good + ".kept")
with Replay(good + ".kept") as replay:
    fork()
    assert tapline.run("x", **replay.options).answer == "four"
""",
}
FORKING = """
import asyncio, os, subprocess, sys, threading, time, warnings, tapline
warnings.simplefilter("ignore", DeprecationWarning)
def sleeping():
    return int(subprocess.run(["pgrep", "-fc", f"^sleep {mark}"], stdout=subprocess.PIPE, text=True).stdout)
def begun(count):
    while sleeping() < count: time.sleep(0.02)
def fork():
    before = sleeping()
    child = os.fork()
    if not child:
        os.dup2(1, 2)
        sys.exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert sleeping() == before
"""


@pytest.mark.parametrize("how", ENDS)
def test_a_forked_child_that_ends_as_a_program_does(agent: Make, mark: str, how: str) -> None:
    names = {"program": str(agent(STUBBORN)), "good": str(agent(GOOD)), "asking": str(agent(ASKING_WITH_A_CHILD)), "mark": mark}
    text = "".join(f"{name} = {value!r}\n" for name, value in names.items()) + FORKING + ENDS[how] + "\nsys.exit(7)"
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 7 and "Fatal" not in ended.stderr, ended.stderr
    assert ended.stdout == "", "the child says nothing"
    nothing_is_left(mark)


def test_a_fork_after_the_first_run_gets_an_error_that_helps(agent: Make) -> None:
    program = agent(GOOD)
    assert answer_of(program) == "four"
    assert "multiprocessing's 'spawn' or 'forkserver' method" in in_a_fork(lambda: answer_of(program))


def test_a_fork_before_the_first_run_works(agent: Make) -> None:
    text = (
        "import os, sys, tapline\nif os.fork():\n    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        f"sys.exit(0 if tapline.run('x', program={str(agent(GOOD))!r}).answer == 'four' else 9)"
    )
    assert subprocess.run([sys.executable, "-c", text], timeout=120, check=False).returncode == 0


def test_a_forked_child_does_not_stop_the_parents_run(agent: Make, mark: str) -> None:
    async def main() -> None:
        async with tapline.start("x", program=agent(STUBBORN), extra_args=[f"--sleep={mark}"], grace=0.2) as run:
            async for one in run:
                if isinstance(one, step.Text) and one.text == "begun":
                    def drop_it() -> str:
                        run._native = None
                        gc.collect()
                        return "dropped"

                    assert in_a_fork(drop_it) == "dropped"
                    assert len([words for words in running(mark) if words.startswith("sleep")]) == 2
                    break

    asyncio.run(main())
    assert running(mark) == []


def in_a_fork(what: Callable[[], str]) -> str:
    """What a function says in a forked child."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.write(writing, what().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text
