"""Reports and steps: values with types, the same as the command prints."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tapline
from tapline import step
from tapline._command import command

from conftest import ROOT, STREAMS

TOOLS = ROOT / "fixtures/claude-2.1.325/tools.jsonl"


def tool(*args: object) -> str:
    program = command()
    assert program is not None, "the wheel brings the command along"
    return subprocess.run([program, *map(str, args)], stdout=subprocess.PIPE, check=False, text=True, encoding="utf-8").stdout


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_same_as_the_command_says(path: Path) -> None:
    assert tapline.report(path).to_dict() == tapline.Report.from_json(tool("inspect", "--json", path)).to_dict()
    printed = tool("convert", "--to", "steps", path).rstrip("\n").split("\n")
    ours = list(tapline.steps(path))
    # The command's last step is the end of the stream.
    assert [json.loads(one.to_json()) for one in ours] == [json.loads(line) for line in printed[: len(ours)]]
    assert [json.loads(line)["step"] for line in printed[len(ours) :]] == ["end"]


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_key_is_an_attribute(path: Path) -> None:
    report = tapline.report(path)
    for key, value in report.to_dict().items():
        check(getattr(report, key), value)
    for one in tapline.steps(path):
        for key, value in one.to_dict().items():
            if key != "arrived_ms":
                assert getattr(one, key) == value, (one, key)


def check(ours: Any, json_value: Any) -> None:
    if dataclasses.is_dataclass(ours):
        names = {one.name.rstrip("_"): one.name for one in dataclasses.fields(ours)}
        for key, value in json_value.items():
            assert key in names, f"{type(ours).__name__} has no {key}"
            check(getattr(ours, names[key]), value)
    elif isinstance(ours, list):
        assert len(ours) == len(json_value)
        for one, value in zip(ours, json_value):
            check(one, value)
    elif isinstance(ours, dict):
        assert ours.keys() == json_value.keys()
        for key in ours:
            check(ours[key], json_value[key])
    else:
        assert ours == json_value


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_reports_and_steps_are_values(path: Path) -> None:
    report = tapline.report(path)
    assert report == tapline.Report.from_json(report.to_json()) == pickle.loads(pickle.dumps(report)) == copy.deepcopy(report)
    # One transcript is empty: the real program left it so.
    assert report != tapline.report(b'{"type":"another"}\n') and report != "a report"
    for one in tapline.steps(path):
        again = pickle.loads(pickle.dumps(one))
        assert again == one and type(again) is type(one) and hash(again) == hash(one)


def test_a_report_worth_reading() -> None:
    report = tapline.report(TOOLS)
    shown = repr(report)
    assert shown.startswith("<Report success") and f"calls={len(report.tools.calls)}" in shown and "cost=$" in shown
    assert "rate_limit" in repr(tapline.report(ROOT / "fixtures/claude-2.1.325/rate.jsonl"))
    assert report.ok and report.exit_code == 0 and report.session_id == report.session.id
    assert report.get("tools.calls[0].name") == report.tools.calls[0].name
    assert report.get("structured.nothing") is None
    with pytest.raises(ValueError, match="did you mean `session.id`?"):
        report.get("sesion.id")
    with pytest.raises(ValueError):
        tapline.Report.from_json("no report")


def test_what_a_stream_cannot_know_is_given() -> None:
    assert tapline.report(b"", exit_code=1, stderr="boom").verdict.outcome == "failure"
    timed_out = tapline.report(TOOLS, timed_out=True)
    assert (timed_out.category, timed_out.error) == ("timeout", "timeout")
    assert tapline.report(b"", signal="SIGKILL").verdict.exit.signal == "SIGKILL"
    assert tapline.report(TOOLS, exit_code=0).verdict.exit.class_ == "success"


def test_steps_can_be_matched() -> None:
    seen: list[str] = []
    for one in tapline.steps(TOOLS):
        match one:
            case step.Session(str(), model):
                seen.append(f"session of {model}")
            case step.Call("Bash", title):
                seen.append(f"{one.doing} {title}")
            case step.Answer(status="ok" | "error" as status):
                seen.append(status)
            case step.Turn("success", result=str(result)):
                seen.append(result)
    assert seen[0].startswith("session of ") and any(line.startswith("running `") for line in seen)
    assert "ok" in seen and seen[-1] == tapline.report(TOOLS).answer


def test_every_step_is_of_the_class_of_its_kind() -> None:
    kinds = {type(one).__name__: one.step for path in STREAMS for one in tapline.steps(path)}
    assert len(kinds) > 15
    for name, kind in kinds.items():
        assert name.lower() == kind.replace("_", "")
        assert issubclass(getattr(step, name), tapline.Step)


def test_a_step_worth_reading() -> None:
    call = next(one for one in tapline.steps(TOOLS) if isinstance(one, step.Call))
    assert repr(call).startswith(f"Call(line={call.line}, id='{call.id}', name='Bash', doing='running'")
    long = tapline.Step.from_json(json.dumps({"step": "text", "line": 1, "text": "x" * 10_000}))
    assert len(repr(long)) < 200
    assert type(tapline.Step.from_json('{"step":"of another version","line":1}')) is step.Quiet
    with pytest.raises(ValueError):
        tapline.Step.from_json("{}")
    with pytest.raises(AttributeError):
        call.name = "Read"  # type: ignore[misc]
