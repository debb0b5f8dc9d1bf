"""Whether a host module in bytecode registers its GPU binary, as far as its symbols can be read."""

from __future__ import annotations

from itertools import chain

from fatpack.formats.cir.bytecode.functions import read_functions
from fatpack.formats.cir.gpu_binary import KNOWING, HostModuleFacts, check_registration, missing_binary_note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.bytecode.operations import OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile
    from fatpack.formats.cir.verify import RuleBreach

#: What the strings of a lowered host module hold: the end of its constructor's name, or of its binary's.
_WORDS = (b"_module_ctor\0", b"_fatbin_str\0")


def is_lowered(file: BytecodeFile) -> bool:
    """Return whether any module of a file may be lowered."""
    return any(file.mentions(word) for word in _WORDS)


def check_bytecode_file(file: BytecodeFile, root: OperationNode) -> Iterator[RuleBreach]:
    """Yield what is wrong with the registration of the modules of a file, no container, as far as it can be read."""
    for node in root.modules:
        host = read_host_facts(file, node)
        if host:
            yield from chain(check_registration(host), missing_binary_note(host))


def read_host_facts(file: BytecodeFile, node: OperationNode) -> HostModuleFacts | None:
    """Return what a host module shows, None where not all of its symbols can be read."""
    found = read_functions(file, node)
    if not found.has_all:
        return None
    defined = frozenset(found.defined)
    knows = any(key in node.attrs(file) for key in KNOWING)
    return HostModuleFacts(node.start, found.held, defined, len(found.launches), knows)
