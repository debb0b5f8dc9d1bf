"""Walk over the IR section: modules and functions are recorded, other operations are only counted."""

from __future__ import annotations

from array import array

from fatpack import limits
from fatpack.errors import FormatError, LimitExceeded, pluralize
from fatpack.formats.cir.bytecode.sections import IR, BytecodeFile, BytecodeStream
from fatpack.formats.cir.text.strings import unescape
from fatpack.formats.cir.vocabulary import BINARIES, CIR_FORMAT, CONTAINER, LazyExpression
from fatpack.record import Record

# Functions in bytecode: the symbols directly in a module, the kernels, and the functions that launch one.
#
# An operation that was not registered has all its attributes in dictionaries: one of its own and, since version 5, one
# in its properties. So has any operation up to version 4. Only its dialect can decode the properties of a registered
# operation of a later version: its symbol and calling convention cannot be read; the name of the kernel that it
# launches can.

_SYMBOL, _CONVENTION, _LAUNCHES = b"sym_name", b"calling_conv", b"cu.kernel_name"
_VALUE, _ARRAY = b"initial_value", b"#cir.const_array<"
_KERNEL_NAME = LazyExpression(rb'#cir\.cu\.kernel_name<(?:"((?:[^"\\]|\\.)*)"|([^>"]*))>')


class ModuleFunctions(Record):
    """The functions with a body of a module, in order, its kernels, and the launches: stub and kernel.

    The symbol of a stub is None if it cannot be read; ``has_all`` is false if the symbol of any function with a body
    cannot be read. ``holders`` are the globals that hold a GPU binary, ``binaries`` those where it is text: symbol, and
    number of the attribute.
    """

    defined: tuple[str, ...]
    kernels: tuple[str, ...]
    launches: tuple[tuple[str | None, str], ...]
    has_all: bool
    holders: frozenset[str]
    binaries: tuple[tuple[str, int], ...]


class _FunctionAttributes(Record):
    """The attributes of an operation that matter here."""

    symbol: str | None
    is_kernel: bool
    launches: str | None
    array: int | None = None


def read_functions(file: BytecodeFile, node: OperationNode) -> ModuleFunctions:
    """Return the functions of a module; if attributes are damaged, the function counts as unreadable."""
    reader = _AttributeReader(file)
    defined: list[str] = []
    kernels: list[str] = []
    launches: list[tuple[str | None, str]] = []
    holders: set[str] = set()
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
            holders.add(found.symbol)
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
    return ModuleFunctions(
        tuple(defined), tuple(kernels), tuple(launches), has_all, frozenset(holders), tuple(binaries)
    )


class _AttributeReader:
    """Reads dictionaries of attributes, each once even if many operations share it."""

    def __init__(self, file: BytecodeFile) -> None:
        self._file = file
        self._cached: dict[int, _FunctionAttributes] = {}

    def stated(self, head: OperationHead) -> tuple[_FunctionAttributes, bool]:
        """Return the attributes of an operation that matter, and whether all of them could be read."""
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


#: Bytes of the longest head of an operation: four numbers and a mask.
_HEAD = 4 * 9 + 1

_ATTRIBUTES, _RESULTS, _OPERANDS, _SUCCESSORS, _REGIONS, _USES, _PROPERTIES = 1, 2, 4, 8, 0x10, 0x20, 0x40

#: Levels of modules that are listed: the file's, the container in it, and what the container holds.
_LEVELS = 3

_MODULE = b"builtin.module"


class OperationHead(Record):
    """The head of an operation: the numbers of its name, its attributes and its properties; None for one it lacks."""

    name: int
    attributes: int | None
    properties: int | None


class OperationNode:
    """A module, or an operation ``cir.offload.container``, from the first to the last byte of the operation.

    ``counts`` has the operations in it at any depth by number of their name. ``modules``, ``first`` and ``stray`` are
    of the operations directly in it, as in :class:`~fatpack.formats.cir.modules.model.TextModule`. ``attributed`` has
    the starts of functions and of other operations with attributes or properties directly in it; ``bodies`` the starts
    of the functions that have a body.
    """

    def __init__(self, name: bytes, start: int, depth: int) -> None:
        self.name = name
        self.start = start
        self.end = start
        self.depth = depth
        self.attributes: int | None = None
        self.properties: int | None = None
        self.counts: dict[int, int] = {}
        self.modules: list[OperationNode] = []
        self.first: int | None = None
        self.stray: int | None = None
        self.has_aligned = False
        self.attributed = array("Q")
        self.bodies = array("Q")

    @property
    def is_op(self) -> bool:
        """True for the operation, false for a module."""
        return self.name == CONTAINER

    def attrs(self, file: BytecodeFile) -> dict[bytes, int]:
        """Return name → number of its attributes."""
        return file.attribute(self.attributes).dictionary() if self.attributes is not None else {}

    def symbol(self, file: BytecodeFile) -> bytes | None:
        """Return the symbol of a module: a property since version 5, an attribute before."""
        number = self.attrs(file).get(b"sym_name")
        if number is None and self.properties is not None and self.name != CONTAINER:
            number, is_there = file.properties(self.properties).flagged()
            if not is_there:
                return None
        return file.attribute(number).string() if number is not None else None

    def head(self, file: BytecodeFile, start: int) -> OperationHead:
        """Return the head of the operation that starts at ``start`` in this node."""
        return _head(BytecodeStream(file.view, "IR section", start, min(self.end, start + _HEAD)))


def _head(stream: BytecodeStream) -> OperationHead:
    """Return the head of the operation at the stream's position, including its location."""
    number = stream.varint()
    mask = stream.byte()
    stream.varint()
    attributes = stream.varint() if mask & _ATTRIBUTES else None
    properties = stream.varint() if mask & _PROPERTIES else None
    return OperationHead(number, attributes, properties)


def outermost_operation(file: BytecodeFile) -> OperationHead:
    """Return the head of the one operation at file level; its number of operations, 1, precedes it."""
    section = file.section(IR)
    stream = BytecodeStream(file.view, "IR section", section.data, min(section.end, section.data + 9 + _HEAD))
    stream.flagged()
    return _head(stream)


class IrWalker:
    """Goes through the IR section once; ``damage`` is the error that ended it early."""

    def __init__(self, file: BytecodeFile) -> None:
        self.file = file
        section = file.section(IR)
        self._stream = BytecodeStream(file.view, "IR section", section.data, section.end)
        self._open: list[OperationNode] = []
        self._functions = frozenset(number for number, name in enumerate(file.names) if b"func" in name)
        self._module_count = 0
        self.root = OperationNode(b"", section.data, 0)
        self.damage: FormatError | None = None
        self._depth = 0
        self._function = -1  # start of the latest operation directly in the innermost node, if that is a function

    def walk(self) -> OperationNode:
        """Return the file as a node that holds its operations."""
        self._open = [self.root]
        try:
            self._run()
        except FormatError as error:
            self.damage = error
            while len(self._open) > 1:
                node = self._open.pop()
                node.end = self._stream.base + self._stream.end
                self._add_counts(node)
        self.root.end = self._stream.base + self._stream.end
        return self.root

    def _run(self) -> None:
        """Step over everything; the stack holds the kinds of items that follow, and how many of each."""
        stack: list[tuple[str, int]] = [("blocks", 1)]
        while stack:
            what, left = stack.pop()
            if what == "end":
                self._leave(left)
                continue
            if not left:
                continue
            stack.append((what, left - 1))
            if what == "operations":
                self._operation(stack)
            elif what == "blocks":
                self._block(stack)
            else:
                self._region(stack)

    def _region(self, stack: list[tuple[str, int]]) -> None:
        stream = self._stream
        blocks = stream.count("blocks")
        if blocks:
            node = self._open[-1]
            if self._function >= 0 and self._depth == node.depth + 1:
                node.bodies.append(self._function)
                self._function = -1
            stream.varint()
            stack.append(("blocks", blocks))

    def _block(self, stack: list[tuple[str, int]]) -> None:
        stream, version = self._stream, self.file.version
        count, has_arguments = stream.flagged()
        if count > stream.end - stream.at:
            raise stream.error(f"{count} operations", expected=f"at most {stream.end - stream.at}")
        if has_arguments:
            arguments = stream.count("arguments")
            for _ in range(arguments):
                if version >= 4:
                    _, has_location = stream.flagged()
                    if has_location:
                        stream.varint()
                else:
                    stream.skip(2)
            if version >= 3 and stream.byte() & _USES:
                self._uses(arguments)
        stack.append(("operations", count))

    def _uses(self, values: int) -> None:
        stream = self._stream
        for _ in range(stream.varint() if values > 1 else 1):
            if values > 1:
                stream.varint()
            length, _ = stream.flagged()
            if length > stream.end - stream.at:
                raise stream.error(f"{length} uses", expected=f"at most {stream.end - stream.at}")
            stream.skip(length)

    def _operation(self, stack: list[tuple[str, int]]) -> None:
        stream = self._stream
        start = stream.base + stream.at
        number = stream.varint()
        if number >= len(self.file.names):
            raise stream.error(f"operation name {number}", expected=f"less than {len(self.file.names)}")
        mask = stream.byte()
        stream.varint()
        attributes = stream.varint() if mask & _ATTRIBUTES else None
        properties = stream.varint() if mask & _PROPERTIES else None
        results = 0
        if mask & _RESULTS:
            results = stream.count("results")
            stream.skip(results)
        if mask & _OPERANDS:
            stream.skip(stream.count("operands"))
        if mask & _SUCCESSORS:
            stream.skip(stream.count("successors"))
        if mask & _USES:
            self._uses(results)
        node = self._enter(number, start, attributes, properties)
        stack.append(("end", 1 if node else 0))
        if mask & _REGIONS:
            regions, is_isolated = stream.flagged()
            if is_isolated and self.file.version >= 2:
                self._nested_section()
            if regions > stream.end - stream.at:
                raise stream.error(f"{regions} regions", expected=f"at most {stream.end - stream.at}")
            stack.append(("regions", regions))

    def _nested_section(self) -> None:
        stream = self._stream
        code = stream.byte()
        if code & 0x7F != IR:
            raise stream.error(f"section {code & 0x7F} in an operation", expected=f"an IR section, {IR}")
        size = stream.varint()
        if code & 0x80:
            align = stream.varint()
            if not align or align & (align - 1):
                raise stream.error(f"alignment {align}", expected="a power of two")
            stream.at = -(-(stream.base + stream.at) // align) * align - stream.base
            for node in self._open:
                node.has_aligned = True
        if size > stream.end - stream.at:
            raise stream.error(f"a section of {size} bytes", expected=f"at most {stream.end - stream.at}")

    def _enter(self, number: int, start: int, attributes: int | None, properties: int | None) -> bool:
        """Record an operation; return whether it became a node, to be closed after its contents."""
        outer = self._open[-1]
        outer.counts[number] = outer.counts.get(number, 0) + 1
        name = self.file.names[number]
        is_listed = name in (_MODULE, CONTAINER)
        is_direct = self._depth == outer.depth
        if is_direct:
            if outer.first is None:
                outer.first = start
            if not is_listed and outer.stray is None:
                outer.stray = start
            is_function = number in self._functions
            self._function = start if is_function else -1
            if attributes is not None or properties is not None or is_function:
                outer.attributed.append(start)
        self._depth += 1
        if not is_listed or not is_direct or len(self._open) > _LEVELS:
            return False
        self._module_count += 1
        if self._module_count > limits.IMAGES:
            raise LimitExceeded(
                f"more than {pluralize(limits.IMAGES, 'module')} in one file",
                format=CIR_FORMAT,
                offset=self.file.view.offset(start),
                hint=limits.advice("IMAGES"),
                chain=self.file.view.chain,
            )
        node = OperationNode(name, start, self._depth)
        node.attributes, node.properties = attributes, properties
        outer.modules.append(node)
        self._open.append(node)
        return True

    def _leave(self, is_node: int) -> None:
        self._depth -= 1
        if is_node:
            node = self._open.pop()
            node.end = self._stream.base + self._stream.at
            self._add_counts(node)

    def _add_counts(self, node: OperationNode) -> None:
        counts = self._open[-1].counts
        for number, count in node.counts.items():
            counts[number] = counts.get(number, 0) + count
