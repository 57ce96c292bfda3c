"""Running an agent: `run` waits for the report, `start` follows it on an event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _native
from ._answers import handlers, logger
from ._calling import Calling, Listener
from ._options import Options, native
from ._report import Report

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


def run(prompt: str, **options: Unpack[Options]) -> Report:
    """Runs an agent with this prompt and returns its report. See `Options` for the keyword arguments.

    It never raises because an agent failed: a timeout, a missing program, a rate limit and a crash are reports, each
    with its duration, what the agent had written until then (`report.text`) and a category. Ctrl-C stops the agent
    and everything that it has started, and then raises KeyboardInterrupt.

    >>> report = tapline.run("Fix the failing test", timeout=600, allowed_tools=["Read", "Edit", "Bash"])
    >>> if report.ok:
    ...     print(report.answer)
    ... else:
    ...     print(report.category, report.error)

    Raises ValueError or TypeError for an option that is wrong.
    """
    given: dict[str, Any] = dict(options)
    on_stderr = given.pop("stderr", None)
    functions = handlers(given)
    jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
    results: list[Any] = []

    def post(result: Any) -> None:
        jobs.put(lambda: results.append(result))

    def wait() -> Any:
        while not results:
            jobs.get()()
            listener.check()
        return results.pop()

    def until_told() -> None:
        over = time.monotonic()
        while seconds := listener.patience(over):
            try:
                jobs.get(timeout=seconds)()
            except Empty:
                pass
        listener.close()
        listener.check()

    asked = Calling(functions, jobs.put)
    listener = Listener(on_stderr, lambda: jobs.put(lambda: None), may_wait=True)
    running = _native.start(native({**given, "prompt": prompt}), asked.ask if functions else None, post)
    try:
        first = wait()
        if isinstance(first, BaseException):
            raise first
        if isinstance(first, _native.Report):
            return Report(first)
        while True:
            running.next(post)
            got = wait()
            if isinstance(got, _native.Report):
                until_told()
                return Report(got)
            if got is None:
                raise RuntimeError("the run was killed: the interpreter exits")
            tell(got, listener)
    except BaseException:
        asked.close()
        listener.close()
        _stop_and_wait(running, jobs)
        raise


def _stop_and_wait(running: _native.Run, jobs: SimpleQueue[Callable[[], None]]) -> None:
    """Stops a run in order; if that is interrupted, too, at once."""
    over: list[Any] = []
    try:
        running.interrupt()
        running.finish(lambda result: jobs.put(lambda: over.append(result)))
        while not over:
            jobs.get()()
    except BaseException:
        running.kill()
        raise


def tell(happened: list[Any], listener: Listener) -> list[_native.Step]:
    """Takes out what is not a step, and passes it on to whoever wants it."""
    steps: list[_native.Step] = []
    for one in happened:
        if isinstance(one, _native.Step):
            steps.append(one)
        elif one[0] == "stderr":
            listener.hear(one[1])
        else:
            logger.warning("%s", one[1])
    return steps


def start(prompt: str, **options: Unpack[Options]) -> Run:
    """Starts an agent on the running event loop. See `Options` for the keyword arguments.

    >>> async with tapline.start("Fix the failing test", timeout=600) as run:
    ...     async for step in run:
    ...         print(step)
    >>> print(run.report.answer)

    Leaving the block stops an agent that is still running, and everything that it has started; so do a cancelled task
    and an exception. `await tapline.start(...)` just waits for the report.

    Raises ValueError or TypeError for an option that is wrong, never because an agent failed.
    """
    return Run({**options, "prompt": prompt})


def settle(future: asyncio.Future[Any], result: Any) -> None:
    """Sets a future that may have been cancelled meanwhile."""
    if not future.done():
        future.set_result(result)


def posted(loop: asyncio.AbstractEventLoop) -> tuple[asyncio.Future[Any], Callable[[Any], object]]:
    """A future, and what sets it from another thread."""
    future: asyncio.Future[Any] = loop.create_future()
    return future, lambda result: loop.call_soon_threadsafe(settle, future, result)


class LoopListener(Listener):
    """Who is told of stderr, on an event loop."""

    def __init__(self, function: Callable[[str], object] | None, loop: asyncio.AbstractEventLoop) -> None:
        self._news = asyncio.Event()
        super().__init__(function, lambda: loop.call_soon_threadsafe(self._news.set), may_wait=False)

    async def until_told(self) -> None:
        """Waits until the function was told of everything, or takes too long for one line."""
        over = time.monotonic()
        while seconds := self.patience(over):
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), seconds)
            except asyncio.TimeoutError:
                pass
        self.close()


def on_loop(
    options: dict[str, Any], loop: asyncio.AbstractEventLoop
) -> tuple[dict[str, Any], LoopListener, Asker | None]:
    """The options as Rust takes them, who is told of stderr, and who calls the functions among them on this loop."""
    given = dict(options)
    listener = LoopListener(given.pop("stderr", None), loop)
    functions = handlers(given)
    return native(given), listener, Calling(functions, loop.call_soon_threadsafe, loop).ask if functions else None


Asker = Callable[[str, Any, _native.Reply], Callable[[], object]]


class Run:
    """An agent that is running. Iterate over it for its steps; `report` has the report once it is over."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._native: _native.Run | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: LoopListener | None = None
        self._steps: deque[_native.Step] = deque()
        self._pending: asyncio.Future[Any] | None = None
        self._report: Report | None = None
        self._session_id: str | None = None
        self._killed = False

    @property
    def report(self) -> Report:
        """The report. Raises RuntimeError while the agent is still running."""
        if self._report is None:
            raise RuntimeError("the run was killed" if self._killed else "the run is not over: await finish() first")
        return self._report

    @property
    def session_id(self) -> str | None:
        """The session's id, once a step has named it."""
        return self._session_id if self._report is None else self._report.session_id

    @property
    def is_over(self) -> bool:
        """Whether the agent and everything that it started has ended."""
        return self._report is not None or self._killed

    @property
    def _is_done(self) -> bool:
        """Whether it is over, and all that it said was taken."""
        return self.is_over and (self._killed or self._pending is None)

    def interrupt(self) -> None:
        """Stops the agent as Ctrl-C does, step by step, so that it can save its work; the second time at once."""
        if self._native is not None and not self.is_over:
            self._native.interrupt()

    async def finish(self) -> Report:
        """Waits for the end and returns the report. Steps that were not read are dropped."""
        while not self._is_done:
            if self._pending is None:
                self._ask(self._started().finish)
            await self._take()
        self._steps.clear()
        return self.report

    async def _begin(self) -> None:
        if self._native is not None:
            raise RuntimeError("the run was started already")
        self._loop = asyncio.get_running_loop()
        future, post = posted(self._loop)
        self._native = self._start(self._loop, post)
        try:
            first = await future
        except BaseException:
            self._kill()
            raise
        if isinstance(first, BaseException):
            self._killed = True
            raise first
        if isinstance(first, _native.Report):
            self._report = Report(first)

    def _start(self, loop: asyncio.AbstractEventLoop, post: Callable[[Any], object]) -> _native.Run:
        options, self._listener, ask = on_loop(self._options, loop)
        return _native.start(options, ask, post)

    def _started(self) -> _native.Run:
        if self._native is None:
            raise RuntimeError("the run has not been started: use `async with tapline.start(...) as run`")
        return self._native

    def _ask(self, request: Callable[[Callable[[Any], object]], None]) -> None:
        assert self._loop is not None
        self._pending, post = posted(self._loop)
        request(post)

    async def _take(self) -> None:
        """Waits for what was asked for. A caller that is cancelled meanwhile loses nothing: it is there the next time."""
        assert self._pending is not None
        got = await asyncio.shield(self._pending)
        assert self._listener is not None
        if isinstance(got, _native.Report):
            self._report = Report(got)
            await self._listener.until_told()
        elif got is None:
            self._killed = True
            self._listener.close()
        else:
            self._steps.extend(tell(got, self._listener))
        self._pending = None
        self._listener.check()

    def _kill(self) -> None:
        self._killed = True
        if self._native is not None:
            self._native.kill()
        if self._listener is not None:
            self._listener.close()

    def __aiter__(self) -> AsyncIterator[_native.Step]:
        return self

    async def __anext__(self) -> _native.Step:
        while not self._steps:
            if self._is_done:
                raise StopAsyncIteration
            if self._pending is None:
                self._ask(self._started().next)
            await self._take()
        step = self._steps.popleft()
        if isinstance(step, _native.Session) and step.id is not None:
            self._session_id = step.id
        return step

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_done:
            return
        self.interrupt()
        try:
            await self.finish()
        except BaseException:
            self._kill()
            raise

    async def _all(self) -> Report:
        async with self:
            return await self.finish()

    def __await__(self) -> Generator[Any, None, Report]:
        return self._all().__await__()

    def __repr__(self) -> str:
        if self._report is not None:
            return f"<Run over: {self._report!r}>"
        state = "killed" if self._killed else "not started" if self._native is None else "running"
        return f"<Run {state}, session {self._session_id}>"
