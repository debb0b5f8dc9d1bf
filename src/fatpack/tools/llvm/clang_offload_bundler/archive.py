"""Unbundling archives: every entry of every member that serves a target becomes a member of that target's archive."""

from __future__ import annotations

import os

from fatpack.errors import FatpackError
from fatpack.formats.clang_bundle.bundle_id import (
    first_conflict_llvm22,
    has_processor_as_environment,
    stored_by_llvm22,
)
from fatpack.formats.clang_bundle.member_name import member_name
from fatpack.io.memory import BytesSource
from fatpack.io.open import open_source
from fatpack.tools.llvm.clang_offload_bundler import entries
from fatpack.tools.llvm.clang_offload_bundler.arguments import TargetMatcher, stored_ids
from fatpack.tools.llvm.clang_offload_bundler.settings import ArgumentError
from fatpack.tools.llvm.clang_offload_bundler.unbundle import entry_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.binary import CodeSection
    from fatpack.io.source import Piece, View
    from fatpack.tools.llvm.clang_offload_bundler.settings import BundlerSettings


def unbundle_archive(settings: BundlerSettings) -> None:
    """Write an archive per target of a command line. Raises Refusal and OSError; nothing is written then."""
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
    """Raise Refusal where the IDs of one member contradict each other. Compressed members are not looked at."""
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
