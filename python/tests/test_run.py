"""Running: a report whatever happens, steps as they happen."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tapline
from tapline import step
from tapline.pytest_plugin import StartReplay, StartSim

from conftest import GOOD, INIT, STUBBORN, running, tasks, threads

Make = Callable[[str], Path]


def test_a_run_that_succeeds(agent: Make, tmp_path: Path) -> None:
    report = tapline.run("two and two?", program=agent(GOOD), label="sums", cwd=tmp_path)
    assert report.ok and report.verdict.clean and report.answer == "four" and report.text == "four"
    assert report.run.label == "sums" and report.duration is not None and report.cost_usd == 0.01
    assert report.prompts == ["two and two?"] and report.session_id == "s-1"


@pytest.mark.parametrize(
    ("body", "category", "text"),
    [
        ("sys.exit(3)", "exit", ""),
        ("print('boom', file=sys.stderr); sys.exit(1)", "startup", ""),
        (f"say({INIT})", "no_result", ""),
        (
            f'say({INIT}); say({{"type": "result", "subtype": "success", "is_error": True, "result": "API Error: 429", "session_id": "s-1"}}); sys.exit(1)',
            "rate_limit",
            "",
        ),
        (f"say({INIT}); os.kill(os.getpid(), signal.SIGKILL)", "killed", ""),
    ],
    ids=["exit", "startup", "no result", "rate limit", "killed"],
)
def test_an_agent_that_fails_is_a_report(agent: Make, body: str, category: str, text: str) -> None:
    report = tapline.run("x", program=agent(body))
    assert not report.ok and report.category == category and report.text == text
    assert report.duration is not None and report.run.started_at is not None


def test_a_timeout_keeps_what_was_written(tmp_path: Path, mark: str) -> None:
    # A shell starts at once, however busy the machine is.
    program = tmp_path / "claude"
    said = '{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"so far"}]},"session_id":"s"}'
    program.write_text(f"#!/bin/sh\necho '{said}'\nsleep {mark} &\nsleep {mark}\n")
    program.chmod(0o755)
    report = tapline.run("x", program=program, timeout=10, grace=0.2)
    assert (report.verdict.outcome, report.category, report.error) == ("failure", "timeout", "timeout")
    assert report.text == "so far" and report.duration is not None and report.duration >= 10
    assert report.exit_code == 124 and running(mark) == []


def test_a_program_that_is_not_there_or_not_executable(tmp_path: Path) -> None:
    missing = tapline.run("x", program=tmp_path / "claude", label="gone")
    assert (missing.verdict.outcome, missing.category) == ("failure", "startup")
    assert missing.error == f"claude: not found: {tmp_path / 'claude'}"
    assert missing.duration is not None and missing.run.label == "gone" and missing.run.started_at is not None
    plain = tmp_path / "plain"
    plain.write_text("no program")
    assert tapline.run("x", program=plain).category == "startup"
    assert tapline.run("x", program="/bin/true", cwd=tmp_path / "nowhere").category == "startup"


def test_a_mistake_of_the_caller_is_an_exception(agent: Make) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'promt'"):
        tapline.run("x", promt="y")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="allowed_tools is a list"):
        tapline.run("x", allowed_tools="Read")
    with pytest.raises(ValueError, match="timeout is a number of seconds"):
        tapline.run("x", timeout=-1)
    with pytest.raises(ValueError, match="agent is 'claude' or 'codex'"):
        tapline.run("x", agent="gpt")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max.turns"):
        tapline.run("x", agent="codex", max_turns=3, program=agent(GOOD))
    with pytest.raises(ValueError, match="permissions"):
        tapline.run("x", permissions="no rules = [")


def test_options_reach_the_agent(agent: Make, tmp_path: Path) -> None:
    body = 'say({"type": "result", "subtype": "success", "result": json.dumps([sys.argv[1:], os.getcwd(), os.environ.get("X"), sys.stdin.read()]), "num_turns": 1})'
    report = tapline.run(
        "the prompt",
        program=agent(body),
        cwd=tmp_path,
        env={"X": "y"},
        model="opus",
        allowed_tools=["Read", "Bash(ls:*)"],
        permission_mode="plan",
        json_schema={"type": "object"},
        append_system_prompt="be brief",
        extra_args=["--foo"],
    )
    for expected in ("--model=opus", "Bash(ls:*)", "--permission-mode=plan", "be brief", "--foo", str(tmp_path), '"y"', "the prompt"):
        assert expected in (report.answer or "")


def test_stderr_is_told_as_it_comes(agent: Make) -> None:
    told: list[str] = []
    tapline.run("x", program=agent(f"print('careful', file=sys.stderr, flush=True)\n{GOOD}"), stderr=told.append)
    assert told == ["careful"]


def test_steps_as_they_happen(agent: Make) -> None:
    async def main() -> tapline.Run:
        async with tapline.start("two and two?", program=agent(GOOD)) as run:
            assert "running" in repr(run)
            with pytest.raises(RuntimeError, match="not over"):
                _ = run.report
            kinds = [type(one) async for one in run]
            assert kinds == [step.Prompt, step.Session, step.Text, step.Turn] and run.session_id == "s-1"
        return run

    run = asyncio.run(main())
    assert run.report.answer == "four" and run.is_over and "<Run over: <Report success" in repr(run)


def test_a_run_can_just_be_awaited(agent: Make, tmp_path: Path) -> None:
    async def main() -> list[tapline.Report]:
        missing = tapline.start("x", program=tmp_path / "claude")
        return list(await asyncio.gather(tapline.start("x", program=agent(GOOD)), missing))

    good, missing = asyncio.run(main())
    assert good.answer == "four" and missing.category == "startup"


def test_a_wait_that_is_cut_short_loses_no_step(agent: Make) -> None:
    body = GOOD.replace("sys.stdin.read()", "sys.stdin.read(); time.sleep(1)")

    async def main() -> list[str]:
        seen: list[str] = []
        async with tapline.start("x", program=agent(body)) as run:
            while True:
                try:
                    seen.append((await asyncio.wait_for(run.__anext__(), 0.05)).step)
                except asyncio.TimeoutError:
                    continue
                except StopAsyncIteration:
                    return seen

    assert asyncio.run(main()) == ["prompt", "session", "text", "turn"]


def test_runs_take_no_thread_each(agent: Make) -> None:
    program = agent(GOOD)

    async def main() -> None:
        await tapline.start("x", program=program)
        before = tasks()
        reports = await asyncio.gather(*(tapline.start(f"{n}", program=program) for n in range(40)))
        assert all(report.ok for report in reports) and sorted(int(report.prompts[0]) for report in reports) == list(range(40))
        # Not one a run: the pool of the runtime may have grown by a few.
        assert tasks() <= before + 20

    asyncio.run(main())
    assert threads() == []


def test_several_loops_and_threads(agent: Make) -> None:
    program = agent(GOOD)
    answers: list[str | None] = []

    def use_one() -> None:
        async def ask() -> tapline.Report:
            return await tapline.start("x", program=program)

        answers.append(asyncio.run(ask()).answer)
        answers.append(tapline.run("x", program=program).answer)

    workers = [threading.Thread(target=use_one) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert answers == ["four"] * 8


def test_run_works_inside_a_running_loop(agent: Make) -> None:
    async def main() -> tapline.Report:
        return tapline.run("x", program=agent(GOOD))

    assert asyncio.run(main()).answer == "four"


def test_a_recording_is_kept_and_read_with_its_times(agent: Make, tmp_path: Path) -> None:
    report = tapline.run("x", program=agent(GOOD), record=tmp_path / "kept", label="kept")
    again = tapline.report(tmp_path / "kept")
    assert again.to_dict() == report.to_dict()
    records = list(tapline.read(tmp_path / "kept"))
    assert all(record.time is not None and record.time.tzinfo is not None for record in records)
    assert tapline.run("x", program=agent(GOOD), record=tmp_path / "kept").category == "startup"
    with pytest.raises(ValueError, match="redact is for a recording"):
        tapline.run("x", program=agent(GOOD), redact=True)


def test_interrupt_stops_a_run_in_order(agent: Make, mark: str) -> None:
    async def main() -> tapline.Report:
        async with tapline.start("x", program=agent(STUBBORN), extra_args=[f"--sleep={mark}"], grace=0.2) as run:
            async for one in run:
                if isinstance(one, step.Text) and one.text == "begun":
                    run.interrupt()
        return run.report

    report = asyncio.run(main())
    assert (report.verdict.outcome, report.category) == ("interrupted", "interrupted")
    assert report.text == "so far\nbegun" and running(mark) == []


def test_the_real_claude_on_the_sim(claude: Path, tapline_sim: StartSim, tmp_path: Path) -> None:
    scenario = 'turn = [{ text = "Let me look.", tool = [{ name = "Bash", input = { command = "echo hello" } }] }, { text = "It says hello." }]'
    sim = tapline_sim(scenario)
    report = tapline.run("look", program=claude, cwd=tmp_path, permission_mode="bypassPermissions", timeout=300, **sim.options)
    assert report.verdict.clean, report
    assert report.answer == "It says hello." and [call.status for call in report.tools.calls] == ["ok"]
    assert report.tools.calls[0].result is not None and report.tools.calls[0].result.text == "hello"
    assert len(sim.requests) >= 2 and sim.failures == [] and sim.home.is_dir()


def test_a_permission_question_of_a_plain_run(claude: Path, tapline_sim: StartSim, tmp_path: Path) -> None:
    scenario = """
        [[turn]]
        tool = [{ name = "Bash", input = { command = "touch yes" } }]
        [[turn]]
        tool = [{ name = "Bash", input = { command = "touch no" } }]
        [[turn]]
        text = "done"
    """
    asked: list[tuple[str, str | None]] = []

    def plain(tool: str, input: dict[str, Any], context: tapline.PermissionContext) -> bool:
        asked.append((input["command"], context.tool_use_id))
        return input["command"] == "touch yes"

    async def asynchronous(tool: str, input: dict[str, Any], context: tapline.PermissionContext) -> tapline.PermissionAnswer:
        await asyncio.sleep(0)
        return tapline.Allow() if plain(tool, input, context) else tapline.Deny("not that one")

    for n, can_use_tool in enumerate((plain, asynchronous)):
        cwd = tmp_path / str(n)
        cwd.mkdir()
        asked.clear()
        sim = tapline_sim(scenario)
        report = tapline.run("go", program=claude, cwd=cwd, can_use_tool=can_use_tool, timeout=300, **sim.options)
        assert report.ok and [command for command, _ in asked] == ["touch yes", "touch no"] and all(id for _, id in asked)
        assert sorted(path.name for path in cwd.iterdir()) == ["yes"]
        assert [call.status for call in report.tools.calls] == ["ok", "denied"]


def test_replay_in_place_of_the_agent(agent: Make, tapline_replay: StartReplay, tmp_path: Path) -> None:
    first = tapline.run("two and two?", program=agent(GOOD), record=tmp_path / "kept")
    replay = tapline_replay(tmp_path / "kept")
    again = tapline.run("two and two?", **replay.options)
    assert again.answer == first.answer == "four"
    started = subprocess.run(["sh", "-c", "claude -p x"], env=replay.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    assert tapline.report(started.stdout).answer == "four" and replay.env["TAPLINE_CLAUDE_BIN"] == str(replay.program)
    cut = tapline_replay(tmp_path / "kept", drop_result=True)
    assert tapline.run("x", **cut.options).category == "no_result"


