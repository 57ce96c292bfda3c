"""Runs the benchmarks and prints one table: `scripts/bench` starts it, and BENCHMARKS.md has the table."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import archive
import hold
from build import build
from fleet import fleet
from measure import DATA, ROOT, Failed, Run, output, say
from programs import memory, programs
from python_module import python
from running import running
from streams import decode, files, redact
from table import END, Table, put
from watch import chromium, watch

PARTS = {
    "decode": decode,
    "redact": redact,
    "files": files,
    "programs": programs,
    "memory": memory,
    "run": running,
    "archive": archive.archive,
    "fleet": fleet,
    "watch": watch,
    "python": python,
    "build": build,
}
# These need neither a release build nor large downloads.
SMOKE = ["decode", "redact", "files", "programs", "memory", "run", "fleet", "watch"]
HELP = """parts:
  decode    the decoder beside claude-codes and serde_json, in memory
  redact    taking secrets out, beside a regular expression
  files     the decoder beside Python and the official SDK, on a file
  programs  inspect and view beside jq, the start, the size
  memory    peaks, while a stream is piped in
  run       what running an agent adds: latency, time, memory, a thousand at once; tee and replay
  archive   stats, search and statusline beside ccusage, tokscale and DuckDB
  fleet     batch beside GNU parallel, and through JetStream
  watch     serve beside an axum broadcast, and its page in Chromium
  python    tapline for Python beside the official SDK
  build     builds in a fresh clone, and the sizes; only if it is named, or with --big

Without a part, all of them but build run, in about half an hour. The parts install their peers below target/bench."""


def arguments():
    options = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures tapline beside its peers, and prints one table. BENCHMARKS.md says what is measured.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    extent = options.add_mutually_exclusive_group()
    options.set_defaults(extent="full")
    for name, text in (
        ("quick", "little data, at most 4 minutes; nothing is judged"),
        ("big", "everything, build too: 10 GB through memory, an archive of 10 GiB"),
        ("smoke", "shows that everything runs that needs no release build: in about a minute, with the builds of the tests"),
    ):
        extent.add_argument(f"--{name}", dest="extent", action="store_const", const=name, help=text)
    options.add_argument("--write", action="store_true", help="puts the table into BENCHMARKS.md; all parts must have run, on a commit")
    options.add_argument("--hold", metavar="BASE", help="compares with a revision, or with a folder that has tapline and bench; fails if a row got worse")
    options.add_argument("--generator", type=Path, help="the program that makes the archive (default: shared/bench/gen_archive.py beside the checkout)")
    options.add_argument("parts", nargs="*", metavar="PART", help="only these parts, see below")
    args = options.parse_args()
    known = hold.PARTS if args.hold else list(PARTS)
    if unknown := [part for part in args.parts if part not in known]:
        options.error(f"there is no part {unknown[0]}{' that --hold compares' if args.hold else ''}: {', '.join(known)}")
    if args.write and (args.parts or args.hold or args.extent == "smoke"):
        options.error("--write needs all parts of one run")
    args.generator = archive.generator(args.generator and args.generator.resolve())
    if args.hold and Path(args.hold).is_dir():
        args.hold = str(Path(args.hold).resolve())
    return args


def missing(part, args):
    """What a part needs and is not here, with where to get it."""
    needs = {
        "programs": [("jq", "apt install jq")],
        "memory": [("jq", "apt install jq"), ("/usr/bin/time", "GNU time: apt install time")],
        "archive": [("npm", "https://nodejs.org")],
        "fleet": [("parallel", "apt install parallel")],
        "watch": [("node", "https://nodejs.org"), ("npm", "https://nodejs.org")],
    }
    found = [f"{tool} ({where})" for tool, where in needs.get(part, []) if not shutil.which(tool)]
    if part == "archive" and not args.generator:
        found.append("a program that makes an archive (--generator FILE)")
    if part == "watch" and args.extent != "smoke" and not chromium():
        found.append("chromium (apt install chromium)")
    return found


def chosen(args):
    """The parts that run."""
    if args.parts:
        parts = [part for part in PARTS if part in args.parts]
    elif args.hold:
        parts = hold.PARTS
    elif args.extent == "smoke":
        parts = SMOKE
    else:
        parts = [part for part in PARTS if part != "build" or args.extent == "big"]
    lacking = {part: missing(part, args) for part in parts}
    if args.extent == "smoke" and not args.parts:
        for part in [part for part in parts if lacking[part]]:
            say(f"scripts/bench: {part} is not run: it needs {', '.join(lacking.pop(part))}")
        return list(lacking)
    if needs := [f"{part} needs {what}" for part in parts for what in lacking[part]]:
        sys.exit("scripts/bench: " + "\nscripts/bench: ".join(needs))
    return parts


def built(args, parts):
    """The programs: those of the tests for --smoke, otherwise optimised ones."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target")).absolute()
    if args.extent == "smoke":
        tapline = Path(os.environ.get("TAPLINE") or target / "debug/tapline").absolute()
        if "TAPLINE" not in os.environ:
            output("scripts/build")
    else:
        tapline = target / "release/tapline"
        # The part that measures builds makes its own.
        if parts != ["build"]:
            output("cargo", "build", "--release", "--locked", "-p", "tapline-cli", "--features", "full")
            output("cargo", "build", "--profile", "bench", "--locked", "-p", "tapline-bench")
    return tapline, tapline.with_name("bench")


def changed():
    """Whether the checkout differs from its commit in anything but the page."""
    return bool(output("git", "status", "--porcelain", "--", ".", ":!BENCHMARKS.md").strip())


def about(args, began, load):
    """The commit, the machine and the run, in a line."""
    commit = output("git", "rev-parse", "--short=8", "HEAD").strip() + (" with changes" if changed() else "")
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()) if Path("/proc/cpuinfo").exists() else None
    machine = f"{os.cpu_count()} cores ({model[1] if model else os.uname().machine}), {os.uname().sysname}"
    command = " ".join(["scripts/bench", *args.parts, *([] if args.extent == "full" else [f"--{args.extent}"])])
    extent = {
        "quick": " **A quick run: little data and few rounds. Nothing is judged.**",
        "smoke": " **The figures mean nothing: this shows that everything runs.**",
    }.get(args.extent, "")
    took = f"{(time.time() - began) / 60:.0f} min, load {load:.1f} at the start"
    rustc = output("rustc", "--version").split()[1]
    return f"Commit {commit}, {time.strftime('%Y-%m-%d', time.gmtime(began))}, {machine}, rustc {rustc}; `{command}` ({took}).{extent}"


def main():
    args = arguments()
    os.chdir(ROOT)
    parts = chosen(args)
    if args.write and changed():
        sys.exit("scripts/bench: commit what changed first: the table is of one commit")
    tapline, bench = built(args, parts)
    DATA.mkdir(parents=True, exist_ok=True)
    run = Run(args.extent, tapline, bench, Table(args.extent in ("full", "big")), args.generator)
    if args.hold:
        sys.exit(0 if hold.hold(run, args.hold, parts) else 1)
    began, load, failed = time.time(), os.getloadavg()[0], []
    for part in parts:
        started = time.time()
        try:
            PARTS[part](run)
        except (Failed, OSError, subprocess.CalledProcessError) as error:
            failed.append(part)
            say(f"scripts/bench: {part} failed: {error}")
        say(f"scripts/bench: {part} took {time.time() - started:.0f} s")
    text = run.table.markdown(about(args, began, load))
    print(text, end="")
    if failed:
        sys.exit(f"scripts/bench: failed: {', '.join(failed)}")
    if args.write:
        page = Path("BENCHMARKS.md")
        written = put(page.read_text(), text)
        page.write_text(written)
        below = written.split(END)[1]
        for benchmark in run.table.not_kept():
            if benchmark not in below:
                say(f"scripts/bench: BENCHMARKS.md does not say why this is not kept: {benchmark}")


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"scripts/bench: {error}")
