"""What looks like a slip in what is packed, and is packed all the same.

Offload binaries store any key and any word. The other formats refuse what they cannot store.
"""

from __future__ import annotations

from itertools import islice

from fatpack.errors import FatpackError
from fatpack.formats.clang_bundle.ids.bundle_id import parse_id
from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS
from fatpack.ops.choose.by_id import feature_problem
from fatpack.ops.choose.presence import EMPTY
from fatpack.target import is_amdgpu, is_nvptx, nearest_names, parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.model import Image

#: Keys with a meaning of their own; a key that is nearly one of them is probably a slip.
_KEYS = ("file", "triple", "arch", "kind", "feature")

#: How much of two keys must agree: that of ``arhc`` and ``arch``.
_ALIKE = 0.75


def slips(options: Sequence[ImageOption], stored: Sequence[Image]) -> list[str]:
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
        near = nearest_names(arch) if arch not in ("", "generic", "amdgcnspirv") else ()
        if near:
            yield f"arch={arch} is unknown; did you mean {', '.join(near)}?"
    for key, _ in option.pairs:
        if key == "id":
            yield "id= is stored as a key of its own, which no tool reads; did you mean triple=, arch= and kind=?"
        elif key not in _KEYS and (meant := _nearest_key(key)):
            yield f"{key}= is stored as a key of its own; did you mean {meant}=?"


def _target_words(images: Sequence[Image], option: ImageOption) -> str:
    """Return as advice the keys that an option lacks and its image answers; "" where it says nothing certain."""
    if len(images) != 1:
        return ""
    from fatpack.images import recognise

    try:
        claims = recognise(images[0].data)
    except FatpackError:  # its headers are damaged; what is packed is looked into later, and told
        return ""
    triple = claims.triple if "-" in claims.triple else ""  # a family alone is no triple
    kind = "cuda" if is_nvptx(triple) else ""  # HIP and OpenMP make the same images for AMD's devices
    missing = [(key, value) for key, value in (("triple", triple), ("arch", claims.arch), ("kind", kind))]
    words = ",".join(f"{key}={value}" for key, value in missing if value and option.get(key) is None)
    return f"; add {words}, which is what the image says" if words else ""


def _nearest_key(key: str) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(key, _KEYS, n=1, cutoff=_ALIKE)), "")
