"""Images of files as files of their own: ``extract``."""

from __future__ import annotations

import os
from pathlib import Path

from fatpack.edit.extract import plan_images, write_plan
from fatpack.errors import FatpackError, UsageError
from fatpack.inputs.files import Filter, SkipCounts, walk_input
from fatpack.library.arguments import (
    as_path,
    as_patterns,
    check_bools,
    check_selector,
    make_budget,
    open_input,
    tree_name,
    warn_about_spelling,
)
from fatpack.record import Record
from fatpack.scanner.context import detect_package
from fatpack.scanner.standalone_images import scan_with_standalone_images
from fatpack.selectors.bundle_id_match import missing_ids
from fatpack.selectors.no_match import NothingSelected, missing_ids_reason
from fatpack.selectors.select import Selector, id_choices, ids_in_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    from fatpack.edit.extract import OutputFile
    from fatpack.edit.write_containers import UnreadableImage
    from fatpack.inputs.files import InputFile
    from fatpack.io.open import Input
    from fatpack.io.source import View
    from fatpack.limits import Budget
    from fatpack.model import Finding

__all__ = ["ExtractResult", "extract"]


class ExtractResult(tuple[Path, ...]):
    """The paths of the images that :func:`extract` wrote: a tuple of ``Path``, in file order.

    ``unreadable`` are findings, one for each selected image that could not be taken out (with ``accept_damage``, and
    of folders and packages); ``unread`` are the errors of files in folders and packages that could not be read.
    """

    unreadable: tuple[Finding, ...]
    unread: tuple[FatpackError | OSError, ...]

    def __new__(
        cls,
        paths: Iterable[str | os.PathLike[str]] = (),
        unreadable: Iterable[Finding] = (),
        unread: Iterable[FatpackError | OSError] = (),
    ) -> Self:
        """Return the result for paths that were written."""
        result = super().__new__(cls, map(Path, paths))
        result.unreadable, result.unread = tuple(unreadable), tuple(unread)
        return result


def extract(
    file: Input,
    directory: str | os.PathLike[str],
    selector: Selector | None = None,
    *,
    arch: str | tuple[str, ...] = (),
    triple: str | tuple[str, ...] = (),
    offload: str | tuple[str, ...] = (),
    form: str | tuple[str, ...] = (),
    exclude: Iterable[str] = (),
    deep: bool = False,
    overwrite: bool = False,
    accept_damage: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> ExtractResult:
    """Write the selected images (all by default) into a directory and return their paths, in file order.

    ``arch``, ``triple``, ``offload`` and ``form`` are patterns as in :class:`Selector`, which has more conditions. The
    result is empty if no image matches: :attr:`File.containers` has what is there, :attr:`File.findings` what could not
    be read. A name is made of the input's name, the triple and the architecture (``compute_90`` for PTX), with a number
    that counts all images of the file.

    Of a folder, a pattern or a package the images of every file in it are written, each into its own folders, as
    ``fatpack extract`` does; ``exclude`` are patterns of files that are left out, and ``deep`` is as for :func:`open`.

    Nothing is written if a file exists already, unless ``overwrite``, or if a bundle ID has no image. A damaged image
    raises FormatError; with ``accept_damage``, and in folders and packages, all others are written, and ``unreadable``
    of the result says why these are not. ``max_inflated`` and ``max_output`` are the most bytes that are inflated and
    written, by default 64 GiB, and 1 GiB or 100 times the input. Raises UsageError, FormatError, HostError,
    Unsupported, ``OSError``.
    """
    check_bools(deep=deep, overwrite=overwrite, accept_damage=accept_damage)
    own = Selector(arch=arch, triple=triple, offload=offload, form=form)
    if selector is not None and not own.is_empty():
        raise UsageError("a selector and conditions of their own", hint="state all of them in the Selector")
    chosen = own if selector is None else check_selector(selector)
    folder = as_path("directory", directory)
    rules, budget = Filter(as_patterns(exclude), deep), make_budget(max_inflated, max_output)
    written = _Output(folder, overwrite, accept_damage, max_output is not None)
    if tree_name(file):
        return _extract_tree(tree_name(file), None, chosen, rules, written, budget)
    with open_input("file", file, budget=budget) as source:
        if detect_package(source.view()):
            return _extract_tree(source.name, source.view(), chosen, rules, written, budget)
        return _extract_file(source.view(), deep, chosen, written)


class _Output(Record):
    """The directory, and what may be written there; ``any_size`` is true if the call states its own output limit."""

    directory: str
    overwrite: bool
    accept_damage: bool
    any_size: bool


def _extract_file(view: View, deep: bool, selector: Selector, output: _Output) -> ExtractResult:
    items = scan_with_standalone_images(view, deep=deep)
    lacking = missing_ids(id_choices(items, selector), selector.ids) if selector.ids else []
    if lacking:
        hint = f"present are {', '.join(ids_in_file(items)) or 'none'}"
        why = missing_ids_reason(items, selector, lacking)
        raise NothingSelected(f"no image for the bundle ID {' nor '.join(lacking)}{why}", hint=hint)
    unreadable: list[UnreadableImage] | None = [] if output.accept_damage else None
    plan = plan_images(items, selector, view.source.name or "image", unreadable)
    if not plan:
        warn_about_spelling(selector)
    paths = write_plan(
        plan,
        output.directory,
        force=output.overwrite,
        any_size=output.any_size,
        inputs=[view],
        unreadable=unreadable,
    )
    return ExtractResult(paths, [item.finding for item in unreadable or ()])


def _extract_tree(
    name: str, package: View | None, selector: Selector, rules: Filter, output: _Output, budget: Budget
) -> ExtractResult:
    """Extract from every file of an open package, or without one, of a folder or a pattern.

    The files are read twice: all names are made and checked before the first byte is written, and the plan for a file
    takes memory only while it is written.
    """
    from fatpack.commands.extract.trees import OutputFolders, check_places

    unmatched: list[str] = []

    def leaves() -> Iterator[InputFile]:
        counts = SkipCounts()
        for batch in walk_input(name, package, rules, counts, unmatched):
            for node in batch:
                yield from node.leaves(rules, counts)

    folders, places, total = OutputFolders(output.directory), list[tuple[str, list[str]]](), 0
    for leaf in leaves():
        plan = _tree_plan(leaf, selector, rules, [], [])
        if not plan or leaf.view is None:
            continue
        folder, paths = folders.take(leaf.parts, [item.name for item in plan])
        inputs = [leaf.view if package is None else package]
        check_places(output.directory, folder, paths, inputs, force=output.overwrite)
        places.append((folder, paths))
        total += sum(item.size for item in plan)
    if unmatched:
        raise UsageError(f"no file matches {unmatched[0]}", hint="correct the pattern, or leave it out")
    budget.check_output(total)
    if not places:
        warn_about_spelling(selector)
    written: list[str] = []
    unread: list[FatpackError | OSError] = []
    unreadable: list[UnreadableImage] = []
    left = iter(places)
    for leaf in leaves():
        plan = _tree_plan(leaf, selector, rules, unread, unreadable)
        if not plan or leaf.view is None:
            continue
        folder, paths = next(left, ("", []))
        if paths != [os.path.join(folder, item.name) for item in plan]:
            raise UsageError(f"{leaf.path} changed while it was read", hint="extract it again")
        inputs = [leaf.view if package is None else package]
        written += write_plan(
            plan, folder, force=output.overwrite, any_size=output.any_size, inputs=inputs, unreadable=unreadable
        )
    return ExtractResult(written, [item.finding for item in unreadable], unread)


def _tree_plan(
    leaf: InputFile,
    selector: Selector,
    rules: Filter,
    unread: list[FatpackError | OSError],
    unreadable: list[UnreadableImage],
) -> list[OutputFile]:
    """Return what to write of a file in a folder or a package; nothing of a file that cannot be read."""
    if leaf.error is not None:
        unread.append(leaf.error)
    if leaf.view is None:
        return []
    name = leaf.parts[-1] if leaf.parts else "image"
    try:
        return plan_images(scan_with_standalone_images(leaf.view, deep=rules.deep), selector, name, unreadable)
    except UsageError:
        raise
    except (FatpackError, OSError) as error:
        unread.append(error)
        return []
