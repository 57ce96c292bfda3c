"""A bot's view of a run: a status line for every action, the answer, and what a person must know."""

import asyncio
import sys

import tapline
from tapline import step


def status_line(happened: tapline.Step) -> str | None:
    match happened:
        case step.Session(id, first=True):
            return f"session started, resume with {id}"
        case step.Call(_, title):
            return f"▸ {happened.doing}: {title}"
        case step.Answer(status="ok"):
            return f"✓ {happened.done}: {happened.title}"
        case step.Answer():
            return f"✗ {happened.done}: {happened.title}: {happened.text.splitlines()[0]}"
        case step.Retry(status, error):
            return f"… trying again: {error} ({status})"
        case _:
            return None


async def handle(prompt: str, resume: str | None = None) -> tapline.Report:
    async with tapline.start(prompt, resume=resume, timeout=600) as run:
        async for happened in run:
            if line := status_line(happened):
                print(line, flush=True)
    report = run.report
    print(report.answer if report.ok else f"{report.category}: {report.error}")
    for warning in report.verdict.warnings:
        print(f"! {warning.message}")
    return report


if __name__ == "__main__":
    sys.exit(asyncio.run(handle(*sys.argv[1:3])).exit_code)
