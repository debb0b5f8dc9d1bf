"""All images of a link line → the groups, by the rules of a version of LLVM.

LLVM 22 and 23 take images of archives for their targets, LLVM 19 and those before it by their symbols.
"""

from __future__ import annotations

from fatpack.commands.link_inputs.groups import GroupBuilder
from fatpack.targets.link_groups import feature_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fatpack.commands.link_inputs.groups import ImageGroup
    from fatpack.commands.link_inputs.input_files import LinkImage


def group_images(
    devices: Sequence[LinkImage], llvm: str, asked: Collection[str] = ()
) -> tuple[list[ImageGroup], list[LinkImage]]:
    """Return the groups in the order in which clang-linker-wrapper links them, and the images that are in none.

    ``asked`` are architectures of which images in archives are taken even if nothing else is for them.
    """
    ordered = [each for each in devices if not each.is_lazy]
    if llvm == "23":
        ordered.sort(key=lambda each: -feature_count(each.image.target))
    groups = GroupBuilder(llvm)
    for each in ordered:
        groups.add(each)
    lazy = [each for each in devices if each.is_lazy]
    if llvm == "19":
        from fatpack.commands.link_inputs.needed import join_needed

        left = join_needed(lazy, groups)
    else:
        left = [each for each in lazy if not groups.join(each, asked)]
    return groups.made(), left
