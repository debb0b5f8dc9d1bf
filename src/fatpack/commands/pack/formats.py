"""The formats that are packed, and warnings about likely mistakes in images, which are packed all the same.

Offload binaries store any key and any word. The other formats refuse what they cannot store.
"""

from __future__ import annotations

from fatpack.errors import FatpackError, UsageError
from fatpack.model import Image, Target
from fatpack.record import Record
from fatpack.writer_options import (
    BundleOptions,
    CirOptions,
    FatbinOptions,
    KpackOptions,
    OffloadBinaryOptions,
    SyclbinOptions,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any, Protocol

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import Piece, View
    from fatpack.model import Finding
    from fatpack.writer_options import Options

    class Packer(Protocol):
        """The module of a format."""

        def image_from(self, option: ImageOption, name: str, data: View) -> Image:
            """Return the image that one file of an ``--image=`` makes."""

        def pack(self, stored: Sequence[Image], options: Any) -> PackedContainers:
            """Return the images as containers, made as the options of the format say."""


#: Keys with a meaning of their own; a key that is nearly one of them is probably a slip.
_KEYS = ("file", "triple", "arch", "kind", "feature")

#: The similarity of two keys at which one is proposed for the other: that of ``arhc`` and ``arch``.
_ALIKE = 0.75

#: LIMIT: the matcher takes time with the square of the length, and no known triple is longer than 30 characters.
_LONGEST = 64

#: Triples that are right, for which no table is read.
_COMMON_TRIPLES = ("", "nvptx64-nvidia-cuda", "amdgcn-amd-amdhsa")

_MAKERS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def pack_warnings(options: Sequence[ImageOption], stored: Sequence[Image]) -> list[str]:
    """Return a sentence for everything that looks like a slip: in options for offload binaries, and in the images."""
    found = [slip for option in options for slip in _slips(option)]
    empty = [image.data.chain for image in stored if not len(image.data) and image.target.offload != "host"]
    if empty:
        from fatpack.selectors.no_match import EMPTY

        found += [f"{chain[0] if chain else 'an image'}: {EMPTY}, and is packed all the same" for chain in empty]
    if not options:
        found += [slip for image in stored if (slip := _bad_id(image.attrs.get("id", "")))]
    featured = [image.target for image in stored if image.target.features]
    if featured:
        from fatpack.selectors.bundle_id_match import feature_problem

        found += map(feature_problem, featured)
    return [slip for slip in dict.fromkeys(found) if slip]


def _bad_id(spelling: str) -> str:
    """Return that the ID of an image in a bundle or CIR container is none; "" if it names a kind and a triple."""
    from fatpack.formats.clang_bundle.bundle_id import parse_bundle_id

    if not spelling or parse_bundle_id(spelling).triple:
        return ""
    return f"id={spelling} is no bundle ID, and no tool will take that image; write KIND-TRIPLE--ARCH"


def _slips(option: ImageOption) -> Iterator[str]:
    from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS
    from fatpack.targets.nvidia import parse_nvidia
    from fatpack.targets.triple import is_amdgpu, is_nvptx
    from fatpack.targets.vocabulary import load_vocabulary, nearest_names

    kind, arch, triple = option.get("kind"), option.get("arch") or "", option.get("triple") or ""
    if kind not in (None, "", "none", *OFFLOAD_WORDS):
        yield f"kind={kind} is no offload kind, stored as none; choose from {', '.join(OFFLOAD_WORDS)}"
    if not triple and option.get("id") is None:
        yield f"{option.text} has no triple; tools will not know which device it is for"
    if option.get("arch") is None and (is_nvptx(triple) or is_amdgpu(triple)):
        yield f"{option.text} has no arch; tools will not know which device it is for"
    for key, value in option.pairs:
        if key and not value and key in option.text.removeprefix("--image=").split(","):
            yield (
                f"{option.text}: {key} has no =, and is stored as a key without a value; "
                "give each architecture an --image= of its own"
            )
    if (is_nvptx(triple) and not parse_nvidia(arch)) or (is_amdgpu(triple) and not arch.startswith("gfx")):
        words = load_vocabulary()
        name = arch.partition(":")[0]
        near = nearest_names(arch) if arch not in ("", "generic", "amdgcnspirv") else ()
        if near and words.vendor(name):
            yield f"arch={arch} is of {_MAKERS[words.vendor(name)]}, and triple={triple} is not"
        elif near:
            yield f"arch={arch} is unknown; did you mean {', '.join(near)}?"
    if nearest := _nearest_triple(triple):
        yield f"triple={triple} is unknown; did you mean {nearest}?"
    for key, _ in option.pairs:
        if key == "id":
            yield "id= is stored as a key of its own, which no tool reads; did you mean triple=, arch= and kind=?"
        elif key not in _KEYS and (nearest := _nearest_key(key)):
            yield f"{key}= is stored as a key of its own; did you mean {nearest}=?"


def _nearest_triple(triple: str) -> str:
    """Return the known triple that is closest to an unknown one; "" for a known one, and if none is close.

    Vendors of hosts are any word: each distribution of Linux has its own.
    """
    if triple in _COMMON_TRIPLES:
        return ""
    from fatpack.targets.llvm_triple import is_architecture
    from fatpack.targets.triple import is_amdgpu
    from fatpack.targets.vocabulary import load_vocabulary

    words = load_vocabulary()
    first, *rest = triple.split("-")
    known = [name for line in words.triples for name in (line.triple, *line.also)]
    architectures = {name.partition("-")[0] for name in known} | set(words.hosts)
    is_known = first in architectures or is_architecture(first) or is_amdgpu(triple) or first.startswith("spirv")
    if is_known and (first in words.hosts or all(map(_is_word_of_triples, rest))):
        return ""
    from difflib import get_close_matches

    return next(iter(get_close_matches(triple[:_LONGEST], known, n=1, cutoff=_ALIKE)), "")


def _is_word_of_triples(word: str) -> bool:
    from fatpack.targets.llvm_triple import VENDORS, parse_environment, parse_object_format, parse_system

    is_place = word in ("", "unknown") or word in VENDORS
    return bool(is_place or parse_system(word) or parse_environment(word) or parse_object_format(word))


def _nearest_key(key: str) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(key, _KEYS, n=1, cutoff=_ALIKE)), "")


# Keys that ``--image=`` and ``ImageFile`` may state about an image, for containers that cannot store every key.
#
# Bundles and CIR containers name each image by a bundle ID and store nothing else. It is given as ``id``, or made of
# ``kind``, ``triple`` and ``arch``.


def id_from(
    option: ImageOption,
    container: str,
    kinds: Mapping[str, str],
    id_for: Callable[[Target], str],
    stored_id: Callable[[str], str] = str,
) -> str:
    """Return the bundle ID that an option gives to its images.

    ``container`` is what errors call the container. ``kinds`` are the words after ``kind=`` with their programming
    models, ``id_for`` makes the ID of a target, and ``stored_id`` is how the container spells an ID that is given.
    Raises UsageError if the option names no target, names it twice, or has keys that say something else.
    """
    given = option.facts
    spelling = given.pop("id", None)
    named = [key for key in ("triple", "arch", "kind") if key in given]
    if spelling is not None and named:
        raise _bad(option, f"id already states what {named[0]} does", f"leave out {named[0]}")
    if spelling is None:
        kind, triple, arch = (given.pop(key, "") for key in ("kind", "triple", "arch"))
        if kind not in kinds:
            problem = f"{container} needs to know the kind"
            if kind:
                problem = f"kind={kind} is no offload kind of {container}"
            raise _bad(option, problem, f"write kind={'|'.join(kinds)}, or id=BUNDLE-ID")
        if not triple:
            raise _bad(option, f"images in {container} need a triple", "write triple=T, or id=BUNDLE-ID")
        spelling = id_for(Target(triple, arch, kinds[kind]))
    elif spelling:
        spelling = stored_id(spelling)
    else:
        raise _bad(option, "the bundle ID is empty")
    refuse_keys(option, given, container, "an ID for each image and nothing else")
    return spelling


def image_with_id(spelling: str, target: Target, data: View, form: str = "") -> Image:
    """Return an image that a container names by a bundle ID, which means ``target``."""
    return Image(target, form, data, len(data), len(data), data.span(), attrs={"id": spelling})


def refuse_keys(option: ImageOption, left: Mapping[str, str], container: str, stores: str) -> None:
    """Raise UsageError if keys of an option are ``left`` that a container has no place for; ``stores``: what it has."""
    if left:
        hint = f"it stores {stores}; offload binaries store any key"
        raise _bad(option, f"{container} cannot store the key {next(iter(left))!r}", hint)


def _bad(option: ImageOption, problem: str, hint: str = "") -> UsageError:
    return UsageError(f"{option.text}: {problem}", hint=hint)


# The table of packed formats, each with its options and the module that packs it.


class PackedFormat(Record):
    """A format that is packed: its JSON name, its record of options, and the extension of what was not named.

    ``has_host`` says that it holds an image for the host too, and an ID for each image; ``is_labelled`` that it stores
    the triple and arch of each image, as they are given.
    """

    json_name: str
    options: type[Options]
    module: str
    extension: str
    has_host: bool = False
    is_labelled: bool = False

    @property
    def packer(self) -> Packer:
        """The module that packs it, imported on first use."""
        found: Packer = __import__(f"fatpack.commands.pack.{self.module}", fromlist=["pack"])
        return found


#: what --format and the library call a format → how it is packed
FORMATS = {
    "offload-binary": PackedFormat(
        "llvm-offload-binary", OffloadBinaryOptions, "offload_binary", "offload", is_labelled=True
    ),
    "bundle": PackedFormat("clang-offload-bundle", BundleOptions, "bundle", "bundle", has_host=True, is_labelled=True),
    "cir": PackedFormat("cir-offload-container", CirOptions, "cir", "cir", has_host=True),
    "fatbin": PackedFormat("cuda-fatbin", FatbinOptions, "fatbin", "fatbin"),
    "kpack": PackedFormat("rocm-kpack", KpackOptions, "kpack", "kpack"),
    "syclbin": PackedFormat("syclbin", SyclbinOptions, "syclbin", "syclbin"),
}


def format_named(format: str) -> PackedFormat:
    """Return a format by its name, a key of :data:`FORMATS`. Raises UsageError for any other."""
    if format not in FORMATS:
        raise UsageError(f"container format {format!r}", hint=f"choose from {', '.join(FORMATS)}")
    return FORMATS[format]


def name_for(options: Options) -> str:
    """Return the name of the format that options are for."""
    for name, format in FORMATS.items():
        if type(options) is format.options:
            return name
    known = ", ".join(format.options.__name__ for format in FORMATS.values())
    raise TypeError(f"options must be one of {known}, got {type(options).__name__}")


def add_image_target(format: str, option: ImageOption, data: View) -> tuple[ImageOption, str]:
    """Return an option with the triple and arch that its image states where it lacks them, and a sentence about it.

    The sentence is "" where nothing was added: if an ID is given, if the image states nothing certain, and in formats
    that take the target from the image or need none. A CIR module states its triple alone, and one with an ID has all.
    """
    if format == "cir":
        return _add_module_triple(option, data)
    if not format_named(format).is_labelled or option.get("id") is not None:
        return option, ""
    if option.get("triple") is not None and option.get("arch") is not None:
        return option, ""
    from fatpack.images import identify_image
    from fatpack.targets.triple import is_amdgpu, is_nvptx

    try:
        claims = identify_image(data)
    except FatpackError:  # its headers are damaged; what is packed is looked into later, and told
        return option, ""
    triple = option.get("triple") or claims.triple
    added = []
    if option.get("triple") is None and "-" in claims.triple:  # a family alone is no triple
        added.append(("triple", claims.triple))
    is_same_family = any(family(triple) and family(claims.triple) for family in (is_nvptx, is_amdgpu))
    if option.get("arch") is None and claims.arch and is_same_family:
        added.append(("arch", claims.arch))
    if not added:
        return option, ""
    words = ",".join(f"{key}={value}" for key, value in added)
    return option.replace(pairs=(*option.pairs, *added)), f"{option.text}: added {words}, which the image states"


def _add_module_triple(option: ImageOption, data: View) -> tuple[ImageOption, str]:
    """Return an option that says of which kind a CIR module is with the triple that the module states."""
    if option.get("kind") is None or option.get("triple") is not None:
        return option, ""
    from fatpack.formats.cir import only_triple

    try:
        triple = only_triple(data)
    except FatpackError:  # the module is damaged; combining it raises the error
        return option, ""
    if not triple:
        return option, ""
    pairs = (*option.pairs, ("triple", triple))
    return option.replace(pairs=pairs), f"{option.text}: added triple={triple}, which the image states"


def pack_as(stored: Sequence[Image], options: Options) -> PackedContainers:
    """Return the images as containers of the format that the options are for.

    Raises UsageError for options that exclude each other, and for images that the format cannot hold.
    """
    return format_named(name_for(options)).packer.pack(stored, options)


# Packed containers: their bytes, ready to be written, and findings about them.


class PackedContainers(Record):
    """A container, or several that follow each other, ready to be written, and findings about the images in them.

    ``pieces`` are the bytes in order; those of images are views of their files. ``is_text`` says that nothing can
    follow the container, since it reaches to the end of its file. ``mode`` are the mode bits of a copy of a host, and
    ``verify`` raises HostError unless what was written holds the images. ``notes`` are sentences about what was
    decided, and ``left_out`` is how many of the images that were given are not in it.
    """

    pieces: tuple[Piece, ...]
    findings: tuple[Finding, ...] = ()
    is_text: bool = False
    mode: int | None = None
    verify: Callable[[View], None] | None = None
    notes: tuple[str, ...] = ()
    left_out: int = 0


def write_packed(
    packed: PackedContainers,
    target: str,
    *,
    doing: str,
    force: bool,
    quiet: bool,
    inputs: Sequence[View],
    host: View | None = None,
) -> int:
    """Write containers, or the copy of ``host`` that they went into, to a file or to stdout ("-"); return the size.

    ``doing`` begins the line of progress. The files of ``inputs`` are never written over.
    """
    import os

    from fatpack.command_line.messages import CopyProgress, warn_stale_temp_files
    from fatpack.io.atomic_write import write_file
    from fatpack.io.write import write_pieces

    if target == "-":
        return write_pieces(1, packed.pieces)
    warn_stale_temp_files(os.path.dirname(target), quiet=quiet)
    meter = CopyProgress(sum(map(len, packed.pieces)), f"{doing} {target}", quiet=quiet)
    try:
        if host is not None:
            from fatpack.edit.editor import write_edited

            return write_edited(host, packed.pieces, target, force=force, inputs=inputs, progress=meter)
        verify, mode = packed.verify, packed.mode
        return write_file(target, packed.pieces, force=force, inputs=inputs, verify=verify, mode=mode, progress=meter)
    finally:
        meter.finish()


# Differences between the parts of one program: all should be for the same architectures, in the same forms.
#
# A program fails on a GPU that not all of its parts are for: kernels are missing, or the device link fails. With PTX in
# some parts only, it starts on later GPUs and fails in the middle.

DIFFERENCE_HINT = "build all parts of a program for the same architectures"


def arch_differences(parts: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    """Yield every part, by name, that has other labels than the first, and a sentence that says which."""
    first = next(iter(parts), "")
    for name, labels in parts.items():
        missing = sorted(set(parts[first]) - set(labels))
        more = sorted(set(labels) - set(parts[first]))
        differing = [f"lacks {', '.join(missing)}"] if missing else []
        differing += [f"has {', '.join(more)} besides"] if more else []
        if differing:
            yield name, f"{name!r} {' and '.join(differing)}, compared with {first!r}"
