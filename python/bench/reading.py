"""Measures reading beside `json.loads` and the official SDK's parser, on the same file and in turns: `scripts/python --bench`.

    reading.py [--mb N] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from claude_agent_sdk._internal.message_parser import parse_message

import tapline

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "claude-2.1.325"
# Whole sessions with tools, sub-agents and several turns; and one with partial messages, whose lines are short.
CORPORA = {"mixed": ["tools.jsonl", "subagent.jsonl", "multi.jsonl", "hooks.jsonl"], "partial messages": ["tools-partial.jsonl"]}
IDS = re.compile(rb"(msg_sim_|toolu_sim_|-4000-8000-)")


def make(names: list[str], size: int, path: Path) -> None:
    """Sessions one after the other, each with ids of its own, until the file is large enough."""
    sessions = [(FIXTURES / name).read_bytes() for name in names]
    with path.open("wb") as file:
        number = 0
        while file.tell() < size:
            number += 1
            for session in sessions:
                mark = b"%04d" % (number % 10_000)
                file.write(IDS.sub(lambda found: b"-4" + mark[:3] + b"-8" + mark[1:] + b"-" if found[0][:1] == b"-" else found[0] + mark + b"_", session))



def only_json(path: Path) -> None:
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            json.loads(line)


def sdk(path: Path) -> None:
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            try:
                parse_message(json.loads(line))
            except Exception:  # Lines that it does not know.
                pass


def records(path: Path) -> None:
    for record in tapline.read(path):
        record.kind  # noqa: B018


def data(path: Path) -> None:
    for record in tapline.read(path):
        record.data  # noqa: B018


def steps(path: Path) -> None:
    for step in tapline.steps(path):
        step.line  # noqa: B018


def report(path: Path) -> None:
    tapline.report(path).answer  # noqa: B018


READERS: dict[str, tuple[Callable[[Path], None], float | None]] = {
    "json.loads": (only_json, None),
    "official SDK: parse_message": (sdk, None),
    "tapline.read": (records, 5),
    "tapline.read with .data": (data, None),
    "tapline.steps": (steps, 2),
    "tapline.report": (report, 3),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {args.mb} MB, the best of {args.rounds} rounds in turns\n")
    print("| corpus | reader | MB/s | beside the SDK | beside json.loads | promised |\n|---|---|---|---|---|---|")
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        for corpus, names in CORPORA.items():
            path = Path(folder) / "stream.jsonl"
            make(names, args.mb * 1_000_000, path)
            best = dict.fromkeys(READERS, float("inf"))
            for _ in range(args.rounds):
                for name, (read, _) in READERS.items():
                    start = time.perf_counter()
                    read(path)
                    best[name] = min(best[name], time.perf_counter() - start)
            for name, (_, promised) in READERS.items():
                ratio = best["official SDK: parse_message"] / best[name]
                said = "" if promised is None else f"≥ {promised}× the SDK {'✓' if ratio >= promised else '✗'}"
                kept &= promised is None or ratio >= promised
                speed = path.stat().st_size / 1e6 / best[name]
                print(f"| {corpus} | {name} | {speed:.0f} | {ratio:.1f}× | {best['json.loads'] / best[name]:.1f}× | {said} |", flush=True)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
