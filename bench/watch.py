"""The server beside an axum broadcast (bench/src/watch.rs), and its page in Chromium (bench/watch.mjs)."""

import os
import re
import shutil

from measure import DATA, ROOT, output


def chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def watch(run):
    lock = (ROOT / "Cargo.lock").read_text()
    run.table.peers["axum"] = re.search(r'name = "axum"\nversion = "(.*)"', lock)[1]
    folder = DATA / "watch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for what in ("clients", "sessions", "hour"):
        run.rows(run.bench, "watch", what, folder, "--json", *run.flags())
    shutil.rmtree(folder)
    # scripts/test web shows that the page works.
    if run.extent != "smoke":
        run.table.peers["Chromium"] = re.search(r"[\d.]+", output(chromium(), "--version"))[0]
        run.rows(ROOT / "scripts/web", "bench", *run.flags(), env={**os.environ, "BENCH": str(run.bench)})
