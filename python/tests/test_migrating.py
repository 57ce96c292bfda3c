"""The Python column of docs/MIGRATING.md: its expressions give what the commands beside them print, and every test that it names is there.

`case (Python)` in its last cell means that `test_the_expression_gives_what_the_command_prints` runs the row on the input of its case.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tapline
from tapline import step
from tapline.pytest_plugin import StartSim

from conftest import GOOD, INIT, ROOT

Make = Callable[[str], Path]

SEEDS: dict[str, Any] = json.loads((ROOT / "fixtures/cases/seeds.json").read_text(encoding="utf-8"))
CODE = re.compile(r"`([^`]+)`")
IN_PYTHON = "case (Python)"


@dataclasses.dataclass(frozen=True)
class Row:
    number: int
    python: str
    shown_by: list[str]


def rows() -> list[Row]:
    found: list[Row] = []
    for line in (ROOT / "docs/MIGRATING.md").read_text(encoding="utf-8").splitlines():
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if len(cells) == 5 and cells[0].isdigit():
            found.append(Row(int(cells[0]), cells[3], [test.strip("`") for test in cells[4].split(", ")]))
    return found


ROWS = rows()
CASES = [(row, case) for row in ROWS if IN_PYTHON in row.shown_by for case in SEEDS["cases"] if row.number in case["rows"]]


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, tapline.Step):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name.rstrip("_"): plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}  # pyright: ignore
    if isinstance(value, (list, Iterator)):
        return [plain(one) for one in value]  # pyright: ignore
    return value


def names_of(source: bytes, report: tapline.Report) -> dict[str, list[Any]]:
    """The names that stand for many things: an expression with one of them is looked at for each."""
    records = list(tapline.read(source))
    contents = [record.data["message"]["content"] for record in records if record.data and "content" in (record.data.get("message") or {})]
    return {
        "record": records,
        "step": list(tapline.steps(source)),
        "call": report.tools.calls,
        "warning": report.verdict.warnings,
        "line": source.splitlines(),
        "block": [block for content in contents if isinstance(content, list) for block in content if isinstance(block, dict)],
        "model": list(report.ledger.by_model),
    }


def values(code: str, source: bytes, report: tapline.Report) -> list[Any]:
    """What an expression gives."""
    kind = re.fullmatch(r"(?:case )?step\.([A-Z]\w*)(?:\(.*\))?", code)
    if kind:
        return [one.to_dict() for one in tapline.steps(source) if isinstance(one, getattr(step, kind[1]))]
    known = {"tapline": tapline, "report": report, "source": source}
    for name, things in names_of(source, report).items():
        if re.match(rf"(?:\[.*)?(?:tapline\.\w+\(|report\.[\w.\[\]-]+\[)?{name}\b", code):
            got: list[Any] = []
            for thing in things:
                try:
                    got.append(plain(eval(code, {**known, name: thing})))
                except (AttributeError, KeyError, TypeError):
                    pass  # Not every step has what one kind of step has.
            return got
    return [plain(eval(code, known))]


def is_printed(value: Any, case: dict[str, Any], source: bytes) -> bool:
    """Whether a value is what the command prints."""
    if "out" not in case:
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        # The value of a key, or a value among words.
        values_of = [part.split('":', 1)[-1] for part in case["has"]]
        is_word = isinstance(value, str) and len(value) > 1
        return all(part in text for part in values_of) or is_word and any(text in part for part in case["has"])
    if case["out"] == "@input":
        return bool(value == source.decode())
    printed: str = case["out"].rstrip("\n")
    if not printed:
        return value in (None, "", [])
    as_lines = [one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in value] if isinstance(value, list) else None
    several = case["args"].count("--get") > 1
    candidates = [printed, *(printed.split("\n") if several else [])]
    return value in candidates or as_lines == printed.split("\n") or any(is_same(value, as_json(one)) for one in candidates)


def is_same(value: Any, read: Any) -> bool:
    """Whether two values are equal. To Python, True is 1."""
    return read is not None and value == read and isinstance(value, bool) == isinstance(read, bool)


def as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


# What expressions give that say it otherwise than the command does, or say something else of the same input. `...` is anything.
STARTED = [{"step": "session", "id": "01941f2a-3b4c-7d8e-9f0a-1b2c3d4e5f6a"}]
STRANGE = {"type": "assistant", "message": {"content": [..., {"type": "strange", "x": 1}, ..., ..., ...]}}
USED = {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 14253, "cache_creation_input_tokens": 1381}
OTHERWISE: dict[tuple[int, str, str], list[Any]] = {
    (2, "parser", "record.kind"): ["assistant", "assistant", "user", "system", None, None, "assistant", "user"],
    (4, "nested-id", "record.session_id is None"): [True],
    (18, "parser", 'record.kind != "system"'): [True, True, True, False, True, True, True, True],
    (20, "parser", "tapline.extract_text(line) is None"): [False, True, True, True, True, True, False, True],
    (144, "hook-first", "step.Session"): [{**STARTED[0], "model": "claude-opus-4-6"}],
    (160, "bot", "step.Thinking"): [{"step": "thinking", "text": "I need to analyze the codebase structure first..."}],
    (165, "bot", 'call.status == "error"'): [False, True],
    (200, "bot", "step.usage"): [None, {"input_tokens": 1500, "output_tokens": 50}, *[...] * 7, {"input_tokens": 5000, "output_tokens": 1200}],
    (215, "bot", "step.Session"): STARTED,
    (216, "bot", "step.Call"): [{"name": "Bash", "title": "`ls -la`"}, {"name": "Bash", "title": "`git status`"}],
    (224, "bot", 'step.status == "ok"'): [True, False],
    (225, "bot", 'step.status == "error"'): [False, True],
    (230, "bot", "report.ok"): [True],
    (231, "bot-error", "not report.ok"): [True],
    (231, "sub-error", "not report.ok"): [True],
    (248, "codex", "report.cost_usd is None"): [True],
    (292, "node", "step.usage"): [None, USED, None, {"input_tokens": 0, "output_tokens": 0}],
    (292, "node", "report.text"): ["test stream"],
    (319, "no-subtype", "record.subtype"): [None, None],
    (325, "audit", "report.text"): ["Here are 5 venues near you...\n\nThe end."],
    (333, "audit", "record.data"): [..., ..., STRANGE, *[...] * 11],
    (365, "hang", "report.verdict.clean"): [False],
    (365, "hang-many", "report.category"): [None],
    (366, "hang-tool", "report.verdict.clean"): [False],
    (366, "hang-refused", "report.verdict.clean"): [False],
    (366, "hang-late", "report.verdict.clean"): [False],
    (366, "hang-answered", "report.category"): [None],
    (367, "hang", "report.turns[-1].stop_reason"): ["end_turn"],
    (374, "bg", "report.verdict.clean"): [False],
    (374, "bg-done", "report.category"): [None],
    (379, "hang", "report.error is None"): [True],
}


def has(value: Any, expected: Any) -> bool:
    """Whether a value is as expected, and a dict has at least what is expected of it."""
    if isinstance(expected, dict):
        return isinstance(value, dict) and all(key in value and has(value[key], one) for key, one in expected.items())  # pyright: ignore
    if isinstance(expected, list):
        return isinstance(value, list) and len(value) == len(expected) and all(map(has, value, expected))  # pyright: ignore
    return expected is ... or is_same(value, expected) or value is expected is None


def test_what_is_said_otherwise_is_said_somewhere() -> None:
    used = {(row.number, case["input"], code) for row, case in CASES for code in CODE.findall(row.python)}
    assert set(OTHERWISE) <= used


@pytest.mark.parametrize(("row", "case"), CASES, ids=[f"{row.number}" for row, _ in CASES])
def test_the_expression_gives_what_the_command_prints(row: Row, case: dict[str, Any]) -> None:
    source = SEEDS["inputs"][case["input"]].encode()
    report = tapline.report(source, heuristics="--no-heuristics" not in case["args"])
    codes = CODE.findall(row.python)
    assert codes, row
    # Each by itself.
    for code in codes:
        got = values(code, source, report)
        if (expected := OTHERWISE.get((row.number, case["input"], code))) is not None:
            assert has(got, expected), (code, got, expected)
            continue
        known = [one for one in got if one is not None]
        lists = [some for some in got if isinstance(some, list)]
        found = [*got, known, "\n".join(map(str, known)), list(dict.fromkeys(map(str, known)))]
        found += [[one for some in lists for one in some]] if lists else []
        assert any(is_printed(one, case, source) for one in found), (code, got, case)


def test_every_row_names_what_shows_it_in_python() -> None:
    assert len(CASES) > 250
    for row in ROWS:
        named = [test for test in row.shown_by if test.startswith("python/")]
        assert named or IN_PYTHON in row.shown_by or row.python == "–", row
        for test in named:
            file, name = test.removeprefix("python/").split("::")
            assert f"def {name}(" in (ROOT / f"python/tests/{file}.py").read_text(encoding="utf-8"), (row, test)


def test_what_the_view_says_in_words_is_there_as_values() -> None:
    def report(name: str) -> tapline.Report:
        return tapline.report(SEEDS["inputs"][name].encode())

    assert report("bot-denied").verdict.warnings[0].code == "permission-denied"
    (by_case,) = [case for case in SEEDS["cases"] if 226 in case["rows"]]
    ledger = report(by_case["input"]).ledger
    assert (ledger.tokens.input, ledger.tokens.output, ledger.tokens.cache_read) == (5000, 1200, 3000)
    (thought,) = [one for one in tapline.steps(SEEDS["inputs"]["bot"].encode()) if isinstance(one, step.Thinking)]
    assert thought.text.startswith("I need to analyze")
    assert report("node").session.mcp_servers[1] == {"name": "claude.ai Gmail", "status": "needs-auth"}


RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "four", "num_turns": 1, "session_id": "s-1"}


def stream(*lines: object) -> bytes:
    return "".join(line if isinstance(line, str) else f"{json.dumps(line)}\n" for line in [json.loads(INIT), *lines]).encode()


def test_what_is_missing_or_broken_counts_nothing() -> None:
    whole = tapline.report(stream(RESULT))
    assert whole.ok and whole.session.api_key_source == "none" and whole.turns[-1].usage["input_tokens"] == 0
    assert tapline.report(stream({**json.loads(INIT), "apiKeySource": 3}, RESULT)).session.inits == 2
    assert tapline.report(json.dumps({"type": "system", "subtype": "init", "session_id": "s", "apiKeySource": 3}).encode()).session.api_key_source is None
    odd = [{"type": "assistant", "message": {}}, {"type": "assistant", "message": {"content": 5}}, {"type": "assistant", "message": {"content": [{"type": "text"}]}}]
    for one in odd:
        assert tapline.report(stream(one, RESULT)).text == "" and tapline.report(stream(one, RESULT)).ok
    for broken in (None, "many", [1], {}):
        report = tapline.report(stream({**RESULT, "usage": {"input_tokens": broken, "output_tokens": 2}}))
        assert (report.ledger.tokens.input, report.ledger.tokens.output) == (0, 2)
    missing = {key: value for key, value in RESULT.items() if key != "is_error"}
    assert tapline.report(stream(missing)).ok and tapline.report(stream({**RESULT, "is_error": "true"})).ok
    assert not tapline.report(stream({**RESULT, "is_error": True})).ok
    long = tapline.report(stream({**RESULT, "is_error": True, "result": "x" * 10_000}))
    assert (long.error or "").endswith(" ... (truncated)") and long.turns[-1].result == "x" * 10_000
    silent = tapline.report(stream({"type": "result", "subtype": "success", "is_error": True, "session_id": "s-1"}))
    assert silent.error == "API error (no detail)"
    assert tapline.report(stream()).category == "no_result"
    broken_line = tapline.report(stream('{"type": "assistant", broken\n', RESULT))
    assert [warning.code for warning in broken_line.verdict.warnings] == ["malformed-line"] and broken_line.ok


def test_lines_and_steps_by_their_kind() -> None:
    lines = [
        {"type": "tool_progress", "tool_use_id": "t", "tool_name": "Bash", "elapsed_time_seconds": 30, "session_id": "s-1"},
        {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10, "retry_delay_ms": 500, "error_status": 529, "session_id": "s-1"},
        {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u-1", "session_id": "s-1"},
        RESULT,
    ]
    source = stream(*lines)
    records = list(tapline.read(source))
    assert [record.kind for record in records] == ["system", "tool_progress", "system", "user", "result"]
    assert records[3].uuid == "u-1" and records[4].data == RESULT
    assert [type(one) for one in tapline.steps(source)] == [step.Session, step.Progress, step.Retry, step.Prompt, step.Turn]
    turn = tapline.report(source).turns[-1]
    assert (turn.subtype, turn.is_error, turn.result, turn.num_turns) == ("success", False, "four", 1)


def test_documents_and_lines_of_any_size_are_read() -> None:
    lines = [json.loads(INIT), RESULT]
    assert tapline.report(json.dumps(lines).encode()).answer == tapline.report(json.dumps(RESULT).encode()).answer == "four"
    assert tapline.report(json.dumps(lines, indent=2).encode()).session_id == "s-1"
    large = "x" * (16 << 20)
    assert tapline.report(stream({**RESULT, "result": large})).answer == large


def test_how_a_run_ended(agent: Make, tmp_path: Path) -> None:
    good = tapline.run("x", program=agent(GOOD))
    assert good.verdict.exit.code == 0 and good.exit_code == 0
    failed = tapline.run("x", program=agent(f"say({INIT}); print('it broke', file=sys.stderr); sys.exit(3)"))
    assert failed.verdict.exit.code == 3 and failed.error is not None and not failed.ok
    # A shell is there at once, however busy the machine is.
    silent = tmp_path / "claude"
    silent.write_text("#!/bin/sh\nexec sleep 1000\n")
    silent.chmod(0o755)
    stopped = tapline.run("x", program=silent, idle_timeout=1, grace=0.2)
    assert stopped.category == "timeout" and stopped.exit_code == 124


def test_sessions_go_on_with_flags(agent: Make) -> None:
    body = f'sys.stdin.read()\nsay({{**{RESULT}, "result": " ".join(sys.argv[1:])}})'
    program = agent(body)
    assert "--resume=s-9" in (tapline.run("x", program=program, resume="s-9").answer or "")
    forked = tapline.run("x", program=program, continue_last=True, fork=True, max_turns=10).answer or ""
    assert all(flag in forked for flag in ("--continue", "--fork-session", "--max-turns=10")), forked


def test_the_recipes_with_the_real_claude(claude: Path, tapline_sim: StartSim, tmp_path: Path) -> None:
    scenario = """
        [[turn]]
        text = "I look."
        tool = [{ name = "Bash", input = { command = "echo hello" } }]
        [[turn]]
        text = "It says hello."
        [[turn]]
        text = "Once more."
        [[turn]]
        text = "And apart."
    """
    sim = tapline_sim(scenario)
    options: dict[str, Any] = {"program": claude, "cwd": tmp_path, "timeout": 300, "permission_mode": "bypassPermissions", **sim.options}

    async def first() -> tapline.Run:
        async with tapline.start("look", partial=True, **options) as run:
            seen = [one async for one in run]
        # Every text is typed first, and then there as a whole.
        typed = [one for one in seen if isinstance(one, step.Partial) and one.kind == "text" and one.text]
        whole = [one for one in seen if isinstance(one, step.Text)]
        assert "".join(one.text for one in typed) == "".join(one.text for one in whole) == "I look.It says hello."
        assert seen.index(typed[0]) < seen.index(whole[0])
        return run

    report = asyncio.run(first()).report
    assert report.ok and report.answer == "It says hello." and report.text == "I look.\nIt says hello."
    assert [call.name for call in report.tools.calls] == ["Bash"] and report.cost_usd is not None
    assert report.turns[-1].usage["output_tokens"] > 0 and report.session.cli_version == claude.parents[2].name.removeprefix("claude-")
    assert report.session.model and report.session_id
    again = tapline.run("again", resume=report.session_id, **options)
    assert (again.answer, again.session_id) == ("Once more.", report.session_id)
    apart = tapline.run(f"{report.text}\nWhat follows?", **options)
    assert apart.answer == "And apart." and apart.session_id != report.session_id
    assert "It says hello." in json.dumps(sim.requests[-1]) and not any(isinstance(one, step.Partial) for one in tapline.steps(b""))


BACKGROUND = """
    [[turn]]
    tool = [{ name = "Agent", input = { description = "Look around", prompt = "Look around and tell.", run_in_background = true } }]
    [[turn]]
    text = "It works in the background."
    [[turn]]
    when = { last = "task-notification" }
    text = "It is done."
    [[turn]]
    when = { agent = "sub" }
    delay_ms = 300
    text = "Nothing to see."
"""


def test_background_tasks_are_waited_for(claude: Path, tapline_sim: StartSim, tmp_path: Path) -> None:
    sim = tapline_sim(BACKGROUND)
    report = tapline.run("delegate", program=claude, cwd=tmp_path, permission_mode="bypassPermissions", timeout=300, **sim.options)
    assert report.ok and report.answer == "It is done." and [task.status for task in report.tasks] == ["completed"]
    assert len(report.turns) == 2, "the task woke the agent again"


def test_background_timeout_ends_a_plain_run(claude: Path, tapline_sim: StartSim, tmp_path: Path) -> None:
    sim = tapline_sim(BACKGROUND.replace("delay_ms = 300", "delay_ms = 1000000"))
    # Neither of the longer limits may be what ends it.
    limits: dict[str, Any] = {"background_timeout": 1, "linger": 600, "timeout": 120, "grace": 1}
    report = tapline.run("delegate", program=claude, cwd=tmp_path, permission_mode="bypassPermissions", **limits, **sim.options)
    assert report.ok and report.answer == "It works in the background.", report
    assert [task.terminal for task in report.tasks] == [True], report.tasks


# Ends its turn while a task goes on. The task ends when a file is there, and wakes the agent.
WITH_A_TASK = f"""
say({INIT})
say({{"type": "system", "subtype": "task_started", "task_id": "t", "task_type": "local_bash", "description": "d", "session_id": "s-1"}})
say({RESULT})
while not os.path.exists(sys.argv[0] + ".go"): time.sleep(0.02)
ended = {{"type": "system", "subtype": "background_tasks_changed", "tasks": [], "session_id": "s-1"}}
# In one piece: an agent that has no task any more is soon stopped.
print("\\n".join(map(json.dumps, [ended, {INIT}, {{**{RESULT}, "result": "five"}}])), flush=True)
"""


@pytest.mark.parametrize(("limit", "answer"), [(1, "four"), (300, "five")])
def test_how_long_background_tasks_are_waited_for(agent: Make, limit: float, answer: str) -> None:
    program = agent(WITH_A_TASK)

    async def main() -> tapline.Report:
        async with tapline.start("x", program=program, background_timeout=limit, linger=0.1, grace=0.2, timeout=300) as run:
            async for one in run:
                if isinstance(one, step.Turn) and answer == "five":
                    # Later than an agent without tasks would be stopped.
                    await asyncio.sleep(0.5)
                    Path(f"{program}.go").touch()
        return run.report

    report = asyncio.run(main())
    assert report.answer == answer and report.category != "timeout", report
    assert report.duration is not None and report.duration >= min(limit, 0.5)
