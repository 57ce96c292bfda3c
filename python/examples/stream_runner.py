"""Runs a command with Claude Code and prints what happens as it happens: the streaming command runner, again."""

import asyncio
import sys
from pathlib import Path

import tapline
from tapline import step


async def stream_claude_output(command: str, cwd: Path) -> tapline.Report:
    async with tapline.start(command, cwd=cwd, permission_mode="acceptEdits") as run:
        async for happened in run:
            match happened:
                case step.Session(id=str(session_id), first=True):
                    print(f"Session ID: {session_id}")
                case step.Text(text):
                    print(f"Text: {text}")
                case step.Call(name):
                    print(f"Tool: {name}")
                case step.Answer(name, "error" | "denied"):
                    print(f"Failed: {name}: {happened.text}")
                case _:
                    pass
    return run.report


if __name__ == "__main__":
    sys.exit(asyncio.run(stream_claude_output(sys.argv[1], Path.cwd())).exit_code)
