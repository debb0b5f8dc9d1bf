"""Wrapping: images or a container → an object that registers them when it is linked, or LLVM IR of one."""

from __future__ import annotations

from fatpack.commands.wrap.registration import (
    DEFAULT_HOST,
    DEFAULT_VERSION,
    EMITS,
    KINDS,
    VERSIONS,
    FatbinRegistration,
    OpenmpDescriptor,
    RegisteredContent,
    SyclBinary,
    entry_layout,
)
from fatpack.errors import UsageError, cli_or_api
from fatpack.record import Record
from fatpack.targets.triple import split_triple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.pack.formats import PackedContainers
    from fatpack.commands.pack.request import ImageFile
    from fatpack.commands.wrap.dpcpp_images import DpcppImage, DpcppOutput
    from fatpack.commands.wrap.inputs import WrapInput
    from fatpack.commands.wrap.registration import Registration
    from fatpack.io.open import Input
    from fatpack.io.source import Piece, Source, View
    from fatpack.library.arguments import Output
    from fatpack.limits import Budget
    from fatpack.literals import Emit, Runtime


# Files registered as they are given, one container or image each, as LLVM's own wrappers do it.
#
# Nothing is packed and nothing is refused for what it is: a file may be of an unknown kind. Where a
# runtime certainly cannot load it, that is said. Offload binaries for OpenMP are looked into: each of their images is
# registered. LLVM registers the first of a file, and none of the others.

#: kind → the format that its runtime takes. OpenMP's takes offload binaries and images of many kinds.
_TAKEN = {"cuda": "cuda-fatbin", "hip": "clang-offload-bundle", "sycl": "llvm-offload-binary"}


class PassThrough(Record):
    """A registration, and sentences about the parts that the runtime cannot load."""

    registration: Registration
    doubts: tuple[str, ...]


def pass_through(
    kind: str, files: Sequence[tuple[str, View]], *, llvm: int, is_relocatable: bool = False
) -> PassThrough:
    """Return what is registered of files; CUDA, HIP and SYCL take one. Bytes are not copied.

    Raises UsageError for several files where one is taken, FormatError for a damaged offload binary.
    """
    from fatpack import formats

    if kind == "openmp":
        contents: list[RegisteredContent] = []
        for name, view in files:
            # Other bytes are an image: no plug-in is asked for their format.
            is_offload_binary = formats.format_by_magic(view.head(0, 48)) == "llvm-offload-binary"
            if is_offload_binary and formats.format_at(view) == "llvm-offload-binary":
                # Builds that wrap plain images do not need what reads containers.
                from fatpack.commands.wrap.inputs import WrapInput, offload_binaries

                contents += offload_binaries(WrapInput(name, view), llvm)
            else:
                contents.append(_whole(view))
        return PassThrough(OpenmpDescriptor(tuple(contents), entry_layout(kind, llvm), is_relocatable), ())
    if len(files) != 1:
        raise UsageError(f"{kind} takes one file", hint="fatpack wrap makes one container of several images")
    ((name, view),) = files
    taken = _TAKEN[kind]
    doubts = () if formats.format_at(view) == taken else (f"{name} is no {taken}, which {kind}'s runtime takes",)
    if kind == "sycl":
        return PassThrough(SyclBinary(_whole(view)), doubts)
    return PassThrough(FatbinRegistration(kind, _whole(view), entry_layout(kind, llvm)), doubts)


def _whole(view: View) -> RegisteredContent:
    return RegisteredContent((view,), ((0, len(view)),))


# The host that images are registered on: what its triple means for objects.

#: what a triple calls a processor → what the listings of its code are called
_PROCESSORS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}

#: how the system of a triple begins, with or without a version → the kind of its objects; all others have ELF
_FILES = {
    "darwin": "mach-o",
    "macos": "mach-o",
    "ios": "mach-o",
    "tvos": "mach-o",
    "watchos": "mach-o",
    "windows": "coff",
    "win32": "coff",
    "mingw": "coff",
    "uefi": "coff",
    "aix": "xcoff",
    "zos": "goff",
}

#: Architectures with pointers of 64 bits whose names do not say so.
_WIDE = ("s390x", "systemz", "sparcv9")


class WrapHost(Record):
    """A host: its triple, its processor as listings have it ("" for others), the kind of its objects, and who links.

    ``is_wide`` tells that its pointers have 64 bits.
    ``file`` is elf, coff, mach-o, or a kind for which LLVM registers nothing: wasm, xcoff, goff. ``is_gnu`` tells that
    COFF objects are for MinGW, where tables of constructors are called ``.ctors``.
    """

    triple: str
    processor: str
    file: str
    is_gnu: bool
    is_wide: bool

    @property
    def has_objects(self) -> bool:
        """True if objects can be made for it, which takes code for its processor."""
        return (self.file, self.processor) in (("elf", "x86_64"), ("elf", "aarch64"), ("coff", "x86_64"))

    @property
    def calling(self) -> str:
        """The name of the listings for its processor and its way of calling functions."""
        return f"{self.processor}-windows" if self.file == "coff" else self.processor


def parse_host(triple: str) -> WrapHost:
    """Return what a triple says of a host. Raises UsageError for what no host's triple can be."""
    parts = split_triple(triple)
    if not parts.architecture or not all(character.isalnum() or character in "-_." for character in triple):
        hint = "write one such as x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu or x86_64-pc-windows-msvc"
        raise UsageError(f"{triple!r} is no triple of a host", hint=hint)
    if "apple" in parts.vendor:
        file = "mach-o"
    elif parts.architecture.startswith("wasm"):
        file = "wasm"
    else:
        # A vendor may be missing: aarch64-linux-gnu, x86_64-windows-msvc.
        names = (parts.vendor, parts.system)
        file = next((file for start, file in _FILES.items() for name in names if name.startswith(start)), "elf")
    is_gnu = file == "coff" and (triple.endswith("gnu") or "mingw" in triple)
    # Pointers of 32 bits on a processor of 64: other records, and other relocations.
    is_narrow = triple.endswith(("x32", "ilp32"))
    processor = "" if is_narrow else _PROCESSORS.get(parts.architecture, "")
    is_wide = not is_narrow and ("64" in parts.architecture or parts.architecture in _WIDE)
    return WrapHost(triple, processor, file, is_gnu, is_wide)


def refuse_without_bounds(host: WrapHost, llvm: int) -> None:
    """Raise UsageError for a host on which no LLVM, or none of a version, tells where offload entries begin and end."""
    if host.file not in ("elf", "coff", "mach-o"):
        problem = f"no LLVM registers images on {host.triple}: its linkers make no bounds of the offload entries"
        raise UsageError(problem, hint="choose a host with ELF, COFF or Mach-O objects")
    if host.file == "mach-o" and llvm < 23:
        hint = f"add {cli_or_api('--as=23', 'llvm=23')}"
        raise UsageError(f"LLVM {llvm} has no bounds of the offload entries for Mach-O, which LLVM 23 has", hint=hint)


def refuse_unknown(host: WrapHost) -> None:
    """Raise UsageError for a host for which no object can be made."""
    if not host.has_objects:
        problem = f"no object can be made for {host.triple}: there is code for ELF x86-64 and AArch64, and COFF x86-64"
        emit = cli_or_api("--emit=llvm-ir", "emit='llvm-ir'")
        raise UsageError(problem, hint=f"{emit} writes LLVM IR, and llc or clang makes an object of it")


class WrapOutput(Record):
    """An object or LLVM IR, with what is wrong or unexpected about its images, and how many of them it registers."""

    packed: PackedContainers
    image_count: int


class WrapRequest(Record):
    """Files to register with a runtime: ``kind`` is cuda, hip, openmp or sycl.

    ``emit`` is obj or llvm-ir, ``llvm`` the version that is followed where two differ. ``is_relocatable`` is for a link
    with ``-r`` (OpenMP alone).
    """

    kind: str
    inputs: Sequence[WrapInput]
    host_triple: str = DEFAULT_HOST
    emit: str = "obj"
    llvm: int = DEFAULT_VERSION
    is_relocatable: bool = False


def wrap_files(request: WrapRequest) -> WrapOutput:
    """Return the object or LLVM IR that registers images; for LLVM IR alone, which spells them, bytes are copied.

    Raises UsageError for what cannot be registered or made, FormatError for damage.
    """
    kind, emit, llvm = request.kind, request.emit, request.llvm
    for word, value, known in (("kind", kind, KINDS), ("output", emit, EMITS), ("LLVM version", llvm, VERSIONS)):
        if not isinstance(value, (str, int)) or value not in known:
            raise UsageError(f"{word} {value!r}", hint=f"choose from {', '.join(map(str, known))}")
    if request.is_relocatable and kind != "openmp":
        hint = "leave it out: the sections of the other kinds are the same in a link with -r"
        raise UsageError(f"a relocatable link makes a difference for OpenMP alone, not for {kind}", hint=hint)
    if kind == "sycl" and llvm < DEFAULT_VERSION:
        raise UsageError(
            f"LLVM {llvm} registers no SYCL images", hint=f"choose {cli_or_api('--as=22', 'llvm=22')} or 23"
        )
    host = parse_host(request.host_triple)
    if emit == "obj":
        refuse_unknown(host)
    else:
        refuse_without_bounds(host, llvm)
    from fatpack.commands.pack.formats import PackedContainers
    from fatpack.commands.wrap.inputs import plan_registration

    found = plan_registration(kind, request.inputs, llvm=llvm, is_relocatable=request.is_relocatable)
    packed = PackedContainers(_written(found.registration, host, emit, llvm), found.findings)
    return WrapOutput(packed, found.image_count)


def wrap_passthrough(
    kind: str, files: Sequence[tuple[str, View]], *, host_triple: str, llvm: int, is_relocatable: bool = False
) -> tuple[tuple[Piece, ...], tuple[str, ...]]:
    """Return LLVM IR of named files as they are, and what a runtime cannot load
    (:mod:`fatpack.commands.wrap.run`).

    Raises UsageError for a host on which nothing can be registered, and what ``as_given`` raises.
    """

    host = parse_host(host_triple)
    refuse_without_bounds(host, llvm)
    found = pass_through(kind, files, llvm=llvm, is_relocatable=is_relocatable)
    return _written(found.registration, host, "llvm-ir", llvm), found.doubts


def wrap_for_dpcpp(
    images: Sequence[DpcppImage], *, host_triple: str, descriptor: str | None = None, has_functions: bool = True
) -> DpcppOutput:
    """Return LLVM IR that registers images with the runtimes of DPC++ (:mod:`fatpack.commands.wrap.inputs`).

    ``descriptor`` is the name by which other files refer to the descriptor, None if none does. Without functions
    nothing is registered, and no table says where the images are. Raises UsageError for a host on which DPC++ registers
    nothing.
    """
    from fatpack.commands.wrap.dpcpp_images import DpcppOutput
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


# Images or a container → an object that registers them when it is linked: ``wrap``.

__all__ = ["wrap"]


def wrap(
    images: Sequence[Input | ImageFile],
    output: Output,
    *,
    kind: Runtime,
    host_triple: str = DEFAULT_HOST,
    emit: Emit = "obj",
    llvm: int = DEFAULT_VERSION,
    relocatable: bool = False,
    overwrite: bool = False,
    max_output: int | None = None,
) -> int:
    """Write an object that registers images when it is linked, made without a compiler; return its size in bytes.

    ``images`` are files of images, or the container that the runtime of that ``kind`` takes: a CUDA fat binary, a HIP
    bundle, offload binaries for OpenMP and SYCL. An :class:`ImageFile` states what an image is for, where its bytes do
    not say it. ``host_triple`` is the host that is linked for: ELF x86-64 or AArch64, COFF x86-64, or with ``emit`` of
    ``llvm-ir`` any. ``llvm`` is the version that the other objects are of: 19 (for all up to 20, which have other
    offload entries), 22, or 23, whose SYCL runtime is another.
    ``relocatable`` is for a link with ``-r``, after which another one follows (OpenMP).

    ``output`` is a path, refused if it exists unless ``overwrite``, or a binary file open for writing.
    ``max_output`` is as for :func:`fatpack.extract`. A likely mistake is a Python warning. Raises UsageError,
    FormatError and ``OSError``.
    """
    from fatpack.commands.pack.request import ImageFile
    from fatpack.library.arguments import check_bools, check_type, issue_warnings, make_budget, write_packed_to

    if isinstance(images, (str, bytes, ImageFile)) or not hasattr(images, "__iter__"):
        raise TypeError(f"images must be several files in a list, got {type(images).__name__}")
    check_bools(relocatable=relocatable, overwrite=overwrite)
    check_type("host_triple", host_triple, str, "a text")
    check_type("llvm", llvm, int, "19, 22 or 23")
    budget = make_budget(max_output=max_output)
    opened: list[Source] = []
    try:
        given = [_open_image(number, item, opened, budget) for number, item in enumerate(images)]
        packed = wrap_files(WrapRequest(kind, given, host_triple, emit, llvm, relocatable)).packed
        issue_warnings(item.text for item in packed.findings if item.severity != "note")
        inputs = [item.view for item in given]
        return write_packed_to(output, packed, overwrite=overwrite, inputs=inputs, budget=budget)
    finally:
        for source in opened:
            source.close()


def _open_image(number: int, item: Input | ImageFile, opened: list[Source], budget: Budget) -> WrapInput:
    """Return a file that is to be registered, opened."""
    from fatpack.commands.pack.request import ImageFile, option_for
    from fatpack.commands.wrap.inputs import WrapInput
    from fatpack.library.arguments import open_input

    argument = f"images[{number}]"
    if isinstance(item, ImageFile):
        source = open_input(argument, item.file, name=item.name, may_close=True, budget=budget)
        opened.append(source)
        stated = option_for(item, source, "" if item.offload == "none" else item.offload)
        return WrapInput(source.name or argument, source.view(), stated)
    source = open_input(argument, item, may_close=True, budget=budget)
    opened.append(source)
    return WrapInput(source.name or argument, source.view())
