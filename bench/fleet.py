"""`tapline batch` beside GNU parallel, and through NATS JetStream beside itself, in turns."""

import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import time

from measure import DATA, ROOT, Failed, output
from table import Figure

AGENT = """#!/bin/sh
read -r line
%s
printf '%%s\\n' '{"type":"system","subtype":"init","session_id":"s","model":"fake-1","cwd":"/","tools":[],"mcp_servers":[],"permissionMode":"default","apiKeySource":"none","claude_code_version":"2.1.325"}' \\
  '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","num_turns":1,"duration_ms":5,"total_cost_usd":0.01,"usage":{"input_tokens":3,"output_tokens":4}}'
"""


AT_ONCE = 8


class Fleet:
    """A folder with the agents, the jobs and what is recorded."""

    def __init__(self, tapline, nats, sleep):
        self.tapline, self.nats = str(tapline), nats
        self.folder = DATA / "fleet"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.quick = self.agent("agent", ":")
        self.slow = self.agent("slow-agent", f"sleep {sleep}")

    def agent(self, name, does):
        path = self.folder / name
        path.write_text(AGENT % does)
        path.chmod(0o755)
        return path

    def env(self, home):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TAPLINE_HOME": str(self.folder / home)}

    def write(self, jobs):
        (self.folder / "jobs.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(jobs)))

    def measure(self, command, jobs):
        """How many jobs a second, all of them recorded."""
        shutil.rmtree(self.folder / "home", ignore_errors=True)
        start = time.perf_counter()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        done = subprocess.run(command, env=self.env("home"), cwd=self.folder, **quiet)
        took = time.perf_counter() - start
        recorded = len(os.listdir(self.folder / "home" / "recordings"))
        if done.returncode != 0 or recorded != jobs:
            raise Failed(f"{recorded} of {jobs} jobs are recorded: {done.stderr.decode()[:2000]}")
        return jobs / took

    def batch(self, *more):
        return [self.tapline, "batch", "jobs.csv", "--prompt", "number {n}", *more]

    def parallel(self):
        run = f"{self.tapline} run 'number {{}}' --bin {self.quick} --format quiet --no-stdin"
        return ["parallel", "--will-cite", "-j", str(AT_ONCE), "-a", "jobs.csv", "--skip-first-line", run]

    @contextlib.contextmanager
    def workers(self, workers, slots, agent):
        """A broker and so many workers, each with a data folder of its own. Gives the flags that reach it."""
        with contextlib.ExitStack() as stack:
            def start(command, home):
                log = stack.enter_context(open(self.folder / f"{home}.log", "wb"))
                process = subprocess.Popen(command, env=self.env(home), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                stack.callback(process.wait)
                stack.callback(process.kill)
                return process

            ports = self.folder / "ports"
            shutil.rmtree(ports, ignore_errors=True)
            ports.mkdir()
            store = self.folder / "broker"
            shutil.rmtree(store, ignore_errors=True)
            broker = start([self.nats, "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(ports), "-js", "-sd", str(store)], "broker")
            url = None
            while url is None:
                if broker.poll() is not None:
                    raise Failed("the broker ended: " + (self.folder / "broker.log").read_text())
                for path in ports.iterdir():
                    with contextlib.suppress(ValueError, KeyError, IndexError):
                        url = json.loads(path.read_text())["nats"][0]
                time.sleep(0.02)
            for number in range(workers):
                home = f"worker-{number}"
                shutil.rmtree(self.folder / home, ignore_errors=True)
                start([self.tapline, "worker", "--engine", url, "--jobs", str(slots), "--folders", "/", "--bin", str(agent)], home)
            yield ["--engine", url]


def fleet(run):
    run.table.peers["GNU parallel"] = re.search(r"\d+", output("parallel", "--version"))[0]
    nats = output(ROOT / "scripts/nats").strip()
    run.table.peers["nats-server"] = re.search(r"[\d.]+", output(nats, "--version"))[0]
    sleep = run.pick(0.1, 0.3, 1)
    many = Fleet(run.tapline, nats, sleep)
    jobs = run.pick(20, 200, 1000)
    many.write(jobs)
    rates = {"local": [], "parallel": [], "remote": []}
    for _ in range(run.pick(1, 1, 3)):
        rates["local"].append(many.measure(many.batch("--bin", str(many.quick), "--jobs", str(AT_ONCE)), jobs))
        rates["parallel"].append(many.measure(many.parallel(), jobs))
        with many.workers(4, AT_ONCE // 4, many.quick) as flags:
            rates["remote"].append(many.measure(many.batch("--jobs", str(AT_ONCE), *flags), jobs))
    figures = {name: Figure(statistics.median(some), "jobs/s", min(some)) for name, some in rates.items()}
    name = f"batch, {jobs} agents that end at once, {AT_ONCE} at a time, recorded"
    run.table.row(f"{name} / GNU parallel with `tapline run`", figures["local"], figures["parallel"], at_least=200, ratio_at_least=0.5)
    run.table.row(f"{name}, through JetStream with 4 workers / on this machine alone", figures["remote"], figures["local"], ratio_at_least=0.5)
    # An agent that sleeps leaves the cores free, so only waiting is measured: twice the workers should make twice the jobs.
    linear = {}
    for workers in (1, 2, 4):
        jobs = workers * 4 * 5
        many.write(jobs)
        with many.workers(workers, 4, many.slow) as flags:
            linear[workers] = Figure(many.measure(many.batch("--jobs", str(workers * 4), *flags), jobs), "jobs/s")
    for workers in (2, 4):
        name = f"batch, agents that sleep for {sleep} s, {workers} workers with 4 places each / 1 worker"
        run.table.row(name, linear[workers], linear[1], ratio_at_least=0.9 * workers)
    shutil.rmtree(many.folder, ignore_errors=True)
