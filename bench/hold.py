"""This build beside an earlier one, in turns: no row may take much more than it took. `scripts/bench --hold BASE` starts it."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import archive
from measure import DATA, ROOT, Cost, Failed, output, say
from table import number

# What a row may take, as a multiple of what the base takes: by instructions, which noise hardly changes, or by processor time.
BARS = {
    "decode": ("instructions", 1.01),
    "decode and fold": ("instructions", 1 / 0.97),
    "view": ("instructions", 1.03),
    "inspect": ("instructions", 1.03),
    "stats, first run": ("instructions", 1.03),
    "stats, next run": ("instructions", 1.0),
    "statusline": ("instructions", 1.03),
    "search, the first": ("processor time", 1.05),
}
# Two runs of one build differ by as much.
NOISE = {"instructions": 0.005, "processor time": 0.03}
PARTS = ["decode", "programs", "archive"]


@dataclass
class Side:
    """One of the two builds."""

    name: str
    tapline: Path
    bench: Path


@dataclass
class Held:
    """A row: what is run, on which data, and what must be done before each run."""

    bar: str
    data: str
    command: object  # Side -> list
    env: object = lambda side: None
    before: object = lambda side: None
    stdin: str = ""

    def run(self, side, wrapper=(), by=Cost):
        self.before(side)
        asked = DATA / "hold-asked"
        asked.write_text(self.stdin)
        with open(asked, "rb") as stdin:
            return by([*wrapper, *self.command(side)], env=self.env(side), stdin=stdin)


def instructions(command, env, stdin):
    done = subprocess.run([str(part) for part in command], env=env, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        raise Failed(f"{' '.join(map(str, command))}: {done.stderr[-2000:]}")
    return int(found[1])


def built(base):
    """The programs of a folder, or those of a revision, which are built in a worktree of its own."""
    given = Path(base)
    for folder in (given, given / "release", given / "target/release"):
        if (folder / "tapline").is_file() and (folder / "bench").is_file():
            return Side("base", (folder / "tapline").resolve(), (folder / "bench").resolve())
    if given.is_dir():
        raise Failed(f"{base} has no programs tapline and bench")
    tree, target = DATA / "base/tree", DATA / "base/target"
    output("git", "worktree", "prune", cwd=ROOT)
    commit = output("git", "rev-parse", "--verify", f"{base}^{{commit}}", cwd=ROOT).strip()
    if (tree / ".git").exists():
        output("git", "checkout", "-q", "--detach", commit, cwd=tree)
    else:
        output("git", "worktree", "add", "-q", "--detach", tree, commit, cwd=ROOT)
    say(f"building {commit[:8]} in {tree.relative_to(ROOT)}")
    # Older revisions have no features, and a workspace of their own for the benchmarks.
    has_features = re.search(r"^full = ", (tree / "crates/tapline-cli/Cargo.toml").read_text(), re.M)
    cargo = ["cargo", "build", "--release", "--locked", "--target-dir", target]
    output(*cargo, "-p", "tapline-cli", *(["--features", "full"] if has_features else []), cwd=tree)
    has_profile = re.search(r"^\[profile\.bench\]", (tree / "Cargo.toml").read_text(), re.M)
    profile = ["--profile", "bench"] if has_profile else ["--release"]
    output("cargo", "build", *profile, "--locked", "--target-dir", target, "--manifest-path", "bench/Cargo.toml", cwd=tree)
    return Side("base", target / "release/tapline", target / "release/bench")


def rows(run, parts, megabytes, mib):
    """What is compared, on this much data."""
    found = []
    if "decode" in parts:
        for bar, only in (("decode", "tapline"), ("decode and fold", "tapline+fold")):
            for kind in ("long", "short"):
                path = run.stream(kind, megabytes)
                found.append(Held(bar, f"{kind} lines", lambda side, only=only, path=path: [side.bench, "decode", "--file", path, "--only", only, "--rounds", 1]))
    if "programs" in parts:
        for kind in ("mixed", "short"):
            path = run.stream(kind, megabytes)
            found.append(Held("view", f"{kind} lines", lambda side, path=path: [side.tapline, "view", path]))
            found.append(Held("inspect", f"{kind} lines", lambda side, path=path: [side.tapline, "inspect", "--json", path]))
    if "archive" in parts:
        found += of_archive(run, mib)
    return found


def of_archive(run, mib):
    folder = archive.generated(run.generator, mib)
    archive.warm(folder)

    def env(name):
        return lambda side: archive.home(f"hold-{side.name}-{name}", CLAUDE_CONFIG_DIR=str(folder / ".claude"))

    def forget(name):
        return lambda side: archive.forget(f"hold-{side.name}-{name}")

    def stats(side):
        return [side.tapline, "stats", "--by", "day", "--json", "--quiet", folder]

    def indexed(side):
        """An index of this very build, which an earlier run may have left otherwise."""
        marker = DATA / f"homes/hold-{side.name}-next/made-by"
        made_by = f"{folder} {side.tapline} {side.tapline.stat().st_mtime_ns}"
        if not marker.exists() or marker.read_text() != made_by:
            forget("next")(side)
            Cost(stats(side), env("next")(side))
            Cost([side.tapline, "stats", "--json", "--quiet"], env("next")(side))
            marker.write_text(made_by)

    search = ["search", "render", "--path", folder, "--json", "--quiet"]
    asked = json.dumps({"session_id": "x", "model": {"display_name": "M"}})
    return [
        Held("stats, first run", f"{mib} MiB", stats, env("first"), forget("first")),
        Held("stats, next run", f"{mib} MiB", stats, env("next"), indexed),
        Held("statusline", f"{mib} MiB", lambda side: [side.tapline, "statusline"], env("next"), indexed, asked),
        Held("search, the first", f"{mib} MiB", lambda side: [side.tapline, *search], env("text"), forget("text")),
    ]


def hold(run, base, parts):
    """Prints both sides of each row. Returns whether every row is within its bar."""
    sides = [built(base), Side("now", run.tapline, run.bench)]
    counted, timed, rounds = {}, {}, run.pick(1, 3, 10)
    if shutil.which("valgrind"):
        valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        for row in rows(run, parts, run.pick(1, 4, 4), run.pick(12, 12, 24)):
            say(f"counting: {row.bar}, {row.data}")
            counted.setdefault(row.bar, []).append([row.run(side, valgrind, instructions) for side in sides])
    else:
        say("scripts/bench: valgrind is not here (apt install valgrind): every row is judged by its time, which noise changes")
    for row in rows(run, parts, run.pick(1, 50, 100), run.pick(12, 24, 256)):
        say(f"timing: {row.bar}, {row.data}")
        cpu = [[], []]
        for _ in range(rounds):
            for side, times in zip(sides, cpu):
                times.append(row.run(side).cpu)
        timed.setdefault(row.bar, []).append((row.data, [min(times) for times in cpu]))
    print("| row | instructions, millions: base | now | ratio | processor time: base | now | ratio | at most |\n|---|---|---|---|---|---|---|---|")
    kept = True
    for bar, measured in timed.items():
        for at, (data, (before, now)) in enumerate(measured):
            by, most = BARS[bar]
            pair = counted[bar][at] if bar in counted else None
            ratios = {"processor time": now / before, **({"instructions": pair[1] / pair[0]} if pair else {})}
            by = by if by in ratios else "processor time"
            good = ratios[by] <= most + NOISE[by]
            kept &= good
            millions = [number(count / 1e6) for count in pair] + [f"{ratios['instructions']:.3f}×"] if pair else ["—"] * 3
            seconds = [f"{before * 1000:.1f} ms", f"{now * 1000:.1f} ms", f"{now / before:.2f}×"]
            cells = [f"{bar}, {data}", *millions, *seconds, f"{most:.2f}×, by {by} {'✓' if good else '✗'}"]
            print("| " + " | ".join(cells) + " |")
    return kept
