"""What ``--image=`` and ``ImageFile`` may state about an image, for containers that cannot store any key as it is.

Bundles and CIR containers name each image by a bundle ID and store nothing else. It is given as ``id``, or made of
``kind``, ``triple`` and ``arch``.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.model import Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import View


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
