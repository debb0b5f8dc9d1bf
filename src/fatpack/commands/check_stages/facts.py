"""What the files of a unit show, and the stages that they are of.

::

    modules ──► images ──► containers ──► objects ──► programs
    CIR, MLIR,   cubin,     fat binary,    .o, .obj,   executables,
    bitcode      PTX,       bundle,        .a          libraries
                 code       offload
                 object     binary

Which stage a file is of, its bytes tell, and not its name. Files of one stage are one: the cubins of several
architectures, the host's module and those of the devices.
"""

from __future__ import annotations

from collections import Counter

from fatpack.record import Record
from fatpack.targets.compatibility import effective_processor, target_identity
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.target_id import feature_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from fatpack.model import Finding, Target

#: The stages, earliest first.
MODULES, IMAGES, CONTAINERS, OBJECTS, PROGRAMS = "modules", "images", "containers", "objects", "programs"
ORDER = (MODULES, IMAGES, CONTAINERS, OBJECTS, PROGRAMS)

#: Functions that runtimes call before and after all kernels: compilers write them, and nothing registers them.
_OF_RUNTIMES = frozenset(
    ("amdgcn.device.init", "amdgcn.device.fini", "nvptx$device$init", "nvptx$device$fini", "__omp_offloading_entries")
)

#: LIMIT: architectures of one processor in a stage, each of which is compared with each. AMD has nine for a processor:
#: two features that are on, off or either.
VARIANTS = 16


class StageImage(Record):
    """Device code for one target: its form, and the names of its kernels; None if its form does not tell them."""

    target: Target
    form: str
    kernels: frozenset[str] | None


class HostSide(Record):
    """What the host's side of a file shows. ``launched`` are kernels by name, as far as the file names them.

    ``registered`` are the names that it registers as kernels; ``why_not`` tells in words why some or all of them are
    not known. ``awaits`` tells that its device code comes from a file that it is linked with.
    """

    launched: frozenset[str] = frozenset()
    registered: frozenset[str] | None = None
    why_not: str = ""
    awaits: bool = False


class StageFile(Record):
    """A file of the unit: its stage ("" if it is of none), its device code, and its host's side, if it has one."""

    path: str
    kind: str
    codes: tuple[StageImage, ...]
    host: HostSide | None
    findings: tuple[Finding, ...]


class StageArchCode(Record):
    """The device code of a stage for one architecture; ``is_whole``: the kernels of all its images are known."""

    target: Target
    kernels: frozenset[str]
    is_whole: bool
    forms: tuple[str, ...]

    @property
    def title(self) -> str:
        """The architecture as users name it."""
        return self.target.arch or self.target.triple or "no architecture"


class BuildStage(Record):
    """The files of one stage: their device code by architecture, and their host's sides together.

    ``unplaced`` is device code that does not say for which architecture it is, or is for one of the ``crowded``
    processors, of which there are more variants than are compared.
    """

    kind: str
    files: tuple[StageFile, ...]
    parts: tuple[StageArchCode, ...]
    unplaced: tuple[StageImage, ...]
    host: HostSide | None
    crowded: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of the stage."""
        return tuple(each.path for each in self.files)

    @property
    def kernels(self) -> frozenset[str]:
        """The names of all kernels in its device code, but for those of runtimes."""
        named = frozenset[str]().union(*(part.kernels for part in self.parts), *map(_names, self.unplaced))
        return named - _OF_RUNTIMES


def group_into_stages(given: Iterable[StageFile]) -> list[BuildStage]:
    """Return the stages that files are of, earliest first."""
    by_kind: dict[str, list[StageFile]] = {}
    for each in given:
        by_kind.setdefault(each.kind, []).append(each)
    return [_stage(kind, by_kind[kind]) for kind in ORDER if kind in by_kind]


def _stage(kind: str, files: Sequence[StageFile]) -> BuildStage:
    groups: dict[Hashable, list[StageImage]] = {}
    unplaced = []
    for code in (code for each in files for code in each.codes):
        key = arch_key(code.target)
        if key is None:
            unplaced.append(code)
        else:
            groups.setdefault(key, []).append(code)
    parts = tuple(map(_part, groups.values()))
    count = Counter(processor_key(part.target) for part in parts)
    crowded = {processor: None for processor, variants in count.items() if variants > VARIANTS}
    if crowded:
        for part, codes in zip(parts, groups.values(), strict=True):
            unplaced += codes if processor_key(part.target) in crowded else []
        parts = tuple(part for part in parts if processor_key(part.target) not in crowded)
    return BuildStage(kind, tuple(files), parts, tuple(unplaced), _host(files), tuple(map(str, crowded)))


def _part(codes: Sequence[StageImage]) -> StageArchCode:
    # A virtual architecture is the same as the real one of its number: PTX beside a cubin.
    target = next((code.target for code in codes if not code.target.arch.startswith("compute_")), codes[0].target)
    return StageArchCode(
        target=target,
        kernels=frozenset[str]().union(*map(_names, codes)) - _OF_RUNTIMES,
        is_whole=all(code.kernels is not None for code in codes),
        forms=tuple(dict.fromkeys(code.form for code in codes)),
    )


def _host(files: Sequence[StageFile]) -> HostSide | None:
    hosts = [each.host for each in files if each.host is not None]
    if not hosts:
        return None
    known = [each.registered for each in hosts if each.registered is not None]
    return HostSide(
        launched=frozenset[str]().union(*(each.launched for each in hosts)),
        registered=frozenset[str]().union(*known) if known else None,
        why_not=next((each.why_not for each in hosts if each.why_not), ""),
        awaits=any(each.awaits for each in hosts),
    )


def _names(code: StageImage) -> frozenset[str]:
    return code.kernels or frozenset()


def arch_key(target: Target) -> Hashable | None:
    """Return what is equal for code of one architecture, None for code that names none."""
    arch = parse_nvidia(target.arch)
    if arch is not None:
        return (arch.number, arch.suffix)
    return target_identity(target) if effective_processor(target) else None


def processor_key(target: Target) -> Hashable:
    """Return what is equal for code of one processor, whatever its features: only that can be of one architecture."""
    return arch_key(target) if parse_nvidia(target.arch) else effective_processor(target)


def is_for_same_target(wanted: Target, there: Target) -> bool:
    """Return whether code of a later stage is that for the target of an earlier one.

    A feature of an AMD target that one of them does not name may be either: code objects state what bundles leave open.
    """
    if arch_key(wanted) == arch_key(there):
        return True
    if parse_nvidia(wanted.arch) or effective_processor(wanted) != effective_processor(there):
        return False
    have, want = feature_signs(there.arch), feature_signs(wanted.arch)
    return all(have.get(feature, sign) == sign for feature, sign in want.items())
