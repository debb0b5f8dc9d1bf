"""Fuzz targets for kpack archives: the markers of programs, and manifests."""

from __future__ import annotations

from tests.builders import kpack, kpack_host

from fatpack.commands.inspect import kpack as manifest_report
from fatpack.commands.inspect.record import make_file_record
from fatpack.errors import FormatError
from fatpack.formats.kpack import manifest
from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.registration import records as registration_records

#: The keys of both, as stored.
WORDS = [
    b"\xabkernel_name",
    b"\xb2kpack_search_paths",
    b"\xabkpack_files",
    b"\xa4file",
    b"\xaccomponent_name",
    b"@GFXARCH@",
]

#: Bytes of the map that follows the records in the files of ``marker``.
_RECORDS = 48


def read_marker(data: bytes) -> str:
    """Read a program whose first bytes are two records, followed by their targets."""
    records, marker = data[:_RECORDS].ljust(_RECORDS, b"\0"), data[_RECORDS:]
    program = kpack_host.library(marker or b"\0", records=records)
    view = BytesSource(program, "fuzz").view()
    found = list(registration_records.kpack_markers(view, "elf"))
    codes = sorted({item.code for item in found if isinstance(item, Finding)})
    record = make_file_record(view)
    told = {item["code"] for item in record["findings"]}
    if not set(codes) <= told:
        raise AssertionError(f"a scan tells {sorted(told)}, and reading the markers {codes}")
    markers = [item for item in found if not isinstance(item, Finding)]
    if bool(markers) != ("kpack" in record):
        raise AssertionError("markers that can be read are not in the record")
    paths = {len(item.reference.search_paths).bit_length() for item in markers}
    return " ".join(["markers", str(len(markers)), *map(str, sorted(paths)), *codes])


def read_manifest(data: bytes) -> str:
    """Read a manifest, and show it."""
    view = BytesSource(data, "fuzz").view()
    record, found = manifest_report.manifest_record(view)
    codes = sorted({item.code for item in found})
    if record is not None:
        list(manifest_report.manifest_lines(record, ""))
        return " ".join(["manifest", str(len(record["files"]).bit_length()), *codes])
    try:
        manifest.parse_manifest(view)
    except FormatError as error:
        return f"{type(error).__name__} {error.field} {codes}"
    return "none"


def markers() -> list[bytes]:
    """Return records with their targets."""
    records = kpack_host.record() + kpack_host.record(1)
    paths = ["../.kpack/x_@GFXARCH@.kpack", "/opt/x.kpack"]
    return [records + kpack_host.reference("lib/libx.so", paths[:count]) for count in (1, 2)]


def manifests() -> list[bytes]:
    """Return manifests of one and of two architectures."""
    rows = {arch: {"file": f"x_{arch}.kpack", "size": 903, "kernel_count": 2} for arch in ("gfx90a", "gfx1100")}
    return [kpack.manifest(dict(list(rows.items())[:count])) for count in (1, 2)]
