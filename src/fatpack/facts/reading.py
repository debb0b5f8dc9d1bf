"""A file to rows, one by one as its containers are found: no more is held than one container.

By default nothing is inflated, and of images that are not compressed only their heads are read: containers state what
their images are for and how large they are. Digests, kernels and ``inflate`` read the images.
"""

from __future__ import annotations

from fatpack import images
from fatpack.errors import FatpackError, FormatError, Unsupported
from fatpack.facts.columns import TABLES, KernelRow
from fatpack.findings import finding
from fatpack.findings import unread as code_for
from fatpack.images import EMPTY, NOT_INFLATED, UNKNOWN
from fatpack.io import limits
from fatpack.io.source import is_in_file
from fatpack.model import Finding, Target
from fatpack.outcomes import code_of, exit_code, message, worst
from fatpack.record import Record
from fatpack.scanner import FoundImage, LateImages, host_of, inflated, scan
from fatpack.scanner.found import kernel_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, TypeAlias

    from fatpack.facts.columns import AnyRow
    from fatpack.images import Recognised
    from fatpack.images.kernel import Kernel
    from fatpack.io.source import Source, View
    from fatpack.model import Container, Image, Span
    from fatpack.scanner import Found

    #: kernels of an image, and the digests of their code by their names
    _Kernels: TypeAlias = tuple[tuple[Kernel, ...], dict[str, str]]
    #: columns that take reading an image, and its kernels
    _Content: TypeAlias = tuple[dict[str, Any], _Kernels]

#: what is known of an image that is not read
NOTHING: _Content = {}, ((), {})


class RowOptions(Record):
    """What rows are of (``images`` or ``kernels``), and how much is read for them.

    ``digests`` fills ``sha256`` of images and ``code_sha256`` of kernels, ``kernels`` fills ``kernel_count`` and
    ``registers_max``; both read every image whole, and so do rows of kernels. With ``each_kernel`` the row of an image
    is followed by the rows of its kernels, which ``count`` does not count. ``inflate`` looks into compressed images, to
    recognise what they are. ``deep`` searches everything, and without ``thorough`` a file in which nothing was found is
    not searched to its last byte. ``positions`` are those of the images that get rows, None for all; "" stands for
    images in no container. ``kernel`` is a regular expression: ``has_kernel`` says which images have a kernel with such
    a name.
    """

    of: str = "images"
    digests: bool = False
    kernels: bool = False
    inflate: bool = False
    deep: bool = False
    thorough: bool = True
    each_kernel: bool = False
    positions: frozenset[str] | None = None
    kernel: str = ""

    @property
    def reads_kernels(self) -> bool:
        """Whether the kernels of images are read."""
        return self.kernels or self.each_kernel or bool(self.kernel) or self.of == "kernels"

    @property
    def reads_images(self) -> bool:
        """Whether images are read, not only what their containers state of them."""
        return self.inflate or self.reads_content

    @property
    def reads_content(self) -> bool:
        """Whether the bytes of images that were recognised are read."""
        return self.digests or self.reads_kernels


def rows_of(view: View, options: RowOptions) -> Iterator[AnyRow]:
    """Yield the rows of a file, the row of the file itself as the last.

    Damage stands in ``findings``. What ends the reading (an error of the system, a file that shrinks) stands in the
    ``error`` of the last row; nothing is raised for it.
    """
    reader = _Reader(view, options)
    try:
        yield from reader.rows()
    except (FatpackError, OSError) as error:
        yield reader.last(error)


def failed(path: str, error: FatpackError | OSError, of: str = "images") -> AnyRow:
    """Return the row of a file that could not be opened."""
    return unread(path, message(error), exit_code(error), of)


def unread(path: str, problem: str, code: int, of: str = "images") -> AnyRow:
    """Return the row of a file that was not read, with the reason in words and the exit code it stands for."""
    return TABLES[of][0](row="file", path=path, error=problem, exit_code=code, count=0)


class _Reader:
    """The rows of one file in the making."""

    def __init__(self, view: View, options: RowOptions) -> None:
        self._view = view
        self._options = options
        self._kind, self._word = TABLES[options.of]
        self._file: dict[str, Any] = {
            "path": view.chain[0] if view.chain else "",
            "file_size": len(view),
            "host": host_of(view),
        }
        self._count = 0
        self._skipped = 0
        self._searched = "everything" if options.deep else "places"
        #: positions that are gone to: those that get rows, and of the images around them
        self._around = None if options.positions is None else _around(options.positions)
        self._codes: dict[str, None] = {}
        self._exit_code = 0
        #: how many more bytes of images are read: entries may share their bytes, and small streams be of large content
        self._room = view.source.budget.inflatable
        self._read_of: dict[tuple[Source, int, int], _Content] = {}

    def rows(self) -> Iterator[AnyRow]:
        """Yield all rows; the last is that of the file."""
        if self._options.digests:
            self._view.source.check()
        found = scan(self._view, deep=self._options.deep, is_quick=not self._options.thorough)
        members: set[tuple[int, ...]] = set()
        number = 0
        for item in found:
            if isinstance(item, Finding):
                self._note(item)
                continue
            yield from self._container(item, number, "")
            members.add(item.member_numbers)
            number += 1
        if not number:
            yield from self._alone()
        if self._file["host"] == "archive":
            yield from self._members(members)
        self._skipped = sum(row.size for row in found.not_searched)
        if not number and self._options.thorough:
            self._searched, self._skipped = "everything", 0
        elif not number and not self._count and self._file["host"] == "raw":
            self._skipped = len(self._view)
        yield self.last()

    def last(self, error: FatpackError | OSError | None = None) -> AnyRow:
        """Return the row of the file itself."""
        return self._kind(
            row="file",
            **self._file,
            findings=tuple(self._codes),
            error=None if error is None else message(error),
            exit_code=self._exit_code if error is None else worst((self._exit_code, exit_code(error))),
            count=self._count,
            searched=self._searched,
            not_searched=self._skipped,
        )

    def _note(self, item: Finding) -> None:
        """Keep the code of a finding that no other row has."""
        self._codes[item.code] = None
        self._exit_code = worst((self._exit_code, code_of([(item.severity, item.code)])))

    def _container(self, found: Found, number: int, prefix: str) -> Iterator[AnyRow]:
        container = found.container
        if not prefix:
            self._read_of.clear()
        place = {
            "container": number,
            "container_format": container.format,
            "container_version": container.version,
            "section": found.section,
            "section_index": found.index,
            "member": found.member,
        }
        stored: Iterable[FoundImage] = found.images
        if isinstance(found.images, LateImages) and not self._options.reads_images:
            stored = (FoundImage(image, UNKNOWN if image.size else EMPTY) for image in container.images)
        for index, image in enumerate(stored):
            position = f"{prefix}{number}.{index}"
            if self._around is not None and position not in self._around:
                continue
            read = self._inflated(image, container.images)
            if self._is_wanted(position):
                yield from self._image(read, {**place, "position": position, "image": index})
            inner = (item for item in read.inside if not isinstance(item, Finding))
            for inner_number, item in enumerate(inner):
                yield from self._container(item, inner_number, f"{position}/")
        if container.format == "cir-offload-container":
            self._note_launches(container)

    def _note_launches(self, container: Container) -> None:
        from fatpack import formats
        from fatpack.facts.launches import problems

        described = dict(formats.room(container.format).describe(container))
        numbered = [{"index": index, "arch": image.target.arch} for index, image in enumerate(container.images)]
        for code, at, text in problems({"stored": described, "images": numbered}):
            self._note(finding(code, container.images[at].span, text))

    def _inflated(self, found: FoundImage, neighbours: Sequence[Image]) -> FoundImage:
        """Return an image that was only listed inflated and recognised, as far as that is wanted and can be done."""
        if not self._options.reads_images or found.recognised is not NOT_INFLATED or not found.size:
            return found  # asked first: the data of an image that is only listed is not even made
        if found.data.source.is_refused or not self._has_room(found):
            return found
        try:
            return inflated(found, neighbours)
        except Unsupported:  # its container has the finding
            return found
        except FormatError as error:
            self._note(finding(code_for("FP1104", error), found.span, error.describe(), error.hint))
            return found

    def _has_room(self, found: FoundImage) -> bool:
        """Return whether an image is read; the first that is not, and all behind it, are a finding."""
        if self._room < 0:
            return False
        self._room -= found.size
        if self._room < 0:
            self._note(_too_much(found.span))
        return self._room >= 0

    def _image(self, found: FoundImage, place: dict[str, Any]) -> Iterator[AnyRow]:
        image, span = found.as_stored, found.as_stored.span
        inside = found.inside
        facts = {
            **place,
            "chain": span.source[1:],
            "offset": span.start if is_in_file(span.source) else None,
            "stored_form": image.form,
            "stored_size": image.stored_size,
            "size": image.size,
            "compression": image.compression,
            "containers": sum(not isinstance(item, Finding) for item in inside),
            **_stated(image, place["container_format"]),
        }
        findings = [item for item in inside if isinstance(item, Finding)]
        read = NOTHING
        if found.recognised is not NOT_INFLATED and self._options.reads_content:
            read = self._read(image.data, found.recognised.form, image.record, findings)
        yield from self._rows(facts, image.target, found.form, read, findings)

    def _alone(self) -> Iterator[AnyRow]:
        """Yield the row of a file that is a device image itself."""
        from fatpack.scanner.alone import beside, image_alone

        recognised = image_alone(self._view)
        if recognised is not None:
            yield from self._bare(self._view, recognised, {}, beside(self._view, recognised)[1])

    def _members(self, searched: set[tuple[int, ...]]) -> Iterator[AnyRow]:
        """Yield the rows of an archive's members that are device images themselves."""
        from fatpack.scanner.alone import member_images

        for item in member_images(self._view, searched):
            if isinstance(item, Finding):
                self._note(item)
            else:
                yield from self._bare(item.view, item.recognised, {"member": item.title})

    def _bare(
        self, view: View, recognised: Recognised, place: dict[str, Any], findings: Sequence[Finding] = ()
    ) -> Iterator[AnyRow]:
        if not self._is_wanted(""):
            return
        facts = {
            **place,
            "chain": view.chain[1:],
            "offset": view.start if is_in_file(view.chain) else None,
            "stored_size": len(view),
            "size": len(view),
            "containers": 0,
        }
        target = Target(recognised.triple, recognised.arch)
        found = [*findings]
        read = self._read(view, recognised.form, None, found) if self._options.reads_content else NOTHING
        yield from self._rows(facts, target, recognised.form, read, found)

    def _rows(
        self, facts: dict[str, Any], target: Target, form: str, read: _Content, findings: list[Finding]
    ) -> Iterator[AnyRow]:
        """Yield the row of an image, or the rows of its kernels, or both."""
        content, (kernels, codes) = read
        common: dict[str, Any] = {
            "offload": target.offload,
            "triple": target.triple,
            "arch": target.arch,
            "processor": target.processor,
            "features": target.features,
            "form": form,
            "findings": tuple(dict.fromkeys(item.code for item in findings)),
        }
        for item in findings:
            self._exit_code = worst((self._exit_code, code_of([(item.severity, item.code)])))
        if self._kind is not KernelRow:
            self._count += 1
            yield self._kind(row=self._word, **self._file, **facts, **common, **content)
            if not self._options.each_kernel:
                return
        elif not kernels:
            self._codes.update(dict.fromkeys(common["findings"]))
        here = {name: facts[name] for name in facts if name in KernelRow._fields}
        word = TABLES["kernels"][1]
        for index, kernel in enumerate(kernels):
            self._count += self._kind is KernelRow
            own = {**_facts(kernel), "code_sha256": codes.get(kernel.name)}
            yield KernelRow(row=word, **self._file, **here, **common, kernel_index=index, **own)

    def _read(self, view: View, form: str, record: object, findings: list[Finding]) -> _Content:
        """Return the columns that take reading an image, and its kernels with digests; shared bytes are read once."""
        options = self._options
        wants_kernels = options.reads_kernels
        place = (view.source, view.start, view.end)
        if place in self._read_of:
            return self._read_of[place]
        columns: dict[str, Any] = {}
        kernels: tuple[Kernel, ...] = ()
        codes: dict[str, str] = {}
        try:
            has_room = options.digests and self._has_room_for(view)
            if has_room and self._kind is not KernelRow:
                from fatpack.io.sources.pieces import sha256

                columns["sha256"] = sha256([view]).hex()
            if wants_kernels:
                kernels, contradictions = _kernels(view, form, record)
                findings += (finding("FP1106", view.span(), text) for text in contradictions)
                columns["kernel_count"] = len(kernels) if kernels or form != UNKNOWN.form else None
                if options.kernel:
                    columns["has_kernel"] = _has(kernels, form, options.kernel)
                columns["registers_max"] = max((item.registers for item in kernels if item.registers), default=None)
            if has_room and (self._kind is KernelRow or options.each_kernel):
                codes, data = images.code_digests(view, form, kernels)
                if options.each_kernel:
                    columns["data_sha256"] = data
        except Unsupported:  # its container has the finding
            pass
        except FormatError as error:
            findings.append(finding(code_for("FP1104", error), view.span(), error.describe(), error.hint))
        self._read_of[place] = columns, (kernels, codes)
        return columns, (kernels, codes)

    def _is_wanted(self, position: str) -> bool:
        return self._options.positions is None or position in self._options.positions

    def _has_room_for(self, view: View) -> bool:
        if self._room >= 0:
            self._room -= len(view)
            if self._room < 0:
                self._note(_too_much(view.span()))
        return self._room >= 0


def _around(positions: frozenset[str]) -> frozenset[str]:
    """Return positions with those of the images that they lie in."""
    parts = (position.split("/") for position in positions)
    return frozenset("/".join(names[:count]) for names in parts for count in range(1, len(names) + 1))


def _too_much(span: Span) -> Finding:
    """Return the finding for images of which no more are read."""
    text = "the images add up to more than is inflated of one file; from here on they are only listed"
    return finding("FP1005", span, text, limits.inflated_hint())


def _has(kernels: Iterable[Kernel], form: str, pattern: str) -> bool | None:
    """Return whether a kernel has a name that a pattern is found in; None for forms that show no kernels."""
    from re import search

    if not kernels and form not in images.WITH_KERNELS:
        return None
    return any(search(pattern, kernel.name) for kernel in kernels)


#: Forms of entries in CUDA fat binaries whose headers say no more about them that is a column.
_PLAIN = ("cubin", "ltoir", "tileir")


def _stated(image: Image, container_format: str) -> dict[str, Any]:
    """Return the columns of what the container says of an image beyond its target and sizes.

    Of most images of a library it says nothing: then what is made when it is asked for is not asked for.
    """
    if container_format == "cuda-fatbin" and image.form in _PLAIN:
        return {}
    return {
        "stored_kind": image.attrs.get("kind"),
        "ptx_version": _ptx_version(image),
        "binary": image.attrs.get("binary"),
    }


def _ptx_version(image: Image) -> str | None:
    """Return the version of PTX as its entry in a fat binary states it; None for all else."""
    head = getattr(image.record, "head", None) if image.form == "ptx" else None
    return None if head is None else f"{head.code_major}.{head.code_minor}"


def _kernels(view: View, form: str, record: object) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    """Return the kernels of an image, and sentences about what contradicts itself in it."""
    if form == "cir":  # a module says of its kernels only their names
        from fatpack.images.kernel import Kernel

        return tuple(map(Kernel, kernel_names(view, form, record))), ()
    facts = images.facts(view, form)
    return facts.kernels, facts.contradictions


#: fields of kernels that are columns of the same name and value
_SAME = tuple(
    "registers sgprs agprs vgpr_spills sgpr_spills shared local has_dynamic_stack params max_threads min_blocks "
    "wavefront barriers".split()
)


def _facts(kernel: Kernel) -> dict[str, Any]:
    """Return the columns of a kernel."""
    columns = {name: getattr(kernel, name) for name in _SAME}
    for name in ("required_threads", "cluster"):
        sizes = getattr(kernel, name)
        columns[name] = "x".join(map(str, sizes)) if sizes else None
    if kernel.constants is not None:
        columns["constants"] = ",".join(f"{bank}:{size}" for bank, size in kernel.constants)
    return {**columns, "kernel": kernel.name, "code_size": kernel.size}
