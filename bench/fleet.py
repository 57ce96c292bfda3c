"""Measures `tapline batch` beside GNU parallel, and through NATS JetStream beside itself, in turns: `scripts/bench fleet` builds what it needs,
and starts it."""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

from compare import DATA, TAPLINE

AGENT = """#!/bin/sh
read -r line
%s
printf '%%s\\n' '{"type":"system","subtype":"init","session_id":"s","model":"fake-1","cwd":"/","tools":[],"mcp_servers":[],"permissionMode":"default","apiKeySource":"none","claude_code_version":"2.1.325"}' \\
  '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","num_turns":1,"duration_ms":5,"total_cost_usd":0.01,"usage":{"input_tokens":3,"output_tokens":4}}'
"""


class Bench:
    def __init__(self, given):
        self.given = given
        self.folder = DATA / "fleet"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.quick = self.agent("agent", ":")
        self.slow = self.agent("slow-agent", f"sleep {given.seconds}")

    def agent(self, name, does):
        path = self.folder / name
        path.write_text(AGENT % does)
        path.chmod(0o755)
        return path

    def env(self, home):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TAPLINE_HOME": str(self.folder / home)}

    def rows(self, jobs):
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
            sys.exit(f"scripts/bench fleet: {recorded} of {jobs} recorded: {done.stderr.decode()[:2000]}")
        return jobs / took

    def batch(self, *more):
        return [self.given.tapline, "batch", "jobs.csv", "--prompt", "number {n}", *more]

    def local(self, agent, at_once):
        return self.batch("--bin", str(agent), "--jobs", str(at_once))

    def parallel(self, at_once):
        run = f"{self.given.tapline} run 'number {{}}' --bin {self.quick} --format quiet --no-stdin"
        return ["parallel", "--will-cite", "-j", str(at_once), "-a", "jobs.csv", "--skip-first-line", run]

    @contextlib.contextmanager
    def fleet(self, workers, slots, agent):
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
            broker = start([self.given.nats, "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(ports), "-js", "-sd", str(store)], "broker")
            url = None
            while url is None:
                if broker.poll() is not None:
                    sys.exit("scripts/bench fleet: the broker ended: " + (self.folder / "broker.log").read_text())
                for path in ports.iterdir():
                    with contextlib.suppress(ValueError, KeyError, IndexError):
                        url = json.loads(path.read_text())["nats"][0]
                time.sleep(0.02)
            for number in range(workers):
                home = f"worker-{number}"
                shutil.rmtree(self.folder / home, ignore_errors=True)
                start([self.given.tapline, "worker", "--engine", url, "--jobs", str(slots), "--bin", str(agent)], home)
            yield ["--engine", url]


def told(name, rates):
    print(f"{name}: {statistics.median(rates):.1f} jobs/s ({', '.join(f'{rate:.1f}' for rate in rates)})", flush=True)
    return statistics.median(rates)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--at-once", type=int, default=8)
    options.add_argument("--seconds", type=float, default=1.0, help="how long the slow agent sleeps")
    options.add_argument("--tapline", default=str(TAPLINE))
    options.add_argument("--nats", default=os.environ.get("NATS_SERVER"), help="the NATS server's program")
    given = options.parse_args()
    bench = Bench(given)
    bench.rows(given.jobs)
    at_once = given.at_once
    local, parallel, remote = [], [], []
    for _ in range(given.rounds):
        local.append(bench.measure(bench.local(bench.quick, at_once), given.jobs))
        parallel.append(bench.measure(bench.parallel(at_once), given.jobs))
        with bench.fleet(4, max(1, at_once // 4), bench.quick) as flags:
            remote.append(bench.measure(bench.batch("--jobs", str(at_once), *flags), given.jobs))
    ours = told("tapline batch", local)
    theirs = told("parallel tapline run", parallel)
    far = told("tapline batch --engine, four workers", remote)
    print(f"local / GNU parallel: {ours / theirs:.2f}×")
    print(f"local / through JetStream: {ours / far:.2f}×")
    # An agent that sleeps leaves the cores free, so only waiting is measured: twice the workers should make twice the jobs.
    rates = {}
    for workers in [1, 2, 4]:
        jobs = workers * 4 * 5
        bench.rows(jobs)
        with bench.fleet(workers, 4, bench.slow) as flags:
            rates[workers] = bench.measure(bench.batch("--jobs", str(workers * 4), *flags), jobs)
        print(f"{workers} workers, 4 jobs each, an agent of {given.seconds} s: {rates[workers]:.1f} jobs/s, {rates[workers] / rates[1]:.2f}×", flush=True)
    shutil.rmtree(bench.folder, ignore_errors=True)


main()
