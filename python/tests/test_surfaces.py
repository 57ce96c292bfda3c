"""What a run came to is the same in Python as on every other surface: the table that the tests of the command hold them to."""

from __future__ import annotations

import pytest

import tapline

from conftest import ROOT

ROWS = [line.split(" | ") for line in (ROOT / "crates/tapline-cli/tests/it/surfaces/facts.txt").read_text().splitlines()]
HEAD, ROWS = ROWS[0], ROWS[1:]
OF_FIXTURES = [row for row in ROWS if (ROOT / f"fixtures/{row[0]}.jsonl").exists()]


@pytest.mark.parametrize("row", OF_FIXTURES, ids=lambda row: row[0])
def test_the_facts_of_a_run(row: list[str]) -> None:
    facts = dict(zip(HEAD, row, strict=True))
    report = tapline.report(ROOT / f"fixtures/{row[0]}.jsonl")
    statuses = [call.status for call in report.tools.calls]
    tokens = report.ledger.tokens
    counts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write]
    assert {
        "outcome": report.verdict.outcome,
        "calls": str(len(statuses)),
        "errors": str(statuses.count("error")),
        "denials": str(report.verdict.denials),
        "tokens": "/".join(str(count or 0) for count in counts),
        "turns": str(len(report.turns)),
    } == {name: facts[name] for name in ("outcome", "calls", "errors", "denials", "tokens", "turns")}
    # A plain stream is not priced, and a run that was killed has only a price.
    if report.ledger.cost_usd is not None and not report.ledger.at_least:
        assert f"{report.ledger.cost_usd:.9f}" == facts["cost"]


def test_there_are_runs_of_every_kind() -> None:
    assert len(OF_FIXTURES) > 40
