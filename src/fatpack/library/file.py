"""Looking at a file and taking images out of it: ``open``, ``scan``, ``extract``."""

from __future__ import annotations

import os

from fatpack.errors import FatpackError, UsageError
from fatpack.inputs.files import Filter, SkipCounts, walk_open_file
from fatpack.library.arguments import (
    as_path,
    as_patterns,
    check_selector,
    expand_inputs,
    make_budget,
    open_input,
    refuse_tree,
    tree_name,
)
from fatpack.model import Finding
from fatpack.printable import format_size
from fatpack.result import to_html_table
from fatpack.scanner import FoundContainer, detect_host
from fatpack.scanner import scan as scan_view
from fatpack.scanner.context import detect_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from fatpack.edit.write_containers import UnreadableImage
    from fatpack.inputs.files import InputFile
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.open import Input
    from fatpack.io.source import Source, View
    from fatpack.limits import Budget
    from fatpack.scanner import FoundImage, NotSearched
    from fatpack.selectors.select import Selector


__all__ = ["File", "Images", "extract", "open", "scan"]


class File:
    """An opened file with the device code in it. A context manager; images can be read while it is open.

    ``path`` is what the file is called in messages, ``size`` its bytes, ``host`` what carries the containers
    (``raw``: the file is a container itself, or nothing we know).
    """

    def __init__(self, source: Source | NestedFile, *, deep: bool = False, view: View | None = None) -> None:
        self._source = source
        self._view = source.view() if view is None else view
        self._deep = deep
        self._items: tuple[FoundContainer | Finding, ...] | None = None
        self._not_searched: tuple[NotSearched, ...] = ()
        self.path = source.name
        self.size = len(self._view)
        self.host = detect_host(self._view)

    @property
    def items(self) -> tuple[FoundContainer | Finding, ...]:
        """The containers and the findings together, in the order they were met; scanned when first asked for."""
        return self._scanned() if self._items is None else self._items

    @property
    def not_searched(self) -> tuple[NotSearched, ...]:
        """The sections in which no container was looked for, by name, most bytes first; none with ``deep``.

        None either of a file up to 256 MiB that no host reads: such a file is searched to its last byte.
        """
        if self._items is None:
            self._scanned()
        return self._not_searched

    def _scanned(self) -> tuple[FoundContainer | Finding, ...]:
        found = scan_view(self._view, deep=self._deep)
        items = tuple(found)
        # The items last: another thread that sees them may ask for what was not searched.
        self._not_searched, self._items = found.not_searched, items
        return items

    @property
    def view(self) -> View:
        """The file's bytes, for the functions of the format and host rooms."""
        return self._view

    @property
    def containers(self) -> tuple[FoundContainer, ...]:
        """The containers in file order, scanned when first asked for; those inside images belong to the images."""
        return tuple(item for item in self.items if isinstance(item, FoundContainer))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong or unexpected, in file order. Damaged input gives findings, not exceptions."""
        return tuple(item for item in self.items if isinstance(item, Finding))

    def verify(self) -> tuple[Finding, ...]:
        """Check the content of large compressed bundles against their hashes; return what is wrong.

        Listing inflates no more than their tables. This inflates everything, in threads.
        """
        from fatpack.edit.verify import verify_content

        return tuple(verify_content(self.items))

    def images(
        self,
        selector: Selector | None = None,
        *,
        arch: str | tuple[str, ...] = (),
        triple: str | tuple[str, ...] = (),
        offload: str | tuple[str, ...] = (),
        form: str | tuple[str, ...] = (),
    ) -> Images:
        """Return the images of all containers, or the selected ones; nested images follow the image around them.

        The keywords are patterns as in :class:`Selector`, for those who need no other condition.
        """
        from fatpack.selectors.select import Selector

        given = Selector(arch=arch, triple=triple, offload=offload, form=form)
        if selector is not None and not given.is_empty():
            raise UsageError("a selector and conditions of their own", hint="state all of them in the Selector")
        return Images(self, given if selector is None else check_selector(selector))

    def __repr__(self) -> str:
        return f"<fatpack.File {self.path!r} of {self.size} bytes: {self.host}, {self._summary()}>"

    def _repr_html_(self) -> str:
        """Return a table of what is in the file, as notebooks show it; the file is scanned for it, as for `images`."""

        return file_html(self.path, self.size, self.host, self.items)

    def _summary(self) -> str:
        """Return what is in the file, as far as it was scanned; nothing is inflated for it."""
        if self._items is None:
            return "not scanned yet"
        images = sum(len(found.images) for found in self.containers)
        counts = ((len(self.containers), "container"), (images, "image"), (len(self.findings), "finding"))
        return ", ".join(f"{count or 'no'} {word}{'s' if count != 1 else ''}" for count, word in counts)

    def close(self) -> None:
        """Close the file: nothing more is read from it. What was read or inflated before may still be in memory."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Images:
    """Images of an opened file, found when they are first asked for; the file must be open then.

    Goes through them as often as one likes, ``len()`` counts them and ``[0]`` is the first. :func:`convert` takes it in
    place of a file, to convert these images alone.
    """

    def __init__(self, file: File, selector: Selector) -> None:
        self.file = file
        self.selector = selector
        self._images: tuple[FoundImage, ...] | None = None

    def _all(self) -> tuple[FoundImage, ...]:
        if self._images is None:
            from fatpack.selectors.select import select_images

            self._images = tuple(image for _, _, image in select_images(self.file.items, self.selector))
        return self._images

    def __iter__(self) -> Iterator[FoundImage]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, index: int) -> FoundImage:
        if not hasattr(index, "__index__"):
            raise TypeError(
                f"index must be a whole number, got {type(index).__name__}; tuple() of the images has slices"
            )
        return self._all()[index]

    def __repr__(self) -> str:
        return f"<fatpack images of {self.file.path!r}: {self.selector.describe() or 'all'}>"


def scan(data: Input, *, deep: bool = False, max_inflated: int | None = None) -> Iterator[FoundContainer | Finding]:
    """Open a path, bytes or a binary file; return an iterator over its containers and findings as they are met.

    The file stays open while you iterate, and image data can be read as long. Of a folder, a pattern or a package that
    is what all files in it hold, as :func:`fatpack.files` gives them: ``found.view.chain[0]`` is the path of the file,
    which stays open until something of the next one comes; what is wrong with a package is a finding too.
    ``max_inflated`` is as for :func:`open`. Of several files, those that cannot be read raise when all others are done.
    """
    budget, rules, counts = make_budget(max_inflated), Filter(deep=deep), SkipCounts()
    if tree_name(data):
        unmatched: list[str] = []
        return _scanned_leaves(expand_inputs([data], rules, counts, unmatched, budget), unmatched, deep=deep)
    source = open_input("data", data, budget=budget)
    return _scanned(source, rules, counts)


def _scanned(source: Source, rules: Filter, counts: SkipCounts) -> Iterator[FoundContainer | Finding]:
    with source:
        batches = walk_open_file(source.view(), source.name, rules, counts)
        found = (leaf for batch in batches for node in batch for leaf in node.leaves(rules, counts))
        yield from _scanned_leaves(found, (), deep=rules.deep)


def _scanned_leaves(
    found: Iterable[InputFile], unmatched: Sequence[str], *, deep: bool
) -> Iterator[FoundContainer | Finding]:
    failure: FatpackError | OSError | None = None
    for leaf in found:
        yield from leaf.findings
        if leaf.view is not None:
            yield from scan_view(leaf.view, deep=deep)
        failure = failure or leaf.error
    if failure is not None:
        raise failure
    if unmatched:
        raise UsageError(f"no file matches {unmatched[0]}")


def open(data: Input, *, deep: bool = False, member: str = "", max_inflated: int | None = None) -> File:
    """Open a path, bytes or a binary file, or a member of an archive, to look at the device code in it.

    ``data`` may also be a URL (``https://``, ``s3://``) or an object with ``read_at`` and ``size`` (docs/library.md).
    Nothing but headers is read, unless ``deep`` asks for containers outside the places known for them. ``member`` is
    ``a.o``, ``a.o:2`` (the second of that name), ``#3`` (the member of that number, from 0) or ``inner.a(a.o)``; of
    a package it is the name of a file in it: ``torch/lib/libx.so``, ``data.tar.xz!usr/lib/libx.a(a.o)``.
    ``max_inflated`` is the most bytes that are inflated of it in all, by default 64 GiB; what is inflated again counts
    once. Raises ``OSError`` for a file that cannot be read, UsageError for a member that is not there; damage is
    reported in :attr:`File.findings`.
    """
    source = open_input("data", data, budget=make_budget(max_inflated))
    if not member:
        return File(source, deep=deep)
    from fatpack.selectors.address import Address, find_location

    try:
        if detect_package(source.view()):
            from fatpack.inputs.nested import open_nested

            file = open_nested(source, member)
            return File(file, deep=deep, view=find_location(file.view(), Address(file.name, file.rest[1:-1])).view)
        return File(source, deep=deep, view=find_location(source.view(), Address(source.name, member)).view)
    except BaseException:
        source.close()
        raise


def extract(
    data: Input,
    directory: str | os.PathLike[str],
    selector: Selector | None = None,
    *,
    force: bool = False,
    unreadable: list[Finding] | None = None,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> list[str]:
    """Write the selected images (all by default) into a directory and return the paths, in file order.

    There are none if the file has no such images: what it has is in :attr:`File.containers`, what could not be read in
    :attr:`File.findings`. Names are made from the input's name, triple and arch, with a number that counts all images
    of the file. Existing files are refused unless ``force``, before anything is written, and so is a selector with a
    bundle ID that no image serves. With ``unreadable``, a list, images that cannot be taken out are added there as
    findings, and all others are written. ``max_inflated`` and ``max_output`` are the most bytes that are inflated and
    written, by default 64 GiB, and 1 GiB or 100 times the input; with ``force`` any number is written, and else what is
    more is refused before anything is. Raises UsageError, FormatError, HostError, Unsupported, ``OSError``.
    """
    from fatpack.edit.extract import plan_images, write_plan
    from fatpack.selectors.address import refuse_package
    from fatpack.selectors.bundle_id_match import missing_ids
    from fatpack.selectors.no_match import missing_ids_reason
    from fatpack.selectors.select import id_choices, ids_in_file

    selector = check_selector(selector)
    folder = as_path("directory", directory)
    refuse_tree(data)
    with File(open_input("data", data, budget=make_budget(max_inflated, max_output, force=force))) as file:
        refuse_package(file.view, "extract from each of fatpack.files, or name a file in it with fatpack.open")
        items = file.items
        lacking = missing_ids(id_choices(items, selector), selector.ids) if selector.ids else []
        if lacking:
            hint = f"present are {', '.join(ids_in_file(items)) or 'none'}"
            why = missing_ids_reason(items, selector, lacking)
            raise UsageError(f"no image for the bundle ID {' nor '.join(lacking)}{why}", hint=hint)
        left_out: list[UnreadableImage] | None = None if unreadable is None else []
        plan = plan_images(items, selector, file.path or "image", left_out)
        paths = write_plan(plan, folder, force=force, inputs=[file.view], unreadable=left_out)
        if unreadable is not None and left_out is not None:
            unreadable += [item.finding for item in left_out]
        return paths


# What notebooks show of an opened file: its images and findings as a small table, escaped.


def file_html(path: str, size: int, host: str, items: Sequence[FoundContainer | Finding]) -> str:
    """Return a file as HTML: nothing is inflated for it, so that images are listed as their containers state them."""
    found = [item for item in items if not isinstance(item, Finding)]
    rows = [
        {
            "image": f"{number}.{index}",
            "container": item.format,
            "place": item.section or item.member or "",
            "offload": image.target.offload,
            "arch": image.target.arch or image.target.triple,
            "form": image.form,
            "size": format_size(image.size),
        }
        for number, item in enumerate(found)
        for index, image in enumerate(item.container.images)
    ]
    findings = [
        {"finding": f"{item.severity} {item.code}", "message": item.text} for item in items if isinstance(item, Finding)
    ]
    data = {"size": format_size(size), "kind": host, "containers": len(found), "images": rows, "findings": findings}
    return to_html_table(path or "a file", data)


# Many files: those in folders, patterns and packages, open one at a time (``files``).

__all__ = ["Files", "files"]


class Files:
    """The files that some inputs mean: an iterator over open :class:`fatpack.File`, each closed when the next comes.

    Afterwards it knows what it did not give: ``unread`` are the errors of files that cannot be read, ``findings`` what
    is wrong with packages. ``passed`` counts files that say by their names that no device code is in them, ``excluded``
    files and folders that were left out, ``links`` and ``special`` links, pipes, sockets and devices in folders;
    ``unmatched`` are patterns that no file has.
    """

    def __init__(self, inputs: Iterable[Input], rules: Filter, budget: Budget) -> None:
        self._rules, self._counts, self._budget = rules, SkipCounts(), budget
        self.unread: list[FatpackError | OSError] = []
        self.findings: list[Finding] = []
        self.unmatched: list[str] = []
        self._leaves = self._all(inputs)

    def __iter__(self) -> Iterator[File]:
        return self

    def __next__(self) -> File:
        return next(self._leaves)

    @property
    def passed(self) -> int:
        """Files that were not looked into because of their names."""
        return self._counts.passed

    @property
    def excluded(self) -> int:
        """Files and folders that were left out."""
        return self._counts.excluded

    @property
    def links(self) -> int:
        """Links in folders, which are not followed."""
        return self._counts.links

    @property
    def special(self) -> int:
        """Pipes, sockets and devices in folders, which are not read."""
        return self._counts.special

    def __repr__(self) -> str:
        return f"<fatpack.Files, {len(self.unread)} unread, {self.passed} passed by name>"

    def _all(self, inputs: Iterable[Input]) -> Iterator[File]:
        for leaf in expand_inputs(inputs, self._rules, self._counts, self.unmatched, self._budget):
            self.findings += leaf.findings
            if leaf.error is not None:
                self.unread.append(leaf.error)
            elif leaf.view is not None:
                yield File(leaf.view.source, deep=self._rules.deep, view=leaf.view)


def files(*inputs: Input, exclude: Iterable[str] = (), deep: bool = False, max_inflated: int | None = None) -> Files:
    """Return an iterator over the files in folders, patterns (``"lib/**/*.so"``) and packages, open one at a time.

    An input is what :func:`fatpack.open` takes, or a folder or a pattern. Of a package (a wheel, a tar archive, …) the
    files in it come, also those in packages inside it, as if they were unpacked: ``path`` is ``x.whl!torch/libx.so``.
    Any other input comes as it is. What is in folders and packages is searched as if it was named alone, and passed
    over if its name says that it is source code, text or a picture, unless ``deep`` asks for more. ``exclude`` are
    patterns of names, or with ``/`` of paths. Nothing is raised for a file in a folder or a package: see
    :class:`Files`. ``max_inflated`` is as for :func:`fatpack.open`, for all of them together.

    Raises ``OSError`` and UsageError for an input that cannot be opened, when it is its turn.
    """
    return Files(inputs, Filter(as_patterns(exclude), deep), make_budget(max_inflated))
