"""What looks like a slip in what is packed, and is packed all the same.

Offload binaries store any key and any word. The other formats refuse what they cannot store.
"""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice

from fatpack.errors import FatpackError
from fatpack.formats.clang_bundle.bundle_id import parse_id
from fatpack.formats.clang_bundle.llvm_triple import (
    is_architecture,
    parse_environment,
    parse_object_format,
    parse_system,
)
from fatpack.formats.clang_bundle.llvm_words import VENDORS
from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS
from fatpack.selectors.bundle_id_match import feature_problem
from fatpack.selectors.no_match import EMPTY
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.triple import is_amdgpu, is_nvptx
from fatpack.targets.vocabulary import load_vocabulary, nearest_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.model import Image

#: Keys with a meaning of their own; a key that is nearly one of them is probably a slip.
_KEYS = ("file", "triple", "arch", "kind", "feature")

#: How much of two keys must agree: that of ``arhc`` and ``arch``.
_ALIKE = 0.75

#: LIMIT: the matcher takes time with the square of the length, and no known triple is longer than 30 characters.
_LONGEST = 64

_MAKERS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def pack_warnings(options: Sequence[ImageOption], stored: Sequence[Image]) -> list[str]:
    """Return a sentence for everything that looks like a slip: in options for offload binaries, and in the images."""
    rest = iter(stored)  # an option's images follow those of the option before it
    found = [slip for option in options for slip in _slips(option, list(islice(rest, len(option.files) or 1)))]
    empty = [image.data.chain for image in stored if not len(image.data) and image.target.offload != "host"]
    found += [f"{chain[0] if chain else 'an image'}: {EMPTY}, and is packed all the same" for chain in empty]
    if not options:
        found += [slip for image in stored if (slip := _bad_id(image.attrs.get("id", "")))]
    return [slip for slip in dict.fromkeys([*found, *(feature_problem(image.target) for image in stored)]) if slip]


def _bad_id(spelling: str) -> str:
    """Return that the ID of an image in a bundle or CIR container is none; "" if it names a kind and a triple."""
    if not spelling or parse_id(spelling).triple:
        return ""
    return f"id={spelling} is no bundle ID, and no tool will take that image; write KIND-TRIPLE--ARCH"


def _slips(option: ImageOption, images: Sequence[Image]) -> Iterator[str]:
    kind, arch, triple = option.get("kind"), option.get("arch") or "", option.get("triple") or ""
    if kind not in (None, "", "none", *OFFLOAD_WORDS):
        yield f"kind={kind} is no offload kind, stored as none; choose from {', '.join(OFFLOAD_WORDS)}"
    if not triple and option.get("id") is None:
        known = _target_words(images, option)
        yield f"{option.text} has no triple; tools will not know which device it is for{known}"
    if option.get("arch") is None and (is_nvptx(triple) or is_amdgpu(triple)):
        known = _target_words(images, option)
        yield f"{option.text} has no arch; tools will not know which device it is for{known}"
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
    if meant := _nearest_triple(triple):
        yield f"triple={triple} is unknown; did you mean {meant}?"
    for key, _ in option.pairs:
        if key == "id":
            yield "id= is stored as a key of its own, which no tool reads; did you mean triple=, arch= and kind=?"
        elif key not in _KEYS and (meant := _nearest_key(key)):
            yield f"{key}= is stored as a key of its own; did you mean {meant}=?"


def _nearest_triple(triple: str) -> str:
    """Return the triple that one with a word that nobody knows is nearly; "" for others, and for what is near none.

    Vendors of hosts are any word: each distribution of Linux has its own.
    """
    words = load_vocabulary()
    first, *rest = triple.split("-")
    known = [name for line in words.triples for name in (line.triple, *line.also)]
    architectures = {name.partition("-")[0] for name in known} | set(words.hosts)
    is_known = first in architectures or is_architecture(first) or is_amdgpu(triple) or first.startswith("spirv")
    if is_known and (first in words.hosts or all(map(_is_word_of_triples, rest))):
        return ""
    return next(iter(get_close_matches(triple[:_LONGEST], known, n=1, cutoff=_ALIKE)), "")


def _is_word_of_triples(word: str) -> bool:
    is_place = word in ("", "unknown") or word in VENDORS
    return bool(is_place or parse_system(word) or parse_environment(word) or parse_object_format(word))


def _target_words(images: Sequence[Image], option: ImageOption) -> str:
    """Return as advice the keys that an option lacks and its image answers; "" where it says nothing certain."""
    if len(images) != 1:
        return ""
    from fatpack.images import identify_image

    try:
        claims = identify_image(images[0].data)
    except FatpackError:  # its headers are damaged; what is packed is looked into later, and told
        return ""
    triple = claims.triple if "-" in claims.triple else ""  # a family alone is no triple
    kind = "cuda" if is_nvptx(triple) else ""  # HIP and OpenMP make the same images for AMD's devices
    missing = [(key, value) for key, value in (("triple", triple), ("arch", claims.arch), ("kind", kind))]
    words = ",".join(f"{key}={value}" for key, value in missing if value and option.get(key) is None)
    return f"; add {words}, which is what the image says" if words else ""


def _nearest_key(key: str) -> str:
    return next(iter(get_close_matches(key, _KEYS, n=1, cutoff=_ALIKE)), "")
