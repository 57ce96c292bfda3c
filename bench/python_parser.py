#!/usr/bin/env python3
"""Times Python on a stream: its own json, and the official SDK's parser behind it.

    bench/python_parser.py FILE [--rounds N] [--json]

The SDK (claude-agent-sdk) is installed once, into target/bench/venv, which BENCH_VENV can move.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SDK = "claude-agent-sdk==0.2.182"
VENV = Path(os.environ.get("BENCH_VENV") or Path(__file__).resolve().parent.parent / "target" / "bench" / "venv")


def enter_venv() -> None:
    """Runs this script again inside the environment that has the SDK."""
    python = VENV / "bin" / "python"
    ready = VENV / f"{SDK}.installed"
    if not ready.exists():
        print(f"installing {SDK} into {VENV}", file=sys.stderr)
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", SDK], check=True, stdout=sys.stderr)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{error}\ninstall Python's venv and pip (python3-venv), and let pip reach PyPI")
        ready.touch()
    if Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(python, [str(python), *sys.argv])


def lines(path):
    with open(path, encoding="utf-8", newline="\n") as stream:
        yield from stream


def count(path):
    return sum(1 for _ in lines(path)), 0


def loads(path):
    number = 0
    for line in lines(path):
        json.loads(line)
        number += 1
    return number, 0


def sdk(path):
    from claude_agent_sdk._internal.message_parser import parse_message

    number = errors = 0
    for line in lines(path):
        data = json.loads(line)
        number += 1
        try:
            parse_message(data)
        except Exception:  # its own error, or a KeyError: the line was not read
            errors += 1
    return number, errors


READERS = {"python lines": count, "python json.loads": loads, "python SDK parse_message": sdk}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json", action="store_true")
    args = options.parse_args()
    enter_venv()
    size = os.path.getsize(args.file)
    seconds = {name: [] for name in READERS}
    counts = {}
    for _ in range(args.rounds):
        for name, read in READERS.items():
            start = time.perf_counter()
            counts[name] = read(args.file)
            seconds[name].append(time.perf_counter() - start)
    measured = {
        name: {
            "mb_per_s": size / 1e6 / min(times),
            "worst": size / 1e6 / max(times),
            "lines": counts[name][0],
            "errors": counts[name][1],
        }
        for name, times in seconds.items()
    }
    if args.json:
        print(json.dumps({"corpus": args.file, "bytes": size, "python": sys.version.split()[0], "peers": measured}))
        return
    print(f"Python {sys.version.split()[0]}, {SDK}, {size / 1e6:.0f} MB; best (worst) of {args.rounds}")
    for name, peer in measured.items():
        errors = f"; {peer['errors']} lines not read" if peer["errors"] else ""
        print(f"  {name:<25} {peer['mb_per_s']:>7.0f} MB/s ({peer['worst']:>5.0f}){errors}")


if __name__ == "__main__":
    main()
