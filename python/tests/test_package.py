"""What is installed: the plugin's fixtures, the command, the examples."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tapline
from conftest import ROOT
from tapline._command import command
from tapline.pytest_plugin import StartSim
from tapline.testing import Sim

EXAMPLES = ROOT / "python" / "examples"


def test_the_wheel_brings_the_command() -> None:
    program = command()
    assert program is not None and Path(program).parent == Path(sys.executable).parent
    expected = subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True).stdout
    assert expected.startswith(b"tapline ")
    for words in ([sys.executable, "-m", "tapline"], [Path(program).with_name("tapline-py")]):
        assert subprocess.run([*words, "--version"], stdout=subprocess.PIPE, check=True).stdout == expected
    assert expected.split() == [b"tapline", tapline.__version__.encode()]


def test_the_name_of_the_package_is_not_that_of_the_import() -> None:
    assert importlib.metadata.version("tapline-py") == tapline.__version__
    assert importlib.metadata.packages_distributions()["tapline"] == ["tapline-py"]


def test_pytest_finds_the_fixtures(pytester: pytest.Pytester, claude: Path) -> None:
    pytester.makepyfile(
        f"""
        import tapline

        PROGRAM = {str(claude)!r}

        def test_one(tapline_sim, tmp_path):
            sim = tapline_sim('turn = [{{ text = "Hello." }}]')
            report = tapline.run("say hello", program=PROGRAM, cwd=tmp_path, record=tmp_path / "kept", **sim.options)
            assert report.answer == "Hello."

        def test_two(tapline_sim):
            tapline_sim({{"expect": {{"requests": 1}}, "turn": [{{"text": "x"}}]}})

        def test_three(tapline_sim):
            tapline_sim({{"expect": {{"requests": 1}}, "turn": [{{"text": "x"}}]}}, strict=False)

        def test_four(tapline_sim):
            tapline_sim("turn = [")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    # A scenario that was not followed is an error of the test that started it.
    result.assert_outcomes(passed=3, errors=1, failed=1)
    result.stdout.fnmatch_lines(["*the scenario was not followed*"])


def test_a_sim_that_is_closed() -> None:
    with Sim({"turn": [{"text": "x"}]}) as sim:
        home = sim.home
        assert home.is_dir() and sim.env["HOME"] == str(home) and "PATH" in sim.env and sim.url.startswith("http://127.0.0.1:")
        assert sim.notes == ["no request reached the model"] and sim.requests == []
    assert not home.exists()
    with pytest.raises(RuntimeError, match="closed"):
        _ = sim.url


def test_a_scenario_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text('turn = [{ text = "x" }]')
    with Sim(path) as sim:
        assert sim.failures == []


def example(name: str, *args: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, EXAMPLES / name, *args]
    return subprocess.run(words, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def test_no_example_is_longer_than_forty_lines() -> None:
    assert {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py") if len(path.read_text().splitlines()) > 40} == {}
    assert len(list(EXAMPLES.glob("*.py"))) == 3


@pytest.fixture
def env(claude: Path, tapline_sim: StartSim) -> Callable[[str], dict[str, str]]:
    """The environment of a program that uses the real claude on a scripted model."""
    return lambda scenario: {**tapline_sim(scenario).env, "TAPLINE_CLAUDE_BIN": str(claude), "CLAUDE_CODE_MAX_RETRIES": "1"}


SCENARIO = """
[[turn]]
text = "I look."
tool = [{ name = "Read", input = { file_path = "notes.txt" } }, { name = "Read", input = { file_path = "missing.txt" } }]
[[turn]]
text = "Two lines."
"""


def test_the_streaming_command_runner(env: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    done = example("stream_runner.py", "look", env=env(SCENARIO), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Session ID: ") and lines[1:4] == ["Text: I look.", "Tool: Read", "Tool: Read"]
    assert any(line.startswith("Failed: Read: ") for line in lines) and lines[-1] == "Text: Two lines."


def test_the_bot(env: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    done = example("bot.py", "look", env=env(SCENARIO), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("session started, resume with ") and "▸ reading: `notes.txt`" in lines
    assert "✓ read: `notes.txt`" in lines and any(line.startswith("✗ read: `missing.txt`: ") for line in lines)
    assert lines[-1] == "Two lines."
    failed = example("bot.py", "look", env=env('turn = [{ fault = [{ kind = "error", status = 401, times = "forever" }] }]'), cwd=tmp_path)
    assert failed.returncode == 1 and any(line.startswith("auth: ") for line in failed.stdout.splitlines()), failed


def test_the_skill_auditor(env: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    done = example("auditor.py", "go", env=env('turn = [{ text = "Here are 5 venues." }]'), cwd=tmp_path)
    result = json.loads(done.stdout)
    assert result["output"] == "Here are 5 venues." and result["succeeded_cleanly"] and result["error"] is None
    assert result["tokens"] == [12, 42] and result["duration_seconds"] > 0 and result["exit_code"] == 0
    assert result["api_key_source"] == "ANTHROPIC_API_KEY" and result["warnings"] == []
    asked = json.loads(example("auditor.py", "go", env=env('turn = [{ text = "Which city?" }]'), cwd=tmp_path).stdout)
    assert asked["error_category"] == "interactive" and asked["error"] is None and not asked["succeeded_cleanly"]
    missing = {**os.environ, "TAPLINE_CLAUDE_BIN": str(tmp_path / "nowhere")}
    gone = json.loads(example("auditor.py", "go", env=missing, cwd=tmp_path).stdout)
    assert gone["error"].startswith("claude: not found: ") and gone["exit_code"] is None and gone["duration_seconds"] >= 0


def test_no_thread_is_made_by_importing() -> None:
    text = "import threading, os, tapline; print(len(os.listdir('/proc/self/task')), threading.active_count())"
    assert subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, check=True, text=True).stdout.split() == ["1", "1"]
