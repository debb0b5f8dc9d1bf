"""Records for the contents of a CIR file, as ranges in it: no text is copied.

All positions are those of ``text``, the view of the whole file.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fatpack.errors import FormatError
    from fatpack.formats.cir.bytecode.operations import OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile
    from fatpack.formats.cir.modules.outline import AliasDefinitions
    from fatpack.formats.cir.text.header import TextAttribute
    from fatpack.io.source import View
    from fatpack.model import Image


class LaunchStub(Record):
    """A host function that launches a kernel: its symbol, and the symbol of the kernel."""

    symbol: str
    kernel: str


class OffloadModule(Record):
    """A device module in AMD's other representation: its position, symbol, target and kernels."""

    start: int
    end: int
    symbol: str
    target: str
    kernels: tuple[str, ...] = ()


class ModuleContents(Record):
    """Contents of a module: the count of each operation, at any depth, and the functions that matter to offloading.

    ``kernels`` and ``stubs`` have a body; a declaration is neither. ``symbols`` are those that the module itself
    defines or declares, in order, ``functions`` those of its functions with a body; () if they were not requested.
    ``binaries`` are the globals that hold a GPU binary: symbol, start and end. ``may_register`` is true if the name of
    a constructor that registers one occurs.
    """

    op_counts: Mapping[str, int]
    kernels: tuple[str, ...] = ()
    stubs: tuple[LaunchStub, ...] = ()
    symbols: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    offload_modules: tuple[OffloadModule, ...] = ()
    binaries: tuple[tuple[str, int, int], ...] = ()
    may_register: bool = False


class TextModule(Record):
    """A module, or an operation ``cir.offload.container`` (``is_op``), from its first byte to its last.

    ``body`` is the text between the braces, ``location`` the ``loc(…)`` at the end. ``modules`` are the modules and
    containers directly in it; ``stray`` is where its first other operation starts, and ``first`` where the first
    operation of any kind does.
    """

    text: View
    start: int
    end: int
    body: tuple[int, int]
    name: bytes | None
    attrs: tuple[TextAttribute, ...]
    location: tuple[int, int] | None
    is_op: bool
    is_generic: bool
    modules: tuple[TextModule, ...]
    first: int | None
    stray: int | None
    contents: ModuleContents

    def attr(self, name: bytes) -> TextAttribute | None:
        """Return the attribute of that name."""
        for attr in self.attrs:
            if attr.name == name:
                return attr
        return None


class FileOutline(Record):
    """Outline of a file: the positions of its alias definitions, metadata and operations.

    ``definitions`` are runs of alias definitions, ``metadata`` the blocks ``{-# … #-}``, ``modules`` the modules and
    containers at file level, ``others`` the spans of other operations there. ``aliases`` resolves aliases. ``damage``
    is the error that ended reading; whatever was open there is treated as reaching to the end of the file.
    """

    text: View
    definitions: tuple[tuple[int, int], ...]
    metadata: tuple[tuple[int, int], ...]
    modules: tuple[TextModule, ...]
    others: tuple[tuple[int, int], ...]
    contents: ModuleContents
    aliases: AliasDefinitions
    damage: FormatError | None = None


class TextContainer(Record):
    """A text container as stored; ``images`` and ``attrs`` have their values at reading.

    ``container`` is the module or operation that is the container, None for AMD's other representation.
    """

    outline: FileOutline
    container: TextModule | None
    form: str
    images: tuple[Image, ...]
    attrs: Mapping[str, str]

    @property
    def stored(self) -> View:
        """All bytes of the file."""
        return self.outline.text


class LaunchedKernels:
    """The kernels that the stubs of a file launch, searched for on first use."""

    def __init__(self, find: Callable[[], Iterable[str]]) -> None:
        self._find = find
        self._names: frozenset[str] | None = None

    @property
    def names(self) -> frozenset[str]:
        """The symbols of the kernels."""
        if self._names is None:
            self._names = frozenset(self._find())
        return self._names


class TextModuleRecord(Record):
    """A module of a text: its role (host, device, or another word as stored), the file that defines its aliases, and
    the kernels that are launched there.
    """

    outline: FileOutline
    module: TextModule
    role: str
    launched: LaunchedKernels


class BytecodeModuleRecord(Record):
    """A module in MLIR bytecode: the file with its tables, the operation's span, its name and role, and the kernels
    launched in the file.
    """

    file: BytecodeFile
    node: OperationNode
    name: bytes | None
    role: str
    op_counts: Mapping[str, int]
    launched: LaunchedKernels


class BytecodeContainer(Record):
    """A bytecode container as stored."""

    stored: View
    images: tuple[Image, ...]
    attrs: Mapping[str, str]
    file: BytecodeFile
