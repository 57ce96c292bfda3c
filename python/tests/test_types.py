"""The types hold: mypy and pyright in strict mode on the package, the examples and a program of a user's; the stubs are the module."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tapline
from conftest import ROOT

PACKAGE = Path(tapline.__file__).parent
EXAMPLES = ROOT / "python" / "examples"
CONFIG = ROOT / "pyproject.toml"

# What a user writes, and what the types say of it.
USER = '''
from collections.abc import Mapping
from typing import Any, assert_type

import tapline
from tapline import step


def look(path: str) -> None:
    for record in tapline.read(path):
        assert_type(record.raw, bytes)
        assert_type(record.data, dict[str, Any] | None)
    for one in tapline.steps(path):
        match one:
            case step.Call(name, title):
                assert_type(name, str)
                assert_type(title, str)
                assert_type(one.input, dict[str, Any] | None)
            case step.Text(text):
                assert_type(text, str)
            case _:
                assert_type(one.line, int)


def ask(tool: str, input: Mapping[str, Any], context: tapline.PermissionContext) -> tapline.Allow | tapline.Deny:
    return tapline.Deny(context.title or "") if tool == "Bash" else tapline.Allow()


@tapline.tool("add", "Adds", {"a": float})
async def add(args: dict[str, Any]) -> str:
    return str(args["a"])


async def main() -> None:
    async with tapline.start("x", timeout=3, can_use_tool=ask, tools=[add]) as run:
        async for one in run:
            assert_type(one, tapline.Step)
    assert_type(run.report.tools.calls[0].status == "ok", bool)
    assert_type(await tapline.start("x"), tapline.Report)
    async with tapline.Session(model="opus", hooks={"Stop": [lambda input, id, context: None]}) as session:
        turn = await session.turn("x")
        assert_type(turn.answer, str)
        assert_type(turn.calls, list[step.Call])


report = tapline.run("x", allowed_tools=["Read"])
assert_type(report.verdict.category, str | None)
assert_type(report.ledger.by_model["m"].cost_usd, float | None)
assert_type(report.turns[-1].usage, dict[str, Any])
'''
WRONG = 'import tapline\ntapline.run("x", timeuot=3)\ntapline.run("x", timeout="soon")\ntapline.report("x").verdit\n'


def check(*command: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", *map(str, command)]
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    path = tmp_path / "user.py"
    # `assert_type` is in typing from 3.11 on.
    path.write_text(USER.replace("from typing import Any, assert_type", "from typing import Any\n\nfrom typing_extensions import assert_type"))
    return path


def test_mypy_strict(user: Path, tmp_path: Path) -> None:
    options = ["--config-file", CONFIG, "--cache-dir", tmp_path / "cache"]
    for what in (["-p", "tapline"], [*EXAMPLES.glob("*.py"), user]):
        done = check("mypy", *options, *what)
        assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    done = check("mypy", *options, wrong)
    assert done.stdout.count(": error:") == 3, done.stdout


def test_pyright_strict(user: Path, tmp_path: Path) -> None:
    config = CONFIG.read_text().split("[tool.pyright]")[1]
    (tmp_path / "pyproject.toml").write_text(f"[tool.pyright]{config}")
    shutil.copytree(PACKAGE, tmp_path / "tapline", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for example in EXAMPLES.glob("*.py"):
        (tmp_path / example.name).write_text(example.read_text())
    done = check("pyright", "--pythonpath", sys.executable, "-p", tmp_path)
    assert done.returncode == 0, done.stdout
    (tmp_path / "wrong.py").write_text(WRONG)
    done = check("pyright", "--pythonpath", sys.executable, "-p", tmp_path)
    assert done.stdout.count("wrong.py:") >= 3, done.stdout


def test_the_stubs_are_the_module() -> None:
    done = check("mypy.stubtest", "tapline._native", "--ignore-missing-stub", "--concise")
    assert done.returncode == 0, done.stdout


def test_everything_public_says_what_it_is() -> None:
    public = {name: getattr(tapline, name) for name in tapline.__all__}
    ours = {name: one for name, one in public.items() if inspect.isclass(one) or inspect.isroutine(one)}
    assert [name for name, one in ours.items() if one.__module__.startswith("tapline") and not one.__doc__] == []
    for name in tapline.step.__all__:
        kind = getattr(tapline.step, name)
        assert kind.__doc__, name
        for field, value in vars(kind).items():
            if not field.startswith("_") and not callable(value):
                assert value.__doc__, f"{name}.{field}"
