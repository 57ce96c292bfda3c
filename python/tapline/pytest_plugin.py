"""Fixtures for tests of programs that use agents. pytest finds this plugin by itself where tapline is installed.

def test_the_bot_says_hello(tapline_sim):
    sim = tapline_sim('turn = [{ text = "Hello." }]')
    assert tapline.run("say hello", **sim.options).answer == "Hello."
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from .testing import Replay, Sim


class StartSim(Protocol):
    """Starts a scripted model. `strict` (the default) fails the test if the scenario was not followed."""

    def __call__(self, scenario: str | Mapping[str, Any] | os.PathLike[str], *, strict: bool = True) -> Sim: ...


class StartReplay(Protocol):
    """Makes a program that plays a recording."""

    def __call__(
        self,
        recording: str | os.PathLike[str],
        *,
        speed: float | None = None,
        stop_after: int | None = None,
        hang_at: int | None = None,
        drop_result: bool = False,
        strict: bool = False,
    ) -> Replay: ...


@pytest.fixture
def tapline_sim() -> Iterator[StartSim]:
    """A scripted model: a scenario in, the environment of an agent out (`sim.env`, `sim.options`)."""
    strict_ones: list[Sim] = []
    with ExitStack() as open_ones:

        def start(scenario: str | Mapping[str, Any] | os.PathLike[str], *, strict: bool = True) -> Sim:
            sim = open_ones.enter_context(Sim(scenario))
            if strict:
                strict_ones.append(sim)
            return sim

        yield start
        failures = [failure for sim in strict_ones for failure in sim.failures]
    if failures:
        pytest.fail("the scenario was not followed:\n" + "\n".join(failures), pytrace=False)


@pytest.fixture
def tapline_replay() -> Iterator[StartReplay]:
    """A program that plays a recording in place of the agent (`replay.program`, `replay.options`)."""
    with ExitStack() as open_ones:

        def start(recording: str | os.PathLike[str], **options: Any) -> Replay:
            return open_ones.enter_context(Replay(recording, **options))

        yield start
