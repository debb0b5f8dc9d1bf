"""Packing CUDA fat binaries: cubins, PTX and LTO-IR, and what is stated about them → one fat binary.

What an image is for is taken from the image. An architecture that is given all the same has to be the image's own:
``check=no`` stores what was given, as fatbinary does, which looks at the number of a cubin and at nothing else.
"""

from __future__ import annotations

from fatpack import formats, images
from fatpack.commands.pack.formats import DIFFERENCE_HINT, PackedContainers, arch_differences, refuse_keys
from fatpack.errors import UsageError, cli_or_api
from fatpack.findings import finding
from fatpack.formats.cuda_fatbin.entry import unknown_kind_message
from fatpack.formats.cuda_fatbin.layout import FATBIN_FORMAT, UNKNOWN_KINDS
from fatpack.formats.cuda_fatbin.layout import KINDS as KINDS_OF_ENTRIES
from fatpack.images.container_mismatch import mismatch_findings
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.images import ImageInfo
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.targets.nvidia import NvidiaArch
    from fatpack.writer_options import FatbinOptions


# Choosing the PTX of a fat binary (``--include-ptx``), and finding the GPUs that lose their only image by it.
#
# PTX for a variant, ``a`` or ``f``, runs on one GPU or one family, and on no later one. Where the newest or the oldest
# is asked for, the portable one is meant, which every later GPU compiles; a variant is included if it is named.

_ARCH_PREFIXES = ("sm_", "compute_", "lto_")

#: Any other value is a list of architectures.
_WORDS = ("all", "none", "newest", "oldest")

#: GPUs that a warning names
_SHOWN = 6


def select_ptx(stored: Sequence[Image], policy: str) -> list[Image]:
    """Return the images with the PTX that a policy includes, and everything that is no PTX.

    ``all``, ``none``, ``newest`` or ``oldest`` (the portable PTX for the highest or lowest architecture; for each
    source file, by identifier), or architectures, ``sm_80,sm_90a``. Raises UsageError for an architecture that no PTX
    is for, and if no image is left.
    """
    texts = [image for image in stored if image.form == "ptx"]
    if policy == "all":
        return list(stored)
    if policy in ("newest", "oldest"):
        sources: dict[str, list[Image]] = {}
        for image in filter(_is_portable, texts):
            sources.setdefault(image.attrs.get("identifier", ""), []).append(image)
        extreme = max if policy == "newest" else min
        kept = [extreme(of_one, key=_number) for of_one in sources.values()]
    elif policy == "none":
        kept = []
    else:
        kept = _named(texts, policy)
    # Equal images are all packed, as fatbinary does: the chosen ones are known as objects.
    chosen = set(map(id, kept))
    left = [image for image in stored if image.form != "ptx" or id(image) in chosen]
    if stored and not left:
        which = "portable: name its architectures" if policy in ("newest", "oldest") else "to be included"
        words = cli_or_api(f"--include-ptx={'|'.join(_WORDS)}", "FatbinOptions(include_ptx=…)")
        hint = f"there is PTX for: {_listed(texts)}; or write {words}"
        raise UsageError(f"all images are PTX, and none of it is {which}", hint=hint)
    return left


def _named(texts: Sequence[Image], policy: str) -> list[Image]:
    wanted = ["sm_" + _bare(arch) for arch in policy.split(",") if arch]
    missing = [arch for arch in wanted if arch not in {image.target.arch for image in texts}]
    if missing or not wanted:
        near = _nearest_policy(policy)
        if near:
            raise UsageError(f"no such word for PTX to include: {policy}", hint=f"did you mean {near}?")
        what = f"no PTX for {', '.join(missing)}" if missing else "no architecture to include PTX for"
        raise UsageError(what, hint=f"there is PTX for: {_listed(texts)}; or write {'|'.join(_WORDS)}")
    return [image for image in texts if image.target.arch in wanted]


def _nearest_policy(policy: str) -> str:
    """Return the word that one without a digit comes near to: all architectures have one."""
    from difflib import get_close_matches

    has_digit = any(character.isdigit() for character in policy)
    return "" if has_digit else next(iter(get_close_matches(policy, _WORDS, n=1)), "")


def _listed(texts: Sequence[Image]) -> str:
    return ", ".join(dict.fromkeys(image.target.arch for image in texts)) or "none"


def _bare(arch: str) -> str:
    return arch.partition("_")[2] if arch.startswith(_ARCH_PREFIXES) else arch


def _is_portable(image: Image) -> bool:
    return image.target.arch[-1:] not in ("a", "f")


def _number(image: Image) -> int:
    digits = _bare(image.target.arch)
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def unsupported_gpu_findings(kept: Sequence[Image], left_out: Sequence[Image]) -> Iterator[Finding]:
    """Yield a finding if PTX that was left out runs on GPUs for which no image of its source file is left."""
    if not left_out:
        return
    from fatpack.targets.devices import nvidia_capabilities

    left: dict[str, NvidiaArch] = {}
    for identifier in dict.fromkeys(image.attrs.get("identifier", "") for image in left_out):
        before, after = (
            [image for image in images if image.attrs.get("identifier", "") == identifier]
            for images in (left_out, kept)
        )
        for device in nvidia_capabilities():
            if _is_served(before, device) and not _is_served(after, device):
                left[device.capability] = device
    if left:
        names = sorted(left, key=lambda name: left[name].number)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        text = (
            f"without PTX for {_listed(left_out)}, no image is for compute capability {', '.join(names[:_SHOWN])}{more}"
        )
        more = cli_or_api("--include-ptx=ARCH,…", 'FatbinOptions(include_ptx="ARCH,…")')
        yield finding("FP1421", Span(0, 0), text, f"include more of it with {more}")


def _is_served(images: Sequence[Image], device: NvidiaArch) -> bool:
    from fatpack.targets.nvidia import can_load, parse_nvidia

    archs = ((parse_nvidia(image.target.arch), image.form) for image in images)
    return any(arch is not None and can_load(arch, device, form).answer for arch, form in archs)


#: ``kind=`` → form; other kinds that an entry can have say nothing about their bytes
KINDS = {"elf": "cubin", "cubin": "cubin", "ptx": "ptx", "nvvm": "ltoir", "ltoir": "ltoir", "tileir": "tileir"}

#: key of ``--image=`` → attribute of the image
_ATTRS = {"ident": "identifier", "cmdline": "options", "debug": "debug", "host": "host"}

_PREFIXES = ("sm_", "compute_", "lto_")

_DEFAULT_TRIPLE = "nvptx64-nvidia-cuda"


def image_from(option: ImageOption, name: str, data: View) -> Image:
    """Return the image that one file of ``--image=file=F[,arch=A][,kind=K][,ident=I][,cmdline=C]…`` makes.

    ``kind`` is a key of :data:`KINDS`, or a kind of entry whose image is not looked at. Raises UsageError for bytes
    that are no image for NVIDIA GPUs, and for one that contradicts what is stated about it, unless ``check=no``.
    """
    given = option.facts
    kind, arch, triple = (given.pop(key, "") for key in ("kind", "arch", "triple"))
    is_checked = _yes(option, "check", given.pop("check", "yes"))
    attrs = {_ATTRS[key]: given.pop(key) for key in tuple(given) if key in _ATTRS and given[key]}
    left = {key: value for key, value in given.items() if key not in _ATTRS}
    refuse_keys(option, left, "a fat binary", ", ".join(_ATTRS))
    if not len(data):
        raise UsageError(f"{name}: the file is empty, and an entry of a fat binary has an image")
    recognised = images.identify_image(data)
    if kind and kind not in (*KINDS, *KINDS_OF_ENTRIES.values()) and not kind.startswith("0x"):
        hint = "leave out kind, or write kind=elf, ptx, nvvm or tileir"
        raise UsageError(f"{name}: kind={kind} is no kind of image in a fat binary", hint=hint)
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
        raise UsageError(f"{name}: the image does not state its architecture", hint="add arch=sm_NN")
    return Image(target, form, data, len(data), len(data), data.span(), attrs=attrs)


def _yes(option: ImageOption, key: str, value: str) -> bool:
    if value not in ("yes", "no"):
        raise UsageError(f"{option.text}: {key}={value}", hint=f"write {key}=yes or {key}=no")
    return value == "yes"


def _architecture(option: ImageOption, form: str, arch: str) -> str:
    """Return an architecture that was given as an entry names it: ``sm_90a`` of ``compute_90a``, ``90a``."""
    if not arch:
        return ""
    prefix = next((prefix for prefix in _PREFIXES if arch.startswith(prefix)), "")
    if prefix and prefix != "sm_" and form == "cubin":
        raise UsageError(f"{option.text}: {arch} is no architecture of a cubin", hint="write arch=sm_NN")
    return "sm_" + arch.removeprefix(prefix)


def _check_form(name: str, form: str, recognised: ImageInfo) -> None:
    if recognised.form != form:
        what = recognised.detail or recognised.form or "unknown"
        raise UsageError(
            f"{name}: stored as {form}, but the bytes are {what}", hint="check=no stores them all the same"
        )


def _with_own(name: str, target: Target, recognised: ImageInfo, *, is_checked: bool) -> Target:
    """Return the target with the image's own architecture, or the given one if it does not contradict that."""
    if is_checked and recognised.triple and target.triple.partition("-")[0] != recognised.triple.partition("-")[0]:
        raise UsageError(
            f"{name}: triple={target.triple}, and the image is for {recognised.triple}", hint="leave out triple"
        )
    own = "sm_" + recognised.arch.partition("_")[2] if recognised.arch else ""
    if not target.arch:
        return target.replace(arch=own)
    # A cubin does not state that it is for a family: sm_100f claims sm_100.
    same = {own, f"{own}f"} if recognised.form == "cubin" and own[-1:].isdigit() else {own}
    if is_checked and own and target.arch not in same:
        raise UsageError(
            f"{name}: arch={target.arch}, and the image is for {own}",
            hint="leave out arch; check=no stores what is given",
        )
    return target


def pack(stored: Sequence[Image], options: FatbinOptions) -> PackedContainers:
    """Return one fat binary of the images, in their order, as fatbinary writes it.

    Entries of other fat binaries are copied as they are stored if the options do not state how to store images; if they
    do, they are stored as new ones, unless they are obfuscated. Raises UsageError for what the format cannot say.
    """
    chosen = select_ptx(stored, options.include_ptx or "all")
    container = Container(FATBIN_FORMAT, 1, tuple(chosen), Span(0, 0))
    pieces = tuple(formats.get_format(FATBIN_FORMAT).write(container, options))
    kept = set(map(id, chosen))  # as objects, as in select_ptx
    left_out = [image for image in stored if id(image) not in kept]
    archs = ", ".join(dict.fromkeys(image.target.arch for image in left_out))
    notes = (f"left out: PTX for {archs}",) if left_out else ()
    findings = (*_contradictions(chosen), *uneven_architectures(chosen), *unsupported_gpu_findings(chosen, left_out))
    return PackedContainers(pieces, findings, notes=notes, left_out=len(left_out))


def _contradictions(stored: Sequence[Image]) -> Iterator[Finding]:
    for image in stored:
        # An image that was read from a container was checked then.
        if image.record is None:
            view = image.data
            if _kind(image) in UNKNOWN_KINDS:
                yield finding(
                    "FP1407",
                    view.span(),
                    unknown_kind_message(_kind(image)),
                    "kind=elf stores a cubin, kind=ptx a text",
                )
            yield from mismatch_findings(image, images.identify_image(view))
            view.source.release_buffers()


def _kind(image: Image) -> int:
    """Return the number of a kind that was given by word or number; 0 for one that the form tells."""
    word = image.attrs.get("kind", "")
    numbers = {name: number for number, name in KINDS_OF_ENTRIES.items()}
    return numbers.get(word, int(word, 16) if word.startswith("0x") else 0)


def uneven_architectures(stored: Sequence[Image]) -> Iterator[Finding]:
    """Yield a finding for every source file (identifier) that has other architectures than the first.

    A program whose parts are built for different GPUs fails on a GPU that some part lacks: kernels are missing,
    or the link of relocatable code does.
    """
    parts: dict[str, list[str]] = {}
    for image in stored:
        identifier = image.attrs.get("identifier")
        if identifier:
            parts.setdefault(identifier, []).append(f"{image.target.arch} ({image.form or image.attrs.get('kind')})")
    for _, text in arch_differences(parts):
        yield finding("FP1420", Span(0, 0), text, DIFFERENCE_HINT)
