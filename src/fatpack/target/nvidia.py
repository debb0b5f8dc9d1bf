"""NVIDIA architecture names and the rules by which the CUDA loader picks an image. Reads no data.

``sm_103a`` is compute capability 10.3: the last digit is the minor version. Without suffix a name is portable in
one direction; ``a`` (architecture-specific) ties code to one capability, ``f`` (family-specific) to one family:

=========================  ====================================
cubin ``sm_XY``             devices of the same major version with the same or a higher minor one
cubin or PTX with ``a``     exactly the capability X.Y
cubin or PTX with ``f``     the same family: same major version, minor at least Y
PTX ``compute_XY``          every device of at least X.Y, compiled when it is loaded
=========================  ====================================

Source: CUDA programming guide, application compatibility and family-specific targets. LLVM applies none of this to
containers; to it ``sm_80`` and ``sm_86`` are unrelated. The driver's own choice was never observed: this is a model.
"""

from __future__ import annotations

from fatpack.record import Record

#: CUDA 13 renamed the capability 10.1 to 11.0. The family rules hold for the new number: code for 10.0 is not for 11.0.
RENAMED = {101: 110}

#: Numbers of Tegra parts (Jetson, Drive); data/nvidia.toml says the same. NVIDIA documents that binaries are not
#: interchangeable between them and discrete parts, although the rule of the major version alone would allow it.
EMBEDDED = frozenset((32, 53, 62, 72, 87, 101, 110))


class NvidiaArch(Record):
    """An architecture name taken apart: ``number`` is 103 for ``sm_103a``, ``suffix`` "", "a" or "f"."""

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


def parse_nvidia(name: str) -> NvidiaArch | None:
    """Return the parts of ``sm_NN`` or ``compute_NN``, with suffix or without; None for any other text."""
    kind, _, rest = name.partition("_")
    suffix = rest[-1:] if rest[-1:] in ("a", "f") else ""
    digits = rest.removesuffix(suffix)
    if kind not in ("sm", "compute") or not 2 <= len(digits) <= 4 or not (digits.isascii() and digits.isdigit()):
        return None
    return NvidiaArch(int(digits), suffix, kind == "compute") if digits[0] != "0" else None


class Ruling(Record):
    """What the loader rules say: ``answer``, the devices that the rule allows in words, whether the answer is sure."""

    answer: bool
    rule: str
    is_certain: bool = True


def loads(image: NvidiaArch, device: NvidiaArch, form: str = "cubin") -> Ruling:
    """Return whether an image would be loaded on a device.

    ``form`` is ``cubin`` or ``ptx``; a virtual architecture is PTX whatever the form. The suffix of ``device`` does
    not matter: a device of capability 9.0 runs ``sm_90`` and ``sm_90a``. Not certain are answers that compare a
    Tegra part with another, and those that hang on the renaming of 10.1.
    """
    have, want = (RENAMED.get(arch.number, arch.number) for arch in (image, device))
    was_renamed = have != want and (have != image.number or want != device.number)
    is_ptx = form == "ptx" or image.is_virtual
    if image.suffix == "a":
        return Ruling(have == want, f"compute capability {image.capability} only", not was_renamed)
    if is_ptx and not image.suffix:
        return Ruling(have <= want, f"every compute capability from {image.capability} on", not was_renamed)
    answer = have // 10 == want // 10 and have <= want
    scope = f"the family of {image.capability}, which is " if image.suffix else ""
    rule = f"{scope}compute capability {have // 10}.x with x at least {have % 10}"
    crosses_tegra = have != want and not is_ptx and not EMBEDDED.isdisjoint((have, want))
    return Ruling(answer, rule, not was_renamed and not (answer and crosses_tegra))
