"""Which images one device link takes together: the rules of clang-linker-wrapper, by the version of LLVM.

An input for gfx90a can be linked into the program for ``gfx90a:xnack+``. Which inputs join which targets was changed
over time:

=======================  ==========================  ==========================  ======================================
inputs                   LLVM 19                     LLVM 22                     LLVM 23
=======================  ==========================  ==========================  ======================================
objects, whole archives  each makes its own target,  the same                    the targets with the most features
                         and joins all compatible                                come first; an input makes no target of
                         ones that are there before                              its own if one asks for all that it has
                         it
members of archives      join the compatible         join each compatible        the same as for LLVM 22
                         targets that need them, by  target
                         their symbols
=======================  ==========================  ==========================  ======================================

"Compatible" is what :func:`fatpack.targets.compatibility.is_compatible_llvm22` says: both ways, and ``generic`` fits
all. For objects LLVM 23 asks in one direction, of AMD targets and others alike: the processors are equal as text, and
the target has every feature of the input with the same sign.

How we know: ``getDeviceInput`` in clang/tools/clang-linker-wrapper/ClangLinkerWrapper.cpp and ``areTargetsCompatible``
in llvm/lib/Object/OffloadBinary.cpp, LLVM 22; pull request llvm#209563 and the tool itself, 23.1.4, on link lines made
for it: triples are compared as text, the order among targets with as many features is that of the inputs.
"""

from __future__ import annotations

from fatpack.targets.compatibility import is_compatible_llvm22
from fatpack.targets.triple import is_amdgpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.model import Target

#: The versions of LLVM whose rules are known, the newest last.
VERSIONS = ("19", "22", "23")


def feature_count(target: Target) -> int:
    """Return by how much LLVM 23 puts a target in front of others: how many features its arch string can have."""
    return target.arch.count(":")


def accepts_image(group: Target, image: Target) -> bool:
    """Return whether LLVM 23 links an object's image for one target into the program for another, or the same."""
    if (group.triple, group.arch) == (image.triple, image.arch):
        return True
    if group.triple != image.triple or not feature_count(group):
        return False
    # QUIRK(LLVM 23.1): a target that starts with a colon names no processor, and takes an image for any.
    if group.processor != image.processor and (group.processor or feature_count(image)):
        return False
    wanted = _signs(group)
    return all(wanted.get(feature[:-1]) == feature[-1] for feature in image.arch.split(":")[1:] if feature)


def _signs(target: Target) -> dict[str, str]:
    """Return the features of a target ID with their signs; of a feature that stands there twice, the first counts."""
    signs: dict[str, str] = {}
    for feature in target.arch.split(":")[1:]:
        if not feature:
            break  # QUIRK(LLVM 23.1): what stands behind two colons is not read
        signs.setdefault(feature[:-1], feature[-1])
    return signs


def joins_group(image: Target, group: Target, llvm: str) -> bool:
    """Return whether an image joins the link for a target that is another one than its own; see the module's table."""
    if llvm != "23" or not is_amdgpu(group.triple):
        return is_compatible_llvm22(image, group)
    # LLVM 23 knows the architecture's new name too, with and without the instruction set behind it.
    system = f"amdgcn-{group.triple.partition('-')[2]}"
    return image.triple == group.triple and is_compatible_llvm22(
        image.replace(triple=system), group.replace(triple=system)
    )
