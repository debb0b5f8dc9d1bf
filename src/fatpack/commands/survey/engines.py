"""All cores of this machine: a process each, which reads one file at a time.

A process that ends in the middle of a file (the system kills one that takes too much memory) ends no other:
its file is read once more by a new one, and then has a row with the reason.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess
    from typing import Protocol, Self

    from fatpack.commands.survey.worker import SurveyTask, TaskOptions, TaskResult

    class Engine(Protocol):
        """Runs tasks; a context manager."""

        def results(self, tasks: Iterator[SurveyTask]) -> Iterator[TaskResult]:
            """Yield one result for each task, in any order, and take tasks only as fast as they are done.

            A task whose worker is lost runs again, some times; then its result is a row with the reason.
            """
            ...

        def __enter__(self) -> Self: ...

        def __exit__(self, *_: object) -> None: ...


#: So often a file is read by processes that end over it.
ATTEMPTS = 2


class _Worker(Record):
    process: SpawnProcess
    connection: Connection


class LocalEngine:
    """Processes of this machine; ``workers`` of them, by default as many as there are cores for this process."""

    def __init__(self, options: TaskOptions, workers: int = 0) -> None:
        from fatpack.concurrency.threads import core_count

        self._options = options
        self._most = workers or core_count()
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, SurveyTask]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self._idle, *(worker for worker, _ in self._busy.values())):
            worker.connection.close()
            worker.process.terminate()
            worker.process.join()

    def results(self, tasks: Iterator[SurveyTask]) -> Iterator[TaskResult]:
        """Yield the result of each task as it is done."""
        from multiprocessing.connection import Connection, wait

        from fatpack.commands.survey.worker import failed_task_row

        again: list[SurveyTask] = []
        attempts: dict[int, int] = {}
        while True:
            while len(self._busy) < self._most:
                task = again.pop() if again else next(tasks, None)
                if task is None:
                    break
                self._start(task)
            if not self._busy:
                return
            for connection in wait(list(self._busy)):
                assert isinstance(connection, Connection)
                worker, task = self._busy.pop(connection)
                try:
                    result: TaskResult = connection.recv()
                except (EOFError, OSError):
                    connection.close()
                    worker.process.join()
                    attempts[task.number] = attempts.get(task.number, 0) + 1
                    if attempts[task.number] < ATTEMPTS:
                        again.append(task)
                    else:
                        yield failed_task_row(task, self._options, _reason(worker.process.exitcode))
                    continue
                self._idle.append(worker)
                yield result

    def _start(self, task: SurveyTask) -> None:
        """Give a task to a process; one that ended while it had nothing to do is replaced."""
        while True:
            worker = self._idle.pop() if self._idle else self._new()
            try:
                worker.connection.send(task)
            except OSError:
                worker.connection.close()
                worker.process.join()
                continue
            self._busy[worker.connection] = worker, task
            return

    def _new(self) -> _Worker:
        from multiprocessing import get_context

        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._options), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)


def _reason(exit_code: int | None) -> str:
    how = f"by signal {-exit_code}" if exit_code and exit_code < 0 else f"with exit code {exit_code}"
    return f"the process that read it ended {how}, {ATTEMPTS} times"


def _serve(connection: Connection, options: TaskOptions) -> None:
    """Read files until the parent process sends no more; Ctrl-C is for the parent."""
    import signal

    from fatpack.commands.survey.worker import run_in_worker

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        result = run_in_worker(task, options)
        try:
            connection.send(result)
        except OSError:
            return  # who asked was killed


# Engines that run the tasks of a survey: the cores of this machine, a Dask cluster, a Ray cluster. One adapter each

#: The choices of ``--engine``.
ENGINES = ("local", "dask", "ray")


def make_engine(name: str, options: TaskOptions, *, address: str = "", workers: int = 0) -> Engine:
    """Return an engine by name: ``address`` is that of a scheduler, ``workers`` the number of processes for ``local``.

    Raises UsageError for invalid options, Unsupported without the engine's library, ``OSError`` if no server answers.
    """
    if name == "local":
        if address:
            raise UsageError("the engine local has no address", hint="add --engine dask or ray, or leave --address out")

        return LocalEngine(options, workers)
    if workers:
        raise UsageError(f"the engine {name} has the workers of its cluster", hint="leave --workers out")
    if not address:
        hint = "--address tcp://HOST:8786" if name == "dask" else "--address auto, or ray://HOST:10001"
        raise UsageError(f"the engine {name} needs an address", hint=hint)
    if name == "dask":
        from fatpack.commands.survey.dask_cluster import DaskEngine

        return DaskEngine(options, address)
    from fatpack.commands.survey.ray_cluster import RayEngine

    return RayEngine(options, address)
