"""The functions on one line do what the functions of the documents do that they replace."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tapline

from conftest import STREAMS

LINES = [line for path in STREAMS for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def seed_text(line: str) -> str | None:
    data = json.loads(line)
    if data.get("type") != "assistant":
        return None
    parts: list[str] = []
    for item in data.get("message", {}).get("content", []):
        if isinstance(item, dict) and item.get("type") == "text" and item.get("text"):
            parts.append(item["text"])
    return "\n".join(parts) if parts else None


def seed_blocks(line: str, message: str, block: str) -> list[Any]:
    data = json.loads(line)
    if data.get("type") != message:
        return []
    content = data.get("message", {}).get("content", [])
    return [item for item in content if isinstance(item, dict) and item.get("type") == block]


def test_the_same_as_the_documents_say_on_every_fixture() -> None:
    asked = 0
    for line in LINES:
        try:
            expected = seed_text(line)
        except (ValueError, AttributeError, TypeError):
            # The documents' functions raise here; ours do not.
            tapline.extract_text(line), tapline.extract_tool_uses(line), tapline.extract_tool_results(line)
            continue
        if "\\ud" in line.lower():
            continue
        asked += 1
        assert tapline.extract_text(line) == expected
        assert tapline.extract_text(line.encode()) == expected
        assert tapline.extract_tool_uses(line) == seed_blocks(line, "assistant", "tool_use")
        assert tapline.extract_tool_results(line) == seed_blocks(line, "user", "tool_result")
        assert tapline.extract_session_id(line) == (json.loads(line).get("session_id") or None)
    assert asked > 100


def test_the_session_id_is_at_the_top_level_only() -> None:
    assert tapline.extract_session_id('{"type":"assistant","message":{"session_id":"inner"}}') is None
    assert tapline.extract_session_id(b'{"session_id":"abc123-def456"}\r\n') == "abc123-def456"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Success", "Success"),
        ([{"type": "text", "text": "first"}, {"type": "text", "text": "second"}], "first"),
        ([{"type": "image"}, "x", {"type": "text", "text": "after"}], "after"),
        ([], None),
        (None, None),
        (7, None),
    ],
)
def test_the_content_of_a_tool_result_is_a_string_or_the_first_text(content: object, expected: str | None) -> None:
    assert tapline.extract_tool_result_content({"type": "tool_result", "content": content}) == expected


def test_what_a_tool_does_in_a_persons_words() -> None:
    bash = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls -la"}}
    assert tapline.tool_summary(bash) == "running: `ls -la`"
    read = {"type": "tool_use", "id": "u", "name": "Read", "input": {"file_path": "/repo/main.py"}}
    line = json.dumps({"type": "assistant", "message": {"content": [bash, {"type": "text", "text": "x"}, read]}})
    assert tapline.tool_summary(line) == "running: `ls -la`\nreading: `/repo/main.py`"
    assert tapline.tool_summary('{"type":"user"}') is None
    assert tapline.tool_summary({"type": "tool_use", "input": {1, 2}}) is None  # type: ignore[arg-type,dict-item]
    command = {"id": "i", "type": "command_execution", "command": "ls", "status": "in_progress"}
    assert tapline.tool_summary(json.dumps({"type": "item.started", "item": command})) == "running: `ls`"
