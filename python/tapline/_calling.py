"""Calls the functions that answer what the agent asks. One that blocks holds up neither the run nor the event loop."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import inspect
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from . import _native
from ._answers import Handler, answer, logger

_PACKAGE = Path(__file__).parent
_MOST = 16
"""How many plain functions are called at once, in the whole program."""
_MOST_LINES = 10_000
"""How many lines of stderr wait for their function. More are dropped, and counted."""
PATIENCE = 5
"""Once a run is over, its function for stderr may take so many seconds for one line."""


class Calling:
    """Calls the functions of one run or session.

    With an event loop, async functions are its tasks. Everything else is called on the threads below, one call after the
    other. On the loop, or on the thread that waits for `run`, a function that blocks would outlast every time limit.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        carry: Callable[[Callable[[], None]], object],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.handlers = handlers
        self.carry = carry
        """Has something done where the run is waited for."""
        self.loop = loop
        self.is_closed = False
        self.context = contextvars.copy_context()
        self.waiting: deque[_Call] = deque()
        self.is_served = False
        """Whether a thread has a call of it, or will take one."""
        self.tasks: set[asyncio.Task[None]] = set()

    def ask(self, key: str, question: Any, reply: _native.Reply) -> Callable[[], object]:
        """Called from a thread of Rust's. Returns how to cancel the call, for the same thread."""
        call = _Call(self, key, question, reply)
        if self.loop is not None and self.handlers[key].is_async:
            self.loop.call_soon_threadsafe(call.begin, None, context=self.context.copy())
        else:
            _threads.call(call)
        return call.cancel

    def close(self) -> None:
        """Calls no function any more: what the agent asks now gets no answer."""
        self.is_closed = True


class Listener:
    """Tells a function of each line that the agent writes to stderr, in order, on a thread of its own: one that blocks holds up
    neither the run nor the event loop. What it raises is raised where the run is waited for.
    """

    def __init__(self, function: Callable[[str], object] | None, wake: Callable[[], object], *, may_wait: bool) -> None:
        self._function = function
        self._wake = wake
        """Called after each line, from another thread."""
        self._may_wait = may_wait
        """Whether `hear` waits for room. It does so until the function takes too long once."""
        self._context = contextvars.copy_context()
        self._changed = threading.Condition()
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._thread: threading.Thread | None = None
        self._begun: float | None = None
        """When the line began that it is being told of."""
        self._is_given_up = False
        """Whether that line counts for nothing any more."""
        self._is_over = False
        self._has_failed = False
        self._raised: BaseException | None = None

    def hear(self, line: str) -> None:
        """Has the function told of a line."""
        if self._function is None:
            return
        with self._changed:
            self._is_over = False
            if self._thread is None and not self._has_failed:
                thread = threading.Thread(target=self._tell, name="tapline-stderr", daemon=True)
                try:
                    thread.start()
                    self._thread = thread
                except RuntimeError:
                    pass  # No thread can be had now: the next line tries again.
            while self._may_wait and len(self._lines) >= _MOST_LINES and not self._has_failed:
                self._may_wait = self._changed.wait(PATIENCE)
            if self._has_failed or len(self._lines) >= _MOST_LINES:
                self._dropped += 1
            else:
                self._lines.append(line)
                self._changed.notify_all()

    def check(self) -> None:
        """Raises what the function raised, once. It is told of nothing more."""
        error, self._raised = self._raised, None
        if error is not None:
            raise error

    def patience(self, over: float) -> float:
        """How many seconds to wait for the function, if the run is over since then. 0 if it was told of everything, or takes
        too long for one line."""
        with self._changed:
            is_told = self._begun is None and not self._lines
            if is_told or self._thread is None or self._has_failed or self._is_given_up:
                return 0
            now = time.monotonic()
            return max(0, PATIENCE if self._begun is None else max(self._begun, over) + PATIENCE - now)

    def close(self) -> None:
        """Nobody waits for the function any more. The log says what it was not told of, and where it is."""
        with self._changed:
            left, self._dropped = self._dropped + len(self._lines), 0
            self._lines.clear()
            is_inside = self._begun is not None
            is_new, self._is_given_up = is_inside and not self._is_given_up, is_inside
            frames = _frames(self._thread.ident) if is_inside and self._thread is not None else []
            self._is_over = True
            self._changed.notify_all()
        if is_new or left:
            how = "has not returned, and nobody waits for it any more" if is_inside else "was not told of everything"
            _log(_outside(frames), "the function for stderr %s. Lines that it was not told of: %d.", how, left)

    def _tell(self) -> None:
        while (line := self._next()) is not None:
            raised = None
            try:
                assert self._function is not None
                self._context.copy().run(self._function, line)
            except BaseException as error:
                raised = error
            with self._changed:
                counts, self._is_given_up, self._begun = not self._is_given_up, False, None
                if raised is not None and counts:
                    self._raised, self._has_failed = raised, True
                self._changed.notify_all()
            if raised is not None and not counts:
                logger.error("the function for stderr raised %s after it was given up", type(raised).__name__, exc_info=raised)
            try:
                self._wake()
            except RuntimeError:
                pass  # The loop is closed: nobody is there to be told.

    def _next(self) -> str | None:
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._is_over or self._has_failed)
            if self._has_failed or not self._lines:
                self._thread = None
                return None
            self._begun = time.monotonic()
            self._changed.notify_all()
            return self._lines.popleft()


class _Call:
    def __init__(self, calling: Calling, key: str, question: Any, reply: _native.Reply) -> None:
        self.calling = calling
        self.key = key
        self.question = question
        self.reply = reply
        self.is_cancelled = False
        self.is_over = False
        self.thread: int | None = None
        """The thread that it is on, once it has begun."""
        self.task: asyncio.Task[Any] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def on_thread(self) -> None:
        """Calls the function here. What it raises ends the call, never the thread."""
        try:
            self.calling.context.copy().run(self._on_thread)
        except asyncio.CancelledError:
            self._over("was cancelled")
        except Exception as error:
            self._over(self._told(error))
        except BaseException as error:
            self._over(_line(error))
            if not self.is_cancelled:
                self._carry(error)

    def _on_thread(self) -> None:
        if self.calling.is_closed or self.is_cancelled:
            return
        value = self.calling.handlers[self.key](self.question)
        loop = self.calling.loop
        if not inspect.isawaitable(value):
            self._answered(value)
        elif loop is None:
            self._answered(asyncio.run(self._wait(value)))
        else:
            # Only what the function returned shows that it is async.
            self.thread = None
            loop.call_soon_threadsafe(self.begin, value, context=contextvars.copy_context())

    def _carry(self, error: BaseException) -> None:
        def raise_it() -> None:
            raise error

        try:
            self.calling.carry(raise_it)
        except RuntimeError:
            pass  # The loop is closed: nobody is there to be told.

    def begin(self, value: Awaitable[object] | None) -> None:
        """Begins the task, on the event loop."""
        assert self.calling.loop is not None
        task = self.calling.loop.create_task(self._answer(value))
        self.calling.tasks.add(task)
        task.add_done_callback(self.calling.tasks.discard)

    async def _answer(self, value: Awaitable[object] | None) -> None:
        try:
            self._answered(await self._wait(value))
        except asyncio.CancelledError:
            self._over("was cancelled")
            raise
        except Exception as error:
            self._over(self._told(error))
        except BaseException as error:
            self._over(_line(error))
            raise

    async def _wait(self, value: Awaitable[object] | None) -> object:
        self.thread, self.loop, self.task = threading.get_ident(), asyncio.get_running_loop(), asyncio.current_task()
        if self.is_cancelled:
            if inspect.iscoroutine(value):
                value.close()
            raise asyncio.CancelledError
        if value is not None:
            return await value
        got: Any = self.calling.handlers[self.key](self.question)
        return await got if inspect.isawaitable(got) else got

    def cancel(self) -> None:
        """Nobody waits for the answer any more. Called from a thread of Rust's, which must not be held up."""
        self.is_cancelled = True
        _threads.give_up(self)
        if self.is_over or self.thread is None:
            return
        stack = self._stack()
        try:
            if self.task is not None and self.loop is not None:
                self.loop.call_soon_threadsafe(self.task.cancel)
            if stack:
                _log(stack, "the function for %s has not answered, and nobody waits for it any more.", self.key)
        except RuntimeError:
            pass  # The loop is closed, or the interpreter exits.

    def _stack(self) -> list[traceback.FrameSummary]:
        """Where the function is now, from its own first line on."""
        coroutine: Any = None if self.task is None else self.task.get_coro()
        if coroutine is None or coroutine.cr_running:
            return _outside(_frames(self.thread))
        return _outside(_suspended(coroutine))

    def _told(self, error: Exception) -> str:
        """Tells the program of a function that failed, with its traceback; the agent gets one line."""
        logger.error("the function for %s raised %s", self.key, type(error).__name__, exc_info=error)
        return _line(error)

    def _answered(self, value: object) -> None:
        self.reply.set(answer(self.key, value))
        self.is_over = True

    def _over(self, why: str) -> None:
        self.reply.fail(why)
        self.is_over = True


def _line(error: BaseException) -> str:
    said = str(error)
    return f"raised {type(error).__name__}: {said}" if said else f"raised {type(error).__name__}"


def _outside(frames: list[tuple[FrameType, int]]) -> list[traceback.FrameSummary]:
    """The frames behind those of this package: the function's own."""
    stack = traceback.StackSummary.extract(iter(frames))
    own = [Path(one.filename).parent == _PACKAGE for one in stack]
    first = own.index(True) if True in own else len(stack)
    while first < len(stack) and own[first]:
        first += 1
    return stack[first:]


def _frames(thread: int | None) -> list[tuple[FrameType, int]]:
    """Where a thread is now."""
    frame = sys._current_frames().get(thread or 0)
    return list(traceback.walk_stack(frame))[::-1] if frame is not None else []


def _log(stack: list[traceback.FrameSummary], said: str, *about: object) -> None:
    """Logs where a function is, on a thread of its own: the function that blocks may hold the lock of a log handler."""
    where = f" It is here:\nTraceback (most recent call last):\n{''.join(traceback.format_list(stack)).rstrip()}" if stack else ""
    try:
        threading.Thread(target=logger.warning, args=(said + "%s", *about, where), name=_LOG, daemon=True).start()
    except RuntimeError:
        pass  # No thread can be had, or the interpreter exits.


_LOG = "tapline-log"


@atexit.register
def _until_logged() -> None:
    """Gives what is being logged a second in all: a handler may be blocked."""
    until = time.monotonic() + 1
    for thread in threading.enumerate():
        if thread.name == _LOG:
            thread.join(max(0, until - time.monotonic()))


def _suspended(coroutine: Any) -> list[tuple[FrameType, int]]:
    """The frames of a coroutine that waits, and of those that it waits for."""
    frames: list[tuple[FrameType, int]] = []
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is None:
            break
        frames.append((frame, frame.f_lineno))
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return frames


class _Threads:
    """The threads for plain functions: no more than `_MOST`, and none while there is nothing to call. They are daemons, so
    the interpreter does not wait for a function that blocks.

    The calls of one run or session are made one after the other. When nobody waits for a call any more, its thread is
    given up: it no longer counts, the next call gets another one, and it ends when its function returns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = 0
        self._ready: deque[Calling] = deque()
        """Who has a call to be made, and none that is being made."""
        self._begun: set[_Call] = set()

    def call(self, call: _Call) -> None:
        with self._lock:
            call.calling.waiting.append(call)
            self._queue(call.calling)
            try:
                self._grow()
            except RuntimeError:
                call.is_cancelled = True
                raise

    def give_up(self, call: _Call) -> None:
        """A call that waits is not made any more; the thread of one that has begun no longer counts."""
        with self._lock:
            if call in call.calling.waiting:
                call.calling.waiting.remove(call)
            elif call in self._begun:
                self._release(call)
                self._working -= 1
                try:
                    self._grow()
                except RuntimeError:
                    pass  # No thread can be had now: the next call tries again.

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call.on_thread()
            with self._lock:
                if call not in self._begun:
                    return
                self._release(call)

    def _next(self) -> _Call | None:
        with self._lock:
            while self._ready:
                calling = self._ready.popleft()
                if calling.waiting:
                    call = calling.waiting.popleft()
                    call.thread = threading.get_ident()
                    self._begun.add(call)
                    return call
                calling.is_served = False
            self._working -= 1
            return None

    # The lock is held by whoever calls these.

    def _grow(self) -> None:
        if self._ready and self._working < _MOST:
            threading.Thread(target=self._work, name="tapline-callback", daemon=True).start()
            self._working += 1

    def _release(self, call: _Call) -> None:
        self._begun.discard(call)
        call.calling.is_served = False
        self._queue(call.calling)

    def _queue(self, calling: Calling) -> None:
        if calling.waiting and not calling.is_served:
            calling.is_served = True
            self._ready.append(calling)


_threads = _Threads()
