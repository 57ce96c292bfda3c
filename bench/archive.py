"""Measures the archive beside its peers, in turns: `scripts/bench archive` builds and installs what it needs, and starts it."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from compare import DATA, ROOT, TAPLINE, Table, say

CCUSAGE, TOKSCALE, DUCKDB = "20.0.24", "4.17.0", "1.4"
PEERS = DATA / "peers"
REPORTS = "day week month session project model agent tool branch hour block".split()
# The sum that every peer gives: tokens of each kind, every message once.
DUCKDB_SUM = """
import duckdb, sys
print(duckdb.sql(f'''
  SELECT sum(i), sum(o), sum(w), sum(r) FROM (
    SELECT max(message.usage.input_tokens) i, max(message.usage.output_tokens) o, max(message.usage.cache_creation_input_tokens) w,
           max(message.usage.cache_read_input_tokens) r
    FROM read_json('{sys.argv[1]}/**/*.jsonl', format = 'newline_delimited', ignore_errors = true, maximum_object_size = 268435456,
      columns = {{message: 'STRUCT(id VARCHAR, usage STRUCT(input_tokens BIGINT, output_tokens BIGINT, cache_creation_input_tokens BIGINT, cache_read_input_tokens BIGINT))'}})
    WHERE message.usage IS NOT NULL GROUP BY message.id)''').fetchall())
"""


class Cost:
    """What one command took."""

    def __init__(self, command, env, cores=None):
        start = time.perf_counter()
        one_core = (lambda: os.sched_setaffinity(0, {0})) if cores == 1 else None
        process = subprocess.Popen([str(part) for part in command], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=one_core)
        self.output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        self.wall = time.perf_counter() - start
        self.cpu = used.ru_utime + used.ru_stime
        self.peak = used.ru_maxrss / 1024
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"scripts/bench archive: failed: {' '.join(map(str, command))}")


def home(name, **more):
    """An environment with a home folder of its own."""
    folder = DATA / "homes" / name
    folder.mkdir(parents=True, exist_ok=True)
    return {"HOME": str(folder), "TAPLINE_HOME": str(folder / "tapline"), "PATH": os.environ["PATH"], **more}


def forget(name):
    shutil.rmtree(DATA / "homes" / name, ignore_errors=True)


def in_turns(rounds, **runs):
    """Each of the runs once a round. The median of the wall times, and of the processor times."""
    costs = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            costs[name].append(run())
    return {name: (statistics.median(c.wall for c in all_costs), statistics.median(c.cpu for c in all_costs), all_costs) for name, all_costs in costs.items()}


def shown(cost):
    return f"{cost[0]:.2f} s ({cost[1]:.2f} s)" if cost[0] >= 0.5 else f"{cost[0] * 1000:.0f} ms ({cost[1] * 1000:.0f} ms)"


def install():
    """The peers, from npm and PyPI, below target/bench."""
    npm = PEERS / "npm"
    ccusage = npm / "node_modules/@ccusage/ccusage-linux-x64/bin/ccusage"
    tokscale = npm / "node_modules/@tokscale/cli-linux-x64-gnu/bin/tokscale"
    if not (ccusage.exists() and tokscale.exists()):
        say("installing ccusage and tokscale")
        packages = [f"ccusage@{CCUSAGE}", f"@tokscale/cli-linux-x64-gnu@{TOKSCALE}"]
        subprocess.run(["npm", "install", "--silent", "--prefix", npm, *packages], check=True, stdout=sys.stderr)
    for program in (ccusage, tokscale):
        program.chmod(0o755)  # npm ships them without the run bit
    python = PEERS / "duckdb/bin/python"
    if not python.exists():
        say("installing DuckDB")
        subprocess.run([sys.executable, "-m", "venv", PEERS / "duckdb"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"duckdb>={DUCKDB},<3"], check=True, stdout=sys.stderr)
    return ccusage, tokscale, python


def generated(generator, mib):
    """An archive of this size, made once."""
    folder = DATA / f"archive-{mib}"
    if not (folder / "truth.json").exists():
        say(f"making {folder.relative_to(ROOT)}")
        subprocess.run([sys.executable, generator, "--mib", str(mib), "--seed", "7", "--out", folder], check=True, stdout=sys.stderr)
    return folder


def warm(folder):
    """Reads all files once, so that nobody pays for the disk. Returns their size."""
    size = 0
    for path in folder.rglob("*.jsonl"):
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                size += len(chunk)
    return size


def check_truth(folder, said):
    """The totals must be the generator's own. Anything else is an error, not a figure."""
    truth = json.loads((folder / "truth.json").read_text())["dedup"]
    wanted = [truth["input"], truth["output"], truth["cache_read"], truth["cache_creation_5m"] + truth["cache_creation_1h"]]
    totals = json.loads(said)["totals"]
    got = [totals[key] for key in ("input", "output", "cache_read", "cache_write")]
    if got != wanted:
        sys.exit(f"scripts/bench archive: wrong totals: {got}, not {wanted}")


def first_and_next(table, folder, peers, rounds, judged):
    ccusage, tokscale, python = peers
    stats = [TAPLINE, "stats", "--by", "day", "--json", "--quiet", folder]

    def first():
        forget("first")
        return Cost(stats, home("first"))

    their_home = home("ccusage", CLAUDE_CONFIG_DIR=str(folder / ".claude"))
    Cost(stats, home("next"))
    tokscale_run = [tokscale, "models", "--json", "--client", "claude", "--home", folder, "--no-spinner"]
    Cost(tokscale_run, home("tokscale"))
    runs = in_turns(
        rounds,
        first=first,
        next=lambda: Cost(stats, home("next")),
        ccusage=lambda: Cost([ccusage, "claude", "daily", "--offline", "--json"], their_home),
        tokscale=lambda: Cost(tokscale_run, home("tokscale")),
        duckdb=lambda: Cost([python, "-c", DUCKDB_SUM, folder], home("duckdb")),
    )
    check_truth(folder, runs["first"][2][0].output)
    check_truth(folder, runs["next"][2][0].output)

    def row(name, ours, peer, least):
        ratio = runs[peer][0] / runs[ours][0]
        promised = f"≥ {least}" if least > 1 else "faster"
        table.row(name, shown(runs[ours]), shown(runs[peer]), ratio, promised, ratio >= least if judged else None)

    row(f"stats, first run / ccusage {CCUSAGE}", "first", "ccusage", 4)
    row("stats, first run / DuckDB read_json, the same sum", "first", "duckdb", 1)
    row("stats, next run / ccusage", "next", "ccusage", 30)
    row(f"stats, next run / tokscale {TOKSCALE}, next run", "next", "tokscale", 1)
    peak = max(cost.peak for cost in runs["first"][2])
    table.row("stats, first run: peak memory / ccusage", f"{peak:.0f} MB", f"{max(c.peak for c in runs['ccusage'][2]):.0f} MB", None, "≤ 100 MB", peak <= 100 if judged else None)


def one_file(table, folder, rounds, judged):
    """All of it as one file: both cores must be busy."""
    alone = DATA / "one-file"
    path = alone / ".claude/projects/one/one.jsonl"
    size = sum(path.stat().st_size for path in folder.rglob("*.jsonl"))
    if not path.exists() or path.stat().st_size < size:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as into:
            for part in sorted(folder.rglob("*.jsonl")):
                into.write(part.read_bytes())
    warm(alone)

    def run(cores):
        forget("one")
        return Cost([TAPLINE, "stats", "--json", "--quiet", alone], home("one"), cores)

    runs = in_turns(rounds, both=lambda: run(None), one=lambda: run(1))
    ratio = runs["one"][0] / runs["both"][0]
    table.row("stats of a single file: all cores / one core", shown(runs["both"]), shown(runs["one"]), ratio, "≥ 1.5", ratio >= 1.5 if judged else None)
    shutil.rmtree(alone)


def with_index(table, folder, rounds, judged):
    env = home("next")

    def row(name, most, *commands):
        costs = [in_turns(rounds, run=lambda command=command: Cost([TAPLINE, *command], env))["run"] for command in commands]
        slowest = max(costs, key=lambda cost: cost[0])
        table.row(name, shown(slowest), promised=f"≤ {most} ms", kept=slowest[0] * 1000 <= most if judged else None)

    row("stats --by any, the slowest", 60, *(["stats", "--by", by, "--json", "--quiet", folder] for by in REPORTS))
    forget("text")
    size = warm(folder)
    first = Cost([TAPLINE, "search", "render", "--path", folder, "--json", "--quiet"], home("text"))
    speed = size / first.wall / 1e6
    table.row("first search: text is indexed", f"{speed:.0f} MB/s, {first.peak:.0f} MB", promised="≥ 50 MB/s", kept=speed >= 50 if judged else None)
    env = home("text")
    words = (["render"], ["session", "token"], ['"match value"'], ["ren*"], ["update", "tool:Bash"], ["nowheretobefound"])
    row("search, the slowest of six", 50, *(["search", *some, "--path", folder, "--json", "--quiet"] for some in words))
    env = home("next", CLAUDE_CONFIG_DIR=str(folder / ".claude"))
    Cost([TAPLINE, "stats", "--json", "--quiet"], env)
    line = subprocess.Popen([TAPLINE, "statusline"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    line.communicate(b"{}")

    def status():
        read, write = os.pipe()
        os.write(write, b'{"session_id":"x","model":{"display_name":"M"}}')
        os.close(write)
        start = time.perf_counter()
        subprocess.run([TAPLINE, "statusline"], stdin=read, stdout=subprocess.DEVNULL, env=env, check=True)
        os.close(read)
        return time.perf_counter() - start

    took = statistics.median(status() for _ in range(max(rounds, 10))) * 1000
    table.row("statusline", f"{took:.1f} ms", promised="≤ 10 ms", kept=took <= 10 if judged else None)
    kept = {file.name: file.stat().st_size for file in (DATA / "homes/text/tapline").rglob("*.db*")}
    numbers = sum(length for name, length in kept.items() if name.startswith("index"))
    whole = sum(kept.values())
    table.row("size of the index, of the archive", f"{numbers / size:.1%}", promised="≤ 10 %", kept=numbers <= size / 10 if judged else None)
    table.row("the same with the text index", f"{whole / size:.1%}", promised="≤ 33 %", kept=whole <= size / 3 if judged else None)


def growing(table, generator, sizes):
    """How time and memory grow with the archive."""
    for mib in sizes:
        folder = generated(generator, mib)
        warm(folder)
        forget("grown")
        cost = Cost([TAPLINE, "stats", "--by", "day", "--json", "--quiet", folder], home("grown"))
        check_truth(folder, cost.output)
        table.row(f"stats, first run, {mib} MiB", f"{cost.wall:.2f} s ({cost.cpu:.2f} s), {cost.peak:.0f} MB")


def main():
    options = argparse.ArgumentParser(prog="scripts/bench archive", description=__doc__)
    options.add_argument("--quick", action="store_true", help="24 MiB, one round, nothing is judged")
    options.add_argument("--big", action="store_true", help="10 GiB too: time and memory")
    options.add_argument("--generator", type=Path, default=ROOT / "../shared/bench/gen_archive.py", help="the program that makes the archive")
    args = options.parse_args()
    if not args.generator.exists():
        sys.exit(f"scripts/bench archive: not run: there is no {args.generator.name} next to the checkout (give one: --generator FILE)")
    DATA.mkdir(parents=True, exist_ok=True)
    rounds, mib = (1, 24) if args.quick else (5, 1024)
    peers = install()
    folder = generated(args.generator, mib)
    warm(folder)
    print(f"{os.cpu_count()} cores, {mib} MiB, {time.strftime('%Y-%m-%d')}. Median of {rounds}; the processor time in brackets.\n")
    table = Table()
    judged = not args.quick
    first_and_next(table, folder, peers, rounds, judged)
    one_file(table, folder, max(1, rounds - 2), judged)
    with_index(table, folder, rounds, judged)
    growing(table, args.generator, [256, 1024, 10240] if args.big else [12, 24] if args.quick else [256, 1024])


if __name__ == "__main__":
    main()
