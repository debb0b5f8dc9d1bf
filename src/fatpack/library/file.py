"""Files and their images: ``open``, ``scan``, ``files``."""

from __future__ import annotations

from fatpack.errors import FatpackError, UsageError
from fatpack.inputs.files import Filter, SkipCounts, walk_open_file
from fatpack.library.arguments import (
    as_inputs,
    as_patterns,
    check_selector,
    expand_inputs,
    make_budget,
    open_input,
    refuse_tree,
    tree_name,
    warn_about_spelling,
)
from fatpack.model import Finding, arch_name
from fatpack.printable import format_size
from fatpack.result import to_html_table
from fatpack.scanner import FoundContainer, FoundImage, detect_host
from fatpack.scanner import scan as scan_view
from fatpack.scanner.context import detect_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Self, overload

    from fatpack.inputs.files import InputFile
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.open import Input
    from fatpack.io.source import Source, View
    from fatpack.limits import Budget
    from fatpack.scanner import NotSearched
    from fatpack.selectors.select import Selector
else:

    def overload(function):
        return function


__all__ = ["Container", "File", "Files", "Image", "Images", "files", "open", "scan"]

#: The public container and image: found in a file, with their place and the form of their bytes.
#: Formats read and write :class:`fatpack.model.Container` and :class:`fatpack.model.Image`, which have no place.
Container = FoundContainer
Image = FoundImage


class File:
    """An opened file with the device code in it. A context manager; images can be read while it is open.

    Iteration goes through its images: ``for image in file``. ``name`` is the path as it was given ("" for bytes), also
    as ``path``; ``size`` is the number of bytes, ``host`` the kind of file around the containers (``raw``: the file is
    a container itself, or of no known kind).
    """

    def __init__(self, source: Source | NestedFile, *, deep: bool = False, view: View | None = None) -> None:
        self._source = source
        self._view = source.view() if view is None else view
        self._deep = deep
        self._items: tuple[Container | Finding, ...] | None = None
        self._not_searched: tuple[NotSearched, ...] = ()
        self._is_closed = False
        self.path = source.name
        self.size = len(self._view)
        self.host = detect_host(self._view)

    @property
    def name(self) -> str:
        """The path as it was given, or the name of a binary file; "" for bytes."""
        return self.path

    @property
    def closed(self) -> bool:
        """True after :meth:`close`, and in :func:`fatpack.files` when the next file comes."""
        return self._is_closed

    def __iter__(self) -> Iterator[Image]:
        return iter(self.images())

    @property
    def items(self) -> tuple[Container | Finding, ...]:
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

    def _scanned(self) -> tuple[Container | Finding, ...]:
        found = scan_view(self._view, deep=self._deep)
        items = tuple(found)
        # The items last: another thread that sees them may ask for what was not searched.
        self._not_searched, self._items = found.not_searched, items
        return items

    @property
    def view(self) -> View:
        """The file's bytes, for the functions of ``fatpack.formats`` and ``fatpack.binary``."""
        return self._view

    @property
    def containers(self) -> tuple[Container, ...]:
        """The containers in file order, scanned when first asked for; those inside images belong to the images."""
        return tuple(item for item in self.items if isinstance(item, FoundContainer))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in file order. Damaged input gives findings, not exceptions."""
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

        The keywords are patterns as in :class:`Selector`, if you need no other condition.
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
        """Return the counts of the file, if it was scanned; nothing is inflated for it."""
        if self._items is None:
            return "not scanned yet"
        images = sum(len(found.images) for found in self.containers)
        counts = ((len(self.containers), "container"), (images, "image"), (len(self.findings), "finding"))
        return ", ".join(f"{count or 'no'} {word}{'s' if count != 1 else ''}" for count, word in counts)

    def close(self) -> None:
        """Close the file: nothing more is read from it. Bytes read or inflated before may stay in memory."""
        self._is_closed = True
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Images:
    """Images of an opened file, found when they are first used; the file must be open then.

    A sequence: iterate over it, ``len()`` counts the images, ``[0]`` is the first, ``[:2]`` a tuple of two.
    :func:`convert` takes it in place of a file, to convert these images alone. An architecture that matches no image
    because it is misspelled (``sm80``) gives a Python warning with the right spelling.
    """

    def __init__(self, file: File, selector: Selector) -> None:
        self.file = file
        self.selector = selector
        self._images: tuple[Image, ...] | None = None

    def _all(self) -> tuple[Image, ...]:
        if self._images is None:
            from fatpack.selectors.select import select_images

            self._images = tuple(image for _, _, image in select_images(self.file.items, self.selector))
            if not self._images:
                warn_about_spelling(self.selector)
        return self._images

    def __iter__(self) -> Iterator[Image]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> Image: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Image, ...]: ...  # noqa: F811
    def __getitem__(self, index: int | slice) -> Image | tuple[Image, ...]:  # noqa: F811
        if not isinstance(index, slice) and not hasattr(index, "__index__"):
            raise TypeError(f"index must be a whole number or a slice, got {type(index).__name__}")
        return self._all()[index]

    def __repr__(self) -> str:
        return f"<fatpack images of {self.file.path!r}: {self.selector.describe() or 'all'}>"


def scan(
    paths: Input | Iterable[Input], *, deep: bool = False, max_inflated: int | None = None
) -> Iterator[Container | Finding]:
    """Return an iterator over the containers and findings of files, as they are met.

    ``paths`` is a path, bytes or a binary file, or several in a list. Each file stays open while its items come, and
    image data can be read as long. A folder, a pattern or a package gives the items of all files in it, as
    :func:`fatpack.files` does: ``found.view.chain[0]`` is the path of the file; what is wrong with a package is a
    finding too. ``max_inflated`` is as for :func:`open`. A file that cannot be read raises after all others are done.
    """
    budget, rules, counts = make_budget(max_inflated), Filter(deep=deep), SkipCounts()
    inputs = as_inputs("paths", paths)
    if len(inputs) == 1 and not tree_name(inputs[0]):
        # One file is opened now: a missing file is an error of this call, not of the first step.
        return _scanned(open_input("paths", inputs[0], budget=budget), rules, counts)
    unmatched: list[str] = []
    return _scanned_leaves(expand_inputs(inputs, rules, counts, unmatched, budget), unmatched, deep=deep)


def _scanned(source: Source, rules: Filter, counts: SkipCounts) -> Iterator[Container | Finding]:
    with source:
        batches = walk_open_file(source.view(), source.name, rules, counts)
        found = (leaf for batch in batches for node in batch for leaf in node.leaves(rules, counts))
        yield from _scanned_leaves(found, (), deep=rules.deep)


def _scanned_leaves(
    found: Iterable[InputFile], unmatched: Sequence[str], *, deep: bool
) -> Iterator[Container | Finding]:
    failure: FatpackError | OSError | None = None
    for leaf in found:
        yield from leaf.findings
        if leaf.view is not None:
            yield from scan_view(leaf.view, deep=deep)
        failure = failure or leaf.error
    if failure is not None:
        raise failure
    if unmatched:
        raise UsageError(f"no file matches {unmatched[0]}", hint="correct the pattern, or leave it out")


def open(file: Input, *, deep: bool = False, member: str = "", max_inflated: int | None = None) -> File:
    """Open a path, bytes or a binary file, or a member of an archive, and return the device code in it.

    ``file`` may also be a URL (``https://``, ``s3://``) or an object with ``read_at`` and ``size`` (docs/library.md).
    Only headers are read; ``deep`` searches everything for containers, not only the places where compilers put them.
    ``member`` is ``a.o``, ``a.o:2`` (the second of that name), ``#3`` (the member of that number, from 0) or
    ``inner.a(a.o)``; of a package it is the name of a file in it: ``torch/lib/libx.so``,
    ``data.tar.xz!usr/lib/libx.a(a.o)``. ``max_inflated`` is the most bytes that are inflated of the file in all, by
    default 64 GiB; bytes that are inflated again count once.

    Raises UsageError for a folder, a pattern, or a package without ``member`` (:func:`files` opens every file in them),
    and for a member that is not there, ``OSError`` for a file that cannot be read. Damage raises nothing here: it is
    in :attr:`File.findings`.
    """
    refuse_tree(file)
    source = open_input("file", file, budget=make_budget(max_inflated))
    from fatpack.selectors.address import Address, find_location

    try:
        is_package = bool(detect_package(source.view()))
        if not member:
            if is_package:
                _refuse_package(source.name)
            return File(source, deep=deep)
        if is_package:
            from fatpack.inputs.nested import open_nested

            nested = open_nested(source, member)
            place = Address(nested.name, nested.rest[1:-1])
            return File(nested, deep=deep, view=find_location(nested.view(), place).view)
        return File(source, deep=deep, view=find_location(source.view(), Address(source.name, member)).view)
    except BaseException:
        source.close()
        raise


def _refuse_package(name: str) -> None:
    """Raise UsageError for a package (a wheel, a tar archive), whose files are opened one by one."""
    given = repr(name) if name else "data"
    raise UsageError(
        f"{name or 'the file'} is a package of many files",
        hint=f"write: for file in fatpack.files({given}): …, or fatpack.open({given}, member='the file in it')",
    )


# The HTML of an opened file for notebooks: its images and findings as a small table, escaped.


def file_html(path: str, size: int, host: str, items: Sequence[Container | Finding]) -> str:
    """Return a file as HTML: nothing is inflated for it, so that images are listed as their containers state them."""
    found = [item for item in items if not isinstance(item, Finding)]
    rows = [
        {
            "image": f"{number}.{index}",
            "container": item.format,
            "place": item.section or item.member or "",
            "offload": image.target.offload,
            "arch": arch_name(image.target.arch, image.form) or image.target.triple,
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


class Files:
    """An iterator over open :class:`fatpack.File`, each closed when the next comes.

    At its end, ``unread`` are the errors of files that cannot be read, ``findings`` what is wrong with packages.
    ``passed`` counts files that were skipped because of their names, ``excluded`` files and folders that were left out,
    ``links`` and ``special`` links, pipes, sockets and devices in folders; ``unmatched`` are patterns that match no
    file.
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
        return f"<fatpack.Files, {len(self.unread)} unread, {self.passed} skipped by name>"

    def _all(self, inputs: Iterable[Input]) -> Iterator[File]:
        for leaf in expand_inputs(inputs, self._rules, self._counts, self.unmatched, self._budget):
            self.findings += leaf.findings
            if leaf.error is not None:
                self.unread.append(leaf.error)
            elif leaf.view is not None:
                file = File(leaf.view.source, deep=self._rules.deep, view=leaf.view)
                try:
                    yield file
                finally:
                    file._is_closed = True  # the package or folder closes its source


def files(
    paths: Input | Iterable[Input],
    *,
    exclude: Iterable[str] = (),
    deep: bool = False,
    max_inflated: int | None = None,
) -> Files:
    """Return an iterator over the files in folders, patterns (``"lib/**/*.so"``) and packages, open one at a time.

    ``paths`` is what :func:`fatpack.open` takes, or a folder or a pattern, or several of these in a list. A package
    (a wheel, a tar archive, …) gives the files in it, also of packages inside it, as if they were unpacked: ``path`` is
    ``x.whl!torch/libx.so``.
    Any other input comes as it is. A file in a folder or package is searched as if it was named alone, and skipped if
    its name says that it is source code, text or a picture, unless ``deep``. ``exclude`` are
    patterns of names, or with ``/`` of paths. Nothing is raised for a file in a folder or a package: see
    :class:`Files`. ``max_inflated`` is as for :func:`fatpack.open`, for all of them together.

    Raises ``OSError`` and UsageError for an input that cannot be opened, when it is its turn.
    """
    return Files(as_inputs("paths", paths), Filter(as_patterns(exclude), deep), make_budget(max_inflated))
