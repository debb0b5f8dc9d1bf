"""A tar archive in a package, inflated while it is worked on, and what becomes of its files."""

from __future__ import annotations

from fatpack.codec.whole import compressed
from fatpack.errors import FatpackError
from fatpack.io.source import View
from fatpack.io.sources.pieces import PiecesSource, sha256
from fatpack.ops.slim.members import Library, attempt, is_looked_at
from fatpack.packages.compression import method_of
from fatpack.packages.growing import Growing
from fatpack.packages.streams import Stream
from fatpack.packages.tar import proving
from fatpack.packages.tar.writing import exchanged, files
from fatpack.packages.within import Within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import Piece, Source
    from fatpack.ops.slim.members import Slimming
    from fatpack.packages.tar.writing import File


class Tar:
    """A tar archive, compressed or not. Close it when what was made of it is written.

    ``digests`` and ``sizes`` are those of the files that are changed, by name. Raises FormatError and Unsupported.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.method = method_of(view) or ""
        self._source: Source | None = None
        if self.method:
            stream = Stream(view, self.method, format="tar")
            name = view.chain[-1] if view.chain else ""
            budget, origin = view.source.budget, view.source
            self._source = Growing(stream, None, name, present=len(view), budget=budget, origin=origin)
            self._source.check()
        self.plain = view if self._source is None else self._source.view()
        self.files = {file.name: file for file in files(self.plain)}
        self._contents: dict[int, Sequence[Piece]] = {}
        self.digests: dict[str, bytes] = {}
        self.sizes: dict[str, int] = {}

    def content(self, file: File) -> Source:
        """Return a source of a file."""
        outer = self.view.chain[-1] if self.view.chain else self.view.source.name
        return Within(self.plain.slice(file.at, file.size), f"{outer}!{file.name}")

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        file = self.files[name]
        return self.plain.read(file.at, file.size)

    def put(self, name: str, content: Sequence[Piece]) -> None:
        """Exchange the content of a file."""
        self._contents[self.files[name].at] = content
        self.digests[name], self.sizes[name] = sha256(content), sum(map(len, content))

    def slim(self, slimming: Slimming) -> Iterator[Library]:
        """Apply ``slimming`` to every file that may hold device code; yield what was looked at."""
        for name, file in self.files.items():
            if name.startswith("info/") or not file.size or not is_looked_at(name):
                continue
            view = self.content(file).view()
            outcome = attempt(slimming, view)
            if isinstance(outcome, FatpackError):
                yield Library(name, file.size, file.size, None, None, None, outcome)
                continue
            if outcome.is_changed:
                outcome.verify(view, PiecesSource(outcome.pieces, name).view())
                self.put(name, outcome.pieces)
            yield Library(name, file.size, self.sizes.get(name, file.size), None, None, outcome)

    @property
    def is_changed(self) -> bool:
        """Whether a file is changed."""
        return bool(self._contents)

    def pieces(self) -> Iterator[bytes]:
        """Yield the archive as it is then, compressed as it was."""
        new = exchanged(self.plain, self._contents)
        yield from compressed(new, self.method, sum(map(len, new)))

    def verify(self, after: Tar) -> None:
        """Raise HostError unless another archive is this one with its changes."""
        proving.verify(self.plain, after.plain, self.digests)

    def close(self) -> None:
        """Let go what was inflated."""
        if self._source is not None:
            self._source.close()
