"""Kernels of Hugging Face: the architectures that ``metadata.json`` declares, and the devices its loader accepts.

::

    build/torch29-cxx11-cu128-x86_64-linux/metadata.json
        {"backend": {"type": "cuda", "archs": ["8.0", "9.0a", "12.0+PTX"]}, …}

The loader compares the declared architectures with the current device, when it loads and not before; it never looks
into the libraries. Its rules are not the driver's: it takes ``10.0f`` for every 10.x, ``8.0`` for Tegra parts too, and
``9.0+PTX`` for all that is newer.

Source: kernels 0.17.2 (huggingface/kernels#774), with which ``tests/targets/installers`` compares what is said here.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The backends that metadata.json may name, and those whose architectures the loader compares.
BACKENDS = ("cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu")
COMPARED_BACKENDS = ("cuda", "rocm")


class DeclaredCapability(Record):
    """A declared architecture of CUDA: ``9.0a`` has the capability (9, 0) and the suffix ``a``, ``9.0+PTX`` has PTX."""

    major: int
    minor: int
    suffix: str = ""
    has_ptx: bool = False

    @property
    def arch(self) -> str:
        """The name of its machine code: ``sm_90a``."""
        return f"sm_{self.major}{self.minor}{self.suffix}"

    def is_taken_for(self, capability: tuple[int, int]) -> bool:
        """Return whether the loader takes it for a device."""
        own = self.major, self.minor
        if self.suffix == "a":
            return capability == own
        if self.has_ptx and not self.suffix:
            return capability >= own
        return capability[0] == self.major and capability >= own


def parse_capability(text: str) -> DeclaredCapability | None:
    """Return a declared architecture of CUDA; None for a text that the loader does not understand."""
    body = text.removesuffix("+PTX")
    suffix = body[-1:] if body[-1:] in ("a", "f") else ""
    major, point, minor = body.removesuffix(suffix).partition(".")
    if not point or not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in (major, minor)):
        return None
    return DeclaredCapability(int(major), int(minor), suffix, body != text)


def is_taken_for_cuda(archs: Iterable[str], capability: tuple[int, int]) -> bool:
    """Return whether the loader takes a build for a device of NVIDIA; one without any text that it understands, always.

    ``archs`` are the architectures that metadata.json declares.
    """
    known = [found for found in map(parse_capability, archs) if found is not None]
    return not known or any(found.is_taken_for(capability) for found in known)


def is_taken_for_rocm(archs: Iterable[str], target_id: str) -> bool:
    """Return whether the loader takes a build for a device of AMD: if its processor is declared; none means all."""
    declared = tuple(archs)
    return not declared or target_id.partition(":")[0] in declared
