"""The words of CIR containers: attribute and operation names, and the forms that files have had.

==================  ====================================================  =========================================
form                 what marks the container                              what marks the host and the devices
==================  ====================================================  =========================================
``attribute``        ``module attributes {cir.offload.container}``         ``#cir.offload<host>``
``op``               the operation ``cir.offload.container { … }``          ``#cir.offload_kind<host>``
``op-string``        the same                                              ``"host"``, or only the names of modules
``nested``           ``attribute`` inside another module                   as above
``prototype``        ``cir.gpu.bundle = {device = @device, host = @host}``  ``cir.gpu.kind = "host"``
``offload-module``   operations ``cir.offload.module`` or ``gpu.module``    ``target = "gfx90a"``; no container at all
==================  ====================================================  =========================================

Sources: ``attribute`` is what was merged upstream (llvm-project#206576) and what cir-offload-merge writes in 2026;
the others are what the tools of its forks wrote before.
"""

from __future__ import annotations

import sys

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from re import Match
    from typing import Any


# Regular expressions that are compiled when they are first used, and that every Python from 3.11 on matches alike.
#
# There are 77 of them for MLIR, and a file needs few: compiling all takes as long as starting the interpreter 13 times.
#
# Python 3.11.0 to 3.11.4 (Debian 12 has 3.11.2) match wrongly if a group has a possessive repeat, ``(?:…)*+``, and
# something in it backtracks (CPython issue 106052). An atomic group around a plain repeat means the same, and works
# there too.

#: The first version that matches groups with possessive repeats correctly.
_MENDED = (3, 11, 5)


class LazyExpression:
    """A regular expression over bytes. It has the methods of ``re.Pattern``; the first use of one compiles the
    expression.

    ``pattern`` is its text.
    """

    # A slot without a value asks __getattr__; the next use finds the method itself, at no cost.
    __slots__ = ("findall", "finditer", "fullmatch", "match", "pattern", "search", "sub")

    findall: Callable[..., list[Any]]  # bytes, or tuples of them
    finditer: Callable[..., Iterator[Match[bytes]]]
    fullmatch: Callable[..., Match[bytes] | None]
    match: Callable[..., Match[bytes] | None]
    search: Callable[..., Match[bytes] | None]
    sub: Callable[..., bytes]

    def __init__(self, pattern: bytes) -> None:
        self.pattern = pattern

    def __getattr__(self, name: str) -> object:
        if name not in self.__slots__:
            raise AttributeError(name)
        import re  # with enum and functools, which it loads, 0.6 of a start of the interpreter

        made = re.compile(self.pattern if sys.version_info >= _MENDED else with_atomic_groups(self.pattern))
        for method in self.__slots__:
            if method != "pattern":
                setattr(self, method, getattr(made, method))
        return getattr(self, name)


#: one character, an escaped one or a set of them: brackets inside these are not groups
_ATOM = rb"(?s:\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.)"


def with_atomic_groups(pattern: bytes) -> bytes:
    """Return an equal expression with ``(?>(…)*)`` in place of each ``(…)*+``, also for ``+`` and ``?``."""
    import re

    parts: list[bytes] = []
    opened: list[int] = []
    atoms = re.findall(_ATOM, pattern)
    at = 0
    while at < len(atoms):
        parts.append(atoms[at])
        if atoms[at] == b"(":
            opened.append(len(parts) - 1)
        elif atoms[at] == b")":
            start = opened.pop()
            if at + 2 < len(atoms) and atoms[at + 1] in (b"*", b"+", b"?") and atoms[at + 2] == b"+":
                parts[start] = b"(?>("
                parts.append(atoms[at + 1] + b")")
                at += 2
        at += 1
    return b"".join(parts)


CIR_FORMAT = "cir-offload-container"

MODULE_NAMES = frozenset((b"module", b"builtin.module"))
CONTAINER = b"cir.offload.container"
KIND = b"cir.offload.kind"
BUNDLE_ID = b"cir.offload.bundle_id"
TRIPLE = b"cir.triple"
LANGUAGE_OPTIONS = b"cir.lowering_lang_options"
RECORD_LAYOUTS = b"cir.record_layouts"

#: The first prototype's marker, its other attributes, and its kinds.
PROTOTYPE = b"cir.gpu.bundle"
PROTOTYPE_MAP = b"cir.gpu.kernel_map"
PROTOTYPE_KIND = b"cir.gpu.kind"

#: The roles of modules, in the order of a container.
ROLES = ("host", "device")

#: The attribute of a host module that holds its GPU binary, and the globals that lowering creates for it.
DEVICE_BINARY = b"cir.cu.device_binary"
BINARIES = ("__cuda_fatbin_str", "__hip_fatbin_str")

#: AMD's other representation: device modules as operations inside the host module. Those of the gpu dialect have many
#: uses; these are recognised by their name, which ends in the architecture.
OFFLOAD_MODULE = b"cir.offload.module"
GPU_MODULE = b"gpu.module"
OFFLOAD_SYMBOL = "offload_device_module"


class CirContainerForm(Record):
    """The spelling of a form: the container as an operation or an attribute, and the value for a module's kind.

    ``key`` is the attribute that holds the kind; ``is_nested`` puts the container into a module of its own.
    """

    is_op: bool
    kind: str
    key: bytes = KIND
    is_nested: bool = False


#: name → form, for the forms that can be written
FORMS = {
    "attribute": CirContainerForm(is_op=False, kind="#cir.offload<{}>"),
    "nested": CirContainerForm(is_op=False, kind="#cir.offload<{}>", is_nested=True),
    "op": CirContainerForm(is_op=True, kind="#cir.offload_kind<{}>"),
    "op-string": CirContainerForm(is_op=True, kind='"{}"'),
    "prototype": CirContainerForm(is_op=False, kind='"{}"', key=PROTOTYPE_KIND),
}

#: The form that current clang reads.
CURRENT = "attribute"
