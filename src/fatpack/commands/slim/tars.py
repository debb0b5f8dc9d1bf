"""A tar archive in a package, inflated while it is worked on, and what becomes of its files."""

from __future__ import annotations

from fatpack.codecs.whole import compress_stream
from fatpack.commands.slim.members import PackageLibrary, may_hold_device_code, try_to_slim
from fatpack.errors import FatpackError
from fatpack.io.pieces import PiecesSource, sha256_of_pieces
from fatpack.io.source import View
from fatpack.packages.compression import detect_compression
from fatpack.packages.members import LazyInflatedMember
from fatpack.packages.streams import InflatedStream
from fatpack.packages.tar import proving
from fatpack.packages.tar.writer import exchange_files, read_files
from fatpack.packages.within import SubRangeSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.slim.members import Slimming
    from fatpack.io.source import Piece, Source
    from fatpack.packages.tar.writer import StoredTarFile


class TarEdit:
    """A tar archive, compressed or not. Close it when what was made of it is written.

    ``digests`` and ``sizes`` are those of the files that are changed, by name. Raises FormatError and Unsupported.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.method = detect_compression(view) or ""
        self._source: Source | None = None
        if self.method:
            stream = InflatedStream(view, self.method, format="tar")
            name = view.chain[-1] if view.chain else ""
            budget, origin = view.source.budget, view.source
            self._source = LazyInflatedMember(stream, None, name, present=len(view), budget=budget, origin=origin)
            self._source.check()
        self.plain = view if self._source is None else self._source.view()
        self.files = {file.name: file for file in read_files(self.plain)}
        self._contents: dict[int, Sequence[Piece]] = {}
        self.digests: dict[str, bytes] = {}
        self.sizes: dict[str, int] = {}

    def content(self, file: StoredTarFile) -> Source:
        """Return a source of a file."""
        outer = self.view.chain[-1] if self.view.chain else self.view.source.name
        return SubRangeSource(self.plain.slice(file.at, file.size), f"{outer}!{file.name}")

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        file = self.files[name]
        return self.plain.read(file.at, file.size)

    def put(self, name: str, content: Sequence[Piece]) -> None:
        """Exchange the content of a file."""
        self._contents[self.files[name].at] = content
        self.digests[name], self.sizes[name] = sha256_of_pieces(content), sum(map(len, content))

    def slim(self, slimming: Slimming) -> Iterator[PackageLibrary]:
        """Apply ``slimming`` to every file that may hold device code; yield what was looked at."""
        for name, file in self.files.items():
            if name.startswith("info/") or not file.size or not may_hold_device_code(name):
                continue
            view = self.content(file).view()
            outcome = try_to_slim(slimming, view)
            if isinstance(outcome, FatpackError):
                yield PackageLibrary(name, file.size, file.size, None, None, None, outcome)
                continue
            if outcome.is_changed:
                outcome.verify(view, PiecesSource(outcome.pieces, name).view())
                self.put(name, outcome.pieces)
            yield PackageLibrary(name, file.size, self.sizes.get(name, file.size), None, None, outcome)

    @property
    def is_changed(self) -> bool:
        """Whether a file is changed."""
        return bool(self._contents)

    def pieces(self) -> Iterator[bytes]:
        """Yield the archive as it is then, compressed as it was."""
        new = exchange_files(self.plain, self._contents)
        yield from compress_stream(new, self.method, sum(map(len, new)))

    def verify(self, after: TarEdit) -> None:
        """Raise HostError unless another archive is this one with its changes."""
        proving.verify_tar_change(self.plain, after.plain, self.digests)

    def close(self) -> None:
        """Let go what was inflated."""
        if self._source is not None:
            self._source.close()
