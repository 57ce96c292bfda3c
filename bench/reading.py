"""Measures readers written in Python on a file, in turns, in an environment that has what they need: `scripts/bench files python` start it.

    reading.py FILE ROUNDS READER…

Prints the figures of each reader as JSON.
"""

import json
import os
import sys
import time


def lines(path):
    with open(path, encoding="utf-8", newline="\n") as stream:
        yield from stream


def only_lines(path):
    for _ in lines(path):
        pass


def only_json(path):
    for line in lines(path):
        json.loads(line)


def sdk(path):
    from claude_agent_sdk._internal.message_parser import parse_message

    errors = 0
    for line in lines(path):
        try:
            parse_message(json.loads(line))
        except Exception:  # Its own error, or a KeyError: the line was not read.
            errors += 1
    return errors


def records(path):
    import tapline

    for record in tapline.read(path):
        record.kind


def data(path):
    import tapline

    for record in tapline.read(path):
        record.data


def steps(path):
    import tapline

    for step in tapline.steps(path):
        step.line


def report(path):
    import tapline

    tapline.report(path).answer


READERS = {"lines": only_lines, "json": only_json, "sdk": sdk, "records": records, "data": data, "steps": steps, "report": report}


def main():
    path, rounds, *names = sys.argv[1:]
    size = os.path.getsize(path) / 1e6
    speeds = {name: [] for name in names}
    errors = dict.fromkeys(names)
    # The imports are not measured.
    for name in names:
        READERS[name](os.devnull)
    for _ in range(int(rounds)):
        for name in names:
            start = time.perf_counter()
            errors[name] = READERS[name](path)
            speeds[name].append(size / (time.perf_counter() - start))
    figures = {
        name: {"value": max(all_speeds), "unit": "MB/s", "aside": min(all_speeds), "note": f"{errors[name]} lines not read" if errors[name] else ""}
        for name, all_speeds in speeds.items()
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
