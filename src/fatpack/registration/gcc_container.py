"""GCC offload: the images that a program registers with one call of ``GOMP_offload_register_ver``, as a container.

The images of a record lie apart from it: a code object in ``.data``, PTX texts in ``.rodata``. They are listed as a
container of the format ``gcc-offload`` that spans them; the record itself is among the data of the host. That format
exists in listings only: objects have bytecode without a target, and nobody but mkoffload writes the record.
"""

from __future__ import annotations

from fatpack import images
from fatpack.errors import UsageError, format_hex
from fatpack.formats.diagnostics import not_parsed_error
from fatpack.layout import FormatInfo
from fatpack.model import Container, Image, Label, Target, fill_gaps
from fatpack.record import Record
from fatpack.registration.gcc_records import (
    DEVICES,
    FORMAT,
    GCN,
    NEWEST,
    NVPTX,
    REQUIREMENTS,
    GccRecord,
    blob_layout,
    gcn_layout,
    kernel_layout,
    nvptx_layout,
    table_layout,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fatpack.io.source import Piece, View

__all__ = ["DOC", "FORMAT", "LAYOUTS", "describe", "labels", "write"]

#: key of the attributes of an image, and its value for a text that mkoffload adds to the program's own
ROLE, LIBRARY = "role", "library"

#: model in words → as images state it
MODELS = {"OpenMP": "openmp", "OpenACC": "openacc"}

DOC = FormatInfo(
    name=FORMAT,
    title="GCC offload",
    description=(
        "The device code of programs and libraries that GCC compiled with `-fopenmp` or `-fopenacc` for nvptx-none and "
        "amdgcn-amdhsa. GCC uses none of the containers of clang and nvcc: its `mkoffload` makes one code object, or "
        "PTX texts, of all objects of a link, and a constructor registers a record that points to them. A record for "
        "each accelerator is listed as a container. Objects have no image yet: the bytecode in them (GIMPLE) is "
        "compiled for an accelerator when it is linked."
    ),
    references=(
        "GCC gcc/config/gcn/mkoffload.cc and gcc/config/nvptx/mkoffload.cc (2022 to 2025)",
        "GCC include/gomp-constants.h, libgomp/target.c, libgomp/plugin/plugin-gcn.c and plugin-nvptx.c (2021 to 2026)",
        "GCC lto-plugin/lto-plugin.c, for the sections of objects",
        "files of GCC 12.2 of Debian 12 and GCC 14.2 of Debian 13",
    ),
    reads=f"records of library versions 1 to {NEWEST}: GCC 12 and 14 as measured, 13 and 15 by the same rules",
    writes="nothing: only GCC makes such records",
    limitations=(
        "Files of GCC 10, 11, 13 and 15, of 32-bit hosts and of AArch64 were not at hand: their layout follows from "
        "GCC's source, and the tests make them by hand.",
        "Records are looked for in linked ELF files with sections. Calls are read on x86-64 and AArch64; elsewhere a "
        "record is found from its images, and its version is not known.",
        "Objects of `gcc -r -flinker-output=nolto-rel` have the record and the images beside the bytecode: the code "
        "object is listed as a bare image, PTX texts are not.",
        "`slim` leaves such a program as it is, `replace` and `remove` refuse: host code and kernels are paired by "
        "their positions, and the call that registers an image would stay.",
        "The bytecode of objects is not decoded: only GCC of the same version reads it.",
        "Records for Intel MIC and HSA, which GCC 13 dropped, are not read.",
    ),
)

LAYOUTS = (
    table_layout(8, "little"),
    gcn_layout(8, "little", 1),
    gcn_layout(8, "little", NEWEST),
    nvptx_layout(8, "little", 1),
    nvptx_layout(8, "little", NEWEST),
    blob_layout(8, "little", GCN),
    blob_layout(8, "little", NVPTX),
    kernel_layout(8, "little", GCN),
    kernel_layout(8, "little", NVPTX),
)


class GccContainer(Record):
    """The data of a container beyond the common model: its record, where that is, and the bytes that it spans."""

    record: GccRecord
    place: int
    stored: View


def make_gcc_container(view: View, record: GccRecord, model: str) -> tuple[Container, View]:
    """Return a container for the images of a record, of which there is at least one, and the bytes that it spans."""
    start = min(data.start for data in record.images) - view.start
    end = max(data.end for data in record.images) - view.start
    made = []
    for number, data in enumerate(record.images):
        known = images.identify_image(data)
        form = known.form or ("ptx" if record.device == NVPTX else "code-object")
        target = Target(known.triple, known.arch, offload=MODELS[model])
        attrs = {ROLE: LIBRARY} if number else {}
        made.append(Image(target, form, data, len(data), len(data), data.span(), attrs=attrs))
    attrs = {
        "device": DEVICES[record.device],
        "model": model,
        "version": "unknown" if record.version is None else format_hex(record.version),
        "functions": str(record.function_count),
        "variables": str(record.variable_count),
    }
    stored = view.slice(start, end - start)
    own = GccContainer(record, view.start + record.at, stored)
    return Container(FORMAT, record.library, tuple(made), stored.span(), attrs, record=own), stored


def describe(container: Container) -> Mapping[str, object]:
    """Return facts beyond the common model: the record, its version, kernels with OpenACC's dimensions, variables."""
    own = _own(container)
    record = own.record
    mask = record.requires or 0
    return {
        "device": DEVICES[record.device],
        "version": None if record.version is None else format_hex(record.version),
        "record": format_hex(own.place),
        "requires": [name for bit, name in REQUIREMENTS.items() if mask & bit and bit != 0x200],
        "kernels": [{"name": kernel.name, "dims": list(kernel.dims)} for kernel in record.kernels],
        "variables": list(record.variables),
        "variable_count": record.variable_count,
        "indirect_count": record.indirect,
    }


def labels(view: View, container: Container) -> Iterator[Label]:
    """Yield a label for every byte between the first and the last image."""
    body = view.slice(container.span.start - view.start, container.span.size)
    known = (
        Label(image.span, f"image[{number}]", image.form, "a code object, or a PTX text without its NUL", "data")
        for number, image in enumerate(container.images)
    )
    return fill_gaps(body, known)


def write(container: Container, options: None = None) -> Iterator[Piece]:
    """Yield the bytes that a container spans. Raises UsageError if its images are not the same as when it was read."""
    own = _own(container)
    if [image.data for image in container.images] != list(own.record.images):
        raise UsageError("images of GCC's offloading are not replaced", hint="build the program again")
    yield own.stored


def _own(container: Container) -> GccContainer:
    if isinstance(container.record, GccContainer):
        return container.record
    raise not_parsed_error("container")
