"""Bundling: the inputs, one per target, become one file."""

from __future__ import annotations

import sys

from fatpack.errors import UsageError
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT, COMPRESSED_HEADERS
from fatpack.formats.clang_bundle.writer import write
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target
from fatpack.tools.llvm.clang_offload_bundler import entries
from fatpack.tools.llvm.clang_offload_bundler.arguments import ArgumentError, are_all_hip, is_host, stored_ids
from fatpack.tools.llvm.clang_offload_bundler.entries import OBJECT, TEXT, is_known_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.io.source import Piece, Source, View
    from fatpack.literals import BundleType
    from fatpack.tools.llvm.clang_offload_bundler.arguments import BundlerSettings
    from fatpack.writer_options import BundleOptions

#: zstd takes higher levels for its highest, and lower ones for its lowest.
_LEVELS = (-131072, 22)

#: The section of the host's object in a fat object: LLVM reads a single NUL byte as "the object itself".
_HOST_MARKER = b"\0"


def bundle(settings: BundlerSettings) -> None:
    """Write the bundle that a command line asks for. Raises ArgumentError and OSError."""
    from fatpack.io.atomic_write import OutputBatch, file_mode

    ids = stored_ids(settings)
    sources: list[Source] = []
    with OutputBatch() as batch:
        try:
            views = [_opened(name, sources) for name in settings.inputs]
            type = settings.type
            if not is_known_type(type):
                raise ArgumentError(f"'{type}': invalid file type specified")
            host = _host_number(settings)
            carrier = entries.object_format(views[host]) if host is not None and type in OBJECT else ""
            if host is not None and carrier:
                pieces = _fat_object(settings, ids, views, host, carrier)
                # llvm-objcopy gives the output the permissions of the host, and -### does not run it.
                mode = None if settings.prints_commands else file_mode(views[host])
                batch.add(settings.outputs[0], pieces, mode=mode)
            else:
                batch.add(settings.outputs[0], _container(settings, type, ids, views))
            batch.publish()
        finally:
            for source in sources:
                source.close()


def _opened(name: str, sources: list[Source]) -> View:
    from fatpack.io.open import open_source

    sources.append(open_source(name, may_close=True))
    sources[-1].release_buffers()
    return sources[-1].view()


def _host_number(settings: BundlerSettings) -> int | None:
    """Return which input is the host's; None where all are for devices.

    The original then takes the first input for the host's object, and crashes if it is an object.
    """
    if are_all_hip(settings.targets):
        return None
    return next(number for number, target in enumerate(settings.targets) if is_host(target))


def _container(
    settings: BundlerSettings, type: BundleType, ids: Sequence[str], views: Sequence[View]
) -> Iterable[Piece]:
    images = tuple(
        Image(Target(spelling=spelling), "", view, len(view), len(view), view.span(), attrs={"id": spelling})
        for spelling, view in zip(ids, views, strict=True)
    )
    if type not in TEXT and not settings.align:
        # The original divides by it.
        raise ArgumentError("for the --bundle-align option: '0' value invalid for uint argument!")
    if settings.is_compressed:
        return _compressed(settings, type, images)
    return _written(images, 0, _options(settings, type))


def _options(settings: BundlerSettings, type: BundleType) -> BundleOptions:
    from fatpack.writer_options import BundleOptions

    if not settings.is_compressed:
        return BundleOptions(type, settings.align)
    level = min(max(settings.level, _LEVELS[0]), _LEVELS[1])
    return BundleOptions(type, settings.align, "zstd", settings.version, level)


def _written(images: Sequence[Image], version: int, options: BundleOptions) -> list[Piece]:
    try:
        return list(write(Container(BUNDLE_FORMAT, version, tuple(images), Span(0, 0)), options))
    except UsageError as error:
        if version == 2 and "exceeds" in error.problem:
            what = "Uncompressed" if "uncompressed" in error.problem else "Total file"
            raise ArgumentError(f"{what} size exceeds version 2 limit") from error
        raise ArgumentError(str(error)) from error


def _compressed(settings: BundlerSettings, type: BundleType, images: Sequence[Image]) -> list[Piece]:
    from time import perf_counter

    options = _options(settings, type)
    start = perf_counter()
    pieces = _written(images, settings.version, options)
    if settings.is_verbose:
        _report(settings, pieces, perf_counter() - start)
    return pieces


def _report(settings: BundlerSettings, pieces: Sequence[Piece], seconds: float) -> None:

    front, stream = pieces
    header = front if isinstance(front, bytes | bytearray | memoryview) else front.tobytes()
    *_, size, inflated_size, content_hash = COMPRESSED_HEADERS[settings.version].struct.unpack(header)
    measures = entries.CompressionMeasures(
        settings.version, "zstd", size, len(stream), inflated_size, content_hash, seconds
    )
    entries.print_compressed(measures, settings.level)


def _fat_object(
    settings: BundlerSettings, ids: Sequence[str], views: Sequence[View], host: int, carrier: str
) -> Iterable[Piece]:
    messages: list[Piece] = []
    if settings.is_compressed and (settings.is_verbose or settings.prints_commands):
        # QUIRK(LLVM 19-22): a fat object is not compressed; an empty bundle is, and then written over.
        messages = _compressed(settings, "i", ())
    if settings.prints_commands:
        _print_command(settings, ids, host)
        return messages
    additions: list[tuple[str, Sequence[Piece]]] = [
        (entries.PREFIX + spelling, [_HOST_MARKER if number == host else view])
        for number, (spelling, view) in enumerate(zip(ids, views, strict=True))
    ]
    return entries.with_sections(views[host], carrier, additions)


def _print_command(settings: BundlerSettings, ids: Sequence[str], host: int) -> None:
    """Print the command that the original would run; its temporary file has no name here."""
    from fatpack.tools.llvm.clang_offload_bundler.arguments import TEMPORARY_DIRECTORY, find_objcopy

    words = [find_objcopy(settings.program)]
    for number, (spelling, name) in enumerate(zip(ids, settings.inputs, strict=True)):
        section = entries.PREFIX + spelling
        words.append(f"--add-section={section}={TEMPORARY_DIRECTORY if number == host else name}")
        words.append(f"--set-section-flags={section}=readonly,exclude")
    words += ["--", settings.inputs[host], settings.outputs[0]]
    sys.stderr.write(" ".join(f'"{word}"' for word in words) + "\n")
