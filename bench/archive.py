"""The archive beside its peers, in turns: tokens and costs of a folder of transcripts, the search, the status line."""

import json
import os
import shutil
import sys
from pathlib import Path

from measure import DATA, ROOT, Cost, Failed, in_turns, median, output, read, say
from table import Figure

TOKSCALE, DUCKDB = "4.17.0", ">=1.4,<3"
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


def generator(given):
    """The program that makes an archive with known totals. It stands beside the checkout."""
    beside = [folder / "shared/bench/gen_archive.py" for folder in ROOT.parents]
    return next((path for path in ([given] if given else beside) if path.exists()), None)


def home(name, **more):
    """An environment with a home folder of its own."""
    folder = DATA / "homes" / name
    folder.mkdir(parents=True, exist_ok=True)
    return {"HOME": str(folder), "TAPLINE_HOME": str(folder / "tapline"), "PATH": os.environ["PATH"], **more}


def forget(name):
    shutil.rmtree(DATA / "homes" / name, ignore_errors=True)


def install(table):
    """The peers, from npm and PyPI."""
    ccusage = Path(output(ROOT / "scripts/programs", "ccusage").strip())
    table.peers["ccusage"] = ccusage.name.removeprefix("ccusage-")
    table.peers["tokscale"] = TOKSCALE
    npm = PEERS / f"tokscale-{TOKSCALE}"
    tokscale = npm / "node_modules/@tokscale/cli-linux-x64-gnu/bin/tokscale"
    if not tokscale.exists():
        say("installing tokscale")
        output("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", npm, f"@tokscale/cli-linux-x64-gnu@{TOKSCALE}")
        tokscale.chmod(0o755)  # npm ships it without the run bit
    python = PEERS / "duckdb/bin/python"
    ready = PEERS / "duckdb/installed"
    if not ready.exists():
        say("installing DuckDB")
        output(sys.executable, "-m", "venv", "--clear", PEERS / "duckdb")
        output(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"duckdb{DUCKDB}")
        ready.touch()
    table.peers["DuckDB"] = output(python, "-c", "import duckdb; print(duckdb.__version__)").strip()
    return next(ccusage.glob("node_modules/@ccusage/*/bin/ccusage")), tokscale, python


def generated(program, mib):
    """An archive of this size, made once."""
    folder = DATA / f"archive-{mib}"
    if not (folder / "truth.json").exists():
        say(f"making {folder.relative_to(ROOT)}")
        output(sys.executable, program, "--mib", mib, "--seed", 7, "--out", folder)
    return folder


def warm(folder):
    """Reads all files once. Returns their size."""
    return sum(read(path) for path in folder.rglob("*.jsonl"))


def check_truth(folder, said):
    """The totals must be the generator's own. Anything else is an error, not a figure."""
    truth = json.loads((folder / "truth.json").read_text())["dedup"]
    wanted = [truth["input"], truth["output"], truth["cache_read"], truth["cache_creation_5m"] + truth["cache_creation_1h"]]
    totals = json.loads(said)["totals"]
    got = [totals[key] for key in ("input", "output", "cache_read", "cache_write")]
    if got != wanted:
        raise Failed(f"wrong totals: {got}, not {wanted}")


def archive(run):
    peers = install(run.table)
    folder = generated(run.generator, run.pick(12, 24, 1024))
    size = warm(folder)
    rounds = run.pick(1, 1, 5)
    first_and_next(run, folder, peers, rounds)
    one_file(run, folder, size, run.pick(1, 1, 3))
    with_index(run, folder, size, rounds)
    for mib in run.pick([], [], [256], [256, 10_240]):
        grown(run, mib)


def stats(run, folder, by="day"):
    return [run.tapline, "stats", "--by", by, "--json", "--quiet", folder]


def first_and_next(run, folder, peers, rounds):
    ccusage, tokscale, python = peers

    def first():
        forget("first")
        return Cost(stats(run, folder), home("first"), keep=True)

    their_home = home("ccusage", CLAUDE_CONFIG_DIR=str(folder / ".claude"))
    forget("next")
    Cost(stats(run, folder), home("next"))
    tokscale_run = [tokscale, "models", "--json", "--client", "claude", "--home", folder, "--no-spinner"]
    Cost(tokscale_run, home("tokscale"))
    costs = in_turns(
        rounds,
        first=first,
        next=lambda: Cost(stats(run, folder), home("next"), keep=True),
        ccusage=lambda: Cost([ccusage, "claude", "daily", "--offline", "--json"], their_home),
        tokscale=lambda: Cost(tokscale_run, home("tokscale")),
        duckdb=lambda: Cost([python, "-c", DUCKDB_SUM, folder], home("duckdb")),
    )
    check_truth(folder, costs["first"][0].output)
    check_truth(folder, costs["next"][0].output)
    for ours, name, peer, least in (
        ("first", "ccusage", "ccusage", 4),
        ("first", "DuckDB read_json, the same sum", "duckdb", 1),
        ("next", "ccusage, which has no index", "ccusage", 30),
        ("next", "tokscale, next run", "tokscale", 1),
    ):
        run.table.row(f"stats, {ours} run / {name}", median(costs[ours]), median(costs[peer]), ratio_at_least=least)
    peak = {name: Figure(max(cost.peak for cost in some), "MB") for name, some in costs.items()}
    run.table.row("stats, first run: peak memory / ccusage", peak["first"], peak["ccusage"], at_most=100)


def one_file(run, folder, size, rounds):
    """A single file is read by all cores."""
    alone = DATA / "one-file"
    path = alone / ".claude/projects/one/one.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as into:
        for part in sorted(folder.rglob("*.jsonl")):
            into.write(part.read_bytes())
    warm(alone)

    def first(cores):
        forget("one")
        return Cost([run.tapline, "stats", "--json", "--quiet", alone], home("one"), cores=cores)

    costs = in_turns(rounds, both=lambda: first(None), one=lambda: first(1))
    name = f"stats of a single file of {size / 1e6:,.0f} MB, all cores / one core"
    run.table.row(name, median(costs["both"]), median(costs["one"]), ratio_at_least=1.5)
    shutil.rmtree(alone)


def with_index(run, folder, size, rounds):
    def row(name, most, env, commands):
        costs = [in_turns(rounds, run=lambda command=command: Cost([run.tapline, *command], env))["run"] for command in commands]
        run.table.row(name, max((median(some) for some in costs), key=lambda figure: figure.value), at_most=most)

    row("stats --by anything, the slowest", 0.06, home("next"), [stats(run, folder, by)[1:] for by in REPORTS])
    forget("text")
    words = (["render"], ["session", "token"], ['"match value"'], ["ren*"], ["update", "tool:Bash"], ["nowheretobefound"])
    searches = [["search", *some, "--path", folder, "--json", "--quiet"] for some in words]
    first = Cost([run.tapline, *searches[0]], home("text"))
    run.table.row("search, the first: text is indexed", Figure(size / first.wall / 1e6, "MB/s"), at_least=50)
    run.table.row("search, the first: peak memory", Figure(first.peak, "MB"))
    row("search, the slowest of six", 0.05, home("text"), searches)
    statusline(run, folder, max(rounds, 10))
    numbers = sum(file.stat().st_size for file in (DATA / "homes/next").rglob("index.db*"))
    whole = numbers + sum(file.stat().st_size for file in (DATA / "homes/text").rglob("text.db*"))
    run.table.row("size of the index, of the archive", Figure(100 * numbers / size, "%"), at_most=10)
    run.table.row("size of the index with the text, of the archive", Figure(100 * whole / size, "%"), at_most=33)


def statusline(run, folder, rounds):
    env = home("next", CLAUDE_CONFIG_DIR=str(folder / ".claude"))
    Cost([run.tapline, "stats", "--json", "--quiet"], env)
    asked = DATA / "statusline.json"
    asked.write_text('{"session_id":"x","model":{"display_name":"M"}}')

    def status():
        with open(asked, "rb") as stdin:
            return Cost([run.tapline, "statusline"], env, stdin=stdin)

    status()
    run.table.row("statusline", median(in_turns(rounds, run=status)["run"]), at_most=0.01)


def grown(run, mib):
    """How time and memory grow with the archive."""
    folder = generated(run.generator, mib)
    warm(folder)
    forget("grown")
    cost = Cost(stats(run, folder), home("grown"), keep=True)
    check_truth(folder, cost.output)
    run.table.row(f"stats, first run, {mib:,} MiB", Figure(cost.wall, "s", cost.cpu))
    run.table.row(f"stats, first run, {mib:,} MiB: peak memory", Figure(cost.peak, "MB"))
