"""What all parts share: where things are, how much there is to do, and how a command is measured."""

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from table import Figure, Table

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "target" / "bench"


class Failed(Exception):
    """A benchmark that gives no figures, and why."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def output(*command, **more):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, **more)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout.decode()


class Cost:
    """What one command took: seconds, seconds of processor time, and peak memory in MB, which is never less than that of this program."""

    def __init__(self, command, env=None, stdin=subprocess.DEVNULL, keep=False, cores=None, cwd=None):
        one_core = (lambda: os.sched_setaffinity(0, {0})) if cores == 1 else None
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command],
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE if keep else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=one_core,
        )
        self.output = process.stdout.read() if keep else b""
        _, status, used = os.wait4(process.pid, 0)
        self.wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu = used.ru_utime + used.ru_stime
        self.peak = used.ru_maxrss * 1024 / 1e6
        if process.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))} ended with {process.returncode}")


def in_turns(rounds, **runs):
    """Runs each once a round. A run is a command, or a function that returns what it cost."""
    costs = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            costs[name].append(run() if callable(run) else Cost(run))
    return costs


def median(costs):
    """The median time, with that of the processor in brackets."""
    return Figure(statistics.median(cost.wall for cost in costs), "s", statistics.median(cost.cpu for cost in costs))


def speed(size, costs):
    """The speed of the best round, with that of the worst in brackets."""
    walls = [cost.wall for cost in costs]
    return Figure(size / 1e6 / min(walls), "MB/s", size / 1e6 / max(walls))


def read(path):
    """Reads a file, so that nobody pays for the disk later. Returns its size."""
    size = 0
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            size += len(chunk)
    return size


@dataclass
class Run:
    """One run of the benchmarks: the programs, how much there is to do, and where the rows go."""

    extent: str  # smoke, quick, full or big
    tapline: Path
    bench: Path
    table: Table
    generator: Path | None

    def pick(self, smoke, quick, full, big=None):
        return {"smoke": smoke, "quick": quick, "full": full, "big": full if big is None else big}[self.extent]

    def flags(self):
        """What the programs in Rust and JavaScript are told of it."""
        return self.pick(["--smoke"], ["--quick"], [])

    def rows(self, *command, **more):
        """Puts the rows that a program prints into the table."""
        for line in output(*command, **more).splitlines():
            if line.startswith("{"):
                self.table.line(line)

    def stream(self, kind, megabytes):
        """A stream under target/bench, made once by each build of the program that makes it."""
        path = DATA / f"{kind}-{megabytes}MB.jsonl"
        made_by = path.with_suffix(".made-by")
        maker = f"{self.bench} {self.bench.stat().st_mtime_ns}"
        if not path.exists() or not made_by.exists() or made_by.read_text() != maker:
            say(f"making {path.relative_to(ROOT)}")
            output(self.bench, "make-stream", path, megabytes, "--kind", kind)
            made_by.write_text(maker)
        read(path)
        return path


def python_with_sdk(table):
    """Python in an environment that has the official SDK, without the program that its wheel brings along."""
    version = output(ROOT / "scripts/programs", "--version", "sdk-py").strip()
    venv = DATA / "venv"
    ready = venv / f"sdk-{version}"
    if not ready.exists():
        say(f"installing claude-agent-sdk {version}")
        output(sys.executable, "-m", "venv", "--clear", venv)
        package = f"claude-agent-sdk=={version}"
        output(venv / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-binary", "claude-agent-sdk", package)
        ready.touch()
    table.peers["claude-agent-sdk"] = version
    table.peers["Python"] = sys.version.split()[0]
    return venv / "bin/python"
