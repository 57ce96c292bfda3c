"""Reading: every kind of source, every kind of bad input."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tapline

from conftest import ROOT, STREAMS

TOOLS = ROOT / "fixtures/claude-2.1.325/tools.jsonl"


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_byte_is_lost_and_data_is_what_json_says(path: Path) -> None:
    records = list(tapline.read(path, format="stream-json"))
    assert b"".join(record.raw for record in records) == path.read_bytes()
    assert [record.line for record in records] == list(range(1, len(records) + 1))
    for record in records:
        try:
            expected = json.loads(record.raw)
        except ValueError:
            assert record.data is None
            continue
        if not isinstance(expected, dict):
            assert record.data is None and record.kind is None
        elif "\\ud" not in record.text.lower():
            assert record.data == expected
            kind = expected.get("type")
            assert record.kind == (kind if isinstance(kind, str) else None)
            assert record.session_id == (expected.get("session_id") or None)


def sources() -> Iterator[tuple[str, object]]:
    raw = TOOLS.read_bytes()
    yield "str path", str(TOOLS)
    yield "path", TOOLS
    yield "bytes", raw
    yield "bytearray", bytearray(raw)
    yield "memoryview", memoryview(raw)
    yield "binary file", TOOLS.open("rb")
    yield "file without a buffer", TOOLS.open("rb", buffering=0)
    yield "text file", TOOLS.open(encoding="utf-8")
    yield "BytesIO", io.BytesIO(raw)
    yield "StringIO", io.StringIO(raw.decode())
    yield "gzip", gzip.open(io.BytesIO(gzip.compress(raw)))
    yield "lines with their ends", raw.splitlines(keepends=True)
    yield "lines without their ends", raw.decode().split("\n")[:-1]
    yield "generator", (line for line in raw.decode().split("\n")[:-1])


@pytest.mark.parametrize("source", [pytest.param(source, id=name) for name, source in sources()])
def test_every_source_gives_the_same_records(source: tapline.Source) -> None:
    assert list(tapline.read(source)) == list(tapline.read(TOOLS))


def test_steps_and_reports_take_every_source_too() -> None:
    raw = TOOLS.read_bytes()
    assert list(tapline.steps(io.BytesIO(raw))) == list(tapline.steps(TOOLS))
    assert tapline.report(raw) == tapline.report(TOOLS) == tapline.report(iter(raw.splitlines()))


def test_a_line_is_handed_on_as_soon_as_it_is_there() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as sink:
        sink.write(b'{"type":"system","subtype":"init","session_id":"s"}\n')
        records = tapline.read(source)
        assert next(records).session_id == "s"
        sink.write(b'{"type":"keep_alive"}\n')
        assert next(records).kind == "keep_alive"


def test_the_output_of_a_process_is_a_source() -> None:
    command = [sys.executable, "-c", "print('{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"4\",\"num_turns\":1}')"]
    for text in (False, True):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=text) as process:
            assert process.stdout is not None
            assert tapline.report(process.stdout).answer == "4"


def test_the_gil_is_released_while_reading(tmp_path: Path) -> None:
    # Reading waits in Rust for a writer, and the writer is Python: with the GIL held neither would go on.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[tapline.Record] = []
    thread = threading.Thread(target=lambda: read.extend(tapline.read(pipe)), daemon=True)
    thread.start()
    with pipe.open("wb") as sink:
        sink.write(b'{"type":"keep_alive"}\n')
    thread.join(60)
    assert [record.kind for record in read] == ["keep_alive"]


BAD = [
    b"",
    b"\n\n\n",
    b"{",
    b"}",
    b"null\n1\n[]\n\"x\"\n",
    b"\xff\xfe\xfd\n",
    b"\xef\xbb\xbf{\"type\":\"result\"}\n",
    b'{"type":"assistant","message":null}\n{"type":"assistant","message":{"content":7}}\n',
    b'{"type":"assistant","message":{"content":[null,1,"x",{"type":"text"},{"type":"text","text":null}]}}\n',
    b'{"type":1,"session_id":2}\n{"type":null}\n{"session_id":"only"}\n',
    b'{"type":"result","is_error":"true","usage":"x","total_cost_usd":"y","num_turns":[]}\n',
    b'{"type":"result","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    b'{"type":"result","a":' + b"9" * 10_000 + b',"b":1e999,"c":-0,"d":12345678901234567890}\n',
    b'{"type":"result","result":"half an emoji \\ud83d"}\n',
    b'{"type":"x","type":"y","a":1,"a":2}\n',
    b"\0" * 4096,
]


@pytest.mark.parametrize("raw", BAD, ids=range(len(BAD)))
def test_nothing_raises_on_bad_input(raw: bytes) -> None:
    records = list(tapline.read(raw, format="stream-json"))
    assert b"".join(record.raw for record in records) == raw
    for record in records:
        _ = record.data, record.text, record.kind, record.session_id, record.time, repr(record)
        tapline.extract_text(record.raw), tapline.extract_tool_uses(record.raw), tapline.tool_summary(record.raw)
        tapline.extract_tool_results(record.raw), tapline.extract_session_id(record.raw)
    assert all(isinstance(repr(step), str) for step in tapline.steps(raw))
    report = tapline.report(raw)
    assert report.verdict.outcome in ("success", "failure", "incomplete")
    assert isinstance(repr(report), str) and isinstance(report.text, str) and report.to_dict()["schema"] == 1


def test_nothing_raises_on_mangled_streams() -> None:
    dice = random.Random(13)
    raw = TOOLS.read_bytes()
    for _ in range(200):
        mangled = bytearray(raw)
        for _ in range(dice.randrange(1, 40)):
            mangled[dice.randrange(len(mangled))] = dice.randrange(256)
        records = list(tapline.read(bytes(mangled), format="stream-json"))
        assert b"".join(record.raw for record in records) == mangled
        assert all(record.data is None or isinstance(record.data, dict) for record in records)
        assert tapline.report(mangled).stream.bytes == len(mangled)


def test_odd_values_as_python_has_them() -> None:
    line = b'{"big":12345678901234567890,"huge":1e999,"neg":-0,"half":"\\ud83d","pair":"\\ud83d\\ude00","k":1,"k":2,"t":[true,false,null,1.5]}'
    (record,) = tapline.read([line])
    assert record.data == {
        "big": 12345678901234567890,
        "huge": float("inf"),
        "neg": 0,
        "half": "\ufffd",
        "pair": "😀",
        "k": 2,
        "t": [True, False, None, 1.5],
    }


def test_what_the_file_or_iterator_raises_is_raised() -> None:
    class Mine(Exception):
        pass

    def lines() -> Iterator[str]:
        yield '{"type":"keep_alive"}'
        yield '{"type":"keep_alive"}'
        raise Mine("no more")

    records = tapline.read(lines())
    assert [next(records).line, next(records).line] == [1, 2]
    with pytest.raises(Mine, match="no more"):
        next(records)
    assert list(records) == []


def test_a_path_that_cannot_be_read_is_an_os_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing.jsonl"
    for read in (tapline.read, tapline.steps, tapline.report):
        with pytest.raises(FileNotFoundError) as caught:
            read(missing)
        assert caught.value.filename == str(missing)
        with pytest.raises(IsADirectoryError, match="not a recording"):
            read(tmp_path)


def test_the_wrong_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="a path, bytes, a file or an iterator of lines is needed, not int"):
        tapline.read(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a line is str or bytes, not int"):
        list(tapline.read([1, 2]))  # type: ignore[list-item]
    with pytest.raises(ValueError, match="agent is 'claude' or 'codex', not 'gpt'"):
        tapline.read(b"", agent="gpt")  # type: ignore[arg-type]
