"""Wheels: their file names, the headers of METADATA and WHEEL, and the lines of RECORD.

The only module that asks the ``packaging`` library, which is the reference for what names and versions may be.
"""

from __future__ import annotations

import base64
import csv

from fatpack.errors import BadValue, Unsupported, UsageError
from fatpack.packages.wheel_names import LABEL, WheelName, split_wheel_name
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType


# METADATA and WHEEL: headers as in mail, of which one line changes and all others stay to the byte.


def header_value(data: bytes, name: str) -> str:
    """Return the value of the first header of a name, "" if there is none."""
    return next((text for _, _, key, text in _headers(data) if key == name.lower()), "")


def with_header_value(data: bytes, name: str, text: str, *, after: str = "") -> bytes:
    """Return the bytes with a header's value exchanged; a new header follows the last one of the name ``after``.

    Without such a header it comes first.
    """
    place, line_end = 0, b"\n"
    for start, end, key, _ in _headers(data):
        if start == 0:
            line_end = b"\r\n" if data[:end].endswith(b"\r\n") else b"\n"
        if key == name.lower():
            line = data[start:end]
            tail = line[len(line.rstrip(b"\r\n")) :]
            return data[:start] + line.partition(b":")[0] + b": " + text.encode() + tail + data[end:]
        if key == after.lower():
            place = end
    if place and not data[:place].endswith(b"\n"):
        return data + line_end + f"{name}: {text}".encode()
    return data[:place] + f"{name}: {text}".encode() + line_end + data[place:]


def _headers(data: bytes) -> Iterator[tuple[int, int, str, str]]:
    """Yield where each header's first line starts and ends, its name in small letters and its value."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        line = data[at:end].rstrip(b"\r\n")
        if not line:
            return  # what follows is the description
        name, colon, text = line.partition(b":")
        if colon and not line[:1].isspace():
            yield at, end, name.decode("ascii", "replace").lower(), text.strip().decode("utf-8", "replace")
        at = end


# RECORD: the file of a wheel that names all others with digest and size. Only lines that must change do.
#
# Source: binary distribution format, "The .dist-info directory": CSV with path, ``algorithm=digest`` (base64 of
# URLs, without ``=``) and size; RECORD itself and its signatures have neither.

#: digests that the specification allows (sha256 or better) and every Python has
HASHES = ("sha256", "sha384", "sha512")


class RecordLine(Record):
    """A line of the file (``text``), and its fields; without digest ``hash_name`` is "", without size None."""

    text: str
    path: str = ""
    hash_name: str = ""
    digest: str = ""
    size: int | None = None


def parse_record(data: bytes, chain: Sequence[str] = ()) -> list[RecordLine]:
    """Return the lines of a RECORD. Raises BadValue with the offset for a line that is none."""
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
            out.append(line.text)
            continue
        stated = f"{line.hash_name}={digest}" if line.hash_name else ""
        end = line.text[len(line.text.rstrip("\r\n")) :]
        out.append(f"{_spelled(path)},{stated},{'' if size is None else size}{end}")
    return "".join(out).encode()


def encode_digest(digest: bytes) -> str:
    """Return a digest as RECORD has it."""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def decode_digest(text: str) -> bytes:
    """Return a digest that RECORD has; no bytes for text that is no digest."""
    try:
        return base64.urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except ValueError:
        return b""


def parse_wheel_name(file_name: str) -> WheelName:
    """Return the parts of a wheel's file name, also with the label of a variant. Raises UsageError for no such name."""
    name = split_wheel_name(file_name)
    problem = _name_problem(name)
    if name is None or problem:
        hint = "rename the wheel to its first name: RECORD and pip depend on it"
        raise UsageError(f"{file_name} is no name of a wheel: {problem}", hint=hint)
    return name


def _name_problem(name: WheelName | None) -> str:
    if name is None:
        return "it is not NAME-VERSION(-BUILD)-PYTHON-ABI-PLATFORM(-LABEL).whl"
    if name.label and LABEL.fullmatch(name.label) is None:
        return f"the label {name.label!r} has other characters than a to z, 0 to 9, _ and ."
    utils = load_packaging("utils")
    try:
        utils.parse_wheel_filename(name.replace(label="").file_name)  # which knows no labels
    except utils.InvalidWheelFilename as error:
        return str(error)
    return ""


def is_same_version(one: str, other: str) -> bool:
    """Return whether two spellings mean one version; text that is no version equals only itself."""
    versions = load_packaging("version")
    try:
        return bool(versions.Version(one) == versions.Version(other))
    except versions.InvalidVersion:
        return one == other


def is_same_project(one: str, other: str) -> bool:
    """Return whether two spellings mean one project (PEP 503)."""
    utils = load_packaging("utils")
    return bool(utils.canonicalize_name(one) == utils.canonicalize_name(other))


def load_packaging(name: str) -> ModuleType:
    """Return a module of the ``packaging`` library. Raises Unsupported where it is not installed."""
    try:
        module: ModuleType = __import__(f"packaging.{name}", fromlist=[name])
    except ImportError:
        text = "names of wheels need the packaging library"
        raise Unsupported(text, hint="pip install packaging") from None
    return module
