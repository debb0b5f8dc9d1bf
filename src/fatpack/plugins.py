"""Plug-ins: formats and hosts from installed packages, with the same interfaces as fatpack's own modules.

A package declares them as entry points; each names a module with the interface of ``fatpack.formats`` or
``fatpack.binary``::

    [project.entry-points."fatpack.formats"]
    my-container = "my_package.container"     # MAGICS = (b"MYC\x01",): the first bytes of its containers

    [project.entry-points."fatpack.binary"]
    my-host = "my_package.host"               # STARTS = (b"MYH\x01",): the first bytes of its files

They are loaded when fatpack reads bytes of an unknown format, or searches sections of unknown names: before that they
cost nothing. An error in a plug-in is reported as damage of the bytes that it read (:class:`CheckedPlugin`), or, if a
module cannot be used at all, as a note (``problems``); it ends no command. Plug-ins run with all rights of the user;
``FATPACK_PLUGINS=no`` disables them. Their output during import goes to stderr, because stdout belongs to the command,
and may be JSON.
"""

from __future__ import annotations

import os
import sys

from fatpack.errors import FatpackError, FormatError
from fatpack.findings import CODES
from fatpack.io.source import Span, View
from fatpack.model import Container, Finding, Image, Label, Target
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from types import ModuleType
    from typing import Any


# Checks of the values that a plug-in returns: records whose fields have values of their types.
#
# Each function returns the problem, in words that name the field, and "" if there is none. Fields that are computed on
# access are computed here, so that they fail while the plug-in is guarded.

#: Sizes and versions are below this: JSON readers of other languages have 64 bits.
_LARGEST = 1 << 63

#: Types of attributes: a dictionary, or a read-only one. (``Mapping``, without the import of ``collections``.)
_MAPPINGS = (dict, type(type.__dict__))

#: LIMIT: nesting depth of the result of ``describe``.
_DEPTH = 16

_SEVERITIES = ("error", "warning", "note")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < _LARGEST


def _is_span(value: object) -> bool:
    return isinstance(value, Span) and _is_number(value.start) and _is_number(value.end) and value.start <= value.end


def _are_texts(value: object) -> bool:
    return isinstance(value, _MAPPINGS) and all(isinstance(word, str) for pair in value.items() for word in pair)


def _are(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, tuple) and all(map(check, value))


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


#: field → the check of its value
_TARGET = dict.fromkeys(("triple", "arch", "offload", "spelling"), _is_text)
_FINDING = {
    "code": lambda value: value in CODES,
    "severity": lambda value: value in _SEVERITIES,
    "span": _is_span,
    **dict.fromkeys(("message", "hint", "field", "section"), _is_text),
    "count": _is_number,
}
_IMAGE = {
    "target": lambda value: isinstance(value, Target) and not _wrong(value, _TARGET),
    "form": _is_text,
    "size": _is_number,
    "stored_size": _or_none(_is_number),
    "compression": _or_none(_is_text),
    "span": _is_span,
    "data": lambda value: isinstance(value, View),
    "attrs": _are_texts,
}
_CONTAINER = {
    "version": _is_number,
    "span": _is_span,
    "images": _are(lambda value: isinstance(value, Image)),
    "attrs": _are_texts,
    "unknown": _are(_is_span),
    "findings": _are(lambda value: isinstance(value, Finding) and not _wrong(value, _FINDING)),
}
_LABEL = {"span": _is_span, **dict.fromkeys(("name", "value", "doc", "kind"), _is_text)}
_SITE = {
    "data": lambda value: isinstance(value, View),
    "section": _or_none(_is_text),
    "index": _or_none(_is_number),
    "member": _or_none(_is_text),
    "content": _is_text,
    "findings": _CONTAINER["findings"],
}


def container_problem(value: object, format: str, view: View, start: int) -> str:
    """Return the problem with a container of a format that begins at ``start`` and must be in the view; "" for none."""
    if not isinstance(value, Container):
        return "no Container"
    if field := _wrong(value, _CONTAINER):
        return f"its {field}"
    problems = {
        f"its format is not {format}": value.format != format,
        "its span": not start <= value.span.start < value.span.end <= view.end,
        "it has more images than bytes": len(value.images) > len(view),
    }
    if any(problems.values()):
        return next(problem for problem, is_there in problems.items() if is_there)
    faults = (_wrong_image(image, start, view.end) for image in value.images)
    return next((f"{fault} of image {number}" for number, fault in enumerate(faults) if fault), "")


def _wrong_image(image: Image, start: int, end: int) -> str:
    return _wrong(image, _IMAGE) or ("" if start <= image.span.start <= image.span.end <= end else "span")


def label_problem(value: object) -> str:
    """Return the problem with a label, "" for none."""
    if not isinstance(value, Label):
        return "no Label"
    return _wrong(value, _LABEL)


def section_problem(value: object) -> str:
    """Return the field with a wrong value in a section of a host, a ``fatpack.binary.CodeSection``; "" for none."""
    return _wrong(value, _SITE)


def description_problem(value: object, depth: int = _DEPTH) -> str:
    """Return the problem with the result of ``describe``, which must be plain data for JSON; "" for none."""
    if not isinstance(value, dict):
        return "no dictionary"
    return "" if _is_plain(value, depth) else "no plain data"


def _is_plain(value: object, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(isinstance(key, str) and _is_plain(item, depth - 1) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return value is None or isinstance(value, (str, int, float))


def _wrong(record: object, fields: Mapping[str, Callable[..., bool]]) -> str:
    """Return the first field of a record with a wrong value, "" for none."""
    return next((name for name, check in fields.items() if not check(getattr(record, name, record))), "")


FORMATS, HOSTS = "fatpack.formats", "fatpack.binary"

#: The least number of bytes that distinguish a container or a file from any other.
MIN_MAGIC = 4

#: The number of bytes that are compared with magics: the longest of fatpack's own magics has as many.
MAX_MAGIC = 24

#: LIMIT: bytes of the metadata of a package that are read; fatpack's own has less than a hundred.
_ENTRY_POINTS = 1 << 20

#: LIMIT: characters of a message from a plug-in.
_LONGEST = 1000

#: Exceptions of plug-ins that are passed on: interrupts by the user, and errors of fatpack. All others are faults of
#: the plug-in: ``sys.exit`` must not end the command, least of all with exit code 0, and libraries that are written in
#: Rust raise a BaseException of their own.
_PASSED = (KeyboardInterrupt, FatpackError)

#: Characters of names, which occur in JSON, in messages and in options.
_NAMING = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")

#: problems with plug-ins so far, each once
_problems: dict[str, None] = {}


class Plugin(Record):
    """A plug-in of a package: its name in JSON, its module as a :class:`CheckedPlugin`, the first bytes it reads."""

    name: str
    module: Any
    begins: tuple[bytes, ...]


def problems() -> tuple[str, ...]:
    """Return the problems with plug-ins that were loaded in this process: one line each, with advice."""
    return tuple(_problems)


def load_plugins(group: str, taken: Collection[str], magics: Collection[bytes]) -> Iterator[Plugin]:
    """Yield the usable plug-ins of a group, by name.

    :func:`problems` has the others: modules that cannot be imported or lack a part of the interface, names and magics
    that are ``taken``.
    """
    names, begun = set(taken), set(magics)
    for name, target, package in sorted(_entry_points_in(group)):
        words = f"plug-in {name} of {package}"
        if not name or not _NAMING.issuperset(name):
            _tell(f"{words} is not used: names are of letters, digits and _.-; tell the authors of {package}")
            continue
        if name in names:
            _tell(f"{words} is not used: fatpack has a module of that name; remove {package}")
            continue
        module = _imported(target, words, package)
        if module is None:
            continue
        try:
            begins, wrong = _begins(module, group, begun)
        except _PASSED:
            raise
        except BaseException as error:  # noqa: BLE001  (foreign modules may raise anything)
            begins, wrong = (), f"{target} fails: {_text(error)}"
        if wrong:
            _tell(f"{words} is not used: {wrong}; remove {package}, or tell its authors")
            continue
        names.add(name)
        begun.update(begins)
        yield Plugin(name, CheckedPlugin(name, words, module), begins)


def _tell(problem: str) -> None:
    _problems[problem] = None


def _entry_points_in(group: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, module and package of the entry points of a group.

    ``importlib.metadata`` takes longer to load than most files take to read, so it is used only for packages that
    mention the group, one package at a time: damaged metadata of one package does not affect the others.
    """
    if os.environ.get("FATPACK_PLUGINS", "") == "no":
        return
    for folder, package, text in _packages_that_mention(f"[{group}]".encode()):
        if len(text) > _ENTRY_POINTS:
            _tell(f"plug-ins of {package} are not used: its entry_points.txt has over 1 MiB; remove {package}")
            continue
        from importlib.metadata import Distribution

        try:
            points = Distribution.at(folder).entry_points.select(group=group)
            stated = [(point.name, point.value, package) for point in points]
        except Exception as error:  # noqa: BLE001  (parsing damaged text may raise anything)
            _tell(f"plug-ins of {package} are not used: {folder} is damaged: {_text(error)}; install {package} anew")
            continue
        yield from stated


def _packages_that_mention(mention: bytes) -> Iterator[tuple[str, str, bytes]]:
    """Yield metadata folder, name and entry points of the packages whose entry points mention a group.

    Of packages of one name the first on the path is imported, so the others do not count. Names are compared only if a
    package mentions the group: environments have hundreds of packages, and hardly any has a plug-in.
    """
    places: list[tuple[str, str]] = []
    texts: dict[tuple[str, str], bytes] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            names = sorted([name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))])
        except OSError:  # a zip archive, or a missing folder
            continue
        for name in names:
            places.append((folder, name))
            text = _read(f"{folder or '.'}{os.sep}{name}{os.sep}entry_points.txt")
            if mention in text:
                texts[folder, name] = text
    if not texts:
        return
    seen = set()
    for folder, name in places:
        package = name.rpartition(".")[0].partition("-")[0]
        key = package.lower().replace("_", "-").replace(".", "-")
        if key not in seen:
            seen.add(key)
            if (folder, name) in texts:
                yield os.path.join(folder, name), package, texts[folder, name]


def _read(path: str) -> bytes:
    """Return a file's bytes, at most one more than the limit; none for a missing file or a pipe."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:  # most packages have none
        return b""
    try:
        return os.read(file, _ENTRY_POINTS + 1)
    except OSError:  # a folder, or a pipe
        return b""
    finally:
        os.close(file)


def _imported(target: str, words: str, package: str) -> ModuleType | None:
    printed, sys.stdout = sys.stdout, sys.stderr
    try:
        return __import__(target, fromlist=["DOC"])
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  (foreign code may raise anything when it is imported)
        _tell(f"{words} is not used: importing {target} failed: {_text(error)}; update or remove {package}")
        return None
    finally:
        sys.stdout = printed


#: group → the required names of its interface, and the name of the first bytes of its containers or files
_INTERFACES = {
    FORMATS: (("DOC", "LAYOUTS", "detect", "extent", "parse", "write", "labels", "describe"), "MAGICS"),
    HOSTS: (("DOC", "detect", "locate", "labels"), "STARTS"),
}


def _begins(module: ModuleType, group: str, begun: Collection[bytes]) -> tuple[tuple[bytes, ...], str]:
    """Return the first bytes that a module reads, and "", or the problem with the module."""
    name = _INTERFACES[group][1]
    if wrong := _wrong_module(module, group):
        return (), wrong
    begins = getattr(module, name)
    if not isinstance(begins, tuple) or not begins or not all(isinstance(magic, bytes) for magic in begins):
        return (), f"{name} of {module.__name__} is {_shortly(begins)}, expected a tuple of bytes"
    for magic in begins:
        if not MIN_MAGIC <= len(magic) <= MAX_MAGIC:
            return (), f"{name} has {_shortly(magic)}, expected {MIN_MAGIC} to {MAX_MAGIC} bytes"
        if taken := next((other for other in begun if other[:MIN_MAGIC] == magic[:MIN_MAGIC]), None):
            return (), f"{name} has {magic!r}, which begins as {taken!r} of another module does"
    return begins, ""


def _wrong_module(module: ModuleType, group: str) -> str:
    """Return the problem with a module's interface, "" for none."""
    if not isinstance(module, type(sys)):
        return f"it is a {type(module).__name__}, not a module"
    parts, name = _INTERFACES[group]
    if missing := [part for part in (*parts, name) if not hasattr(module, part)]:
        return f"{module.__name__} lacks {', '.join(missing)}"
    refusal = getattr(module, "REFUSAL", ("", ""))
    if not isinstance(refusal, tuple) or list(map(type, refusal)) != [str, str]:
        return f"REFUSAL of {module.__name__} is {_shortly(refusal)}, expected two texts: the reason, and advice"
    return ""


class CheckedPlugin:
    """A plug-in's module: it returns only valid results, and raises only the errors of its interface.

    ``detect`` and ``extent`` never raise: an error is recorded as a problem, and the bytes are not the plug-in's.
    """

    def __init__(self, name: str, words: str, module: ModuleType) -> None:
        self.__name__, self.__doc__ = module.__name__, module.__doc__
        self._name, self._words, self._module = name, words, module

    def __getattr__(self, part: str) -> Any:
        """Return a part of the interface; functions are guarded."""
        value = getattr(self._module, part)
        return self._guarded(part, value) if callable(value) else value

    def detect(self, *arguments: Any) -> bool:
        """Return the plug-in's answer, False if it fails."""
        return self._try("detect", arguments, bool) or False

    def extent(self, *arguments: Any) -> int | None:
        """Return the plug-in's answer, None if it fails or returns no number of bytes."""
        size = self._try("extent", arguments, lambda value: value)
        return size if isinstance(size, int) and size > 0 else None

    def parse(self, view: Any, at: int = 0) -> Any:
        """Return the container that the plug-in reads, which must be in the view and have its format."""
        container = self._guarded("parse", self._module.parse)(view, at)
        if wrong := self._guarded("parse", container_problem)(container, self._name, view, view.start + at):
            raise self._error("parse", f"returned {_shortly(container)}: {wrong}", (view, at))
        return container

    def describe(self, container: Any) -> Any:
        """Return the plug-in's description of a container, which must be plain data."""
        stored = self._guarded("describe", self._module.describe)(container)
        if wrong := self._guarded("describe", description_problem)(stored):
            raise self._error("describe", f"returned {_shortly(stored)}: {wrong}", ())
        return stored

    def _try(self, part: str, arguments: tuple[Any, ...], taken: Callable[[Any], Any]) -> Any:
        try:
            return taken(getattr(self._module, part)(*arguments))
        except _PASSED:
            raise
        except BaseException as error:  # noqa: BLE001  (foreign code may raise anything)
            _tell(f"{self._words} failed in {part}: {_text(error)}; tell its authors")
            return None

    def _guarded(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            try:
                result = function(*arguments, **options)
            except _PASSED:
                raise
            except BaseException as error:
                raise self._error(part, f"failed: {_text(error)}", arguments) from error
            return self._drawn(part, result, arguments) if part in _OF_BYTES or hasattr(result, "__next__") else result

        return call

    def _drawn(self, part: str, items: Iterable[Any], arguments: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the items of a generator. There are at most as many labels and sections as bytes."""
        left = max(1, len(arguments[0])) if part in _OF_BYTES else None
        drawn = None
        while True:
            try:
                drawn = iter(items) if drawn is None else drawn
                item = next(drawn)
                if left is not None and (wrong := _OF_BYTES[part](item)):
                    raise TypeError(f"yielded {_shortly(item)}: {wrong}")
            except StopIteration:
                return
            except _PASSED:
                raise
            except BaseException as error:
                raise self._error(part, f"failed: {_text(error)}", arguments) from error
            if left is not None:
                left -= 1
                if left < 0:
                    raise self._error(part, "does not end: it yielded more than there are bytes", arguments)
            yield item

    def _error(self, part: str, problem: str, arguments: tuple[Any, ...]) -> FormatError:
        """Return the error of a part that failed, at the place that it was called with."""
        view: Any = arguments[0] if arguments else None
        at = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], int) else 0
        return FormatError(
            f"{part} of {self._words} {problem}",
            format=self._name,
            offset=view.offset(at) if hasattr(view, "offset") else None,
            hint="tell its authors, or read without it: FATPACK_PLUGINS=no",
            chain=getattr(view, "chain", ()),
        )


#: function of the interface → the check of each item that it yields for bytes
_OF_BYTES: dict[str, Callable[[Any], str]] = {"labels": label_problem, "locate": section_problem}


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")[:_LONGEST]
    except BaseException:  # noqa: BLE001  (a foreign exception's text)
        return type(error).__name__


def _shortly(value: object) -> str:
    try:
        text = repr(value)
    except BaseException:  # noqa: BLE001  (a foreign object's repr)
        return f"a {type(value).__name__}"
    return text if len(text) < 100 else f"{text[:100]}…"
