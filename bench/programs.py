"""Whole programs: the command beside jq, what it takes at most, and how long it takes to start."""

import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from measure import DATA, Failed, in_turns, output, speed
from table import Figure

JQ_VIEW = 'select(.type=="assistant").message.content[]? | if .type=="text" then .text elif .type=="tool_use" then .name else empty end'
JQ_ANSWER = 'select(.type=="result").result'


def programs(run):
    run.table.peers["jq"] = output("jq", "--version").strip().removeprefix("jq-")
    rounds = run.pick(1, 2, 3)
    path = run.stream("mixed", run.pick(2, 20, 1000))
    answer(run, path, rounds)
    view(run, path, "mixed", rounds)
    view(run, run.stream("short", run.pick(2, 20, 200)), "short", rounds)
    start(run, run.pick(3, 20, 50))
    size(run)


def answer(run, path, rounds):
    """`inspect --get answer` beside jq, and beside grep before jq, which reads one line alone."""
    size = path.stat().st_size
    ours = [run.tapline, "inspect", "--get", "answer", path]
    jq = ["jq", "-r", JQ_ANSWER, path]
    grep = ["sh", "-c", f"LC_ALL=C grep -F '\"type\":\"result\"' '{path}' | jq -r '{JQ_ANSWER}'"]
    if output(*ours) != output(*jq):
        raise Failed("tapline and jq disagree about the answer")
    costs = in_turns(rounds, tapline=ours, jq=jq, grep=grep)
    for peer, name in (("jq", f"`jq -r '{JQ_ANSWER}'`"), ("grep", "`grep -F`, then jq: it knows where the answer is")):
        run.table.row(f"inspect --get answer / {name}", speed(size, costs["tapline"]), speed(size, costs[peer]))


def view(run, path, kind, rounds):
    """`view` beside a jq program that prints what the agent said and the names of its tools."""
    size = path.stat().st_size
    costs = in_turns(rounds, tapline=[run.tapline, "view", path], jq=["jq", "-r", JQ_VIEW, path])
    run.table.row(f"view, {kind} lines / jq, texts and tool names", speed(size, costs["tapline"]), speed(size, costs["jq"]), at_least=100)


def start(run, starts):
    """The median of so many starts, in turns, above the floor: a program that does nothing."""
    commands = {"`true`, the floor": [shutil.which("true")], "jq --version": ["jq", "--version"], "python3 -c ''": [sys.executable, "-c", ""]}
    costs = in_turns(starts, tapline=[run.tapline, "--version"], **commands)
    figures = {name: Figure(statistics.median(cost.wall for cost in some), "s") for name, some in costs.items()}
    for name in commands:
        run.table.row(f"start, --version / {name}", figures["tapline"], figures[name])


def size(run):
    """The binary, beside jq with the libraries that are its own."""
    jq = shutil.which("jq")
    parts = [Path(jq).resolve()]
    if shutil.which("ldd"):
        linked = subprocess.run(["ldd", jq], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        parts += [Path(found).resolve() for found in re.findall(r"=> (\S*lib(?:jq|onig)\S*)", linked)]
    ours, theirs = run.tapline.stat().st_size, sum(part.stat().st_size for part in parts)
    run.table.row("size of the binary, with all features / jq and its libraries", Figure(ours / 1e6, "MB"), Figure(theirs / 1e6, "MB"))


def peak(run, command, megabytes):
    """A command's peak memory, with a stream of so many megabytes piped in."""
    maker = subprocess.Popen([run.bench, "make-stream", "-", str(megabytes)], stdout=subprocess.PIPE)
    report = DATA / "peak"
    measured = ["/usr/bin/time", "-f", "%M", "-o", report, *command]
    subprocess.run([str(part) for part in measured], stdin=maker.stdout, stdout=subprocess.DEVNULL, check=True)
    maker.stdout.close()
    if maker.wait() != 0:
        raise Failed(f"{' '.join(map(str, command))} did not read the stream to its end")
    return Figure(int(report.read_text().split()[-1]) / 1024, "MiB")


def memory(run):
    """Peaks that must not grow with the stream; `inspect --json` lists every call, so its does, and nothing is promised."""
    most = run.pick(2, 50, 1000)
    jq = peak(run, ["jq", "-r", JQ_VIEW], most)
    whole = run.pick(2, 50, 1000, 10_000)
    for args, megabytes, promised in (
        (["view"], whole, {"at_most": 64}),
        (["convert", "--to", "stream-json"], whole, {"at_most": 64}),
        (["convert", "--to", "markdown"], whole, {"at_most": 64}),
        (["inspect", "--json"], most, {}),
    ):
        ours = peak(run, [run.tapline, *args], megabytes)
        run.table.row(f"peak memory, {' '.join(args)}, {megabytes:,} MB piped in / jq, {most:,} MB", ours, jq, **promised)
