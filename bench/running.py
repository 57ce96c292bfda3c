"""What running an agent adds, and what stands between it and its host (bench/src/agents.rs, bench/src/between.rs)."""

import shutil

from measure import DATA, ROOT


def running(run):
    folder = DATA / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    recorded = ROOT / "fixtures/claude-2.1.325/tools-partial.jsonl"
    for what in (["latency", run.tapline], ["overhead", run.tapline], ["many"], ["tee", run.tapline], ["replay", run.tapline]):
        more = [recorded] if what == ["many"] else []
        run.rows(run.bench, "run", *what, folder, *more, "--json", *run.flags())
    shutil.rmtree(folder)
