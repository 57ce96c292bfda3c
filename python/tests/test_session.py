"""Driving: turns, permissions, hooks, tools, requests; many at once; callbacks that misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tapline
from tapline import step
from tapline.pytest_plugin import StartSim

from conftest import ASKING, INIT, running, tasks, threads, wait_until

Make = Callable[[str], Path]

def drive(agent: Path, message: str, **options: Any) -> tuple[dict[str, Any], tapline.Session]:
    """What the asking agent was told in one turn."""

    async def main() -> tuple[dict[str, Any], tapline.Session]:
        async with tapline.Session(program=agent, **options) as session:
            turn = await session.turn(message)
            assert turn.ok, turn
        return json.loads(turn.answer), session

    return asyncio.run(main())


def test_a_hundred_sessions_at_once_each_asked_twenty_times(agent: Make) -> None:
    program = agent(ASKING)
    asked: dict[str, list[str]] = {}

    async def one(n: int) -> None:
        async def ask(tool: str, input: Mapping[str, Any], context: tapline.PermissionContext) -> tapline.PermissionAnswer:
            who, number = input["command"].split()
            asked.setdefault(f"{n}", []).append(input["command"])
            # Answers come in another order than questions.
            await asyncio.sleep((int(number) * 7 % 20) / 500)
            if int(number) % 2:
                return tapline.Deny(f"no to {who} {number} from {n}")
            return tapline.Allow(updated_input={"command": f"yes to {who} {number} from {n}"})

        async with tapline.Session(program=program, can_use_tool=ask) as session:
            told = json.loads((await session.turn(f"w{n} 20")).answer)
        assert len(told) == 20
        for number in range(20):
            answer = told[f"w{n}-{number}"]
            if number % 2:
                assert answer["behavior"] == "deny" and answer["message"] == f"no to w{n} {number} from {n}"
            else:
                assert answer["behavior"] == "allow" and answer["updatedInput"]["command"] == f"yes to w{n} {number} from {n}"

    async def main() -> int:
        await one(100)
        before, most = tasks(), 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, tasks())
                await asyncio.sleep(0.01)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(one(n) for n in range(100)))
        watching.cancel()
        return most - before

    # A thread a session would be a hundred.
    assert asyncio.run(main()) < 30
    assert {n: sorted(commands) for n, commands in asked.items()} == {f"{n}": sorted(f"w{n} {k}" for k in range(20)) for n in range(101)}
    assert threads() == []


def test_what_the_agent_asks_the_user_is_answered_with_options(agent: Make) -> None:
    def offers(*labels: str) -> list[dict[str, str]]:
        return [{"label": label, "description": ""} for label in labels]

    questions = [
        {"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": offers("Red", "Blue")},
        {"question": "Which sizes?", "header": "Size", "multiSelect": True, "options": offers("S", "M", "L")},
    ]
    asking = ASKING.replace('"Bash", "input": {"command": f"{who} {n}"}', f'"AskUserQuestion", "input": {{"questions": {questions!r}}}')
    assert asking != ASKING

    def choose(tool: str, input: dict[str, Any], context: tapline.PermissionContext) -> tapline.PermissionAnswer:
        assert tool == "AskUserQuestion" and [one["question"] for one in input["questions"]] == ["Which colour?", "Which sizes?"]
        return tapline.Answers({"Which colour?": "my own: green", "Which sizes?": ["S", "L"]})

    told, _ = drive(agent(asking), "w 1", can_use_tool=choose)
    assert told["w-0"]["behavior"] == "allow" and told["w-0"]["updatedInput"]["questions"] == questions
    assert told["w-0"]["updatedInput"]["answers"] == {"Which colour?": "my own: green", "Which sizes?": "S, L"}
    told, _ = drive(agent(asking), "w 1", can_use_tool=lambda *_: tapline.Answers({"Which colour?": ["Red", "Blue"]}))
    assert told["w-0"]["behavior"] == "deny" and "answers that do not fit: “Which colour?” needs one answer" in told["w-0"]["message"]


def test_a_callback_that_returns_nonsense_denies(agent: Make, caplog: pytest.LogCaptureFixture) -> None:
    told, _ = drive(agent(ASKING), "w 1", can_use_tool=lambda *_: "yes")
    assert "can_use_tool must return Allow, Deny or a bool, not str" in told["w-0"]["message"]
    assert "TypeError" in caplog.text


def test_a_callback_that_blocks_for_ever_is_cancelled(agent: Make, caplog: pytest.LogCaptureFixture) -> None:
    cancelled: list[str] = []

    async def ask(*_: object) -> bool:
        try:
            await asyncio.sleep(1_000_000)
        except asyncio.CancelledError:
            cancelled.append("yes")
            raise
        return True

    told, _ = drive(agent(ASKING), "w 1", can_use_tool=ask, answer_within=0.3)
    assert told["w-0"]["behavior"] == "deny" and "no answer within" in told["w-0"]["message"] and cancelled == ["yes"]
    assert "no answer within" in caplog.text


# Asks the first hook of PreToolUse at the first message, and answers with what it was told; tells what it was told of it at the start.
HOOKED = f"""
for line in sys.stdin:
    line = json.loads(line)
    if line["type"] == "control_request":
        if line["request"]["subtype"] == "initialize": (first,) = line["request"]["hooks"]["PreToolUse"]
        say({{"type": "control_response", "response": {{"subtype": "success", "request_id": line["request_id"], "response": {{}}}}}})
    elif line["type"] == "user":
        say({INIT})
        asked = {{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {{}}}}
        say({{"type": "control_request", "request_id": "h", "request": {{"subtype": "hook_callback", "callback_id": first["hookCallbackIds"][0], "input": asked}}}})
    elif line["type"] == "control_response":
        told = json.dumps([first, line["response"]])
        say({{"type": "result", "subtype": "success", "is_error": False, "result": told, "num_turns": 1, "session_id": "s-1"}})
"""


def test_a_hook_has_a_limit_of_its_own(agent: Make, caplog: pytest.LogCaptureFixture) -> None:
    cancelled: list[str] = []

    async def slow(*_: object) -> None:
        try:
            await asyncio.sleep(1_000_000)
        except asyncio.CancelledError:
            cancelled.append("yes")
            raise

    hooks = {"PreToolUse": [tapline.HookMatcher("Bash", [slow], timeout=0.3)]}
    (first, told), _ = drive(agent(HOOKED), "x", hooks=hooks)
    reason = "the PreToolUse hook gave no answer within 300ms"
    assert told["response"]["hookSpecificOutput"]["permissionDecisionReason"] == reason and cancelled == ["yes"]
    assert first["matcher"] == "Bash" and first["timeout"] >= 60 and reason in caplog.text
    with pytest.raises(ValueError, match="timeout is a number of seconds"):
        drive(agent(HOOKED), "x", hooks={"PreToolUse": [tapline.HookMatcher("Bash", [slow], timeout=-1)]})


def test_what_happens_between_turns(agent: Make) -> None:
    # It takes a turn unasked, as a background task that has ended makes it do.
    wakes = """        if line["request"]["subtype"] == "wake":
            say({"type": "assistant", "message": {"id": str(time.time_ns()), "role": "assistant", "content": [{"type": "text", "text": "unasked"}]}, "session_id": "s-1"})
            say({"type": "result", "subtype": "success", "is_error": False, "result": "unasked", "num_turns": 1, "session_id": "s-1"})
"""
    answered = '        say({"type": "control_response", "response": answer})\n'
    assert answered in ASKING
    program = agent(ASKING.replace(answered, answered + wakes))

    async def main() -> None:
        async with tapline.Session(program=program) as session:

            async def until(last: str) -> list[str]:
                seen: list[str] = []
                async for one in session:
                    seen.append(one.step)
                    if seen[-1] == last:
                        break
                # What was sent is told, too, and at any time.
                return [step for step in seen if step not in ("quiet", "prompt")]

            assert (await session.turn("w 0")).ok
            await session.request("wake")
            assert await until("turn") == ["text", "turn"]
            # Who waits and is cancelled loses nothing.
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(until("turn"), 0.05)
            session.send("w 0")
            assert (await until("turn"))[-2:] == ["session", "turn"]
            # Turns are as before, also while somebody waits for what is between them.
            waiting = asyncio.ensure_future(until("text"))
            await asyncio.sleep(0)
            turn = session.turn("w 0")
            assert [one.step async for one in turn][-1] == "turn" and turn.report.ok
            await session.request("wake")
            assert await waiting == ["text"]
            rest = asyncio.ensure_future(until("never"))
            await asyncio.sleep(0)
            await session.finish()
            assert await rest in (["turn"], [])
        assert [one async for one in session] == []

    asyncio.run(main())


def test_a_callback_that_is_cancelled_denies(agent: Make) -> None:
    async def ask(*_: object) -> bool:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return True

    told, _ = drive(agent(ASKING), "w 1", can_use_tool=ask)
    assert told["w-0"]["behavior"] == "deny" and told["w-0"]["message"] == "the permission callback was cancelled"


def test_answers_of_the_official_sdk_work_unchanged(agent: Make) -> None:
    def ask(tool: str, input: dict[str, Any], context: tapline.PermissionContext) -> Any:
        if input["command"] == "w 0":
            return SimpleNamespace(behavior="allow", updated_input=None, updated_permissions=None)
        return SimpleNamespace(behavior="deny", message="no", interrupt=True)

    told, _ = drive(agent(ASKING), "w 2", can_use_tool=ask)
    assert told["w-0"] == {"behavior": "allow", "updatedInput": {"command": "w 0"}, "toolUseID": "w-0"}
    assert (told["w-1"]["behavior"], told["w-1"]["message"], told["w-1"]["interrupt"]) == ("deny", "no", True)


def test_rules_decide_before_the_callback(agent: Make) -> None:
    asked: list[str] = []
    rules = '[[allow]]\ntool = "Bash"\ncommand = "w 0"\n[[deny]]\ntool = "Bash"\ncommand = "w 1"\nreason = "never that"\n'

    def ask(tool: str, input: dict[str, Any], context: tapline.PermissionContext) -> bool:
        asked.append(input["command"])
        return True

    told, _ = drive(agent(ASKING), "w 3", can_use_tool=ask, permissions=rules)
    assert [told[f"w-{n}"]["behavior"] for n in range(3)] == ["allow", "deny", "allow"] and asked == ["w 2"]
    assert told["w-1"]["message"] == "denied by deny[0]: never that"


def test_requests(agent: Make) -> None:
    async def main() -> None:
        async with tapline.Session(program=agent(ASKING), request_timeout=60) as session:
            assert session.info == {} and session.id is None and "open" in repr(session)
            assert (await session.request("anything", a=1, b=[None]))["asked"] == {"subtype": "anything", "a": 1, "b": [None]}
            await session.set_model("opus")
            await session.set_model()
            await session.set_permission_mode("plan")
            await session.interrupt()
            assert (await session.context_usage())["asked"]["subtype"] == "get_context_usage"
            with pytest.raises(tapline.SessionError, match="refuse: the agent refused: not today"):
                await session.request("refuse")
            with pytest.raises(tapline.SessionError, match="no answer within 50ms"):
                await session.request("never", timeout=0.05)
            assert len(session.send("w 0")) == 36
            turn = await session.turn("w 0")
            assert turn.ok and session.id == "s-1"
        assert session.report.ok and "over" in repr(session)
        with pytest.raises(RuntimeError, match="has ended"):
            session.send("w 0")
        with pytest.raises(tapline.SessionError, match="has ended"):
            await session.turn("w 0")

    asyncio.run(main())


def test_a_session_that_cannot_begin(agent: Make, tmp_path: Path) -> None:
    async def begin(**options: Any) -> None:
        async with tapline.Session(**options):
            pytest.fail("it began")

    with pytest.raises(tapline.SessionError, match="startup: claude: not found") as caught:
        asyncio.run(begin(program=tmp_path / "claude"))
    assert caught.value.report is not None and caught.value.report.category == "startup"
    with pytest.raises(tapline.SessionError, match="could not begin") as caught:
        asyncio.run(begin(program=agent("sys.exit(3)")))
    assert caught.value.report is not None and caught.value.report.verdict.exit.code == 3
    with pytest.raises(ValueError, match="prompt"):
        asyncio.run(begin(program=agent(ASKING), prompt="x"))
    with pytest.raises(ValueError):
        asyncio.run(begin(agent="codex", program=agent(ASKING)))


def test_an_agent_that_dies_in_a_turn(agent: Make) -> None:
    dying = ASKING.replace("who, count =", "sys.exit(4)\n    who, count =")

    async def main() -> tapline.Session:
        async with tapline.Session(program=agent(dying)) as session:
            with pytest.raises(tapline.SessionError, match="ended"):
                await session.turn("w 0")
            with pytest.raises(tapline.SessionError):
                async for _ in session.turn("w 0"):
                    pass
        return session

    assert asyncio.run(main()).report.verdict.exit.code == 4


def test_an_exception_in_the_block_leaves_no_process(agent: Make, mark: str) -> None:
    async def main(how: BaseException) -> None:
        body = f'subprocess.Popen(["sleep", "{mark}"], start_new_session=True)\n{ASKING}'
        async with tapline.Session(program=agent(body), grace=0.2) as session:
            await session.turn("w 0")
            wait_until(lambda: bool(running(f"sleep {mark}")))
            raise how

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main(ZeroDivisionError()))
    assert running(mark) == []


def test_a_session_belongs_to_its_loop(agent: Make) -> None:
    session = tapline.Session(program=agent(ASKING))
    with pytest.raises(RuntimeError, match="has not begun"):
        session.send("w 0")

    async def begin() -> None:
        await session.__aenter__()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())

    async def ask() -> None:
        await session.interrupt()

    with pytest.raises(RuntimeError, match="belongs to the event loop"):
        asyncio.run(ask())
    loop.run_until_complete(session.finish())
    loop.close()


def test_the_real_claude_turn_by_turn(claude: Path, tapline_sim: StartSim, tmp_path: Path) -> None:
    sim = tapline_sim(
        """
        [[turn]]
        text = "I add."
        tool = [{ name = "mcp__tapline__add", input = { a = 2, b = 3 } }, { name = "mcp__more__fail", input = {} }]
        [[turn]]
        expect = { last = "no luck" }
        text = "Five."
        [[turn]]
        tool = [{ name = "Bash", input = { command = "touch one" } }]
        [[turn]]
        expect = { last = "not in this house" }
        tool = [{ name = "Bash", input = { command = "touch two" } }]
        [[turn]]
        text = "Done."
        [[turn]]
        when = { model = "other" }
        text = "Another model."
        """
    )
    events: list[str] = []

    @tapline.tool("add", "Adds two numbers", {"a": float, "b": float})
    async def add(args: dict[str, Any]) -> str:
        return str(args["a"] + args["b"])

    @tapline.tool("fail", "Never works", {})
    def fail(args: dict[str, Any]) -> str:
        raise RuntimeError("no luck")

    async def before(input: dict[str, Any], tool_use_id: str | None, context: dict[str, Any]) -> dict[str, Any]:
        events.append(f"{input['hook_event_name']} {input['tool_name']} {tool_use_id is not None}")
        if input["tool_input"].get("command") != "touch one":
            return {}
        reason = "not in this house"
        said = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
        return {"hookSpecificOutput": said}

    def prompted(input: dict[str, Any], tool_use_id: str | None, context: dict[str, Any]) -> None:
        events.append(f"prompt {input['prompt']}")

    def ask(tool: str, input: dict[str, Any], context: tapline.PermissionContext) -> tapline.PermissionAnswer:
        if tool == "Bash":
            return tapline.Allow(updated_input={**input, "command": "touch three"})
        return tapline.Allow()

    async def main() -> tapline.Report:
        async with tapline.Session(
            program=claude,
            cwd=tmp_path,
            timeout=300,
            tools=[add],
            mcp_servers={"more": tapline.ToolServer([fail])},
            hooks={"PreToolUse": [tapline.HookMatcher("Bash", [before])], "UserPromptSubmit": [prompted]},
            can_use_tool=ask,
            **sim.options,
        ) as session:
            first = await session.turn("add")
            assert first.ok and first.answer == "Five." and [call.name for call in first.calls] == ["mcp__tapline__add", "mcp__more__fail"]
            answers = [one for one in first.steps if isinstance(one, step.Answer)]
            assert sorted(one.status for one in answers) == ["error", "ok"] and any(one.text == "5" or one.text == "5.0" for one in answers)
            assert session.info["commands"] and session.id is not None
            running_turn = session.turn("write")
            seen = [one async for one in running_turn]
            assert running_turn.report.answer == "Done." and [one.name for one in seen if isinstance(one, step.Call)] == ["Bash", "Bash"]
            await session.set_permission_mode("acceptEdits")
            await session.set_model("other")
            assert (await session.turn("again")).answer == "Another model."
            return await session.finish()

    report = asyncio.run(main())
    assert report.ok and len(report.turns) == 3 and [prompt for prompt in report.prompts if "<" not in prompt] == ["add", "write", "again"]
    assert [path.name for path in tmp_path.iterdir()] == ["three"]
    assert events[0] == "prompt add" and "PreToolUse Bash True" in events


def test_the_real_claude_is_interrupted(claude: Path, tapline_sim: StartSim, tmp_path: Path, mark: str) -> None:
    # Claude Code refuses to run just `sleep`.
    command = f"""[[turn]]\ntool = [{{ name = "Bash", input = {{ command = "python3 -c 'import time; time.sleep({mark})'", timeout = 600000 }} }}]\n"""
    late = '[[turn]]\nwhen = { last = "once more" }\ndelay_ms = 1000000\ntext = "late"\n'
    sim = tapline_sim(late + command * 2 + '[[turn]]\nrepeat = "forever"\ntext = "Still here."\n')

    async def main() -> None:
        async with tapline.Session(
            program=claude,
            cwd=tmp_path,
            permission_mode="bypassPermissions",
            timeout=300,
            background_timeout=5,
            **sim.options,
        ) as session:

            async def until_it_sleeps() -> None:
                while not running(mark):
                    await asyncio.sleep(0.02)

            # By a request, while another task waits for the turn.
            waiting = asyncio.ensure_future(session.turn("sleep"))
            await until_it_sleeps()
            await session.interrupt()
            turn = await waiting
            assert turn.interrupted and not turn.ok, turn
            while running(mark):
                await asyncio.sleep(0.02)
            # Because nobody waits any more.
            waiting = asyncio.ensure_future(session.turn("sleep again"))
            await until_it_sleeps()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            # By its own limit.
            turn = await session.turn("once more", timeout=15)
            assert turn.interrupted, turn
            assert (await session.turn("hello?")).answer == "Still here."

    asyncio.run(main())
    assert running(mark) == []
