"""Failures as JSON documents: a script that asked for JSON parses what it gets, also where a command cannot begin."""

from __future__ import annotations

from fatpack.command_line.terminal import write_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def write_failure(schema: str, text: str, code: int) -> None:
    """Write the document of a command that failed before it had one of its own."""
    write_document({"schema": schema, "error": {"message": text, "exit_code": code}, "exit_code": code})


class JsonFailures:
    """While a command runs that was asked for JSON: what fails it is written as a document too, and goes on."""

    def __init__(self, schema: str) -> None:
        self._schema = schema

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        from fatpack.errors import FatpackError

        if isinstance(error, (FatpackError, OSError)) and not isinstance(error, BrokenPipeError):
            from fatpack.exit_codes import error_message, exit_code

            write_failure(self._schema, error_message(error), exit_code(error))
