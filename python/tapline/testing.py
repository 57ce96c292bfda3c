"""Tests without an account and without cost: a scripted model for the real agent, and an agent that plays a recording.

The pytest plugin has them as the fixtures `tapline_sim` and `tapline_replay`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict

from . import _native

if TYPE_CHECKING:
    from typing_extensions import Self


class SimOptions(TypedDict):
    """The options with which an agent uses a sim."""

    env: dict[str, str]
    clean_env: bool


class ReplayOptions(TypedDict):
    """The options with which a replay takes the agent's place."""

    program: Path


class _Closing:
    """Something that is closed at the end of a `with` block."""

    def close(self) -> None:
        """Ends it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Sim(_Closing):
    """A scripted model on loopback. The real `claude` or `codex` asks it instead of the real one.

    The scenario is TOML, the same as a dict, or the path of a file (docs/SIM.md).

    >>> with Sim('turn = [{ text = "Hello." }]') as sim:
    ...     report = tapline.run("say hello", **sim.options)
    ...     assert report.answer == "Hello."
    """

    def __init__(self, scenario: str | Mapping[str, Any] | os.PathLike[str]) -> None:
        if isinstance(scenario, os.PathLike):
            text = Path(scenario).read_text(encoding="utf-8")
        else:
            text = scenario if isinstance(scenario, str) else json.dumps(scenario)
        self._native = _native.Sim(text)

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of an agent that uses only this model: its own HOME, a dummy key, PATH, nothing else."""
        return self._native.environment()

    @property
    def options(self) -> SimOptions:
        """The options for `run`, `start` and `Session`: `tapline.run("...", **sim.options)`."""
        return {"env": self.env, "clean_env": True}

    @property
    def url(self) -> str:
        """Its address, for ANTHROPIC_BASE_URL."""
        return self._native.url()

    @property
    def home(self) -> Path:
        """The HOME of its agents. It is removed with the sim."""
        return Path(self._native.home())

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests so far: `method`, `path`, `agent`, `turn`, `status`, `last`, `body`, ..."""
        return self._native.requests()

    @property
    def failures(self) -> list[str]:
        """Requests that no turn was left for, and expectations that were not met."""
        return self._native.failures()

    @property
    def notes(self) -> list[str]:
        """Possible mistakes in the scenario that are not failures."""
        return self._native.notes()

    def close(self) -> None:
        """Stops it and removes its HOME."""
        self._native.close()


class Replay(_Closing):
    """A program that plays a recording each time it is started, in place of the agent.

    `speed` is a factor on the recorded speed; by default nothing waits. `stop_after` and `hang_at` end or hang it after
    so many lines; `drop_result` leaves out the lines that end a turn; `strict` ends it where the host does not follow
    the recording.

    >>> with Replay("tests/recordings/refactoring") as replay:
    ...     report = tapline.run("...", **replay.options)
    """

    def __init__(
        self,
        recording: str | os.PathLike[str],
        *,
        speed: float | None = None,
        stop_after: int | None = None,
        hang_at: int | None = None,
        drop_result: bool = False,
        strict: bool = False,
    ) -> None:
        self._native = _native.Replay(recording, speed, stop_after, hang_at, drop_result, strict)

    @property
    def program(self) -> Path:
        """The program, named as the agent is."""
        return Path(self._native.program())

    @property
    def env(self) -> dict[str, str]:
        """The variables with which other programs find it in place of the agent: PATH, and tapline's own."""
        program = self.program
        path = f"{program.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {"PATH": path, f"TAPLINE_{program.name.upper()}_BIN": str(program)}

    @property
    def options(self) -> ReplayOptions:
        """The options for `run`, `start` and `Session`: `tapline.run("...", **replay.options)`."""
        return {"program": self.program}

    def close(self) -> None:
        """Removes the program."""
        self._native.close()
