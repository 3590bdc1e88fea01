"""One thread beside the main one, in which exchanges go on while the main thread computes."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from hvd_gossip.comm import mpi as MPI


def allowed() -> bool:
    """Whether MPI may be called from a second thread."""
    return bool(MPI.Query_thread() >= MPI.THREAD_MULTIPLE)


class Progress:
    """How many values of each buffer have been written by a task in the background.

    Example:
        >>> progress = Progress()
        >>> progress.run(lambda: progress.reach(0, 7))
        >>> progress.wait(0, 7), progress.wait(0, 8)
        (True, False)
    """

    def __init__(self) -> None:
        self._written: Counter[int] = Counter()
        self._ended = False
        self._changed = threading.Condition()

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function(*arguments)`, whose end, by an error too, leaves nobody waiting."""
        try:
            return function(*arguments)
        finally:
            self._ended = True
            self.reach(0, 0)

    def reach(self, buffer: int, length: int) -> None:
        """Tell that so many values of a buffer are there."""
        with self._changed:
            self._written[buffer] = max(self._written[buffer], length)
            self._changed.notify_all()

    def wait(self, buffer: int, length: int) -> bool:
        """Wait until so many values are there; False if the task ended without them."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._written[buffer] >= length)
            return self._written[buffer] >= length


class Background:
    """Does what it is given, one after the other; the thread starts with the first and ends with `free`.

    It is a daemon: a rank that leaves early is not kept by an exchange that its neighbours never begin.

    Example:
        >>> background = Background()
        >>> background.submit(max, 1, 2).result()
        2
        >>> background.free()
    """

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Future, Callable[..., Any], tuple] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: Future | None = None

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """`function(*arguments)`, soon; its value or its error is that of the future."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="hvd_gossip exchange", daemon=True)
            self._thread.start()
        future: Future = Future()
        self._tasks.put((future, function, arguments))
        self._last = future
        return future

    @property
    def idle(self) -> bool:
        """Whether everything that was submitted is done."""
        return self._last is None or self._last.done()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, function, arguments = task
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)
            del task, future, function, arguments

    def free(self) -> None:
        """Wait for what is under way and end the thread; calling it again does nothing."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
            self._thread = None
