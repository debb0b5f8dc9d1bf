"""The metadata note of code objects: the compiler's statements to the runtime about each kernel.

=======  =========  ====  ==========================================================================
version  owner      type  content
=======  =========  ====  ==========================================================================
v2       ``AMD``    10    YAML, as LLVM up to 17 wrote it
v3-v6    AMDGPU     32    MessagePack: a map with ``amdhsa.kernels``, from v4 on ``amdhsa.target``
=======  =========  ====  ==========================================================================

LLVM AMDGPUUsage, "Code Object Metadata", defines the keys. Unknown keys are skipped, so newer versions are read as far
as they are compatible. The YAML of v2 is parsed line by line: only LLVM's output, with one key on a line and lists of
numbers in brackets.
"""

from __future__ import annotations

from fatpack.codecs.messagepack import MessagePackReader
from fatpack.errors import BadValue
from fatpack.images.kernel import check_count
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    from fatpack.binary.elf.device_elf import DeviceElfSections
    from fatpack.io.source import View

    #: field of KernelNeeds → value
    Values: TypeAlias = dict[str, int | bool | tuple[int, ...]]

_METADATA = (b"AMDGPU", 32)
_METADATA_V2 = (b"AMD", 10)

#: integers: key in MessagePack → field of KernelNeeds
_INTEGERS = {
    ".agpr_count": "agprs",
    ".group_segment_fixed_size": "shared",
    ".kernarg_segment_size": "params",
    ".max_flat_workgroup_size": "max_threads",
    ".private_segment_fixed_size": "local",
    ".sgpr_count": "sgprs",
    ".sgpr_spill_count": "sgpr_spills",
    ".vgpr_count": "registers",
    ".vgpr_spill_count": "vgpr_spills",
    ".wavefront_size": "wavefront",
}
_SIZES = {".cluster_dims": "cluster", ".reqd_workgroup_size": "required_threads"}
_BOOLEANS = {".uses_dynamic_stack": "has_dynamic_stack"}

#: the same in the YAML of v2
_YAML = {
    "GroupSegmentFixedSize": "shared",
    "KernargSegmentSize": "params",
    "MaxFlatWorkGroupSize": "max_threads",
    "NumSGPRs": "sgprs",
    "NumSpilledSGPRs": "sgpr_spills",
    "NumSpilledVGPRs": "vgpr_spills",
    "NumVGPRs": "registers",
    "PrivateSegmentFixedSize": "local",
    "ReqdWorkGroupSize": "required_threads",
    "WavefrontSize": "wavefront",
}

#: start of a kernel, and indentation of its keys; a dash there starts an argument
_YAML_KERNEL, _YAML_INDENT = b"  - Name:", b"      "


#: Keys that no launch depends on: names of kernels, parameters and their types, and the source language.
_NAMES = frozenset((".name", ".symbol", ".type_name", ".language", ".language_version"))
_YAML_NAMES = (b"Name:", b"SymbolName:", b"TypeName:", b"Language:", b"LanguageVersion:")

#: keys of the whole image with its target, which is also in the header, and its version
_OF_THE_IMAGE = frozenset(("amdhsa.target", "amdhsa.version", "amdhsa.kernels"))


class CodeObjectMetadata(Record):
    """The content of the notes: the stored target ("" if missing), and the fields of each kernel by its name."""

    target: str
    kernels: Mapping[str, Values]


def read_notes(sections: DeviceElfSections) -> CodeObjectMetadata | None:
    """Return the metadata of a code object; None without a note. Raises FormatError if it is damaged.

    A relocatable object made by ``ld -r`` may have several notes: the first one that names a kernel is used.
    """
    target, kernels, is_there = "", dict[str, "Values"](), False
    for owner, kind, view in sections.notes():
        if (owner, kind) == _METADATA:
            is_there = True
            reader = MessagePackReader(view, "metadata")
            for key in reader.map():
                if key == "amdhsa.target":
                    target = target or reader.text()
                elif key == "amdhsa.kernels":
                    for _ in reader.array():
                        name, values = _kernel(reader)
                        if name:
                            kernels.setdefault(name, values)
                        check_count(view, len(kernels))
                else:
                    reader.skip()
        elif (owner, kind) == _METADATA_V2:
            is_there = True
            for name, values in _yaml(view):
                kernels.setdefault(name, values)
                check_count(view, len(kernels))
    return CodeObjectMetadata(target, kernels) if is_there else None


def _kernel(reader: MessagePackReader) -> tuple[str, Values]:
    """Read the map of one kernel: the name of its symbol without ``.kd``, and its fields."""
    name, values = "", dict[str, "int | bool | tuple[int, ...]"]()
    for key in reader.map():
        if key == ".symbol":
            name = reader.text().removesuffix(".kd")
        elif key in _INTEGERS:
            values[_INTEGERS[key]] = reader.integer()
        elif key in _SIZES:
            values[_SIZES[key]] = tuple(reader.integer() for _ in reader.array())
        elif key in _BOOLEANS:
            values[_BOOLEANS[key]] = reader.boolean()
        else:
            reader.skip()
    return name, values


def all_metadata(sections: DeviceElfSections) -> tuple[dict[str, bytes], list[bytes]]:
    """Return the statements about each kernel without names, and those about the image (printf's formats).

    The bytes are equal for equal statements, whatever the order of a map. Raises FormatError for damage.
    """
    kernels: dict[str, bytes] = {}
    image: list[bytes] = []
    #: the stored parameters of kernels, which many kernels of an image share → their lines
    known: dict[bytes, list[bytes]] = {}
    for owner, kind, view in sections.notes():
        if (owner, kind) == _METADATA:
            reader = MessagePackReader(view, "metadata")
            for key in reader.map():
                if key == "amdhsa.kernels":
                    for _ in reader.array():
                        name, statements = _kernel_statements(reader, known)
                        if name:
                            kernels.setdefault(name, statements)
                elif key in _OF_THE_IMAGE:
                    reader.skip()
                else:
                    image.append(key.encode() + reader.stored())
        elif (owner, kind) == _METADATA_V2:
            kernels |= _yaml_statements(view)
    return kernels, sorted(image)


def _kernel_statements(reader: MessagePackReader, known: dict[bytes, list[bytes]]) -> tuple[str, bytes]:
    """Read the map of one kernel: the name of its symbol without ``.kd``, and everything else as sorted lines.

    ``known`` are the lines of parameters that were read before, by their encoding.
    """
    name, lines = "", list[bytes]()
    for key in reader.map():
        if key == ".symbol":
            name = reader.text().removesuffix(".kd")
        elif key == ".args":
            start = reader.at
            stored = reader.stored()
            if stored not in known:
                reader.at = start
                known[stored] = [b"%d %b" % (number, _argument(reader)) for number in reader.array()]
            lines += known[stored]
        elif key in _NAMES:
            reader.skip()
        else:
            lines.append(key.encode() + reader.stored())
    return name, b"\n".join(sorted(lines))


def _argument(reader: MessagePackReader) -> bytes:
    """Read the map of one parameter without its names, as sorted words."""
    words: list[bytes] = []
    for key in reader.map():
        if key in _NAMES:
            reader.skip()
        else:
            words.append(key.encode() + reader.stored())
    return b" ".join(sorted(words))


def _yaml_statements(view: View) -> dict[str, bytes]:
    """Return the statements of v2 metadata about each kernel without names, by its name."""
    found: dict[str, list[bytes]] = {}
    lines: list[bytes] | None = None
    for _, line in _lines(view.tobytes().rstrip(b"\0")):
        if not line.startswith(b" "):
            lines = None
        elif line.startswith(_YAML_KERNEL):
            lines = found.setdefault(_unquoted(line[len(_YAML_KERNEL) :].strip()), [])
        elif lines is not None and not line.lstrip(b" -").startswith(_YAML_NAMES):
            lines.append(line.strip())
    return {name: b"\n".join(lines) for name, lines in found.items()}


def _yaml(view: View) -> Iterator[tuple[str, Values]]:
    """Yield name and fields of each kernel in v2 metadata."""
    name, values, is_inside = "", dict[str, "int | bool | tuple[int, ...]"](), False
    for at, line in _lines(view.tobytes().rstrip(b"\0")):
        if not line.startswith(b" "):
            is_inside = line.startswith(b"Kernels:")
        elif is_inside and line.startswith(_YAML_KERNEL):
            if name:
                yield name, values
            name, values = _unquoted(line[len(_YAML_KERNEL) :].strip()), {}
        elif is_inside and line.startswith(_YAML_INDENT):
            key, _, value = line[len(_YAML_INDENT) :].partition(b":")
            field = _YAML.get(key.decode("ascii", "replace"))
            if field:
                values[field] = _yaml_value(view, at, value.strip())
    if name:
        yield name, values


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (position, line), one at a time: a list of them takes forty times the memory of the text."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield at, data[at:end]
        at = end + 1


def _unquoted(text: bytes) -> str:
    if len(text) > 1 and text[:1] == text[-1:] == b"'":
        text = text[1:-1].replace(b"''", b"'")
    return text.decode("utf-8", "backslashreplace")


def _yaml_value(view: View, at: int, text: bytes) -> int | tuple[int, ...]:
    try:
        if text.startswith(b"[") and text.endswith(b"]"):
            return tuple(_number(word) for word in text[1:-1].split(b","))
        return _number(text)
    except ValueError:
        raise BadValue(
            "is no number",
            format="yaml",
            offset=view.offset(at),
            field="metadata",
            found=text[:40].decode("ascii", "backslashreplace"),
            chain=view.chain,
        ) from None


def _number(text: bytes) -> int:
    """Return a decimal number of at most 64 bits. Raises ValueError."""
    digits = text.strip()
    if not digits.isdigit() or len(digits) > 20:
        raise ValueError
    return int(digits)
