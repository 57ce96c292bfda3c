"""Measures `tapline batch` beside GNU parallel, in turns: `scripts/bench fleet` builds what it needs, and starts it."""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

from compare import DATA, TAPLINE

AGENT = """#!/bin/sh
read -r line
printf '%s\\n' '{"type":"system","subtype":"init","session_id":"s","model":"fake-1","cwd":"/","tools":[],"mcp_servers":[],"permissionMode":"default","apiKeySource":"none","claude_code_version":"2.1.325"}' \\
  '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","num_turns":1,"duration_ms":5,"total_cost_usd":0.01,"usage":{"input_tokens":3,"output_tokens":4}}'
"""


def measure(command, env, folder, jobs):
    """How many jobs a second, all of them recorded."""
    shutil.rmtree(folder / "home", ignore_errors=True)
    start = time.perf_counter()
    done = subprocess.run(command, env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    took = time.perf_counter() - start
    recorded = len(os.listdir(folder / "home" / "recordings"))
    if done.returncode != 0 or recorded != jobs:
        sys.exit(f"scripts/bench fleet: {recorded} of {jobs} recorded: {done.stderr.decode()[:2000]}")
    return jobs / took


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--at-once", type=int, default=8)
    options.add_argument("--tapline", default=str(TAPLINE))
    given = options.parse_args()
    folder = DATA / "fleet"
    folder.mkdir(parents=True, exist_ok=True)
    agent = folder / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    (folder / "jobs.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(given.jobs)))
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TAPLINE_HOME": str(folder / "home")}
    at_once = str(given.at_once)
    batch = [given.tapline, "batch", "jobs.csv", "--prompt", "number {n}", "--bin", str(agent), "--jobs", at_once]
    run = f"{given.tapline} run 'number {{}}' --bin {agent} --format quiet --no-stdin"
    parallel = ["parallel", "--will-cite", "-j", at_once, "-a", "jobs.csv", "--skip-first-line", run]
    rates = {"tapline batch": [], "parallel tapline run": []}
    for _ in range(given.rounds):
        rates["tapline batch"].append(measure(batch, env, folder, given.jobs))
        rates["parallel tapline run"].append(measure(parallel, env, folder, given.jobs))
    ours, theirs = (statistics.median(rates[name]) for name in rates)
    for name, all_rates in rates.items():
        print(f"{name}: {statistics.median(all_rates):.0f} jobs/s ({', '.join(f'{rate:.0f}' for rate in all_rates)})")
    print(f"ratio: {ours / theirs:.2f}×")
    shutil.rmtree(folder, ignore_errors=True)


main()
