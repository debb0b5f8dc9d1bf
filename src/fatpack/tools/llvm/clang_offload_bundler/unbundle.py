"""Unbundling and listing: one file, the entries for the requested targets into a file each."""

from __future__ import annotations

import os
import sys

from fatpack.errors import FatpackError, FormatError
from fatpack.formats.clang_bundle.bundle_id import (
    first_conflict_llvm22,
    has_processor_as_environment,
    member_name,
    stored_by_llvm22,
)
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource
from fatpack.limits import output_budget
from fatpack.tools.llvm.clang_offload_bundler import entries
from fatpack.tools.llvm.clang_offload_bundler.arguments import ArgumentError, TargetMatcher, is_host, stored_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.binary import CodeSection
    from fatpack.io.source import Piece, View
    from fatpack.model import Finding
    from fatpack.tools.llvm.clang_offload_bundler.arguments import BundlerSettings
    from fatpack.tools.llvm.clang_offload_bundler.entries import BundlerEntries, BundlerEntry


def list_ids(settings: BundlerSettings) -> None:
    """Print the IDs of a bundle. For a damaged bundle it prints the readable ones and raises ArgumentError."""
    from fatpack.printable import printable

    with open_source(settings.inputs[0]) as source:
        _, found = entries.read_inflated(source.view(), settings, "input")
        sys.stdout.write("".join(f"{printable(entry.id)}\n" for entry in found.entries))
        if found.damage:
            sys.stdout.flush()
            raise ArgumentError(_words(found.damage))


def unbundle(settings: BundlerSettings) -> None:
    """Write the entries for the targets of a command line: all, or none. Raises ArgumentError and OSError."""
    from fatpack.io.atomic_write import OutputBatch

    ids = stored_ids(settings)
    with open_source(settings.inputs[0]) as source, OutputBatch() as batch:
        view, found = entries.read_inflated(source.view(), settings, "input")
        chosen, missing = _chosen(settings, found, ids)
        if missing and not settings.allows_missing:
            damage = f"; the bundle is damaged: {_words(found.damage)}" if found.damage else ""
            raise ArgumentError(f"Can't find bundles for {_joined(sorted(missing))}{damage}")
        if any(entry.is_cut for _, entry in chosen):
            raise ArgumentError(_words(found.damage))
        if found.damage:
            from fatpack.printable import printable

            sys.stderr.write(printable(f"{settings.program}: warning: {_words(found.damage)}") + "\n")
        if len({output for output, _ in chosen}) == len(chosen):
            # The order of the outputs shows nowhere; forwards through a compressed bundle inflates it once.
            chosen.sort(key=lambda pair: pair[1].data.start)
        output_budget().check_output(sum(len(entry.data) for _, entry in chosen))
        try:
            for output, entry in chosen:
                batch.add(output, entry_image(settings, found, entry, view))
        except FormatError as error:
            raise ArgumentError(entries.inflation_error(settings, "input", error)) from error
        for target, output in missing.items():
            # If no bundle was found, the whole file is taken as the host's image; LLVM 22 inflates it first.
            whole = view if settings.llvm == "22" else source.view()
            batch.add(output, [whole] if not chosen and is_host(target) else [])
        batch.publish()


def _words(damage: Sequence[Finding]) -> str:
    more = f" (and {len(damage) - 1} more)" if len(damage) > 1 else ""
    return f"{damage[0].text}{more}"


def _joined(names: Sequence[str]) -> str:
    """Return names as a sentence has them: ``A``, ``A and B``, ``A, B, and C``."""
    if len(names) < 3:
        return " and ".join(names)
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def _chosen(
    settings: BundlerSettings, found: BundlerEntries, ids: Sequence[str]
) -> tuple[list[tuple[str, BundlerEntry]], dict[str, str]]:
    """Return output and entry of the targets that have one, in the order of the entries; and target → output of others.

    Every entry goes to the first target that it serves, in the order of LLVM's hash map, and a target takes the first.
    """
    waiting = dict(zip(ids, settings.outputs, strict=True))
    order: dict[str, int] = {}
    stored = [entry.id for entry in found.entries]
    matcher = TargetMatcher(stored, ids, hip_openmp=settings.treats_hip_as_openmp, llvm=settings.llvm)
    chosen = []
    for entry in found.entries:
        served = [target for target in waiting if matcher.serves(entry.id, target)]
        if served:
            if len(served) > 1:
                order = order or _order(ids, settings.llvm)
                served.sort(key=order.__getitem__)
            target = served[0]
            chosen.append((waiting.pop(target), entry))
        if not waiting:
            break
    return chosen, waiting


def _order(ids: Sequence[str], llvm: str) -> dict[str, int]:
    """Return the place of each target in a hash map of them."""
    from fatpack.formats.clang_bundle.text_reader import llvm_order

    keys = llvm_order((spelling.encode("utf-8", "surrogateescape") for spelling in ids), llvm)
    return {key.decode("utf-8", "surrogateescape"): place for place, key in enumerate(keys)}


def entry_image(settings: BundlerSettings, found: BundlerEntries, entry: BundlerEntry, whole: View) -> Iterable[Piece]:
    """Return the bytes of an entry: for the host's mark in a fat object, the object without its bundle.

    Raises ArgumentError for images that ``ld -r`` has glued together.
    """
    if entry.merged_count:
        if settings.prints_commands:
            _print_command(settings)
            return []
        return entries.without_sections(whole, found.carrier)
    if found.merged_count > 1:
        # The original hands out all of them as one.
        raise ArgumentError(
            f"{found.merged_count} fat objects were merged by a partial link, and '{entry.id}' has an image of each; "
            "unbundle them before the link, or use fatpack extract"
        )
    return [entry.data]


def _print_command(settings: BundlerSettings) -> None:
    from fatpack.tools.llvm.clang_offload_bundler.arguments import TEMPORARY_DIRECTORY, find_objcopy

    name = TEMPORARY_DIRECTORY if settings.type == "a" else settings.inputs[0]
    words = [
        find_objcopy(settings.program),
        "--regex",
        f"--remove-section={entries.PREFIX}.*",
        "--",
        name,
        TEMPORARY_DIRECTORY,
    ]
    sys.stderr.write(" ".join(f'"{word}"' for word in words) + "\n")


# Unbundling archives: every entry of every member that serves a target becomes a member of that target's archive.


def unbundle_archive(settings: BundlerSettings) -> None:
    """Write an archive per target of a command line. Raises ArgumentError and OSError; nothing is written then."""
    from fatpack.binary import archive
    from fatpack.io.atomic_write import OutputBatch

    ids = [
        # QUIRK(LLVM 22, 23): a processor in the place of the environment is no part of the ID, so nothing serves it.
        stored_by_llvm22(target) if has_processor_as_environment(target) else stored
        for target, stored in zip(settings.targets, stored_ids(settings), strict=True)
    ]
    name = settings.inputs[0]
    with open_source(name) as source, OutputBatch() as batch:
        view = source.view()
        if not archive.detect(view):
            raise ArgumentError("file too small to be an archive")  # the original's words whatever the size
        if settings.checks_archive:
            for member in _members(view):
                _refuse_conflicts(settings, member)
        made: dict[str, list[tuple[bytes, View]]] = {target: [] for target in ids}
        for member in _members(view):
            for target, title, data in _entries(settings, member, ids):
                made[target].append((title, data))
        missing = [target for target, members in made.items() if not members]
        if missing and not settings.allows_missing:
            text = f"no compatible code object found for the target '{missing[0]}'"
            raise ArgumentError(f"{text} in heterogeneous archive library: {name}")
        for target, output in zip(ids, settings.outputs, strict=True):
            batch.add(output, _built(made[target]))
        batch.publish()


def _built(members: Sequence[tuple[bytes, View]]) -> Sequence[Piece]:
    from fatpack.binary.archive import build_archive

    try:
        return build_archive(members)
    except FatpackError as error:
        raise ArgumentError(str(error)) from error


def _members(view: View) -> Iterator[CodeSection]:
    from fatpack.binary import CodeSection
    from fatpack.binary.archive import locate

    for site in locate(view):
        if not isinstance(site, CodeSection):
            raise ArgumentError(site.text)
        yield site


def _refuse_conflicts(settings: BundlerSettings, member: CodeSection) -> None:
    """Raise ArgumentError where the IDs of one member contradict each other. Compressed members are not looked at."""
    ids = [entry.id for entry in entries.read_bundler_entries(member.data, settings).entries]
    pair = first_conflict_llvm22(ids)
    if pair:
        text = f"conflicting TargetIDs [{pair[0]}, {pair[1]}] found in {member.member} of {settings.inputs[0]}"
        raise ArgumentError(text)


def _entries(settings: BundlerSettings, member: CodeSection, ids: list[str]) -> Iterator[tuple[str, bytes, View]]:
    """Yield target, name and bytes of the members that one member of the input gives."""
    view, found = entries.read_inflated(member.data, settings, "code object")
    if found.damage:
        raise ArgumentError(f"{member.member}: {found.damage[0].text}")
    stored = [entry.id for entry in found.entries]
    matcher = TargetMatcher(stored, ids, hip_openmp=settings.treats_hip_as_openmp, llvm=settings.llvm)
    for entry in found.entries:
        targets = [target for target in ids if matcher.serves(entry.id, target)]
        if not targets:
            continue
        data = entry.data
        if entry.merged_count or found.merged_count > 1:
            data = _in_memory(entry_image(settings, found, entry, view))
        for target in targets:
            yield target, os.fsencode(member_name(member.member or "", entry.id)), data


def _in_memory(pieces: Iterable[Piece]) -> View:
    """Return the host's object, which is put together anew, as one view: its symbols have to be read."""
    data = bytearray()
    for piece in pieces:
        for part in [piece] if isinstance(piece, (bytes, bytearray, memoryview)) else piece.pieces():
            data += part
    return BytesSource(data).view()
