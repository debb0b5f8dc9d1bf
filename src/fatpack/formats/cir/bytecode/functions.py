"""Functions in bytecode: the symbols directly in a module, which are kernels, and which launch one.

An operation that was not registered has all its attributes in dictionaries: one beside it and, since version 5, one in
its properties. So has any operation up to version 4. What a registered one of a later version has in its properties
only its dialect knows: its symbol and calling convention cannot be read, the name of the kernel that it launches can.
"""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.formats.cir.expressions import LazyExpression
from fatpack.formats.cir.text.strings import unescape
from fatpack.formats.cir.vocabulary import BINARIES
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.formats.cir.bytecode.operations import OperationHead, OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile

_SYMBOL, _CONVENTION, _LAUNCHES = b"sym_name", b"calling_conv", b"cu.kernel_name"
_VALUE, _ARRAY = b"initial_value", b"#cir.const_array<"
_KERNEL_NAME = LazyExpression(rb'#cir\.cu\.kernel_name<(?:"((?:[^"\\]|\\.)*)"|([^>"]*))>')


class ModuleFunctions(Record):
    """The functions of a module with a body, in order, its kernels, and what launches one: the stub with the kernel.

    The symbol of a stub is None where it cannot be read; ``has_all`` is false where that of any function with a body
    cannot. ``held`` are the globals that hold a GPU binary, ``binaries`` those where it is text: symbol, and number of
    the attribute.
    """

    defined: tuple[str, ...]
    kernels: tuple[str, ...]
    launches: tuple[tuple[str | None, str], ...]
    has_all: bool
    held: frozenset[str]
    binaries: tuple[tuple[str, int], ...]


class _FunctionAttributes(Record):
    """What the attributes of an operation say about it."""

    symbol: str | None
    is_kernel: bool
    launches: str | None
    array: int | None = None


def read_functions(file: BytecodeFile, node: OperationNode) -> ModuleFunctions:
    """Return the functions of a module; those whose attributes are damaged count as ones that cannot be read."""
    reader = _AttributeReader(file)
    defined: list[str] = []
    kernels: list[str] = []
    launches: list[tuple[str | None, str]] = []
    held: set[str] = set()
    binaries: list[tuple[str, int]] = []
    bodies = frozenset(node.bodies)
    has_all = True
    for start in node.attributed:
        head = node.head(file, start)
        try:
            found, is_whole = reader.stated(head)
        except FormatError:
            found, is_whole = _FunctionAttributes(None, is_kernel=False, launches=None), False
        if found.symbol in BINARIES:
            held.add(found.symbol)
            if found.array is not None:
                binaries.append((found.symbol, found.array))
        if start not in bodies:
            continue
        # QUIRK(MLIR): writing version 4 or older drops the properties of unregistered operations, symbols among them.
        has_all = has_all and is_whole and found.symbol is not None
        if found.symbol is not None:
            defined.append(found.symbol)
        if found.launches is not None:
            launches.append((found.symbol, found.launches))
        elif found.is_kernel and found.symbol is not None:
            kernels.append(found.symbol)
    return ModuleFunctions(tuple(defined), tuple(kernels), tuple(launches), has_all, frozenset(held), tuple(binaries))


class _AttributeReader:
    """Reads dictionaries of attributes, each once, however many operations share it."""

    def __init__(self, file: BytecodeFile) -> None:
        self._file = file
        self._cached: dict[int, _FunctionAttributes] = {}

    def stated(self, head: OperationHead) -> tuple[_FunctionAttributes, bool]:
        """Return what the attributes of an operation say about it, and whether all of them could be read."""
        file = self._file
        found = _FunctionAttributes(None, is_kernel=False, launches=None)
        if head.attributes is not None:
            found = self._dictionary(head.attributes)
        if head.properties is None:
            return found, True
        if file.registered[head.name]:
            return found, False
        more = self._dictionary(file.properties(head.properties).varint())
        symbol = more.symbol if found.symbol is None else found.symbol
        launches = more.launches if found.launches is None else found.launches
        array = more.array if found.array is None else found.array
        return _FunctionAttributes(symbol, found.is_kernel or more.is_kernel, launches, array), True

    def _dictionary(self, number: int) -> _FunctionAttributes:
        found = self._cached.get(number)
        if found is None:
            file = self._file
            attrs = file.attribute(number).dictionary()
            symbol = file.attribute(attrs[_SYMBOL]).string() if _SYMBOL in attrs else None
            convention = file.attribute(attrs[_CONVENTION]).text() if _CONVENTION in attrs else None
            kernel = file.attribute(attrs[_LAUNCHES]).text() if _LAUNCHES in attrs else None
            array = _VALUE in attrs and file.attribute(attrs[_VALUE]).starts_with(_ARRAY)
            name = _KERNEL_NAME.fullmatch(kernel.strip()) if kernel else None
            found = self._cached[number] = _FunctionAttributes(
                None if symbol is None else _decoded(symbol),
                b"kernel" in (convention or b""),
                _decoded(unescape(name[1]) if name[1] is not None else name[2]) if name else None,
                attrs[_VALUE] if array else None,
            )
        return found


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
