"""Runs a skill once and says whether it can be trusted: the skill auditor's runner, again. It never raises for a run."""

import json
import sys
from dataclasses import asdict, dataclass

import tapline


@dataclass
class SkillResult:
    output: str
    exit_code: int | None
    error: str | None
    error_category: str | None
    warnings: list[str]
    tokens: tuple[int, int]
    duration_seconds: float
    api_key_source: str | None
    succeeded_cleanly: bool


def run_skill(prompt: str, timeout: float = 300, allow_hang_heuristic: bool = True) -> SkillResult:
    report = tapline.run(prompt, timeout=timeout, heuristics=allow_hang_heuristic)
    verdict, usage = report.verdict, report.turns[-1].usage if report.turns else {}
    return SkillResult(
        output=report.text,
        exit_code=verdict.exit.code,
        error=verdict.error,
        error_category=verdict.category,
        warnings=[f"{warning.code}: {warning.message}" for warning in verdict.warnings],
        tokens=(usage.get("input_tokens", 0), usage.get("output_tokens", 0)),
        duration_seconds=report.duration or 0.0,
        api_key_source=report.session.api_key_source,
        succeeded_cleanly=verdict.clean,
    )


if __name__ == "__main__":
    print(json.dumps(asdict(run_skill(sys.argv[1])), indent=2))
