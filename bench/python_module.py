"""tapline for Python beside `json.loads` and the parser of the official SDK, on the same file."""

import json
import os
import re

from measure import DATA, ROOT, output, python_with_sdk
from table import Figure

FIXTURES = ROOT / "fixtures/claude-2.1.325"
# Whole sessions with tools, sub-agents and several turns; and one with partial messages, whose lines are short.
CORPORA = {"whole sessions": ["tools.jsonl", "subagent.jsonl", "multi.jsonl", "hooks.jsonl"], "partial messages": ["tools-partial.jsonl"]}
IDS = re.compile(rb"(msg_sim_|toolu_sim_|-4000-8000-)")
READERS = {"records": ("tapline.read", 5), "steps": ("tapline.steps", 2), "report": ("tapline.report", 3), "data": ("tapline.read with .data", None)}


def make(names, size, path):
    """Sessions one after the other, each with ids of its own, until the file is large enough."""
    sessions = [(FIXTURES / name).read_bytes() for name in names]
    with path.open("wb") as file:
        number = 0
        while file.tell() < size:
            number += 1
            mark = b"%04d" % (number % 10_000)
            for session in sessions:
                file.write(IDS.sub(lambda found: b"-4" + mark[:3] + b"-8" + mark[1:] + b"-" if found[0][:1] == b"-" else found[0] + mark + b"_", session))


def python(run):
    interpreter = python_with_sdk(run.table)
    # The wheel brings the command along: the one that is measured.
    wheel = output(ROOT / "scripts/python", "--wheel", env={**os.environ, "TAPLINE": str(run.tapline)}).splitlines()[-1]
    output(interpreter, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--force-reinstall", "--no-deps", wheel)
    path = DATA / "python.jsonl"
    for corpus, names in CORPORA.items():
        make(names, run.pick(1, 10, 50) * 1_000_000, path)
        figures = json.loads(output(interpreter, ROOT / "bench/reading.py", path, run.pick(1, 3, 5), "json", "sdk", *READERS))
        for reader, (name, least) in READERS.items():
            promised = {"ratio_at_least": least} if least else {}
            run.table.row(f"{name} in Python, {corpus} / the official SDK", Figure(**figures[reader]), Figure(**figures["sdk"]), **promised)
        run.table.row(f"tapline.read in Python, {corpus} / json.loads", Figure(**figures["records"]), Figure(**figures["json"]))
    path.unlink()
