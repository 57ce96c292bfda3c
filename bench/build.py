"""What it takes to build tapline: in a fresh clone, with an empty CARGO_HOME and nothing compiled. Downloads are not counted."""

import os
import re
import shutil
from pathlib import Path

from measure import DATA, ROOT, Cost, output, say
from table import Figure

PACKAGE = "crates/tapline-cli"


def build(run):
    folder = DATA / "build"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    clone, target = folder / "clone", folder / "target"
    output("git", "clone", "-q", ROOT, clone)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO", "RUST"))}
    env["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
    env.update(HOME=str(folder / "home"), CARGO_HOME=str(folder / "cargo"), CARGO_TARGET_DIR=str(target), TAPLINE_HOME=str(folder / "home/tapline"))
    (folder / "home").mkdir()
    output("cargo", "fetch", "--locked", cwd=clone, env=env)

    def cold(name, *command):
        say(f"building: {name}")
        shutil.rmtree(target, ignore_errors=True)
        cost = Cost(["cargo", *command], env, cwd=clone)
        run.table.row(f"build, nothing compiled: {name}", Figure(cost.wall, "s", cost.cpu))

    cold("`cargo run -- demo`", "run", "--locked", "--", "demo")
    cold(f"`cargo install --path {PACKAGE}`", "install", "--locked", "--path", PACKAGE, "--root", folder / "root")
    cold("`cargo build --release -p tapline-cli --features full`", "build", "--release", "--locked", "-p", "tapline-cli", "--features", "full")
    limit = re.search(r"^limit=(\d+)", (ROOT / "scripts/release").read_text(), re.M)
    for name, binary, promised in (
        ("as `cargo install` builds it", folder / "root/bin/tapline", {}),
        ("with all features, as releases have it", target / "release/tapline", {"at_most": int(limit[1]) / 1e6} if limit else {}),
    ):
        run.table.row(f"size of the binary, {name}", Figure(binary.stat().st_size / 1e6, "MB"), **promised)
    shutil.rmtree(folder)
