"""Packing CUDA fat binaries: cubins, PTX and LTO-IR, and what is said about them → one fat binary.

What an image is for is taken from the image. An architecture that is given all the same has to be the image's own:
``check=no`` stores what was given, as fatbinary does, which looks at the number of a cubin and at nothing else.
"""

from __future__ import annotations

from fatpack import formats, images
from fatpack.errors import UsageError
from fatpack.findings import finding
from fatpack.formats.cuda_fatbin.layout import FORMAT
from fatpack.images.agreement import disagreements
from fatpack.model import Container, Image, Span, Target
from fatpack.ops.pack.image_keys import refuse_keys
from fatpack.ops.pack.packed import Packed
from fatpack.ops.pack.uniform import HINT, differences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.images import Recognised
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.options import FatbinOptions

#: ``kind=`` → form; other kinds that an entry can have say nothing about their bytes
KINDS = {"elf": "cubin", "cubin": "cubin", "ptx": "ptx", "nvvm": "ltoir", "ltoir": "ltoir", "tileir": "tileir"}

#: key of ``--image=`` → attribute of the image
_ATTRS = {"ident": "identifier", "cmdline": "options", "debug": "debug", "host": "host"}

_PREFIXES = ("sm_", "compute_", "lto_")

#: ``--include-ptx``: what is not one of these is a list of architectures.
_PTX_WORDS = ("all", "none", "newest", "oldest")

_DEFAULT_TRIPLE = "nvptx64-nvidia-cuda"


def image_from(option: ImageOption, name: str, data: View) -> Image:
    """Return the image that one file of ``--image=file=F[,arch=A][,kind=K][,ident=I][,cmdline=C]…`` makes.

    ``kind`` is a key of :data:`KINDS`, or a kind of entry whose image is not looked at. Raises UsageError for bytes
    that are no image for NVIDIA GPUs, and for one that contradicts what is said about it, unless ``check=no``.
    """
    given = option.facts
    kind, arch, triple = (given.pop(key, "") for key in ("kind", "arch", "triple"))
    is_checked = _yes(option, "check", given.pop("check", "yes"))
    attrs = {_ATTRS[key]: given.pop(key) for key in tuple(given) if key in _ATTRS and given[key]}
    left = {key: value for key, value in given.items() if key not in _ATTRS}
    refuse_keys(option, left, "a fat binary", ", ".join(_ATTRS))
    recognised = images.recognise(data)
    form = KINDS.get(kind, recognised.form if not kind else "")
    if kind and not form:
        attrs["kind"] = kind
    elif form not in KINDS.values():
        what = recognised.detail or "no bytes that fatpack knows"
        raise UsageError(f"{name}: {what}, and no image of a fat binary", hint="add kind=elf|ptx|nvvm|tileir")
    if is_checked and form:
        _check_form(name, form, recognised)
    claimed = recognised.triple if recognised.triple.startswith("nvptx") else ""
    target = Target(triple or claimed or _DEFAULT_TRIPLE, _architecture(option, form, arch), "cuda")
    if form in ("cubin", "ptx"):
        target = _with_own(name, target, recognised, is_checked=is_checked)
    if form and not target.arch:
        raise UsageError(f"{name}: the image does not say its architecture", hint="add arch=sm_NN")
    return Image(target, form, data, len(data), len(data), data.span(), attrs=attrs)


def _yes(option: ImageOption, key: str, value: str) -> bool:
    if value not in ("yes", "no"):
        raise UsageError(f"--image={option.text}: {key}={value}", hint=f"write {key}=yes or {key}=no")
    return value == "yes"


def _architecture(option: ImageOption, form: str, arch: str) -> str:
    """Return an architecture that was given as an entry names it: ``sm_90a`` of ``compute_90a``, ``90a``."""
    if not arch:
        return ""
    prefix = next((prefix for prefix in _PREFIXES if arch.startswith(prefix)), "")
    if prefix and prefix != "sm_" and form == "cubin":
        raise UsageError(f"--image={option.text}: {arch} is no architecture of a cubin", hint="write arch=sm_NN")
    return "sm_" + arch.removeprefix(prefix)


def _check_form(name: str, form: str, recognised: Recognised) -> None:
    if recognised.form != form:
        what = recognised.detail or recognised.form or "unknown"
        raise UsageError(
            f"{name}: stored as {form}, but the bytes are {what}", hint="check=no stores them all the same"
        )


def _with_own(name: str, target: Target, recognised: Recognised, *, is_checked: bool) -> Target:
    """Return the target with the image's own architecture, or the given one if it does not contradict that."""
    if is_checked and recognised.triple and target.triple.partition("-")[0] != recognised.triple.partition("-")[0]:
        raise UsageError(
            f"{name}: triple={target.triple}, and the image is for {recognised.triple}", hint="leave out triple"
        )
    own = "sm_" + recognised.arch.partition("_")[2] if recognised.arch else ""
    if not target.arch:
        return target.replace(arch=own)
    # A cubin does not say that it is for a family: sm_100f claims sm_100.
    same = {own, f"{own}f"} if recognised.form == "cubin" and own[-1:].isdigit() else {own}
    if is_checked and own and target.arch not in same:
        raise UsageError(
            f"{name}: arch={target.arch}, and the image is for {own}",
            hint="leave out arch; check=no stores what is given",
        )
    return target


def pack(stored: Sequence[Image], options: FatbinOptions) -> Packed:
    """Return one fat binary of the images, in their order, as fatbinary writes it.

    Entries of other fat binaries are copied as they are stored if the options do not say how to store images; if they
    do, they are stored as new ones, unless they are obfuscated. Raises UsageError for what the format cannot say.
    """
    chosen = with_ptx(stored, options.include_ptx or "all")
    container = Container(FORMAT, 1, tuple(chosen), Span(0, 0))
    pieces = tuple(formats.room(FORMAT).write(container, options))
    kept = set(map(id, chosen))
    left_out = [image for image in stored if id(image) not in kept]
    archs = ", ".join(dict.fromkeys(image.target.arch for image in left_out))
    notes = (f"left out: PTX for {archs}",) if left_out else ()
    return Packed(pieces, (*_doubts(chosen), *uneven(chosen)), notes=notes, left_out=len(left_out))


def _doubts(stored: Sequence[Image]) -> Iterator[Finding]:
    for image in stored:
        # What was read from a container was looked at when it was read.
        if image.record is None:
            view = image.data
            yield from disagreements(image, images.recognise(view))
            view.source.rest()


def with_ptx(stored: Sequence[Image], policy: str) -> list[Image]:
    """Return the images with the PTX that a policy includes, and everything that is no PTX.

    ``all``, ``none``, ``newest`` or ``oldest`` (of those for the highest or lowest architecture: the one that is for
    all later GPUs, if there is one; for each source file, by identifier), or architectures, ``sm_80,sm_90a``. Raises
    UsageError for one that no PTX is for, and if no image is left.
    """
    texts = [image for image in stored if image.form == "ptx"]
    if policy == "all":
        return list(stored)
    if policy in ("newest", "oldest"):
        sources: dict[str, list[Image]] = {}
        for image in texts:
            sources.setdefault(image.attrs.get("identifier", ""), []).append(image)
        kept = [_extreme(of_one, newest=policy == "newest") for of_one in sources.values()]
    elif policy == "none":
        kept = []
    else:
        wanted = ["sm_" + _bare(arch) for arch in policy.split(",") if arch]
        missing = [arch for arch in wanted if arch not in {image.target.arch for image in texts}]
        if missing or not wanted:
            have = ", ".join(dict.fromkeys(image.target.arch for image in texts)) or "none"
            what = f"no PTX for {', '.join(missing)}" if missing else "no architecture to include PTX for"
            raise UsageError(what, hint=f"there is PTX for: {have}; or write {'|'.join(_PTX_WORDS)}")
        kept = [image for image in texts if image.target.arch in wanted]
    chosen = set(map(id, kept))
    left = [image for image in stored if image.form != "ptx" or id(image) in chosen]
    if stored and not left:
        raise UsageError("all images are PTX, and none of it is to be included", hint="use --include-ptx=newest")
    return left


def _extreme(texts: Sequence[Image], *, newest: bool) -> Image:
    """Return the text for the highest or the lowest architecture, and of one number that for most GPUs."""
    number = (max if newest else min)(map(_number, texts))
    return max((image for image in texts if _number(image) == number), key=_age)


def _bare(arch: str) -> str:
    return arch.partition("_")[2] if arch.startswith(_PREFIXES) else arch


def _number(image: Image) -> int:
    digits = _bare(image.target.arch).rstrip("af")
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def _age(image: Image) -> tuple[int, int]:
    """Return what orders PTX: the number, then how many GPUs it is for."""
    return _number(image), {"a": 0, "f": 1}.get(image.target.arch[-1:], 2)


def uneven(stored: Sequence[Image]) -> Iterator[Finding]:
    """Yield a finding for every source file (identifier) that has other architectures than the first.

    A program whose parts are built for different GPUs fails on those that not all parts are for: kernels are missing,
    or the link of relocatable code does.
    """
    parts: dict[str, list[str]] = {}
    for image in stored:
        identifier = image.attrs.get("identifier")
        if identifier:
            parts.setdefault(identifier, []).append(f"{image.target.arch} ({image.form or image.attrs.get('kind')})")
    for _, text in differences(parts):
        yield finding("FP1420", Span(0, 0), text, HINT)
