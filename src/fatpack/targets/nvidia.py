"""NVIDIA architecture names, and the rules by which the CUDA driver loads an image for a device. Reads no data.

``sm_103a`` is compute capability 10.3: the last digit is the minor version. Without suffix a name is portable in
one direction; ``a`` (architecture-specific) ties code to one capability, ``f`` (family-specific) to one family:

=========================  ====================================
cubin ``sm_XY``             devices of the same major version with the same or a higher minor one, Tegra apart
cubin or PTX with ``a``     exactly the capability X.Y
cubin or PTX with ``f``     the capabilities that NVIDIA lists for the family: :data:`FAMILIES`
PTX ``compute_XY``          every device of at least X.Y, compiled when it is loaded
=========================  ====================================

Sources: CUDA Programming Guide, "Application Compatibility" and "Family-Specific Architecture Features"; PTX ISA,
"Architecture families"; observed with driver 580 (CUDA 13.0) on an H100, which loaded no ``f`` below 10.0. LLVM applies
none of this to containers: for it ``sm_80`` and ``sm_86`` are unrelated. :mod:`fatpack.targets.selection.cuda` selects
one of several images.
"""

from __future__ import annotations

from fatpack.record import Record

#: CUDA 13 renamed the capability 10.1 to 11.0. The family rules hold for the new number: code for 10.0 is not for 11.0.
RENAMED = {101: 110}

#: Numbers of Tegra parts (Jetson, Drive) that share their major version with discrete parts. CUDA C++ Programming Guide
#: (12.9): binary compatibility holds neither for Tegra nor between it and the desktop; an Orin (8.7) refuses cubins for
#: sm_80 under CUDA 12.
TEGRA_ARCHS = frozenset((32, 53, 62, 72, 87))

#: Since CUDA 13 Orin has the driver of servers, and a packager expects sm_80 to load; there is no report of it.
_ORIN = 87

#: Parts that no document assigns to Tegra or to discrete parts.
_UNKNOWN_PARTS = frozenset((88,))

#: number of a name with ``f`` → capabilities that run it
FAMILIES = {
    100: (100, 103, 107),
    103: (103, 107),
    107: (107,),
    110: (110,),
    120: (120, 121),
    121: (121,),
}

#: Listed in CUDA 13.4's guide according to quotations of it.
_QUOTED_ONLY = frozenset((107,))

#: the first number with families
_FIRST_FAMILY = 100

#: PTX ISA version → CUDA version whose driver compiles it first. PTX ISA 9.x, "Release Notes"; 7.0 to 7.8 and 9.0 to
#: 9.4 go with CUDA 11.n and 13.n.
_CUDA_OF_PTX = {
    **{(6, minor): (9, minor) for minor in range(3)},
    **{(6, minor): (10, minor - 3) for minor in range(3, 6)},
    **{(7, minor): (11, minor) for minor in range(9)},
    **{(8, minor): (12, minor) for minor in range(6)},
    (8, 6): (12, 7),
    (8, 7): (12, 8),
    (8, 8): (12, 9),
    **{(9, minor): (13, minor) for minor in range(5)},
}


class NvidiaArch(Record):
    """The parts of an architecture name: ``number`` is 103 for ``sm_103a``, ``suffix`` "", "a" or "f"."""

    number: int
    suffix: str = ""
    is_virtual: bool = False

    @property
    def major(self) -> int:
        """The major version: 10 for ``sm_103a``."""
        return self.number // 10

    @property
    def minor(self) -> int:
        """The minor version: 3 for ``sm_103a``."""
        return self.number % 10

    @property
    def capability(self) -> str:
        """The compute capability as NVIDIA prints it: ``10.3``."""
        return f"{self.major}.{self.minor}"

    @property
    def name(self) -> str:
        """The name: ``sm_103a``, ``compute_90``."""
        return f"{'compute' if self.is_virtual else 'sm'}_{self.number}{self.suffix}"


#: LIMIT: names whose parts, and questions whose answers, are kept: a library asks the same ones of thousands of images.
_MOST_KEPT = 4096
_parsed: dict[str, NvidiaArch | None] = {}
_answers: dict[tuple[object, ...], LoadRule] = {}


def parse_nvidia(name: str) -> NvidiaArch | None:
    """Return the parts of ``sm_NN`` or ``compute_NN``, with suffix or without; None for any other text."""
    if name in _parsed:
        return _parsed[name]
    found = _parse(name)
    if len(_parsed) >= _MOST_KEPT:
        _parsed.clear()
    if len(name) <= _LONG:
        _parsed[name] = found
    return found


#: longer names than any architecture are not kept
_LONG = 32


def _parse(name: str) -> NvidiaArch | None:
    kind, _, rest = name.partition("_")
    suffix = rest[-1:] if rest[-1:] in ("a", "f") else ""
    digits = rest.removesuffix(suffix)
    if kind not in ("sm", "compute") or not 2 <= len(digits) <= 4 or not (digits.isascii() and digits.isdigit()):
        return None
    return NvidiaArch(int(digits), suffix, kind == "compute") if digits[0] != "0" else None


def first_cuda_for_ptx(version: tuple[int, int]) -> tuple[int, int] | None:
    """Return the CUDA version whose driver is the first to compile PTX of a version; None for an unknown one."""
    return _CUDA_OF_PTX.get(version)


def cuda_versions() -> tuple[tuple[int, int], ...]:
    """Return the CUDA versions whose drivers are known, oldest first."""
    return tuple(sorted(set(_CUDA_OF_PTX.values())))


class LoadRule(Record):
    """The answer of the driver's rules, the devices that the rule allows in words, and whether the answer is certain.

    An answer that is not certain is common belief, without a document or a report.
    """

    answer: bool
    rule: str
    is_certain: bool = True


def can_load(
    image: NvidiaArch, device: NvidiaArch, form: str = "cubin", driver: tuple[int, int] | None = None
) -> LoadRule:
    """Return whether an image can be loaded on a device.

    ``form`` is ``cubin`` or ``ptx``; a virtual architecture is PTX whatever the form, and no driver loads other forms.
    The suffix of ``device`` does not matter: a device of capability 9.0 runs ``sm_90`` and ``sm_90a``. ``driver`` is
    the CUDA version of the driver, (13, 0), if it is known.
    """
    question = *image._values(), *device._values(), form, driver
    answer = _answers.get(question)
    if answer is None:
        if len(_answers) >= _MOST_KEPT:
            _answers.clear()
        answer = _answers[question] = _can_load(image, device, form, driver)
    return answer


def _can_load(image: NvidiaArch, device: NvidiaArch, form: str, driver: tuple[int, int] | None) -> LoadRule:
    if form not in ("cubin", "ptx") and not image.is_virtual:
        return LoadRule(False, f"no device: a driver loads cubins and PTX, and this is {form or 'neither'}")
    is_ptx = form == "ptx" or image.is_virtual
    if image.suffix == "f":
        return _loads_family(image, device)
    have, want = (RENAMED.get(arch.number, arch.number) for arch in (image, device))
    if image.suffix == "a":
        return LoadRule(
            have == want, f"compute capability {_capability(image)} only", have != want or _is_same_name(image, device)
        )
    if is_ptx:
        is_sure = have > want or image.number <= device.number
        return LoadRule(have <= want, f"every compute capability from {image.capability} on", is_sure)
    return _loads_cubin(image, device, driver)


def _loads_cubin(image: NvidiaArch, device: NvidiaArch, driver: tuple[int, int] | None) -> LoadRule:
    have, want = (RENAMED.get(arch.number, arch.number) for arch in (image, device))
    if have in TEGRA_ARCHS:
        return LoadRule(have == want, f"compute capability {image.capability} only, which is a Tegra part")
    rule = f"compute capability {have // 10}.{have % 10} and newer {have // 10}.x"
    is_compatible = have // 10 == want // 10 and have <= want
    if is_compatible and want in TEGRA_ARCHS:
        is_sure = want != _ORIN or (driver is not None and driver < (13, 0))
        return LoadRule(False, f"{rule}, but not {device.capability}, which is a Tegra part", is_sure)
    is_sure = have == want or _UNKNOWN_PARTS.isdisjoint((have, want)) or not is_compatible
    return LoadRule(is_compatible, rule, is_sure and _is_same_name(image, device))


def _loads_family(image: NvidiaArch, device: NvidiaArch) -> LoadRule:
    have, want = (RENAMED.get(arch.number, arch.number) for arch in (image, device))
    if have < _FIRST_FAMILY:
        return LoadRule(False, f"no device: there are families from {_FIRST_FAMILY // 10}.0 on")
    members = FAMILIES.get(have)
    if members is None:
        rule = f"the family of {image.capability}, which is in no list"
        return LoadRule(have == want, rule, have == want and image.number == device.number)
    names = ", ".join(f"{number // 10}.{number % 10}" for number in members)
    is_sure = have == want or want not in members or want not in _QUOTED_ONLY
    return LoadRule(
        want in members,
        f"the family of {_capability(image)}: compute capability {names}",
        is_sure and _is_same_name(image, device),
    )


def _capability(image: NvidiaArch) -> str:
    """Return the capability of an image, and its new number if it has one."""
    renamed = RENAMED.get(image.number)
    return image.capability + (f", which CUDA 13 calls {renamed // 10}.{renamed % 10}," if renamed else "")


def _is_same_name(image: NvidiaArch, device: NvidiaArch) -> bool:
    """Return whether an answer is independent of renaming: it is unknown if a driver of CUDA 13 loads code for 10.1."""
    if image.number == device.number or RENAMED.keys().isdisjoint((image.number, device.number)):
        return True
    have, want = (RENAMED.get(arch.number, arch.number) for arch in (image, device))
    return image.major != device.major and have // 10 != want // 10
