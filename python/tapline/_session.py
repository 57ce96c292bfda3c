"""A conversation with an agent: turns that return values, and requests in between."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from . import _native
from ._options import Options
from ._report import Report, TurnResult, build
from ._run import LoopListener, on_loop, posted, settle, tell

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

Priority = Literal["now", "next", "later"]
Message = str | Sequence[Mapping[str, Any]]
"""A text, or content blocks as in the Messages API."""


class SessionError(Exception):
    """A session could not begin, has ended, or did not answer. `report` has what is known, if it is over."""

    def __init__(self, message: str, report: Report | None = None) -> None:
        super().__init__(message)
        self.report = report


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TurnReport:
    """A turn that has ended, well or not: `ok`, `error`, `interrupted` say how."""

    message_id: str
    """The uuid of the message that started it, for `rewind_files`."""
    answer: str
    """The agent's answer."""
    interrupted: bool
    """Whether it was interrupted."""
    error: str | None
    """Why it failed, for a person to read."""
    category: str | None
    """Why it failed, in a word: `rate_limit`, `auth`, `max_turns`, ..."""
    result: TurnResult
    """How it ended, as the agent reports it: reasons, usage, duration."""
    steps: list[_native.Step]
    """What happened in the turn."""

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return not self.result.failed

    @property
    def calls(self) -> list[_native.Call]:
        """Its tool calls."""
        return [step for step in self.steps if isinstance(step, _native.Call)]

    @property
    def cost_usd(self) -> float | None:
        """What it cost, if the agent reports it."""
        return self.result.cost_usd

    @property
    def structured(self) -> Any:
        """Its structured answer, if there is a schema."""
        return self.result.structured_output

    def __repr__(self) -> str:
        how = "ok" if self.ok else "interrupted" if self.interrupted else f"failed/{self.category}"
        return f"<TurnReport {how}, answer={self.answer[:60]!r}, calls={len(self.calls)}>"


class Session:
    """A conversation with an agent. See `Options` for the keyword arguments.

    >>> async with tapline.Session(permission_mode="default", can_use_tool=ask) as session:
    ...     turn = await session.turn("Look at the failing test.")
    ...     print(turn.answer)
    ...     await session.set_permission_mode("acceptEdits")
    ...     async for step in session.turn("Make it pass."):
    ...         print(step)
    >>> print(session.report.cost_usd)

    `async for step in session` gives what happens while no turn is under way: the turns of messages that were sent with
    `send`, and what background tasks do.

    Leaving the block ends the session and waits for its background tasks; an exception or a cancelled task
    stops it and everything that it has started. Turns are taken one after the other; requests can be made at any time
    from any task of the same event loop.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        self._options: dict[str, Any] = dict(options)
        self._listener: LoopListener | None = None
        self._native: _native.SessionHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._info: dict[str, Any] = {}
        self._id: str | None = None
        self._report: Report | None = None
        self._killed = False
        self._between: deque[_native.Step] = deque()
        self._next: asyncio.Future[Any] | None = None
        self._no_more = False

    @property
    def info(self) -> dict[str, Any]:
        """What the agent said about itself at the start: commands, models, account, version."""
        return self._info

    @property
    def id(self) -> str | None:
        """The session's id, for `resume`; known from the first turn on."""
        return self._id

    @property
    def report(self) -> Report:
        """The report on the whole session. Raises RuntimeError while the session is open."""
        if self._report is None:
            raise RuntimeError("the session was killed" if self._killed else "the session is not over")
        return self._report

    def turn(self, message: Message, *, timeout: float | None = None, priority: Priority | None = None) -> RunningTurn:
        """A turn with this message: `await` it for its report, or iterate over it with `async for` for its steps. The
        message is sent when that begins.

        After `timeout` seconds the turn is interrupted, and returned as that. A task that is cancelled while it waits
        interrupts the turn, too. A turn that fails is returned, not raised.
        """
        return RunningTurn(self, _message(message, priority), timeout)

    def send(self, message: Message, *, priority: Priority | None = None) -> str:
        """Sends a message without waiting for its turn, and returns its uuid. `priority` says when the agent reads it
        during a turn: "now" interrupts the turn."""
        return self._started().send(_message(message, priority))

    async def request(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> Any:
        """Sends a control request and returns the agent's answer unchanged.

        Raises SessionError if the agent refuses, does not answer in time or has ended.
        """
        loop = self._of_loop()
        future, post = posted(loop)
        self._started().request(subtype, json.dumps(fields), timeout, post)
        return _answer(await future, self._report)

    async def interrupt(self) -> None:
        """Ends the turn that is under way. The session goes on."""
        await self.request("interrupt")

    async def set_model(self, model: str | None = None) -> None:
        """Sets the model from now on; None is the default model."""
        await self.request("set_model", model=model)

    async def set_permission_mode(self, mode: str) -> None:
        """Sets what the agent may do without asking from now on: "default", "acceptEdits", "plan", ..."""
        await self.request("set_permission_mode", mode=mode)

    async def mcp_status(self) -> Any:
        """The MCP servers and their status."""
        return await self.request("mcp_status")

    async def context_usage(self) -> Any:
        """What its context is filled with."""
        return await self.request("get_context_usage")

    async def rewind_files(self, message_id: str) -> Any:
        """Restores files to what they were when this message was sent."""
        return await self.request("rewind_files", user_message_id=message_id)

    async def reconnect_mcp_server(self, name: str) -> None:
        """Connects to an MCP server again."""
        await self.request("mcp_reconnect", serverName=name)

    async def toggle_mcp_server(self, name: str, enabled: bool) -> None:
        """Turns an MCP server on or off."""
        await self.request("mcp_toggle", serverName=name, enabled=enabled)

    async def stop_task(self, task_id: str) -> None:
        """Stops a background task."""
        await self.request("stop_task", task_id=task_id)

    async def finish(self) -> Report:
        """Ends the session, waits for its background tasks, and returns the report."""
        if self._report is None and not self._killed:
            future, post = posted(self._of_loop())
            self._started().finish(post)
            assert self._listener is not None
            try:
                got = await asyncio.shield(future)
                self._report = Report(got) if isinstance(got, _native.Report) else None
                await self._listener.until_told()
            except BaseException:
                self._kill()
                raise
            self._killed = self._report is None
            self._listener.check()
        return self.report

    def stop(self) -> None:
        """Stops the whole session step by step, so that the agent can save its work; the second time at once."""
        if self._native is not None:
            self._native.stop()

    def _started(self) -> _native.SessionHandle:
        if self._native is None:
            raise RuntimeError("the session has not begun: use `async with tapline.Session(...) as session`")
        return self._native

    def _of_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            raise RuntimeError("a session belongs to the event loop that it began on")
        return loop

    def _kill(self) -> None:
        self._killed = True
        if self._native is not None:
            self._native.kill()
        if self._listener is not None:
            self._listener.close()

    def _saw(self, happened: list[Any]) -> list[_native.Step]:
        assert self._listener is not None
        steps = tell(happened, self._listener)
        for step in steps:
            if isinstance(step, _native.Session) and step.id is not None:
                self._id = step.id
        return steps

    def __aiter__(self) -> AsyncIterator[_native.Step]:
        return self

    async def __anext__(self) -> _native.Step:
        while not self._between:
            if self._no_more or self._report is not None:
                raise StopAsyncIteration
            if self._next is None:
                self._next, post = posted(self._of_loop())
                self._next.add_done_callback(self._came)
                self._started().next(post)
            # A caller that is cancelled meanwhile loses nothing: it is there the next time.
            await asyncio.shield(self._next)
        return self._between.popleft()

    def _came(self, next: asyncio.Future[Any]) -> None:
        """Takes what happened between turns, once, however many tasks wait for it."""
        self._next = None
        happened = next.result()
        self._no_more = happened is None
        self._between.extend(self._saw(happened or []))

    async def __aenter__(self) -> Self:
        if self._native is not None:
            raise RuntimeError("the session was begun already")
        self._loop = asyncio.get_running_loop()
        options, self._listener, ask = on_loop(self._options, self._loop)
        future, post = posted(self._loop)
        self._native = _native.open_session(options, ask, post)
        try:
            first = await future
        except BaseException:
            self._kill()
            raise
        if isinstance(first, _native.Report):
            self._report = Report(first)
        self._info = _answer(first, self._report)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.stop()
        if self._report is None and not self._killed:
            await self.finish()

    def __repr__(self) -> str:
        state = "over" if self._report else "killed" if self._killed else "not begun" if self._native is None else "open"
        return f"<Session {state}, id {self._id}>"


class RunningTurn:
    """A turn of a session: `await` it for its report, or iterate over it for its steps; `report` has the report then."""

    def __init__(self, session: Session, message: dict[str, Any], timeout: float | None) -> None:
        self._session = session
        self._message = message
        self._timeout = timeout
        self._steps: deque[_native.Step] = deque()
        self._ended: asyncio.Future[Any] | None = None
        self._news = asyncio.Event()
        self._report: TurnReport | None = None

    @property
    def report(self) -> TurnReport:
        """The turn, once it has ended. Raises RuntimeError before."""
        if self._report is None:
            raise RuntimeError("the turn is not over")
        return self._report

    def _begin(self, live: bool) -> asyncio.Future[Any]:
        if self._ended is None:
            loop = self._session._of_loop()
            self._ended, post = posted(loop)
            self._ended.add_done_callback(lambda _: self._news.set())

            def listen(happened: list[Any] | None) -> object:
                return loop.call_soon_threadsafe(self._heard, happened)

            try:
                handle = self._session._started()
                handle.turn(self._message, self._timeout, live, listen, post)
            except RuntimeError as error:
                settle(self._ended, ("ended", str(error)))
        return self._ended

    def _heard(self, happened: list[Any] | None) -> None:
        self._steps.extend(self._session._saw(happened or []))
        self._news.set()

    async def _end(self, live: bool) -> TurnReport:
        if self._report is None:
            ended = self._begin(live)
            try:
                got = await asyncio.shield(ended)
            except asyncio.CancelledError:
                self._abandon()
                raise
            facts = _answer(got, None)
            if not live:
                self._session._saw(facts["steps"])
            facts["result"] = build(TurnResult, facts["result"])
            self._report = TurnReport(**facts)
        return self._report

    def _abandon(self) -> None:
        """Nobody waits any more: the agent need not go on with it."""
        handle = self._session._native
        if handle is not None and self._ended is not None and not self._ended.done():
            try:
                handle.request("interrupt", "{}", None, lambda _: None)
            except RuntimeError:
                pass  # The session has ended meanwhile.

    def __await__(self) -> Generator[Any, None, TurnReport]:
        return self._end(live=False).__await__()

    def __aiter__(self) -> AsyncIterator[_native.Step]:
        return self

    async def __anext__(self) -> _native.Step:
        ended = self._begin(live=True)
        while not self._steps:
            if ended.done():
                await self._end(live=True)
                raise StopAsyncIteration
            self._news.clear()
            try:
                await self._news.wait()
            except asyncio.CancelledError:
                self._abandon()
                raise
        return self._steps.popleft()


def _message(message: Message, priority: Priority | None) -> dict[str, Any]:
    if isinstance(message, str):
        return {"text": message, "priority": priority}
    return {"blocks": [json.dumps(block) for block in message], "priority": priority}


def _answer(got: Any, report: Report | None) -> Any:
    """What Rust answered, or the exception that says why not."""
    if isinstance(got, BaseException):
        raise got
    if isinstance(got, _native.Report):
        assert report is not None
        raise SessionError(f"the session could not begin: {report.category}: {report.error}", report)
    if got is None:
        raise SessionError("the session has ended")
    kind, value = got
    if kind != "ok":
        raise SessionError(value, report)
    return value
