"""A conversation with one run per turn: each resumes the session, and none is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import tapline
from tapline import step
from tapline.pytest_plugin import StartSim

from conftest import INIT, running

Make = Callable[[str], Path]

# Answers with its arguments and its prompt.
ECHO = f"""
prompt = sys.stdin.read()
say({INIT})
said = " ".join(sys.argv[1:] + [prompt])
say({{"type": "assistant", "message": {{"id": "m", "role": "assistant", "content": [{{"type": "text", "text": said}}]}}, "session_id": "s-1"}})
say({{"type": "result", "subtype": "success", "is_error": False, "result": said, "num_turns": 1, "session_id": "s-1"}})
"""


def test_each_turn_resumes_the_one_before(agent: Make, tmp_path: Path) -> None:
    async def main() -> None:
        async with tapline.Conversation(program=agent(ECHO), continue_last=True, record=tmp_path / "kept") as conversation:
            assert conversation.id is None
            first = await conversation.turn("one")
            assert first.ok and "one" in (first.answer or "") and "--continue" in (first.answer or "")
            assert conversation.id == "s-1" and "1 turns" in repr(conversation)
            turn = conversation.turn("two")
            kinds = [type(one) async for one in turn]
            assert kinds == [step.Prompt, step.Session, step.Text, step.Turn]
            answer = turn.report.answer or ""
            assert "--resume=s-1" in answer and "--continue" not in answer and "two" in answer
            # Two at once are taken one after the other.
            both = await asyncio.gather(conversation.turn("three"), conversation.turn("four"))
            assert ["three" in (both[0].answer or ""), "four" in (both[1].answer or "")] == [True, True]
        assert sorted(path.name for path in tmp_path.glob("kept*")) == ["kept", "kept-2", "kept-3", "kept-4"]

    asyncio.run(main())


def test_a_turn_that_fails_is_a_report(agent: Make, tmp_path: Path) -> None:
    async def main() -> None:
        async with tapline.Conversation(program=tmp_path / "claude", resume="s-0") as conversation:
            failed = await conversation.turn("x")
            assert failed.category == "startup" and conversation.id == "s-0"
        with pytest.raises(RuntimeError, match="has not begun"):
            await tapline.Conversation(program=agent(ECHO)).turn("x")
        with pytest.raises(ValueError, match="max.turns"):
            async with tapline.Conversation(agent="codex", program=agent(ECHO), max_turns=3) as conversation:
                await conversation.turn("x")

    asyncio.run(main())


def test_a_turn_has_its_own_time_and_leaving_stops_it(agent: Make, mark: str) -> None:
    body = f'say({INIT})\nsubprocess.Popen(["sleep", "{mark}"], start_new_session=True)\nsay({{"type": "keep_alive"}})\ntime.sleep(1000)'

    async def main() -> None:
        async with tapline.Conversation(program=agent(body), grace=0.2) as conversation:
            late = await conversation.turn("x", timeout=3)
            assert (late.category, late.exit_code) == ("timeout", 124)
            turn = conversation.turn("y")
            async for one in turn:
                if isinstance(one, step.Session):
                    break
        assert turn.is_over and turn.report.verdict.outcome == "interrupted"

    asyncio.run(main())
    assert running(mark) == []


def test_the_real_codex_turn_by_turn(codex: Path, tapline_sim: StartSim, tmp_path: Path) -> None:
    sim = tapline_sim('turn = [{ text = "It adds." }, { text = "Nobody yet." }]')

    async def main() -> None:
        options = {"program": codex, "cwd": tmp_path, "timeout": 300.0, "extra_args": ["--skip-git-repo-check"]}
        async with tapline.Conversation(agent="codex", **options, **sim.options) as conversation:  # type: ignore[arg-type]
            first = await conversation.turn("What does this project do?")
            assert (first.agent, first.answer) == ("codex", "It adds."), first
            second = await conversation.turn("And who uses it?")
            assert second.answer == "Nobody yet." and second.session_id == first.session_id == conversation.id

    asyncio.run(main())
    # The second request has the first turn in it.
    assert "It adds." in str(sim.requests[-1])
