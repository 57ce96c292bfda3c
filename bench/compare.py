"""Runs every benchmark and prints one table: `scripts/bench` builds what it needs and starts it."""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMOKE = "--smoke" in sys.argv
TAPLINE = ROOT / "target" / ("debug" if SMOKE else "release") / "tapline"
BENCH = ROOT / "target" / "debug" / "bench" if SMOKE else ROOT / "bench" / "target" / "release" / "bench"
DATA = ROOT / "target" / "bench"

JQ_ANSWER = 'select(.type=="result").result'
JQ_VIEW = 'select(.type=="assistant").message.content[]? | if .type=="text" then .text elif .type=="tool_use" then .name else empty end'


class Table:
    """Rows of what was measured, the peer's figure, the ratio and what is promised; printed as they come."""

    def __init__(self):
        self.fields = "| benchmark | tapline | peer | ratio | promised |"
        print(self.fields + "\n|---|---|---|---|---|", flush=True)

    def row(self, name, ours, peer="—", ratio=None, promised="", kept=None):
        if ratio is None:
            ratio = "—"
        else:
            digits = 0 if ratio >= 100 else 1 if ratio >= 0.95 else 2
            ratio = f"{ratio:.{digits}f}×"
        mark = "" if kept is None or SMOKE else " ✓" if kept else " ✗ not kept"
        print(f"| {name} | {ours} | {peer} | {ratio} | {promised}{mark} |", flush=True)


def say(text):
    print(text, file=sys.stderr, flush=True)


def output(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, check=True)
    return done.stdout


def seconds(command, stdin=None):
    """Wall time of a command whose output nobody reads."""
    start = time.perf_counter()
    subprocess.run([str(part) for part in command], stdin=stdin, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def alternate(rounds, **commands):
    """The best and the worst time of each command, taken in turns."""
    times = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(seconds(command))
    return {name: (min(all_times), max(all_times)) for name, all_times in times.items()}


def stream(kind, megabytes):
    """A stream under target/bench, made once."""
    path = DATA / f"{kind}-{megabytes}MB.jsonl"
    made = DATA / f"{kind}-{megabytes}MB.made-by"
    maker = f"{BENCH.stat().st_mtime_ns}"
    if not path.exists() or not made.exists() or made.read_text() != maker:
        say(f"making {path.relative_to(ROOT)}")
        output(BENCH, "make-stream", path, megabytes, "--kind", kind)
        made.write_text(maker)
    with open(path, "rb") as file:  # read once, so that nobody pays for the disk
        while file.read(1 << 20):
            pass
    return path


def mb_per_s(size, times):
    best, worst = size / 1e6 / times[0], size / 1e6 / times[1]
    return f"{best:.0f} MB/s ({worst:.0f})"


def peer_speed(peer):
    errors = f", {peer['errors']} lines not read" if peer["errors"] else ""
    return f"{peer['mb_per_s']:.0f} MB/s ({peer['worst']:.0f}){errors}"


def decode(table, megabytes, rounds):
    """In memory: the decoder beside claude-codes and serde_json, above the floor."""
    names = {"long-lined": "long lines", "short-lined": "short lines"}
    for text in output(BENCH, "decode", "--json", "--mb", megabytes, "--rounds", rounds).splitlines():
        measured = json.loads(text)
        name = names.get(measured["corpus"], measured["corpus"])
        peers = measured["peers"]
        ours = peers["tapline"]
        table.row(f"decode, {name}: floor (count newlines)", "—", peer_speed(peers["floor"]), ours["mb_per_s"] / peers["floor"]["mb_per_s"])
        for peer in ("claude-codes", "claude-codes (serde)", "serde_json envelope"):
            ratio = ours["mb_per_s"] / peers[peer]["mb_per_s"]
            promised, kept = ("≥ 3×", ratio >= 3) if peer == "claude-codes" and measured["corpus"] in names else ("", None)
            table.row(f"decode, {name} / {peer}", peer_speed(ours), peer_speed(peers[peer]), ratio, promised, kept)
        table.row(f"decode and fold, {name}", peer_speed(peers["tapline+fold"]))


def redact(table, megabytes, rounds):
    """In memory: taking secrets out, beside one regular expression made from the same table."""
    for text in output(BENCH, "redact", "--json", "--mb", megabytes, "--rounds", rounds).splitlines():
        measured = json.loads(text)
        ours, regex = measured["tapline"], measured["regex"]
        name = f"redact, {measured['corpus']} / one regex of the table"
        table.row(name, f"{ours:.0f} MB/s", f"{regex:.0f} MB/s", ours / regex, "≥ 200 MB/s", ours >= 200)


def python(table, path, corpus, rounds):
    """From a file: Python's parsers, and the decoder on the same file."""
    theirs = json.loads(output(sys.executable, ROOT / "bench" / "python_parser.py", path, "--json", "--rounds", rounds))
    ours = json.loads(output(BENCH, "decode", "--file", path, "--only", "tapline", "--json", "--rounds", rounds))["peers"]["tapline"]
    for name, peer in theirs["peers"].items():
        ratio = ours["mb_per_s"] / peer["mb_per_s"]
        promised, kept = ("≥ 20×", ratio >= 20) if "SDK" in name else ("", None)
        label = name.replace("python", f"Python {theirs['python']}")
        table.row(f"decode a file, {corpus} / {label}", peer_speed(ours), peer_speed(peer), ratio, promised, kept)


def answer(table, path, rounds):
    """`inspect --get answer` beside jq, and beside grep before jq, which reads one line alone."""
    size = path.stat().st_size
    ours = [TAPLINE, "inspect", "--get", "answer", path]
    jq = ["jq", "-r", JQ_ANSWER, path]
    grep = ["sh", "-c", f"LC_ALL=C grep -F '\"type\":\"result\"' '{path}' | jq -r '{JQ_ANSWER}'"]
    if output(*ours) != output(*jq):
        sys.exit("tapline and jq disagree about the answer")
    times = alternate(rounds, tapline=ours, jq=jq, grep=grep)
    for name in ("jq", "grep"):
        label = {"jq": f"jq -r '{JQ_ANSWER}'", "grep": "grep -F, then jq (knows where the answer is)"}[name]
        table.row(f"inspect --get answer / `{label}`", mb_per_s(size, times["tapline"]), mb_per_s(size, times[name]), times[name][0] / times["tapline"][0])


def view(table, path, name, rounds):
    """`view` beside a jq program that prints what the agent said and the names of its tools."""
    size = path.stat().st_size
    times = alternate(rounds, tapline=[TAPLINE, "view", path], jq=["jq", "-r", JQ_VIEW, path])
    speed = size / 1e6 / times["tapline"][0]
    ratio = times["jq"][0] / times["tapline"][0]
    table.row(f"view, {name} / jq (texts and tool names)", mb_per_s(size, times["tapline"]), mb_per_s(size, times["jq"]), ratio, "≥ 100 MB/s", speed >= 100)


def peak(command, megabytes):
    """A command's peak memory in KiB, with a stream of so many megabytes piped in."""
    maker = subprocess.Popen([BENCH, "make-stream", "-", str(megabytes)], stdout=subprocess.PIPE)
    report = DATA / "peak"
    measured = ["/usr/bin/time", "-f", "%M", "-o", report, *command]
    subprocess.run([str(part) for part in measured], stdin=maker.stdout, stdout=subprocess.DEVNULL, check=True)
    maker.stdout.close()
    if maker.wait() != 0:
        sys.exit("the stream was not read to its end")
    return int(report.read_text().split()[-1])


def memory(table, megabytes):
    """Peaks that must not grow with the stream; `inspect --json` lists every call, so its does, and nothing is promised."""
    jq = peak(["jq", "-r", JQ_VIEW], min(megabytes, 1000))
    for args in (["view"], ["convert", "--to", "stream-json"], ["convert", "--to", "markdown"], ["inspect", "--json"]):
        ours = peak([TAPLINE, *args], megabytes)
        name = f"peak memory, {' '.join(args)}, {megabytes} MB piped in / jq"
        promised, kept = ("", None) if args[0] == "inspect" else ("≤ 64 MiB", ours <= 64 * 1024)
        table.row(name, f"{ours / 1024:.1f} MiB", f"{jq / 1024:.1f} MiB", jq / ours, promised, kept)


def start_up(table, starts):
    """The median of so many starts, in turns, above the floor: a program that does nothing."""
    commands = {"floor": [shutil.which("true")], "tapline": [TAPLINE, "--version"], "jq": ["jq", "--version"], "python": [sys.executable, "-c", ""]}
    times = {name: [] for name in commands}
    for _ in range(starts):
        for name, command in commands.items():
            times[name].append(seconds(command))
    median = {name: statistics.median(all_times) * 1000 for name, all_times in times.items()}
    figure = {name: f"{time:.2f} ms" for name, time in median.items()}
    for name, label in (("floor", "true, the floor"), ("jq", "jq --version"), ("python", "python3 -c ''")):
        table.row(f"start, --version / {label}", figure["tapline"], figure[name], median[name] / median["tapline"])


def size(table):
    """The binary, beside jq with the libraries that are its own."""
    jq = shutil.which("jq")
    parts = [Path(jq).resolve()]
    if shutil.which("ldd"):
        linked = subprocess.run(["ldd", jq], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        parts += [Path(found).resolve() for found in re.findall(r"=> (\S*lib(?:jq|onig)\S*)", linked)]
    ours, theirs = TAPLINE.stat().st_size, sum(part.stat().st_size for part in parts)
    table.row("size of the binary / jq and its libraries", f"{ours / 1e6:.2f} MB", f"{theirs / 1e6:.2f} MB", theirs / ours)


def running():
    """What running an agent adds; each prints its own table (bench/src/agents.rs)."""
    folder = DATA / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    recorded = ROOT / "fixtures/claude-2.1.325/tools-partial.jsonl"
    for command in (["latency", TAPLINE, folder], ["tee", TAPLINE, folder], ["replay", TAPLINE, folder], ["overhead", TAPLINE, folder], ["many", folder, recorded]):
        text = output(BENCH, "run", *command, *(["--smoke"] if SMOKE else [])).decode()
        print(text)
        if "LINES WERE LOST" in text:
            sys.exit("lines were lost")


def main():
    options = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    options.add_argument("--quick", action="store_true", help="50 MB instead of 100 MB to 1 GB: minutes less, noisier")
    options.add_argument("--big", action="store_true", help="10 GB through the memory benchmarks")
    options.add_argument("--smoke", action="store_true", help="2 MB, one round, builds without optimisation: shows that everything runs")
    args = options.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    rounds = 1 if SMOKE else 3
    small = 2 if SMOKE else 50 if args.quick else None
    version = output("jq", "--version").decode().strip()
    print(f"{os.cpu_count()} cores, {version}, {output('rustc', '--version').decode().strip()}, {time.strftime('%Y-%m-%d')}")
    print("The figures mean nothing: this only shows that everything runs.\n" if SMOKE else "Speeds are the best round, and the worst in brackets.\n")
    table = Table()
    decode(table, small or 210, rounds if small else 5)
    redact(table, small or 100, rounds)
    for kind in ("mixed", "short"):
        python(table, stream(kind, small or 100), f"{kind} lines", rounds)
    path = stream("mixed", small or 1000)
    answer(table, path, rounds)
    view(table, path, "mixed lines", rounds)
    view(table, stream("short", small or 200), "short lines", rounds)
    memory(table, 10_000 if args.big else small or 1000)
    start_up(table, 5 if SMOKE else 50)
    size(table)
    running()


if __name__ == "__main__":
    main()
