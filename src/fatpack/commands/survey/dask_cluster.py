"""A Dask cluster: the only module that knows ``distributed`` (``fatpack[dask]``).

Workers need fatpack with the same extras, and see files under the paths that the driver gives.
"""

from __future__ import annotations

import errno
import math
import os
import time

from fatpack.commands.survey.worker import failed_task_row, run_in_worker
from fatpack.errors import Unsupported

try:
    import distributed
except ImportError as error:
    raise Unsupported(f"the engine dask needs distributed ({error})", hint="pip install distributed") from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

    from fatpack.commands.survey.worker import SurveyTask, TaskOptions, TaskResult

#: Tasks that the cluster has at a time, for each thread of its workers: one runs, others wait beside it.
_DASK_AHEAD = 4

#: Seconds until a scheduler must have answered.
_DASK_PATIENCE = 20

#: Seconds after which the workers are counted again.
_LOOK = 5


class DaskEngine:
    """The workers of a scheduler."""

    def __init__(self, options: TaskOptions, address: str) -> None:
        self._options = options
        self._threads, self._looked = 0, -math.inf
        try:
            self._client: Any = distributed.Client(address, timeout=_DASK_PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            text = f"no scheduler of Dask answers ({error})"
            raise ConnectionRefusedError(errno.ECONNREFUSED, text, address) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def results(self, tasks: Iterator[SurveyTask]) -> Iterator[TaskResult]:
        """Yield the result of each task as it is done; Dask gives the tasks of lost workers to others."""
        # Keys name tasks in the whole cluster: another survey must not get our results for its own.
        survey = os.urandom(8).hex()
        done = distributed.as_completed(loop=self._client.loop)
        waiting: dict[str, SurveyTask] = {}
        while True:
            while len(waiting) < self._most() and (task := next(tasks, None)) is not None:
                future = self._client.submit(
                    run_in_worker, task, self._options, key=f"fatpack-{survey}-{task.number}", pure=False
                )
                waiting[future.key] = task
                done.add(future)
            if not waiting:
                return
            future = next(done)
            yield self._result(future, waiting.pop(future.key))
            future.release()

    def _most(self) -> int:
        """Return how many tasks the cluster is given; workers come and go."""
        if time.monotonic() >= self._looked + _LOOK:
            self._threads = sum(self._client.nthreads().values())
            self._looked = time.monotonic()
        return _DASK_AHEAD * max(1, self._threads)

    def _result(self, future: Any, task: SurveyTask) -> TaskResult:
        if future.status == "cancelled":
            text = f"the scheduler of Dask gave {task.path} up; run again to go on"
            raise ConnectionAbortedError(errno.ECONNABORTED, text)
        # Of a worker that is lost after it was done, the result is made again: this waits for it.
        error = future.exception()
        if error is not None:
            return failed_task_row(task, self._options, f"no worker could read it ({type(error).__name__}: {error})")
        result: TaskResult = future.result()
        return result
