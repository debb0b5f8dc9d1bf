"""The name of a wheel, and the name of the wheel with changed content: two different files never share a name.

The only module that asks the ``packaging`` library, which is the reference for what names and versions may be.
"""

from __future__ import annotations

import base64
import csv
import re

from fatpack.errors import BadValue, Unsupported, UsageError, cli_or_api
from fatpack.packages.wheel_names import LABEL, WheelName, split_wheel_name
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType

    from fatpack.commands.slim.options import NameChange


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
    """Return a digest that RECORD has; no bytes for what is none."""
    try:
        return base64.urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except ValueError:
        return b""


#: what a build tag may be (binary distribution format, "File name convention"; names allow no other characters)
_BUILD_TAG = re.compile(r"[0-9][A-Za-z0-9_.]*")


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


def rename_wheel(old: WheelName, naming: NameChange) -> WheelName:
    """Return the name of a wheel with other content. Raises UsageError where it would be the old one's, or is none."""
    if naming.is_default:
        # Installers compare the digits first that a tag begins with: with one more, they take the new wheel.
        number = old.build_tag[: len(old.build_tag) - len(old.build_tag.lstrip("0123456789"))]
        naming = naming.replace(build_tag=f"{int(number or 0) + 1}{naming.default}")
    if not (naming.build_tag or naming.local_version):
        tag, label = (
            cli_or_api("--build-tag 1slim", "build_tag='1slim'"),
            cli_or_api("--local-version slim", "local_version='slim'"),
        )
        raise UsageError(
            f"{old.file_name} changes, so the new file needs another name",
            hint=f"add {tag} (keeps the version) or {label} (makes it {old.version}+slim)",
        )
    new = old
    if naming.local_version:
        new = new.replace(version=_with_label(old.version, naming.local_version))
    if naming.build_tag:
        if _BUILD_TAG.fullmatch(naming.build_tag) is None:
            text = f"build tag {naming.build_tag!r}: it starts with a digit, and has letters, digits, _ and . after it"
            raise UsageError(text, hint="for example 1sm90")
        new = new.replace(build_tag=naming.build_tag)
    if new == old:
        raise UsageError(f"{old.file_name} has the build tag {old.build_tag} already", hint="give another one")
    return new


def _with_label(version: str, label: str) -> str:
    """Return a version with a label after what it has locally already (PEP 440, "Local version identifiers")."""
    versions = load_packaging("version")
    try:
        local = versions.Version(f"0+{label}").local
    except versions.InvalidVersion as error:
        text = f"local version {label!r}: it is letters and digits in parts that dots separate"
        raise UsageError(text, hint="for example sm90") from error
    return f"{version}{'.' if '+' in version else '+'}{local}"


def is_same_version(one: str, other: str) -> bool:
    """Return whether two spellings mean one version; what is no version is the same as its own spelling alone."""
    versions = load_packaging("version")
    try:
        return bool(versions.Version(one) == versions.Version(other))
    except versions.InvalidVersion:
        return one == other


def is_same_project(one: str, other: str) -> bool:
    """Return whether two spellings mean one project (PEP 503)."""
    utils = load_packaging("utils")
    return bool(utils.canonicalize_name(one) == utils.canonicalize_name(other))


def is_lower_build(new: str, old: str) -> bool:
    """Return whether installers take the old build tag before the new one: by the number first, then by the rest."""

    def key(tag: str) -> tuple[int, str]:
        digits = len(tag) - len(tag.lstrip("0123456789"))
        return (int(tag[:digits]), tag[digits:]) if digits else (0, "")

    return bool(old) and key(new) <= key(old)


def load_packaging(name: str) -> ModuleType:
    """Return a module of the ``packaging`` library. Raises Unsupported where it is not installed."""
    try:
        module: ModuleType = __import__(f"packaging.{name}", fromlist=[name])
    except ImportError:
        text = "names of wheels need the packaging library"
        raise Unsupported(text, hint="pip install packaging") from None
    return module
