"""RECORD: the file of a wheel that names all others with digest and size. Only lines that must change do.

How we know: binary distribution format, "The .dist-info directory": CSV with path, ``algorithm=digest`` (base64 of
URLs, without ``=``) and size; RECORD itself and its signatures have neither.
"""

from __future__ import annotations

import base64
import csv

from fatpack.errors import BadValue
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: what the specification allows: sha256 or better, of those that every Python has
HASHES = ("sha256", "sha384", "sha512")


class RecordLine(Record):
    """A line as it ``stands`` in the file, and what it says; without digest ``hash_name`` is "", without size None."""

    stands: str
    path: str = ""
    hash_name: str = ""
    digest: str = ""
    size: int | None = None


def parse_record(data: bytes, chain: Sequence[str] = ()) -> list[RecordLine]:
    """Return the lines of a RECORD. Raises BadValue, with the offset in it, for what is none."""
    lines, at = [], 0
    for raw in data.splitlines(keepends=True):
        lines.append(_line(raw, at, chain))
        at += len(raw)
    return lines


def _line(raw: bytes, at: int, chain: Sequence[str]) -> RecordLine:
    try:
        text = raw.decode()
        body = text.rstrip("\r\n")
        if not body:
            return RecordLine(text)
        ((path, stated, size),) = csv.reader([body], strict=True)
        hash_name, _, digest = stated.partition("=")
        return RecordLine(text, path, hash_name, digest, int(size) if size else None)
    except (ValueError, csv.Error) as error:
        raise BadValue(
            "a line is not path, digest and size",
            format="RECORD",
            offset=at,
            field="line",
            expected="path,sha256=digest,size",
            found=raw[:200].decode("utf-8", "backslashreplace").rstrip(),
            hint="build the wheel again, or pack it anew: wheel unpack, wheel pack",
            chain=chain,
        ) from error


def _spelled(path: str) -> str:
    """Return a path as CSV spells it."""
    return '"' + path.replace('"', '""') + '"' if any(char in path for char in ',"\r\n') else path


def rewrite_record(
    lines: Sequence[RecordLine], contents: Mapping[str, tuple[bytes, int]], names: Mapping[str, str]
) -> bytes:
    """Return a RECORD in which files have other digests and sizes, by their old paths, and other paths.

    Each digest is by the hash that its line names.
    """
    out = []
    for line in lines:
        path, digest, size = names.get(line.path, line.path), line.digest, line.size
        if line.path in contents and line.hash_name:
            new, size = contents[line.path]
            digest = encode_digest(new)
        if (path, digest, size) == (line.path, line.digest, line.size):
            out.append(line.stands)
            continue
        stated = f"{line.hash_name}={digest}" if line.hash_name else ""
        end = line.stands[len(line.stands.rstrip("\r\n")) :]
        out.append(f"{_spelled(path)},{stated},{'' if size is None else size}{end}")
    return "".join(out).encode()


def encode_digest(digest: bytes) -> str:
    """Return a digest as RECORD has it."""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
