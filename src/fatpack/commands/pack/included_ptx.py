"""Which PTX goes into a fat binary (``--include-ptx``), and which GPUs are left without an image because of it.

PTX for a variant, ``a`` or ``f``, runs on one GPU or one family, and on no later one. Where the newest or the oldest is
asked for, the portable one is meant, which every later GPU compiles; a variant is included if it is named.
"""

from __future__ import annotations

from fatpack.errors import UsageError, cli_or_api
from fatpack.findings import finding
from fatpack.io.source import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.model import Finding, Image
    from fatpack.targets.nvidia import NvidiaArch

_ARCH_PREFIXES = ("sm_", "compute_", "lto_")

#: What is not one of these is a list of architectures.
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
        near = _meant(policy)
        if near:
            raise UsageError(f"no such word for PTX to include: {policy}", hint=f"did you mean {near}?")
        what = f"no PTX for {', '.join(missing)}" if missing else "no architecture to include PTX for"
        raise UsageError(what, hint=f"there is PTX for: {_listed(texts)}; or write {'|'.join(_WORDS)}")
    return [image for image in texts if image.target.arch in wanted]


def _meant(policy: str) -> str:
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
    from fatpack.targets.coverage import nvidia_capabilities

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
