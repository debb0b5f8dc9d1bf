"""Entry point of the command line. Stand-ins and ``--version`` do not import click, which takes longer than they do."""

from __future__ import annotations

import _frozen_importlib_external as importer  # importlib.machinery, which is the public name, is three more modules
import _imp
import _signal  # type: ignore[import-not-found]  # signal, which is the public name, imports enum
import gc
import marshal
import os
import sys
from _frozen_importlib import BuiltinImporter, ModuleSpec

_IS_COMMAND = bool(sys.argv) and os.path.basename(sys.argv[0]) in ("fatpack", "fatpack.exe")
if _IS_COMMAND and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    # Our own process: until main has its handlers there is nothing to remove, and an interrupt ends it without words.
    # Before this line it is Python's own start that is interrupted, and Python says so.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from fatpack.concurrency.signals import SignalHandlers, remove_unfinished  # noqa: E402  (after the interrupt is set)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, TracebackType
    from typing import NoReturn, Self


#: Objects that are made before the collector looks for garbage. Loading modules makes tens of thousands of them, and no
#: garbage: with the default of 700, looking costs up to a twentieth of a command.
_COLLECT_AFTER = 100_000


#: Libraries that are left out where they would have to be compiled (``pyproject.toml``).
_COMPILED = ("lief", "lz4", "zstandard")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (the table is in ``docs/cli.md``)."""
    with SignalHandlers(ends_process=argv is None) as signals:
        try:
            if argv is None:  # a process of our own, not a program that calls us
                gc.set_threshold(_COLLECT_AFTER)
                _open_compiled_modules()
                _escape_what_stdout_lacks()
            from fatpack.errors import option_names_in_messages

            arguments = list(_called_as(sys.argv) if argv is None else argv)
            with option_names_in_messages(), ExitCode() as outcome:
                outcome.code = _run(arguments)
                _flush()
        except (KeyboardInterrupt, RuntimeError) as error:
            # Python 3.11 makes a RuntimeError of what is raised while a class of a module is being made.
            if isinstance(error, RuntimeError) and not isinstance(error.__cause__, KeyboardInterrupt):
                raise
            remove_unfinished()
            if argv is None:
                _end(signals.exit_code)  # a thread may still be compressing: the interpreter stays as it is
            return signals.exit_code
    if argv is None:
        gc.freeze()  # the process ends: the interpreter need not look through all that it loaded
        if not _others_loaded():
            _end(outcome.code)
    return outcome.code


def _escape_what_stdout_lacks() -> None:
    """Let a name be printed where the encoding of stdout (of an ISO-8859 locale, say) has not all of its characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if encoding.lower() not in ("utf-8", "utf8"):
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # it is the interpreter's own


#: Packages that leave nothing for the end of the interpreter. ``__main__`` is the script that calls :func:`main`;
#: ``site`` loads the ``_distutils_hack`` of setuptools and the ``_virtualenv`` of virtualenv where these made the
#: environment.
_CLEAN = frozenset(("__main__", "_distutils_hack", "_virtualenv", "click", "fatpack"))


def _others_loaded() -> bool:
    """Return whether a library of others is loaded, beside click and the standard library."""
    return not {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names <= _CLEAN


def _end(code: int) -> NoReturn:
    """End the process as it is: taking the interpreter down costs a sixth of starting a bare one.

    A command leaves nothing for that: its files are closed, and its threads and programs have ended, except threads
    that compress after a signal. What others have registered for the end (a tool that measures coverage) is done. Of
    libraries of others that cannot be said.
    """
    import atexit

    atexit._run_exitfuncs()
    _is_flushed()
    try:
        sys.stderr.flush()
    except OSError:
        pass  # nothing reads stderr; only the exit code remains
    os._exit(code)


def _called_as(argv: Sequence[str]) -> Sequence[str]:
    """Return the arguments of a process: after ``tool NAME`` if it was called by the name of a stand-in."""
    path = argv[0]
    if os.name == "nt":
        path = os.path.basename(path)  # a stand-in's messages begin with what stands here; launchers take .exe off
    if path.endswith("fatpack"):
        return argv[1:]
    from fatpack.tools import find_stand_in

    path = path[:-4] if path.lower().endswith(".exe") else path
    return ["tool", path, *argv[1:]] if find_stand_in(path) else argv[1:]


def _run(arguments: list[str]) -> int:
    """Run one command with the limits of the environment: stand-ins take the options of their originals alone.

    All that it opens shares one account of what is inflated and written.
    """
    _open_closed_streams()
    if "_FATPACK_COMPLETE" in os.environ:
        from fatpack.main.click_app import click_group
        from fatpack.main.completion import answer

        return answer(click_group, os.environ["_FATPACK_COMPLETE"])
    if arguments == ["--version"]:
        from fatpack import __version__

        sys.stdout.write(f"fatpack {__version__}\n")
        return 0
    program: Callable[[Sequence[str]], int]
    if arguments[:1] == ["tool"] and not _is_placing(arguments[1:2]):
        from fatpack.tools import run_stand_in

        program, words = run_stand_in, arguments[1:]
    else:
        from fatpack.main.click_app import run_click

        program, words = run_click, arguments
    from fatpack.limits import Budget, sources_with_budget

    limits = os.environ.get("FATPACK_LIMITS", "").split()
    with sources_with_budget(Budget()):
        if not limits:
            return program(words)
        from fatpack.command_line.shared_options import LimitsInEffect

        with LimitsInEffect(limits):
            return program(words)


def _open_closed_streams() -> None:
    """Point closed standard streams at nothing: the next file opened would take their numbers, and be written to.

    Reading from a closed stdin and writing to a closed stdout fail as they would without that: what is not there is not
    empty, and the requested output must not be lost.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_WRONLY)
            if fd != number:
                os.dup2(fd, number)
                os.close(fd)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _is_placing(arguments: Sequence[str]) -> bool:
    """Return whether ``tool`` is called to install or list stand-ins, and not to run one."""
    return bool(arguments) and arguments[0].partition("=")[0] in ("--install", "--uninstall", "--which")


class ExitCode:
    """The exit code of a command. An error that it raises on purpose, or that the system gave, becomes one line."""

    def __init__(self) -> None:
        self.code = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        code = None if error is None else _report(error)
        if code is not None:
            self.code = code
        return code is not None


def _report(error: BaseException) -> int | None:
    """Write the line for an error and return the exit code; None if it is a mistake of the program, or a signal."""
    from fatpack.errors import FatpackError

    if isinstance(error, BrokenPipeError):
        _give_up(1)  # the reader is gone (``| head``): say nothing
        return 141
    if isinstance(error, (FatpackError, OSError)):
        from fatpack.exit_codes import error_message, exit_code

        if not _is_flushed() and isinstance(error, OSError) and error.filename is None:
            error = type(error)(error.errno, error.strerror, "standard output")
        return _failed(error_message(error), exit_code(error))
    if isinstance(error, MemoryError):
        return _failed("not enough memory", 5)
    if isinstance(error, ImportError):
        if error.name in _COMPILED:
            advice = f"where it has no wheel, a compiler is needed: pip install {error.name}"
            return _failed(f"the library {error.name} is not installed, and this needs it; {advice}", 4)
        return _failed(f"a part of the program cannot be loaded: {error}", 5)
    return None


def _flush() -> None:
    """Flush stdout; a full disk there is an error, not a success."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _give_up(1)
        raise type(error)(error.errno, error.strerror, "standard output") from error


def _is_flushed() -> bool:
    """Write out what a command that failed left for stdout; return whether that could be done."""
    try:
        sys.stdout.flush()
    except OSError:
        _give_up(1)
        return False
    return True


def _give_up(descriptor: int) -> None:
    """Keep the interpreter from writing, when it ends, what could not be written: its exit code would be 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _failed(text: str, code: int) -> int:
    try:
        line = f"fatpack: error: {text}"
        if sys.stderr.isatty():
            from fatpack.command_line.terminal import get_style
            from fatpack.text.style import colorize

            (line,) = colorize([line], get_style(sys.stderr))
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        _give_up(2)  # nothing reads stderr; only the exit code remains
    return code


def _open_compiled_modules() -> None:
    """Open the compiled modules of fatpack by their paths from now on: searching for one costs more than loading it."""
    finders = sys.meta_path
    is_usual = BuiltinImporter in finders and importer.PathFinder in finders
    if is_usual and not sys.flags.optimize and sys.pycache_prefix is None:
        # Before the finders of the interpreter, and after the hooks that others have put there.
        finders.insert(finders.index(BuiltinImporter), _CompiledModules())


_CACHE = f"{os.sep}__pycache__{os.sep}"
_COMPILED_SUFFIX = f".{sys.implementation.cache_tag}.pyc"
_COMPILED_MAGIC = importer.MAGIC_NUMBER + bytes(4)  # of a file whose time and size follow (PEP 552)
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)

#: LIMIT: bytes of a compiled module that is read at once.
_LARGEST_MODULE = 1 << 20


class _CompiledModules:
    """A finder (PEP 451) of modules of fatpack that were compiled from the source as it is.

    All others are left to the usual finder: modules that are not compiled, were changed, or lie in an archive.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        """Return the specification of a module, None if the usual finder has to look for it."""
        if not path or not name.startswith("fatpack."):
            return None
        folder, last = path[0], name.rpartition(".")[2]
        place = f"{folder}{os.sep}{last}"
        source, compiled, is_package = f"{place}.py", f"{folder}{_CACHE}{last}{_COMPILED_SUFFIX}", False
        try:
            try:
                file = os.open(compiled, _OPEN_FLAGS)
            except FileNotFoundError:
                source, compiled = f"{place}{os.sep}__init__.py", f"{place}{_CACHE}__init__{_COMPILED_SUFFIX}"
                file, is_package = os.open(compiled, _OPEN_FLAGS), True
            try:
                data = os.read(file, _LARGEST_MODULE)
            finally:
                os.close(file)
            facts = os.stat(source)
        except OSError:
            return None
        stamp = int(facts.st_mtime) & 0xFFFFFFFF | (facts.st_size & 0xFFFFFFFF) << 32
        if data[:16] != _COMPILED_MAGIC + stamp.to_bytes(8, "little") or len(data) == _LARGEST_MODULE:
            return None
        code = marshal.loads(memoryview(data)[16:])
        _imp._fix_co_filename(code, source)  # type: ignore[attr-defined]  # compiled in another folder, perhaps
        spec = ModuleSpec(name, _ReadModule(name, source, code), origin=source)
        spec.has_location, spec.cached = True, compiled
        if is_package:
            spec.submodule_search_locations = [place]
        return spec


class _ReadModule(importer.SourceFileLoader):
    """The loader of a module whose code has been read."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        """Return the code."""
        return self._code
