"""A conversation with one run per turn, for agents that take one prompt and exit (Codex)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _native
from ._options import Options
from ._run import LoopListener, Run, on_loop

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class Conversation:
    """A conversation in which every turn is a run of its own that resumes the session. See `Options` for the keyword arguments.

    >>> async with tapline.Conversation(agent="codex") as conversation:
    ...     first = await conversation.turn("What does this project do?")
    ...     print(first.answer)
    ...     async for step in conversation.turn("And who uses it?"):
    ...         print(step)

    It has the shape of a `Session`, and works with every agent. Only a `Session` can send messages while the agent works,
    and requests. Turns are taken one after the other. With `record`, each turn is recorded: the first in this folder, the
    next ones in folders with `-2`, `-3`, ... at the end. Leaving the block stops a turn that is under way, and everything that it has started.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        self._options: dict[str, Any] = dict(options)
        self._native: _native.ConversationHandle | None = None
        self._listener: LoopListener | None = None
        self._turns: list[ConversationTurn] = []
        self._id: str | None = self._options.get("resume")

    @property
    def id(self) -> str | None:
        """The session that the next turn resumes; known from the first turn on."""
        for turn in reversed(self._turns):
            if turn.session_id is not None:
                return turn.session_id
        return self._id

    def turn(self, prompt: str, *, timeout: float | None = None) -> ConversationTurn:
        """A turn with this prompt: `await` it for its report, or iterate over it with `async for` for its steps. It starts
        when that begins.

        After `timeout` seconds the turn is stopped; without it, after the `timeout` of the conversation. A turn that
        fails is a report, not an exception.
        """
        turn = ConversationTurn(self, prompt, timeout)
        self._turns.append(turn)
        return turn

    async def __aenter__(self) -> Self:
        if self._native is not None:
            raise RuntimeError("the conversation was begun already")
        options, self._listener, ask = on_loop(self._options, asyncio.get_running_loop())
        self._native = _native.ConversationHandle(options, ask)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for turn in self._turns:
            if turn.has_begun:
                await turn.__aexit__(kind, error, traceback)

    def __repr__(self) -> str:
        return f"<Conversation, {len(self._turns)} turns, id {self.id}>"


class ConversationTurn(Run):
    """A turn of a conversation: `await` it for its report, or iterate over it for its steps; `report` has the report then."""

    def __init__(self, conversation: Conversation, prompt: str, timeout: float | None) -> None:
        super().__init__({})
        self._conversation = conversation
        self._prompt = prompt
        self._timeout = timeout

    @property
    def has_begun(self) -> bool:
        """Whether it was started."""
        return self._native is not None

    def _start(self, loop: asyncio.AbstractEventLoop, post: Callable[[Any], object]) -> _native.Run:
        handle = self._conversation._native
        if handle is None:
            raise RuntimeError("the conversation has not begun: use `async with tapline.Conversation(...) as conversation`")
        self._listener = self._conversation._listener
        return handle.turn(self._prompt, self._timeout, post)

    async def __anext__(self) -> _native.Step:
        if not self.has_begun:
            await self._begin()
        return await super().__anext__()
