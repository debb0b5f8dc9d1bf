"""Which kernels of a library are there for which of its architectures, and where devices get nothing."""

from __future__ import annotations

from fatpack.answers.overview.bytes import order
from fatpack.answers.overview.names import family, label
from fatpack.answers.overview.records import Coverage, Pattern
from fatpack.model import Target
from fatpack.target.compatibility import serves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.facts.columns import ImageRow, KernelRow

#: LIMIT: characters of kernel names that are compared in one file; torch has 5 million. Kernels beyond are counted.
_MOST_CHARACTERS = 100_000_000

#: LIMIT: columns of one library; a kernel of more architectures is compared by these.
_MOST_COLUMNS = 64

#: LIMIT: patterns of one library that are listed.
_MOST_PATTERNS = 120

#: Forms whose kernels a device gets as they are, or compiled when they are loaded.
_COMPILED_LATER = ("ptx", "spirv", "tileir")


class _Column:
    def __init__(self, row: ImageRow) -> None:
        self.label = label(row.arch, row.form, row.triple, row.offload)
        self.family = family(row.arch, row.form, row.triple, row.offload)
        self.form = row.form or ""
        self.target = Target(row.triple or "", row.arch or "")
        self.is_text = self.form in _COMPILED_LATER


class FileCoverage:
    """The kernels of one file, by name: kernels of one name in several containers are one."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._kinds: list[_Column] = []
        self._kernels: dict[str, int] = {}
        self._characters = 0
        self._bit = 0
        self.not_compared = 0

    def image(self, row: ImageRow) -> None:
        """Take the image whose kernels come next."""
        name = label(row.arch, row.form, row.triple, row.offload)
        number = self._columns.get(name)
        if number is None:
            number = len(self._columns)
            if number >= _MOST_COLUMNS:
                self._bit = 0
                return
            self._columns[name] = number
            self._kinds.append(_Column(row))
        self._bit = 1 << number

    def kernel(self, row: KernelRow) -> None:
        """Take a kernel."""
        name = row.kernel or ""
        have = self._kernels.get(name)
        if have is None:
            if self._characters + len(name) > _MOST_CHARACTERS:
                self.not_compared += 1
                return
            self._characters += len(name) + 50
            have = 0
        self._kernels[name] = have | self._bit

    def record(self, path: str) -> Coverage | None:
        """Return the kernels by what they are there for; None for a file without kernels."""
        if not self._kernels:
            return None
        seen = 0
        for bits in self._kernels.values():
            seen |= bits
        used = [(bit, kind) for bit, kind in enumerate(self._kinds) if seen >> bit & 1]
        used.sort(key=lambda item: order(item[1].label))
        by_bits: dict[int, list[str]] = {}
        for name, bits in self._kernels.items():
            by_bits.setdefault(bits, []).append(name)
        rules = [self._rule(kind) for _, kind in used]
        patterns = []
        for bits, names in by_bits.items():
            cells = tuple(_cell(bits, bit, rule) for (bit, _), rule in zip(used, rules, strict=True))
            patterns.append(Pattern(cells, len(names), tuple(sorted(names))))
        patterns.sort(key=lambda item: (-item.count, item.cells))
        listed = patterns[:_MOST_PATTERNS]
        return Coverage(
            path,
            tuple(kind.label for _, kind in used),
            tuple(kind.family for _, kind in used),
            tuple(listed),
            len(self._kernels),
            sum(item.count for item in patterns[_MOST_PATTERNS:]),
        )

    def _rule(self, wanted: _Column) -> tuple[int, int, bool]:
        """Return the columns whose images serve a column's devices as they are, those that are compiled, and whether
        the column is of text itself, which no device is of."""
        ready = text = 0
        for bit, kind in enumerate(self._kinds):
            form = kind.form if kind.form in ("cubin", "ptx") or not kind.is_text else "ptx"
            if kind is not wanted and serves(kind.target, wanted.target, nvidia_rules=True, form=form).answer:
                if kind.is_text:
                    text |= 1 << bit
                else:
                    ready |= 1 << bit
        return ready, text, wanted.is_text


def _cell(bits: int, bit: int, rule: tuple[int, int, bool]) -> str:
    ready, text, is_text = rule
    if bits >> bit & 1:
        return "own"
    if is_text:
        return "blank"
    if bits & ready:
        return "served"
    return "ptx" if bits & text else "none"
