"""Where the tasks of a survey run: the cores of this machine, a Dask cluster, a Ray cluster. One adapter each"""

from __future__ import annotations

from fatpack.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol, Self

    from fatpack.commands.survey.worker import SurveyTask, TaskOptions, TaskResult

    class Engine(Protocol):
        """What runs tasks; a context manager."""

        def results(self, tasks: Iterator[SurveyTask]) -> Iterator[TaskResult]:
            """Yield one result for each task, in any order, and take tasks only as fast as they are done.

            A task whose worker is lost runs again, some times; then its result is a row with the reason.
            """
            ...

        def __enter__(self) -> Self: ...

        def __exit__(self, *_: object) -> None: ...


#: What ``--engine`` takes.
ENGINES = ("local", "dask", "ray")


def make_engine(name: str, options: TaskOptions, *, address: str = "", workers: int = 0) -> Engine:
    """Return an engine by name: ``address`` is that of a scheduler, ``workers`` the number of processes for ``local``.

    Raises UsageError for what cannot be meant, Unsupported without the engine's library, ``OSError`` if nobody answers.
    """
    if name == "local":
        if address:
            raise UsageError("the engine local has no address", hint="add --engine dask or ray, or leave --address out")
        from fatpack.commands.survey.engines import LocalEngine

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
