"""The outline of a file: alias definitions, metadata, and the modules, down to the modules of containers.

MLIR's rules for a file: alias definitions and metadata occur at file level only, in any order with the operations. A
file with exactly one operation that is a module is that module; any other is wrapped in a module without a name.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import FormatError, LimitExceeded, pluralize
from fatpack.formats.cir.modules.contents import ContentsTracker
from fatpack.formats.cir.modules.model import FileOutline, TextModule
from fatpack.formats.cir.text.definitions import read_definitions, run_end
from fatpack.formats.cir.text.header import (
    LONGEST,
    OperationHeader,
    read_custom_header,
    read_generic_header,
    read_generic_trailer,
    read_location,
)
from fatpack.formats.cir.text.lexer import Lexer
from fatpack.formats.cir.text.region import ALL, NOTHING, OPERATION, find_region_end
from fatpack.formats.cir.text.strings import syntax_error
from fatpack.formats.cir.vocabulary import CIR_FORMAT, CONTAINER, MODULE_NAMES, LazyExpression

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import View


# Values of aliases, for the few attributes of modules that are read.


class AliasDefinitions:
    """The alias definitions of a file; read once, on first use."""

    def __init__(self, view: View, runs: Sequence[tuple[int, int]]) -> None:
        self._view = view
        self._runs = runs
        self._values: dict[bytes, tuple[int, int]] | None = None

    def value(self, name: bytes) -> bytes | None:
        """Return the value of an alias, through aliases of aliases; None for an undefined one."""
        seen = set()
        found: bytes | None = None
        while name not in seen and name in self._spans():
            seen.add(name)
            start, end = self._spans()[name]
            name = found = self._view.read(start, min(end - start, LONGEST))
        return found

    def _spans(self) -> dict[bytes, tuple[int, int]]:
        if self._values is None:
            text = Lexer(self._view)
            self._values = {}
            for start, end in self._runs:
                for definition in read_definitions(text, start, end):
                    if definition.name.startswith(b"#"):
                        self._values.setdefault(definition.name, (definition.value, definition.end))
        return self._values


#: Levels of modules that are listed: a module, the container in it, and what the container holds.
_LEVELS = 3

_METADATA = LazyExpression(rb'"|//|#-\}')
#: The end of an operation at file level: a line that starts something else.
_NEXT = LazyExpression(
    rb'"|//|\{|[\r\n]+(?=[ \t]*(?:[#!][\w$-]+[ \t]*=(?!=)|\{-#|%|"[\w$.]+"[ \t]*\(|module\b|[A-Za-z_]\w*\.[\w$.]+))'
)
_LINE = LazyExpression(rb"[^\r\n]*")
#: The text that MLIR prints after operations with -mlir-pretty-debuginfo, and cannot read itself.
_PRETTY_LOCATION = LazyExpression(rb"\[unknown\]|[^ \t\r\n\"#!%@{}()<>=]+:[0-9]+:[0-9]+")


class Outliner:
    """Reads a file once. :meth:`outline` returns the result; :meth:`on_container` is called for each container."""

    def __init__(self, view: View) -> None:
        self.text = Lexer(view)
        self.module_count = 0
        self.first_operation: int | None = None
        self._module_end = 0
        self._definitions: list[tuple[int, int]] = []
        self._metadata: list[tuple[int, int]] = []
        self._others: list[tuple[int, int]] = []
        self._file = _Scope(self, 0)
        #: modules that are not closed yet, outermost first: start, header, scope
        self._open: list[tuple[int, bytes, OperationHeader, _Scope]] = []

    def on_container(self) -> None:
        """Do nothing; a subclass that only needs to know whether there is a container stops here."""

    def outline(self) -> FileOutline:
        """Return the outline of the file; damage ends it, and is recorded in it."""
        damage = None
        try:
            self._walk()
        except FormatError as error:
            damage = error
            self._close_all()
        return FileOutline(
            self.text.view,
            tuple(self._definitions),
            tuple(self._metadata),
            tuple(self._file.modules),
            tuple(self._others),
            self._file.contents(),
            AliasDefinitions(self.text.view, self._definitions),
            damage,
        )

    def _close_all(self) -> None:
        """Close everything that is open at the end of the file."""
        end = self.text.size
        while self._open:
            start, name, header, scope = self._open.pop()
            outer = self._open[-1][3] if self._open else self._file
            is_generic = self.text.view.read(start, 1) == b'"'
            outer.modules.append(
                self._made(start, name, header, scope, (header.end, end), None, end, is_generic=is_generic)
            )

    def _walk(self) -> None:
        text, at = self.text, 0
        while (at := text.space_end(at)) < text.size:
            token = text.peek(at, 3)
            start = at
            if token == b"{-#":
                at = self._metadata_end(at)
                self._metadata.append((start, at))
            elif token[:1] in (b"#", b"!"):
                at = run_end(text, at)
                self._definitions.append((start, at))
            else:
                at = self._operation(at)

    def _operation(self, at: int) -> int:
        text = self.text
        found = text.match(OPERATION, at)
        if not found or not found.lastindex:
            raise self._unexpected(at)
        if self.first_operation is None:
            self.first_operation = at
        group = found.lastindex
        name, name_end = found[group], text.base + found.end(group) + (group > 1)
        if group == 1 and b"." not in name and name not in (b"module", b"func"):
            raise self._unexpected(at)
        self._file.counts[name] = self._file.counts.get(name, 0) + 1
        end = self._file.child(name, at, name_end)
        if end is None:
            end = self._other_end(name_end)
            self._file.finish(end)
            self._others.append((at, text.trimmed(end, at)))
        return end

    def _unexpected(self, at: int) -> FormatError:
        expected = "a module, an alias definition, file metadata or another operation"
        return syntax_error(self.text.view, at, "unexpected text", expected=expected)

    def check_after(self) -> None:
        """Raise BadValue if a location that MLIR prints but cannot read follows the latest module."""
        at = self._module_end
        if self.text.match(_PRETTY_LOCATION, at):
            hint = "written with pretty debug info, which MLIR itself cannot read; print it with plain debug info"
            raise syntax_error(
                self.text.view, at, "a location that is not parseable MLIR", expected="loc(…)", hint=hint
            )

    def _other_end(self, at: int) -> int:
        """Return the end of an operation of unknown syntax at file level: the next line that starts something."""
        text = self.text
        while found := text.search(_NEXT, at):
            start, token = text.start(found), found[0]
            if token == b'"':
                at = text.string_end(start)
            elif token == b"//":
                line = text.match(_LINE, start)
                at = text.end(line) if line else text.size  # the line end belongs to what follows
            elif token == b"{":
                self._file.opened(start)
                at = find_region_end(text, start + 1, _Inner(self._file)) + 1
                self._file.closed(at)
            else:
                return text.end(found)
        return text.size

    def _metadata_end(self, at: int) -> int:
        text, position = self.text, at + 3
        while found := text.search(_METADATA, position):
            start = text.start(found)
            if found[0] == b'"':
                position = text.string_end(start)
            elif found[0] == b"//":
                position = text.space_end(start)
            else:
                return text.end(found)
        raise syntax_error(text.view, text.size, "file metadata is not closed", expected="'#-}'")

    def module(self, name: bytes, start: int, name_end: int, level: int) -> TextModule:
        """Return the module or container whose name ends at ``name_end``."""
        text = self.text
        self.module_count += 1
        if self.module_count > limits.IMAGES:
            raise LimitExceeded(
                f"more than {pluralize(limits.IMAGES, 'module')} in one file",
                format=CIR_FORMAT,
                offset=text.view.offset(start),
                hint=limits.advice("IMAGES"),
                chain=text.view.chain,
            )
        is_generic = text.peek(name_end - 1) == b'"'
        header = read_generic_header(text, name_end) if is_generic else read_custom_header(text, name_end)
        if name == CONTAINER or header.is_marked:
            self.on_container()
        # The contents of a container's modules are not listed: they can be anything.
        is_inside = bool(self._open) and (self._open[-1][1] == CONTAINER or self._open[-1][2].is_marked)
        scope = _Scope(self, _LEVELS if is_inside else level + 1)
        self._open.append((start, name, header, scope))
        body = header.end
        close = find_region_end(text, body, scope)
        scope.finish(close)
        end = close + 1
        if is_generic:
            header = read_generic_trailer(text, end, header)
            end = header.end
            if header.is_marked:
                self.on_container()
        at = text.space_end(end)
        place = read_location(text, at)
        if place:
            end = place[1]
            at = text.space_end(end)
        self._module_end = at
        self._open.pop()
        return self._made(start, name, header, scope, (body, close), place, end, is_generic=is_generic)

    def _made(
        self,
        start: int,
        name: bytes,
        header: OperationHeader,
        scope: _Scope,
        body: tuple[int, int],
        place: tuple[int, int] | None,
        end: int,
        *,
        is_generic: bool,
    ) -> TextModule:
        contents = scope.contents()
        return TextModule(
            self.text.view,
            start,
            end,
            body,
            header.name,
            header.attrs,
            place,
            name == CONTAINER,
            is_generic,
            tuple(scope.modules),
            scope.first,
            scope.stray,
            contents,
        )


class _Scope(ContentsTracker):
    """The visitor of a region whose modules are listed; other operations directly in it are only tracked."""

    def __init__(self, outliner: Outliner, level: int) -> None:
        super().__init__(outliner.text)
        self.modules: list[TextModule] = []
        self.first: int | None = None
        self.stray: int | None = None
        self._outliner = outliner
        self._level = level

    def wants(self, window: bytes, start: int, end: int) -> int:
        """Return which operations to report: all until it is known whether there are any except modules."""
        wanted = super().wants(window, start, end)
        return ALL if self.first is None or self.stray is None else wanted

    def functions(self, window: bytes, base: int, start: int, end: int) -> int:
        """Record plain functions, once it is known whether there are any operations except modules."""
        if self.first is None or self.stray is None:
            return start
        return super().functions(window, base, start, end)

    def finish(self, end: int) -> None:
        """Examine the latest operation, which may be a device module in AMD's other representation."""
        super().finish(end)
        if self._offload_modules:
            self._outliner.on_container()

    def child(self, name: bytes, start: int, name_end: int) -> int | None:
        """Record an operation; read it if it is a module or a container on a level that is listed."""
        if self.first is None:
            self.first = start
        is_listed = name in MODULE_NAMES or name == CONTAINER
        if not is_listed and self.stray is None:
            self.stray = start
        if not is_listed or self._level >= _LEVELS:
            return super().child(name, start, name_end)
        if self._name:
            self.finish(start)
        module = self._outliner.module(name, start, name_end, self._level)
        self.modules.append(module)
        self._outliner.check_after()
        for op, count in module.contents.op_counts.items():
            key = op.encode("utf-8", "surrogateescape")
            self.counts[key] = self.counts.get(key, 0) + count
        return module.end


class _Inner:
    """The visitor of a region at file level outside modules: its operations are counted with the file's."""

    def __init__(self, outer: _Scope) -> None:
        self.counts = outer.counts

    def wants(self, window: bytes, start: int, end: int) -> int:
        return NOTHING

    def functions(self, window: bytes, base: int, start: int, end: int) -> int:
        return start

    def child(self, name: bytes, start: int, name_end: int) -> int | None:
        return None

    def opened(self, at: int) -> None:
        pass

    def closed(self, at: int) -> None:
        pass
