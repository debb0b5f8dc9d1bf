"""Wrapping: images or a container → an object that registers them when it is linked, or LLVM IR of one."""

from __future__ import annotations

from fatpack.commands.wrap.host import parse_host, refuse_unknown, refuse_without_bounds
from fatpack.commands.wrap.registration import KINDS
from fatpack.errors import UsageError, cli_or_api
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.wrap.dpcpp import DpcppImage, DpcppOutput
    from fatpack.commands.wrap.host import WrapHost
    from fatpack.commands.wrap.inputs import WrapInput
    from fatpack.commands.wrap.registration import Registration
    from fatpack.io.source import Piece, View
    from fatpack.model import Finding

#: The host where none is named: the same on every machine, so that the same arguments give the same bytes.
DEFAULT_HOST = "x86_64-unknown-linux-gnu"

#: What comes out, with the extension of an output that was not named.
EMITS = {"obj": "o", "llvm-ir": "ll"}

#: The versions of LLVM whose way of registering is written, and the one that is by default. Up to 20 offload entries
#: have another layout, in other sections: what is written for 19 is for all of these.
VERSIONS, DEFAULT_VERSION = (19, 22, 23), 22


class WrapOutput(Record):
    """An object or LLVM IR, in pieces, how many images it registers, and what is wrong or unexpected about them."""

    pieces: tuple[Piece, ...]
    image_count: int
    findings: tuple[Finding, ...] = ()


def wrap_files(
    kind: str,
    given: Sequence[WrapInput],
    *,
    host_triple: str = DEFAULT_HOST,
    emit: str = "obj",
    llvm: int = DEFAULT_VERSION,
    is_relocatable: bool = False,
) -> WrapOutput:
    """Return what registers images for a runtime: ``kind`` is cuda, hip, openmp or sycl.

    ``emit`` is obj or llvm-ir, ``llvm`` the version that is followed where two differ. ``is_relocatable`` is for a link
    with ``-r`` (OpenMP alone). Bytes of images are not copied, but for LLVM IR, which spells them.
    Raises UsageError for what cannot be registered or made, FormatError for damage.
    """
    for word, value, known in (("kind", kind, KINDS), ("output", emit, EMITS), ("LLVM version", llvm, VERSIONS)):
        if not isinstance(value, (str, int)) or value not in known:
            raise UsageError(f"{word} {value!r}", hint=f"choose from {', '.join(map(str, known))}")
    if is_relocatable and kind != "openmp":
        hint = "leave it out: the sections of the other kinds are the same in a link with -r"
        raise UsageError(f"a relocatable link makes a difference for OpenMP alone, not for {kind}", hint=hint)
    if kind == "sycl" and llvm < DEFAULT_VERSION:
        raise UsageError(
            f"LLVM {llvm} registers no SYCL images", hint=f"choose {cli_or_api('--as=22', 'llvm=22')} or 23"
        )
    host = parse_host(host_triple)
    if emit == "obj":
        refuse_unknown(host)
    else:
        refuse_without_bounds(host, llvm)
    from fatpack.commands.wrap.inputs import plan_registration

    found = plan_registration(kind, given, llvm=llvm, is_relocatable=is_relocatable)
    return WrapOutput(_written(found.registration, host, emit, llvm), found.image_count, found.findings)


def wrap_passthrough(
    kind: str, files: Sequence[tuple[str, View]], *, host_triple: str, llvm: int, is_relocatable: bool = False
) -> tuple[tuple[Piece, ...], tuple[str, ...]]:
    """Return LLVM IR of named files as they are, and what a runtime cannot load
    (:mod:`fatpack.commands.wrap.as_given`).

    Raises UsageError for a host on which nothing can be registered, and what ``as_given`` raises.
    """
    from fatpack.commands.wrap.as_given import pass_through

    host = parse_host(host_triple)
    refuse_without_bounds(host, llvm)
    found = pass_through(kind, files, llvm=llvm, is_relocatable=is_relocatable)
    return _written(found.registration, host, "llvm-ir", llvm), found.doubts


def wrap_for_dpcpp(
    images: Sequence[DpcppImage], *, host_triple: str, descriptor: str | None = None, has_functions: bool = True
) -> DpcppOutput:
    """Return LLVM IR that registers images with the runtimes of DPC++ (:mod:`fatpack.commands.wrap.dpcpp`).

    ``descriptor`` is what others may call the descriptor by, None where nobody does. Without functions nothing is
    registered, and no table says where the images are. Raises UsageError for a host on which DPC++ registers nothing.
    """
    from fatpack.commands.wrap.dpcpp import DpcppOutput
    from fatpack.commands.wrap.ir.dpcpp import dpcpp_module

    host = parse_host(host_triple)
    if host.file not in ("elf", "coff"):
        problem = f"DPC++ registers no images on {host.triple}"
        raise UsageError(problem, hint="choose a host with ELF or COFF objects")
    if not host.is_wide:
        problem = f"the records of DPC++ have words of 64 bits, and no compiler makes pointers of {host.triple} of them"
        raise UsageError(problem, hint="choose a host with pointers of 64 bits")
    return DpcppOutput(*dpcpp_module(images, host, descriptor, has_functions=has_functions))


def _written(registration: Registration, host: WrapHost, emit: str, llvm: int) -> tuple[Piece, ...]:
    if emit == "llvm-ir":
        from fatpack.commands.wrap.ir.module import registration_module

        return registration_module(registration, host, llvm)
    from fatpack.commands.wrap.objects.contents import build_object

    parts = build_object(registration, host)
    if host.file == "coff":
        from fatpack.commands.wrap.objects.coff import coff_object

        return coff_object(parts)
    from fatpack.commands.wrap.objects.elf import elf_object

    return elf_object(parts, host.processor)
