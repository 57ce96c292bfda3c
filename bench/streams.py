"""Reading: the decoder and the redaction in memory, and the decoder on a file beside Python."""

import json
import re

from measure import ROOT, output, python_with_sdk
from table import Figure


def decode(run):
    """In memory: the decoder beside claude-codes and serde_json, above the floor."""
    lock = (ROOT / "Cargo.lock").read_text()
    for crate in ("claude-codes", "serde_json"):
        run.table.peers[crate] = re.search(rf'name = "{crate}"\nversion = "(.*)"', lock)[1]
    run.rows(run.bench, "decode", "--json", "--mb", run.pick(2, 20, 210), "--rounds", run.pick(1, 3, 5))


def redact(run):
    """In memory: taking secrets out, beside one regular expression made from the same table."""
    run.rows(run.bench, "redact", "--json", "--mb", run.pick(1, 20, 100), "--rounds", run.pick(1, 2, 5))


def files(run):
    """From a file: Python's parsers, and the decoder on the same file."""
    python = python_with_sdk(run.table)
    megabytes, rounds = run.pick(2, 20, 100), run.pick(1, 2, 5)
    peers = {"lines": ("Python, lines alone", {}), "json": ("Python json.loads", {}), "sdk": ("the official SDK for Python", {"ratio_at_least": 20})}
    for kind in ("mixed", "short"):
        path = run.stream(kind, megabytes)
        theirs = json.loads(output(python, ROOT / "bench/reading.py", path, rounds, *peers))
        row = json.loads(output(run.bench, "decode", "--file", path, "--only", "tapline", "--json", "--rounds", rounds))
        for peer, (name, promised) in peers.items():
            run.table.row(f"decode a file, {kind} lines / {name}", Figure(**row["tapline"]), Figure(**theirs[peer]), **promised)
